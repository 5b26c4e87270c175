"""The copy of a ledger into Parquet files: each row once, whatever is repeated or stopped."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from mayfly.lifetime.life import LifeRecord
from mayfly.pipeline.bulk.client import LedgerClient
from mayfly.pipeline.bulk.errors import PositionTrimmed
from mayfly.pipeline.bulk.schema import LEDGER
from mayfly.pipeline.errors import LakeError
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.lake.compaction import compact_lake
from mayfly.pipeline.lake.copying import CopiedBatch, copy_ledger
from mayfly.pipeline.lake.parquet import ParquetLake
from mayfly.servers.flight import FlightServer
from tests.bulk.books import START_MS, TOKEN, KeptBooks, kept_books, life
from tests.bulk.lives import live, queue_manager
from tests.lake.knife import CutOffError, Knife
from tests.spark.lakes import INSTANCE, rows_of, write_lake

KILLS = 40
HOUR_MS = 3_600_000
STORE = INSTANCE[:16]


@contextmanager
def opened(folder: Path, instance: str = INSTANCE) -> Iterator[ParquetLake]:
    """Open a lake to write to it."""
    with closing(ParquetLake(folder, instance)) as lake:
        yield lake


@pytest.fixture
def client() -> Iterator[tuple[KeptBooks, LedgerClient]]:
    """A ledger, and a client of its server."""
    with (
        kept_books() as books,
        FlightServer(books, port=0, token=TOKEN) as server,
        LedgerClient(server.url, token=TOKEN) as client,
    ):
        yield books, client


def files(lake: Path) -> list[str]:
    """Return the data files by their names in the lake."""
    return sorted(str(path.relative_to(lake)) for path in lake.glob("date=*/*"))


def rows_in(lake: Path) -> pa.Table:
    """Return the rows of a lake, as a reader that knows of Parquet and dates only, by position."""
    return ds.dataset(lake, format="parquet", partitioning="hive").to_table().sort_by("position")


def positions(lake: Path) -> list[int]:
    """Return every position in the lake, doubles included."""
    found: list[int] = rows_in(lake)["position"].to_pylist()
    return found


def days_apart(count: int, first: int = 1) -> list[LifeRecord]:
    """Lives of three queues in turn, half a day between two."""
    return [
        life(n, f"Q{n % 3}", ended_ms=START_MS + n * 12 * HOUR_MS)
        for n in range(first, first + count)
    ]


# Files


def test_one_file_for_a_batch_and_utc_date_sorted_by_queue(tmp_path: Path) -> None:
    midnight_ms = 1_700_006_400_000  # 2023-11-15T00:00:00Z
    lives = [
        life(1, "Q2", ended_ms=midnight_ms - 1),
        life(2, "Q2", ended_ms=midnight_ms),
        life(3, "Q1", ended_ms=midnight_ms - 1),
        life(4, "Q1", ended_ms=midnight_ms),
        life(5, "Q1", ended_ms=midnight_ms),
    ]
    with opened(tmp_path) as lake:
        lake.add(rows_of(*lives), 5)
    name = f"batch-{STORE}-000000000000.parquet"
    assert files(tmp_path) == [f"date=2023-11-14/{name}", f"date=2023-11-15/{name}"]
    found = [
        pq.ParquetFile(tmp_path / file).read(["position"])[0].to_pylist()
        for file in files(tmp_path)
    ]
    assert found == [[3, 1], [4, 5, 2]]


def test_rows_come_out_as_the_ledger_has_them(
    tmp_path: Path, client: tuple[KeptBooks, LedgerClient]
) -> None:
    books, reader = client
    lives = days_apart(6)
    lives[3] = lives[3]._replace(
        capped_by="CAPEXPRY(600) of QALIAS(A1)",
        detected_by="get",
        ended_by="app",
        ended_program="till",
    )
    books.end(*lives)
    books.balance()
    last = books.ledger.last_position()
    with opened(tmp_path, books.ledger.instance_id) as lake:
        assert [*copy_ledger(reader, lake)] == [CopiedBatch(last, last)]
    sent = pa.Table.from_batches([*reader.read(0, last)], LEDGER)
    assert rows_in(tmp_path).select(LEDGER.names).cast(LEDGER).equals(sent)
    assert check_lake(tmp_path).texts == []


def test_a_run_goes_on_where_another_has_ended(
    tmp_path: Path, client: tuple[KeptBooks, LedgerClient]
) -> None:
    books, reader = client
    for end, expected in ((10, [4, 8, 10]), (13, [13]), (13, [])):
        books.end_many(end - books.ledger.last_position())
        with opened(tmp_path, books.ledger.instance_id) as lake:
            batches = copy_ledger(reader, lake, batch_rows_max=4)
            assert [progress.position for progress in batches] == expected
            assert lake.position == end
    assert positions(tmp_path) == list(range(1, 14))


def test_rows_that_are_in_the_lake_are_left_out(tmp_path: Path) -> None:
    lives = [life(n) for n in range(1, 8)]
    with opened(tmp_path) as lake:
        lake.add(rows_of(*lives[:3]), 3)
        lake.add(rows_of(*lives[:3]), 3)
        lake.add(rows_of(*lives[1:5], first=2), 5)
        lake.add(rows_of(*lives), 7)
    assert positions(tmp_path) == [1, 2, 3, 4, 5, 6, 7]


def test_a_new_lake_begins_with_the_first_row_that_retention_has_left(
    tmp_path: Path, client: tuple[KeptBooks, LedgerClient]
) -> None:
    """A lake that has begun misses rows, and says so."""
    books, reader = client
    books.end_many(10)
    with opened(tmp_path / "early", books.ledger.instance_id) as early:
        assert [*copy_ledger(reader, early)] == [CopiedBatch(10, 10)]
        books.end_many(10)
        books.trim(4)
        with pytest.raises(PositionTrimmed):
            next(copy_ledger(reader, early))
    with opened(tmp_path / "late", books.ledger.instance_id) as late:
        assert [*copy_ledger(reader, late)] == [CopiedBatch(20, 4)]
    assert positions(tmp_path / "late") == [17, 18, 19, 20]


def test_a_queue_manager_made_anew_shares_the_lake(tmp_path: Path) -> None:
    """Both may be open at once."""
    with opened(tmp_path) as first, opened(tmp_path, "6" * 32) as second:
        first.add(rows_of(life(1), life(2)), 2)
        second.add(rows_of(life(1), instance="6" * 32), 1)
    assert positions(tmp_path) == [1, 1, 2]
    assert check_lake(tmp_path).texts == []


def test_a_second_process_that_copies_the_same_ledger_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as lake:
        with pytest.raises(LakeError, match=f"another process copies the ledger of store {STORE}"):
            ParquetLake(tmp_path, INSTANCE)
        lake.add(rows_of(life(1)), 1)
    with opened(tmp_path) as lake:
        assert lake.position == 1


def test_batches_go_on_beside_a_compaction(tmp_path: Path) -> None:
    with opened(tmp_path) as lake:
        for n in range(1, 7):
            lake.add(rows_of(life(n), first=n), n)
            compact_lake(tmp_path)
        assert len(files(tmp_path)) == 1
    with opened(tmp_path) as lake:
        lake.add(rows_of(life(7), first=7), 7)
    assert files(tmp_path)[0] == f"date=2023-11-14/batch-{STORE}-000000000006.parquet"
    assert positions(tmp_path) == [1, 2, 3, 4, 5, 6, 7]


# Crashes


def test_cut_off_at_any_change_of_a_file_a_batch_is_there_once(
    tmp_path: Path, knife: Knife
) -> None:
    """The next run has rows that have come meanwhile; now and then a compaction runs between."""
    lives = days_apart(9)
    cuts, is_done = 0, False
    while not is_done:
        folder = tmp_path / f"cut-{cuts}"
        with opened(folder) as lake:
            lake.add(rows_of(*lives[:3]), 3)
        with knife.cut_at(folder, cuts):
            try:
                with opened(folder) as lake:
                    lake.add(rows_of(*lives[3:6], first=4), 6)
                is_done = True
            except CutOffError:
                cuts += 1
        if cuts % 2:
            compact_lake(folder)
        with opened(folder) as lake:
            assert lake.position in {3, 6}
            rest = lake.position
            lake.add(rows_of(*lives[rest:], first=rest + 1), 9)
        assert positions(folder) == list(range(1, 10)), f"cut {cuts}"
        assert check_lake(folder).texts == []
        assert list((folder / "_staging" / INSTANCE).iterdir()) == []
    assert cuts > 4


def test_a_move_that_a_power_cut_undid_after_a_compaction_is_not_read_twice(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as lake:
        lake.add(rows_of(life(1)), 1)
        lake.add(rows_of(life(2), first=2), 2)
    name = f"batch-{STORE}-000000000001.parquet"
    shutil.copy(
        tmp_path / f"date=2023-11-14/{name}", tmp_path / f"_staging/{INSTANCE}/2023-11-14 {name}"
    )
    compact_lake(tmp_path)
    with opened(tmp_path) as lake:
        assert lake.position == 2
    assert positions(tmp_path) == [1, 2]
    assert len(files(tmp_path)) == 1


def test_a_full_disk_leaves_the_lake_as_it_was(tmp_path: Path) -> None:
    """Here a file lies in the way of a date's folder: the next run finishes the batch."""
    lake_folder = tmp_path / "lake"
    with opened(lake_folder) as lake:
        lake.add(rows_of(life(1)), 1)
        (lake_folder / "date=2023-11-15").touch()
        with pytest.raises(LakeError, match="cannot be written: "):
            lake.add(rows_of(*days_apart(2, 2), first=2), 3)
        (lake_folder / "date=2023-11-15").unlink()
        lake.add(rows_of(life(4), first=4), 4)
    assert positions(lake_folder) == [1, 2, 3, 4]


@pytest.mark.soak
def test_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    """kill -9 anywhere in a copy; after it the lake has each row once, and can be proved."""
    lake = tmp_path / "lake"
    rng = random.Random(KILLS)
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    with (
        queue_manager(tmp_path / "QM1") as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
    ):
        program = [sys.executable, "-m", "tests.lake.drive_parquet"]
        for _ in range(KILLS):
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
            compact_lake(lake)
        with (
            LedgerClient(server.url, token=TOKEN) as client,
            opened(lake, client.info().instance_id) as parquet_lake,
        ):
            last = client.info().last_position
            [*_batches] = copy_ledger(client, parquet_lake)
            # Balance rows come in their own time.
            assert parquet_lake.position >= last
            copied = parquet_lake.position
    found = check_lake(lake)
    assert (found.rows, found.texts) == (copied, [])


# Lakes without a mark


def test_a_lake_that_spark_has_begun_is_continued_behind_its_last_row(tmp_path: Path) -> None:
    """Compacted or not."""
    for batch in range(2):
        written = write_lake(tmp_path, [life(batch + 1)], batch + 1)
        written.rename(written.with_name(f"batch-{STORE}-{batch:012d}.parquet"))
    mark = tmp_path / "_mayfly" / f"{INSTANCE}.json"
    killed = tmp_path / "_staging" / INSTANCE / "2-0a1b" / "date=2023-11-14"
    killed.mkdir(parents=True)
    shutil.copy(written.with_name(f"batch-{STORE}-000000000001.parquet"), killed / "part-0.parquet")
    for n in range(3, 5):
        mark.parent.mkdir(exist_ok=True)
        mark.write_text(json.dumps({"stream": "0a1b"}))
        with opened(tmp_path) as lake:
            assert lake.position == n - 1
            lake.add(rows_of(life(n), first=n), n)
        assert json.loads(mark.read_text()) == {"position": n, "batch": n - 1}
        compact_lake(tmp_path)
    assert not killed.exists()
    assert positions(tmp_path) == [1, 2, 3, 4]


def test_a_lake_without_a_mark_that_lacks_rows_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with opened(tmp_path) as lake:
        lake.add(rows_of(life(1)), 1)
        lake.add(rows_of(*days_apart(3, 2), first=2), 4)
    (tmp_path / "_mayfly" / f"{INSTANCE}.json").unlink()
    half_written = f"batch-{STORE}-000000000001.parquet"
    (tmp_path / "date=2023-11-15" / half_written).unlink()
    with pytest.raises(LakeError, match=f"has left {half_written} on some dates only, remove"):
        ParquetLake(tmp_path, INSTANCE)
    for path in tmp_path.glob(f"date=*/{half_written}"):
        path.unlink()
    with opened(tmp_path) as lake:
        assert lake.position == 1


@pytest.mark.parametrize("text", ["", "[]", '{"position": 1}', '{"position": "x", "batch": 1}'])
def test_a_damaged_mark_is_named(tmp_path: Path, text: str) -> None:
    mark = tmp_path / "_mayfly" / f"{INSTANCE}.json"
    mark.parent.mkdir()
    mark.write_text(text)
    with pytest.raises(LakeError, match=f"{INSTANCE}.json is damaged"):
        ParquetLake(tmp_path, INSTANCE)
