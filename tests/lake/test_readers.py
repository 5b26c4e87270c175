"""Programs that read a lake's Parquet files by themselves, as docs/LAKE.md shows them."""

from __future__ import annotations

import re
import shutil
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from mayfly.pipeline.bulk.schema import ledger_batch
from mayfly.pipeline.errors import LakeError
from mayfly.pipeline.lake.files import MARKS, Manifest, reading
from tests.bulk.books import life
from tests.lake.made import small_lake
from tests.pages import part
from tests.spark.lakes import (
    INSTANCE,
    balance,
    forget_columns,
    forget_outcomes,
    numbered,
    write_lake,
)

DOCS = part("LAKE.md", "A ledger in a lake")
PROGRAMS = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
[OF_DELTA, OF_ICEBERG] = re.findall(
    r"```python\n(.*?)```", part("LAKE.md", "Tables for other programs"), re.DOTALL
)
[SAID] = re.findall(r"```text\n(.*?)```", DOCS, re.DOTALL)
[SQL] = re.findall(r"```sql\n(.*?)```", DOCS, re.DOTALL)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The lake of the page, in the current folder and with a manifest, as a stream leaves it."""
    monkeypatch.chdir(tmp_path)
    lake = small_lake(tmp_path / "lake")
    (lake / MARKS).mkdir()
    Manifest().publish(lake)
    return lake


def add_older(lake: Path) -> None:
    """Add files of a version that knew fewer columns and outcomes, the oldest and the newest."""
    for first, date in ((90, "2020-01-01"), (95, "2024-01-01")):
        old = write_lake(lake, [life(first, "OLD"), balance("OLD", 1, got=1)], first, date=date)
        forget_columns(old, "capped_by", "detected_by", "ended_by")
        forget_outcomes(old, "other", "lost_at_restart")


def run(program: str, capsys: pytest.CaptureFixture[str]) -> str:
    exec(compile(program, "docs/LAKE.md", "exec"), {})
    return capsys.readouterr().out


def test_the_program_prints_what_stands_below_it(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(PROGRAMS[0], capsys) == SAID
    add_older(lake)
    assert run(PROGRAMS[0], capsys) == f"OLD got 2\n{SAID}"


def test_the_program_for_delta_tables_shows_the_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    delta = pytest.importorskip("mayfly.pipeline.lake.delta", exc_type=ModuleNotFoundError)
    monkeypatch.chdir(tmp_path)
    with closing(delta.DeltaLake("lake", INSTANCE)) as delta_lake:
        rows = [*numbered([life(1), life(2, "Q2"), life(3, "Q2")])]
        delta_lake.add(pa.Table.from_batches([ledger_batch(rows, "QM1", INSTANCE)]), 3)
    shown = run(OF_DELTA, capsys)
    assert re.findall(r"│ (Q\d)\s+│ (\w+)\s+│\s+(\d+) │", shown) == [
        ("Q1", "got", "1"),
        ("Q2", "got", "2"),
    ]


def test_the_program_for_iceberg_tables_shows_the_lives(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    iceberg = pytest.importorskip("mayfly.pipeline.lake.iceberg", exc_type=ModuleNotFoundError)
    [*_all] = iceberg.export_to_iceberg(lake, iceberg.IcebergPlace(Path("tables"), None, "mayfly"))
    shown = run(OF_ICEBERG, capsys)
    assert re.findall(r"│ (Q\d)\s+│ (\w+)\s+│\s+(\d+) │", shown) == [
        ("Q1", "expired", "1"),
        ("Q1", "got", "2"),
        ("Q2", "got", "2"),
    ]


def test_the_program_for_polars_prints_the_same_rows(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    polars = pytest.importorskip("polars")
    add_older(lake)
    with polars.Config(fmt_str_lengths=100):
        shown = run(PROGRAMS[1], capsys)
    rows = re.findall(r"│ (\S+)\s+┆ (\w+)\s+┆ (\d+)\s+│", shown)
    assert "".join(sorted(f"{' '.join(row)}\n" for row in rows)) == f"OLD got 2\n{SAID}"


def test_the_sql_of_the_page_reads_files_of_all_versions(lake: Path) -> None:
    lines = [tuple(line.split()) for line in SAID.splitlines()]
    told = [(queue, outcome, int(lives)) for queue, outcome, lives in lines]
    assert duckdb.sql(SQL).fetchall() == told
    add_older(lake)
    assert duckdb.sql(SQL).fetchall() == [("OLD", "got", 2), *told]
    # Also what the oldest file does not have.
    newer = SQL.replace("queue, outcome,", "capped_by, ended.other,").replace(
        "kind = 0", "kind = 1"
    )
    assert duckdb.sql(newer).fetchall() == [(None, 0, 1), (None, None, 2)]


def test_files_that_are_read_stay_until_the_end_of_the_block(lake: Path) -> None:
    with reading(lake) as files:
        assert len(files) == 2
        assert [Path(file).parent.name for file in files] == ["date=2023-11-15", "date=2023-11-14"]
        [lease] = (lake / MARKS / "leases").iterdir()
    assert not lease.exists()


def test_a_lake_that_is_not_there_or_not_whole_is_refused(lake: Path) -> None:
    manifest = Manifest.load(lake)
    manifest.entry("2023-11-14").runs.append("run-000001-0000.parquet")
    manifest.publish(lake)
    with pytest.raises(LakeError, match="is missing"), reading(lake):
        pass
    assert list((lake / MARKS / "leases").iterdir()) == []
    shutil.rmtree(lake)
    with pytest.raises(LakeError, match="there is no lake at"), reading(lake):
        pass
