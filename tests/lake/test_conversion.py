"""A lake in the other format: the same rows, answers and proofs, whatever stops the conversion."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mayfly.pipeline.bulk.schema import LEDGER
from mayfly.pipeline.errors import LakeError
from mayfly.pipeline.lake import answers
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.lake.compaction import compact_lake
from mayfly.pipeline.lake.copying import CopiedBatch, convert_lake, opened
from mayfly.pipeline.lake.delta import DeltaLake
from mayfly.pipeline.lake.files import is_delta
from mayfly.pipeline.lake.ledger_tables import BALANCES
from mayfly.pipeline.lake.queries import EVERYTHING
from tests.bulk.books import life
from tests.examples import first_of
from tests.lake.made import varied
from tests.spark.lakes import INSTANCE, Entry, balance, rows_of

OTHER = "6" * 32


def made(lake: Path, *, as_delta: bool = False, lives: int = 120) -> Path:
    """Make a lake of two stores by the writers of a format."""
    rng = random.Random(5)
    for instance in (INSTANCE, OTHER):
        entries: list[Entry] = [varied(n, rng, 10**8) for n in range(1, lives)]
        entries.insert(lives // 2, balance("Q1", 9, 4, got=5))
        with opened(lake, instance, as_delta=as_delta) as target:
            for first in range(0, lives, 50):
                batch = entries[first : first + 50]
                rows = rows_of(*batch, first=first + 1, instance=instance)
                target.add(rows, first + len(batch))
    return lake


def rows_in(lake: Path) -> list[tuple[object, ...]]:
    """Return the ledger rows of a lake by store and position; no outcome counted is a zero."""
    columns = ", ".join(name for name in LEDGER.names if name != "ended")
    with answers.ledger_view(lake, EVERYTHING) as ledger:
        assert ledger is not None
        return ledger.sql(
            f"SELECT {columns}, ended.got, ended.other FROM {answers.VIEW} "
            "ORDER BY instance_id, position"
        ).fetchall()


@pytest.mark.parametrize(
    "as_delta",
    [False, pytest.param(True, marks=pytest.mark.long)],
    ids=["from parquet", "from delta"],
)
def test_rows_report_and_proof_are_the_same_in_the_other_format(
    tmp_path: Path, as_delta: bool
) -> None:
    source = made(tmp_path / "source", as_delta=as_delta)
    target = tmp_path / "target"
    if not as_delta:
        compact_lake(source)
    progress = [*convert_lake(source, target, batch_rows_max=50)]
    assert sum(batch.row_count for batch in progress) == 240
    assert is_delta(target) is not as_delta
    assert rows_in(target) == rows_in(source)
    assert answers.ledger_report(target) == answers.ledger_report(source)
    assert check_lake(target) == check_lake(source)
    assert check_lake(target).rows == 240
    assert [*convert_lake(source, target)] == []


@pytest.mark.parametrize("as_delta", first_of(1, True, False), ids=["from delta", "from parquet"])
def test_the_ledger_goes_on_in_the_target(tmp_path: Path, as_delta: bool) -> None:
    source = made(tmp_path / "source", as_delta=as_delta)
    [*_all] = convert_lake(source, tmp_path / "target")
    for lake, is_of_delta in ((source, as_delta), (tmp_path / "target", not as_delta)):
        with opened(lake, INSTANCE, as_delta=is_of_delta) as target:
            assert target.position == 120
            target.add(rows_of(life(121), first=121), 121)
    assert rows_in(tmp_path / "target") == rows_in(source)
    assert [*convert_lake(source, tmp_path / "target")] == []


def test_rows_that_came_meanwhile_are_added(tmp_path: Path) -> None:
    source, target = made(tmp_path / "source"), tmp_path / "target"
    [*_all] = convert_lake(source, target)
    with opened(source, OTHER, as_delta=False) as lake:
        lake.add(rows_of(life(121), first=121, instance=OTHER), 121)
    assert [*convert_lake(source, target)] == [CopiedBatch(121, 1)]
    assert rows_in(target) == rows_in(source)


def test_rows_behind_the_position_of_delta_tables_are_not_taken(tmp_path: Path) -> None:
    """A run that was killed between two tables has left balances without their lives."""
    source = tmp_path / "source"
    with opened(source, INSTANCE, as_delta=True) as lake:
        lake.add(rows_of(life(1), balance("Q1", 1, got=1)), 2)
        assert isinstance(lake, DeltaLake)
        lake.add_to(BALANCES, rows_of(life(2), balance("Q1", 2, got=2), first=3), 4)
    assert [*convert_lake(source, tmp_path / "target")] == [CopiedBatch(2, 2)]
    with opened(source, INSTANCE, as_delta=True) as lake:
        lake.add(rows_of(life(2), balance("Q1", 2, got=2), first=3), 4)
    assert [*convert_lake(source, tmp_path / "target")] == [CopiedBatch(4, 2)]
    assert check_lake(tmp_path / "target").texts == []


def test_a_target_of_another_ledger_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for lake, instance, first, as_delta in (
        (source, INSTANCE, 1, False),
        (tmp_path / "other", OTHER, 1, True),
        (tmp_path / "later", INSTANCE, 2, True),
    ):
        with opened(lake, instance, as_delta=as_delta) as target:
            rows = [life(n) for n in range(first, 4)]
            target.add(rows_of(*rows, first=first, instance=instance), 3)
    for name, store in (("other", OTHER), ("later", INSTANCE)):
        before = rows_in(tmp_path / name)
        with pytest.raises(LakeError, match=f"has the ledger of QM1, store {store}, from position"):
            next(convert_lake(source, tmp_path / name))
        assert rows_in(tmp_path / name) == before


def test_a_target_of_the_same_format_is_refused(tmp_path: Path) -> None:
    parquet, delta = made(tmp_path / "parquet"), made(tmp_path / "delta", as_delta=True)
    for lake, format_name in ((parquet, "Parquet files"), (delta, "Delta tables")):
        with pytest.raises(LakeError, match=f"are both lakes of {format_name}"):
            next(convert_lake(lake, lake))
    with pytest.raises(LakeError, match="are both lakes of Delta tables"):
        next(convert_lake(delta, "s3://bucket/lake"))


def test_a_lake_that_is_being_written_is_converted_to_its_last_whole_batch(
    tmp_path: Path,
) -> None:
    """In the moment between the mark of a batch and the move of its files it is refused."""
    source = made(tmp_path / "source")
    with opened(source, INSTANCE, as_delta=False) as lake:
        assert sum(batch.row_count for batch in convert_lake(source, tmp_path / "target")) == 240
        lake.add(rows_of(life(121), first=121), 121)
        [file] = source.glob(f"date=*/batch-{INSTANCE[:16]}-000000000003.parquet")
        staged = source / "_staging" / INSTANCE / f"2023-11-14 {file.name}"
        file.rename(staged)
        with pytest.raises(LakeError, match="a batch is being added; try again"):
            next(convert_lake(source, tmp_path / "target"))
        staged.rename(file)
        assert [*convert_lake(source, tmp_path / "target")] == [CopiedBatch(121, 1)]
    assert rows_in(tmp_path / "target") == rows_in(source)


@pytest.mark.long
@pytest.mark.parametrize(
    ("as_delta", "kill_count", "lives"),
    [
        (False, 1, 150),
        *(pytest.param(as_delta, 20, 400, marks=pytest.mark.soak) for as_delta in (False, True)),
    ],
)
def test_kills_lose_and_double_nothing(
    tmp_path: Path, kill_count: int, lives: int, as_delta: bool
) -> None:
    """kill -9 anywhere in a conversion; the next one goes on where it ended."""
    source, target = made(tmp_path / "source", as_delta=as_delta, lives=lives), tmp_path / "target"
    rng = random.Random(kill_count)
    for _ in range(kill_count):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.lake.drive_conversion", source, target],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        for _ in range(rng.randint(0, 2 * lives // 25 // kill_count)):
            process.stdout.readline()
        process.kill()
        process.wait()
        process.stdout.close()
    [*_rest] = convert_lake(source, target)
    assert rows_in(target) == rows_in(source)
    assert check_lake(target) == check_lake(source)


def test_rows_that_the_source_lacks_are_missing_in_the_target(tmp_path: Path) -> None:
    """A lake is converted as it is, and both proofs say the same."""
    source = made(tmp_path / "source")
    file = min(source.glob("date=*/*.parquet"))
    pq.write_table(pq.ParquetFile(file).read().slice(1), file)
    [*_all] = convert_lake(source, tmp_path / "target")
    assert check_lake(tmp_path / "target").texts == check_lake(source).texts != []
