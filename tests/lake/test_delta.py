"""A lake of Delta tables: what its columns say, and each row once whatever stops its writer."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.dataset import FileSystemDataset
from pyarrow.fs import PyFileSystem

from mayfly.lifetime.life import State
from mayfly.mqi import constants as c
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.bulk.client import LedgerClient
from mayfly.pipeline.bulk.errors import PositionTrimmed
from mayfly.pipeline.bulk.schema import LEDGER
from mayfly.pipeline.errors import LakeError
from mayfly.pipeline.lake import answers
from mayfly.pipeline.lake.answers import lives_with_ids
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.lake.copying import CopiedBatch, copy_ledger
from mayfly.pipeline.lake.delta import (
    DeltaLake,
    StreamedRows,
    compact_tables,
    lake_url,
    rows_for_duckdb,
)
from mayfly.pipeline.lake.files import is_delta
from mayfly.pipeline.lake.ledger_tables import BALANCES, LIVES, REPORTS_OWED, TABLES
from mayfly.pipeline.lake.queries import part_between
from mayfly.servers.flight import FlightServer
from tests.bulk.books import START_MS, TOKEN, kept_books, life
from tests.bulk.lives import live, queue_manager
from tests.lake.made import varied_lake
from tests.spark.lakes import INSTANCE, Entry, balance, rows_of

START = datetime.fromtimestamp(START_MS / 1000, UTC)


@contextmanager
def opened(folder: Path, instance: str = INSTANCE) -> Iterator[DeltaLake]:
    """Open a lake to write to it."""
    with closing(DeltaLake(folder, instance)) as lake:
        yield lake


def table_of(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table by position, as delta-rs reads them."""
    found = deltalake.DeltaTable(folder / name).to_pyarrow_table().sort_by("position")
    return [dict(row) for row in found.to_pylist()]


# What a row says


def test_a_life_is_a_row_of_timestamps_words_and_hexadecimal_ids(tmp_path: Path) -> None:
    ended = life(
        1,
        correl_id=b"",
        origin_id=bytes(23) + b"\xff",
        deliver_at_ms=START_MS + 1_500,
        expire_at_ms=START_MS + 9_000,
        ended_ms=START_MS + 2_001,
        persistent=1,
        report=c.MQRO_COD,
        reply_to_q="REPLIES",
    )
    with opened(tmp_path) as lake:
        lake.add(rows_of(ended), 1)
    [row] = table_of(tmp_path, "lives")
    assert row == {
        "queue_manager": "QM1",
        "instance_id": INSTANCE,
        "position": 1,
        "queue": "Q1",
        "msg_id": "00" * 23 + "01",
        "correl_id": None,
        "origin_msg_id": "00" * 23 + "ff",
        "put_at": START + timedelta(milliseconds=1_000),
        "deliver_at": START + timedelta(milliseconds=1_500),
        "expire_at": START + timedelta(milliseconds=9_000),
        "ended_at": START + timedelta(milliseconds=2_001),
        "ended_date": date(2023, 11, 14),
        "outcome": "got",
        "reason_code": None,
        "reason": None,
        "waited_ms": 501,
        "left_ms": 6_999,
        "released_late_ms": None,
        "priority": 4,
        "is_persistent": True,
        "body_bytes": 100,
        "backout_count": 0,
        "report_options": c.MQRO_COD,
        "reply_to_queue": "REPLIES",
        "user_id": "tester",
        "capped_by": None,
        "detected_by": None,
        "terminated_by": None,
        "terminated_program": None,
    }
    assert table_of(tmp_path, "reports_owed") == [
        {
            **{name: row[name] for name in ("queue_manager", "instance_id", "position", "queue")},
            **{name: row[name] for name in ("msg_id", "correl_id", "reply_to_queue")},
            "cause": "cod",
            "owed_at": row["ended_at"],
        }
    ]


@pytest.mark.parametrize(
    ("reason", "word"),
    [(c.MQFB_EXPIRATION, "MQFB_EXPIRATION"), (2053, "MQRC_Q_FULL"), (99_999, "99999"), (0, None)],
)
def test_a_reason_has_its_name(tmp_path: Path, reason: int, word: str | None) -> None:
    with opened(tmp_path) as lake:
        lake.add(rows_of(life(1, outcome=State.DEAD_LETTERED, reason=reason)), 1)
    [row] = table_of(tmp_path, "lives")
    assert (row["reason_code"], row["reason"]) == (reason or None, word)


def test_a_balance_is_a_row_with_a_column_for_each_outcome(tmp_path: Path) -> None:
    with opened(tmp_path) as lake:
        lake.add(rows_of(balance("Q1", 5, 2, got=2, unheard_of=1)), 1)
    [row] = table_of(tmp_path, "balances")
    assert (row["counted_at"], row["puts"], row["present"], row["ended"]) == (START, 5, 2, 3)
    assert (row["got"], row["expired"], row["other"]) == (2, 0, 1)
    assert table_of(tmp_path, "lives") == []


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_each_column_is_explained_in_the_table_itself(tmp_path: Path, table: Any) -> None:
    with opened(tmp_path):
        pass
    schema = json.loads(deltalake.DeltaTable(tmp_path / table.name).schema().to_json())
    told = {field["name"]: field["metadata"]["comment"] for field in schema["fields"]}
    assert told == {column.name: column.comment for column in table.columns}
    metadata = deltalake.DeltaTable(tmp_path / table.name).metadata()
    assert (metadata.name, metadata.description) == (table.name, table.comment)


def test_duckdb_and_pandas_read_the_files_without_a_trick(tmp_path: Path) -> None:
    with opened(tmp_path) as lake:
        lake.add(rows_of(life(1), life(2, outcome=State.EXPIRED), balance("Q1", 2, got=1)), 3)
    lives = deltalake.DeltaTable(tmp_path / "lives").to_pyarrow_dataset()
    found = duckdb.sql(
        "SELECT outcome, count(*), max(ended_at) - min(put_at) FROM lives GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert lives.count_rows() == 2
    assert found == [("expired", 1, timedelta(seconds=0.25)), ("got", 1, timedelta(seconds=0.25))]
    frame = deltalake.DeltaTable(tmp_path / "lives").to_pandas()
    assert str(frame["put_at"].dtype) == "datetime64[us, UTC]"


# Each row once


def test_rows_that_come_again_are_left_out_however_batches_are_cut(tmp_path: Path) -> None:
    lives = [life(n) for n in range(1, 8)]
    with opened(tmp_path) as lake:
        assert lake.position == 0
        lake.add(rows_of(*lives[:3]), 3)
        lake.add(rows_of(*lives[:3]), 3)
        assert lake.position == 3
    with opened(tmp_path) as lake:
        lake.add(rows_of(*lives[1:5], first=2), 5)
        lake.add(rows_of(*lives), 7)
        assert lake.position == 7
    assert [row["position"] for row in table_of(tmp_path, "lives")] == [1, 2, 3, 4, 5, 6, 7]


def test_a_crash_between_two_tables_leaves_the_old_position_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    """The balances of a batch are there and its lives are not; the next batch is cut elsewhere."""
    entries: list[Entry] = [life(1, report=c.MQRO_COD), balance("Q1", 1, got=1), life(2)]
    with opened(tmp_path) as lake:
        for table in (BALANCES, REPORTS_OWED):
            lake.add_to(table, rows_of(*entries), 3)
        assert lake.position == 0
    entries += [balance("Q1", 2, got=2), life(3, report=c.MQRO_COD)]
    with opened(tmp_path) as lake:
        assert lake.position == 0
        lake.add(rows_of(*entries), 5)
    assert [row["position"] for row in table_of(tmp_path, "balances")] == [2, 4]
    assert [row["position"] for row in table_of(tmp_path, "reports_owed")] == [1, 5]
    assert [row["position"] for row in table_of(tmp_path, "lives")] == [1, 3, 5]


def test_a_new_lake_begins_with_the_first_row_that_retention_has_left(tmp_path: Path) -> None:
    """A lake that has begun misses rows, and says so."""
    with (
        kept_books() as books,
        FlightServer(books, port=0, token=TOKEN) as server,
        LedgerClient(server.url, token=TOKEN) as client,
    ):
        books.end_many(10)
        with opened(tmp_path / "early", client.info().instance_id) as early:
            assert [*copy_ledger(client, early)] == [CopiedBatch(10, 10)]
            books.end_many(10)
            books.trim(4)
            with pytest.raises(PositionTrimmed):
                next(copy_ledger(client, early))
            assert early.position == 10
        with opened(tmp_path / "late", client.info().instance_id) as late:
            assert [*copy_ledger(client, late, batch_rows_max=3)] == [
                CopiedBatch(19, 3),
                CopiedBatch(20, 1),
            ]
    assert [row["position"] for row in table_of(tmp_path / "late", "lives")] == [17, 18, 19, 20]
    assert check_lake(tmp_path / "late").texts == []


def test_a_second_writer_of_the_same_ledger_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as first, opened(tmp_path) as second:
        first.add(rows_of(life(1), life(2)), 2)
        with pytest.raises(LakeError, match="another process has written the same ledger"):
            second.add(rows_of(life(1), life(2)), 2)
    assert len(table_of(tmp_path, "lives")) == 2


def test_writers_of_two_ledgers_and_a_compaction_do_not_disturb_each_other(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as first, opened(tmp_path, "6" * 32) as second:
        for n in range(1, 4):
            first.add(rows_of(life(n), first=n), n)
            second.add(rows_of(life(n), first=n), n)
        compacted = compact_tables(tmp_path)
        assert compacted["lives"] == (6, 1)
        first.add(rows_of(life(4), first=4), 4)
        second.add(rows_of(life(4), first=4), 4)
        assert (first.position, second.position) == (4, 4)
    assert [row["position"] for row in table_of(tmp_path, "lives")] == [1, 1, 2, 2, 3, 3, 4, 4]


def test_an_older_version_of_the_lake_can_be_read(tmp_path: Path) -> None:
    with opened(tmp_path) as lake:
        lake.add(rows_of(life(1)), 1)
        lake.add(rows_of(life(2), first=2), 2)
    compact_tables(tmp_path)
    before = deltalake.DeltaTable(tmp_path / "lives", version=1).to_pyarrow_table()
    assert before["position"].to_pylist() == [1]


@pytest.mark.parametrize("kill_count", [2, pytest.param(40, marks=pytest.mark.soak)])
def test_kills_lose_and_double_nothing(tmp_path: Path, kill_count: int) -> None:
    """kill -9 anywhere in a copy; after it the lake has each row once, and can be proved."""
    lake = tmp_path / "lake"
    rng = random.Random(kill_count)
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    with (
        queue_manager(tmp_path / "QM1") as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
    ):
        program = [sys.executable, "-m", "tests.lake.drive_delta"]
        for _ in range(kill_count):
            live(manager, 600)
            process = subprocess.Popen(
                [*program, server.url, str(token_file), str(lake)], stdout=subprocess.PIPE
            )
            assert process.stdout is not None
            for _ in range(rng.randint(1, 12)):
                process.stdout.readline()
            process.kill()
            process.wait()
            process.stdout.close()
        with (
            LedgerClient(server.url, token=TOKEN) as client,
            closing(DeltaLake(lake, client.info().instance_id)) as delta_lake,
        ):
            last = client.info().last_position
            [*_commits] = copy_ledger(client, delta_lake)
            # Balance rows come in their own time.
            assert delta_lake.position >= last
            copied = delta_lake.position
    found = check_lake(lake)
    assert (found.rows, found.texts) == (copied, [])


# Questions


def test_the_answers_are_those_of_the_same_rows_in_parquet_files(tmp_path: Path) -> None:
    parquet = varied_lake(tmp_path / "parquet", 7)
    for instance in ("5" * 32, "6" * 32):
        files = sorted(parquet.glob(f"*/batch-{instance}-*.parquet"))
        rows = pa.concat_tables(pq.ParquetFile(file).read() for file in files).cast(LEDGER)
        with opened(tmp_path / "delta", instance) as lake:
            lake.add(rows.sort_by("position"), rows.num_rows)
    delta = tmp_path / "delta"
    for part in (part_between(None, None), part_between("2023-11-14T22", "2023-11-17", ["ORD*"])):
        expected = answers.ledger_report(parquet, part=part)
        assert expected
        assert answers.ledger_report(delta, part=part) == expected
    assert str(answers.timeline_of(delta)) == str(answers.timeline_of(parquet))
    assert check_lake(delta).rows == check_lake(parquet).rows
    assert lives_with_ids(delta, [bytes(23) + b"\x05"], 10) == lives_with_ids(
        parquet, [bytes(23) + b"\x05"], 10
    )
    for folder in (parquet, delta):
        answers.export_lives(folder, tmp_path / f"{folder.name}.parquet", outcomes=["got"])
    exported, expected_rows = (
        # The files of ``parquet`` are not in the folders of their dates.
        pq.ParquetFile(tmp_path / f"{name}.parquet").read().drop_columns("date").to_pylist()
        for name in ("delta", "parquet")
    )
    assert exported == expected_rows


def test_a_report_of_late_releases_is_found(tmp_path: Path) -> None:
    released = life(1, STAGING_QUEUE, State.RELEASED, deliver_at_ms=START_MS + 1_240)
    with opened(tmp_path) as lake:
        lake.add(rows_of(released), 1)
    assert [row["released_late_ms"] for row in table_of(tmp_path, "lives")] == [10]


# Rows for DuckDB


def test_duckdb_never_reads_a_dataset_by_a_file_system_in_python(tmp_path: Path) -> None:
    """It would wait now and then for ever, for a thread that waits for the interpreter's lock."""
    with opened(tmp_path) as lake:
        lake.add(rows_of(life(1), life(2)), 2)
    lives = deltalake.DeltaTable(tmp_path / "lives")
    from_folder = rows_for_duckdb(str(tmp_path / "lives"), lives, None)
    assert isinstance(from_folder, FileSystemDataset)
    assert not isinstance(from_folder.filesystem.base_fs, PyFileSystem)
    from_store = rows_for_duckdb("s3://lakes/lives", lives, None)
    assert isinstance(from_store, StreamedRows)
    with duckdb.connect() as connection:
        connection.register("from_folder", from_folder)
        connection.register("from_store", from_store)
        for name in ("from_folder", "from_store", "from_store"):
            positions = connection.sql(f"SELECT position FROM {name} ORDER BY position").fetchall()
            assert positions == [(1,), (2,)]


@pytest.mark.parametrize("url", ["lives", "s3://lakes/lives"])
def test_duckdb_reads_files_of_the_dates_alone(tmp_path: Path, url: str) -> None:
    with opened(tmp_path) as lake:
        lake.add(rows_of(life(1), life(2, ended_ms=START_MS + 86_400_000)), 2)
    lives = deltalake.DeltaTable(tmp_path / "lives")
    first_date = min(str(row[str(LIVES.partition)]) for row in table_of(tmp_path, "lives"))
    place = url if "://" in url else str(tmp_path / url)
    dates = [(str(LIVES.partition), "=", first_date)]
    with duckdb.connect() as connection:
        connection.register("rows", rows_for_duckdb(place, lives, dates))
        assert connection.sql("SELECT position FROM rows").fetchall() == [(1,)]


# Places


def test_a_place_is_a_folder_or_a_url_that_keeps_its_slashes(tmp_path: Path) -> None:
    assert lake_url(f"file://{tmp_path}/lake") == f"{tmp_path}/lake"
    assert lake_url("s3a://bucket/lake/") == "s3://bucket/lake"
    assert lake_url("az://container/lake") == "az://container/lake"
    assert is_delta("s3a://bucket/lake")
    assert not is_delta(tmp_path)
    with opened(tmp_path):
        assert is_delta(tmp_path)


def test_a_folder_that_is_no_table_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "lives").write_text("a file")
    with pytest.raises(LakeError) as refused, opened(tmp_path):
        pass
    assert str(refused.value).startswith(f"lake {tmp_path}: ")
    assert "\n" not in str(refused.value)


def test_partitions_are_dates_so_that_a_part_reads_few_files(tmp_path: Path) -> None:
    later = life(2, ended_ms=START_MS + 86_400_000)
    with opened(tmp_path) as lake:
        lake.add(rows_of(life(1), later), 2)
    assert sorted(path.name for path in (tmp_path / "lives").glob("ended_date=*")) == [
        "ended_date=2023-11-14",
        "ended_date=2023-11-15",
    ]
    assert LIVES.partition == "ended_date"
    [row] = answers.ledger_report(tmp_path, part=part_between("2023-11-15", None))
    assert row.lives == 1
