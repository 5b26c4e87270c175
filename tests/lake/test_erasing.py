"""Erasing from a lake: nobody finds the person any more, and every figure is as before."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from mayfly.lifetime.life import State
from mayfly.mqi import constants as c
from mayfly.pipeline.errors import PartError
from mayfly.pipeline.lake import answers
from mayfly.pipeline.lake.answers import lives_with_ids
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.lake.compaction import (
    LakeErasure,
    Selection,
    compact_lake,
    erase_lives,
    erase_rows,
    erasures,
)
from mayfly.pipeline.lake.copying import convert_lake, opened
from mayfly.pipeline.lake.delta import compact_tables
from mayfly.pipeline.lake.files import Lease
from mayfly.pipeline.lake.queries import EVERYTHING
from mayfly.verbs.contracts.erasure import Erasure
from tests.bulk.books import START_MS, life
from tests.examples import first_of
from tests.lake.knife import CutOffError, Knife
from tests.spark.lakes import INSTANCE, balance, rows_of

DAY_MS = 86_400_000
ALICE = Selection("user", "alice")
BEGUN = Erasure(START_MS, "operator", "user", "request 17", 0)
FORMATS = pytest.mark.parametrize("as_delta", [False, True], ids=["parquet", "delta"])


def made(lake: Path, *, as_delta: bool) -> Path:
    """Make a lake of two batches and two dates: a life of alice on each date, one that she got."""
    entries = [
        life(1, user_identifier="alice", report=c.MQRO_COD, correl_id=b"c" * 24),
        life(2, ended_by="bob", ended_program="till"),
        balance("Q1", 2, got=2),
        life(3, user_identifier="alice", outcome=State.EXPIRED, ended_ms=START_MS + DAY_MS),
        life(4, origin_id=(1).to_bytes(24, "big"), ended_by="alice", ended_program="app"),
        balance("Q1", 4, got=3, expired=1),
    ]
    with opened(lake, INSTANCE, as_delta=as_delta) as target:
        for n in (0, 3):
            target.add(rows_of(*entries[n : n + 3], first=n + 1), n + 3)
    return lake


def people(lake: Path) -> list[tuple[Any, ...]]:
    """Return position, MsgId, user and ender of each life."""
    with answers.ledger_view(lake, EVERYTHING) as ledger:
        assert ledger is not None
        return ledger.sql(
            "SELECT position, length(hex(msg_id)), user_identifier, ended_by, ended_program, "
            f"origin_id FROM {answers.VIEW} WHERE kind = 0 ORDER BY position"
        ).fetchall()


@FORMATS
def test_a_user_is_gone_and_figures_and_proofs_stay(tmp_path: Path, as_delta: bool) -> None:
    lake = made(tmp_path / "lake", as_delta=as_delta)
    before = answers.ledger_report(lake), check_lake(lake)
    done = erase_lives(lake, ALICE, BEGUN)
    assert done.record == BEGUN._replace(row_count=3)
    erased = (0, "", None, None, None)
    assert people(lake) == [
        (1, *erased),
        (2, 48, "tester", "bob", "till", None),
        (4, *erased),
        (5, *erased),
    ]
    assert (answers.ledger_report(lake), check_lake(lake)) == before
    assert before[1].texts == []
    assert erasures(lake) == [done.record]
    assert lives_with_ids(lake, [(1).to_bytes(24, "big"), b"c" * 24], 10) == []
    assert erase_lives(lake, ALICE, BEGUN) == LakeErasure(BEGUN, 0)
    assert erasures(lake) == [done.record]


@pytest.mark.parametrize("as_delta", first_of(1, False, True), ids=["parquet", "delta"])
@pytest.mark.parametrize(
    ("selection", "positions"),
    [
        (Selection("id", (1).to_bytes(24, "big")), [1, 5]),
        (Selection("id", b"c" * 24), [1]),
        (Selection("where", "ended_program = 'till' OR position = 4"), [2, 4]),
    ],
    ids=["MsgId", "CorrelId", "where"],
)
def test_rows_are_selected_by_ids_or_a_condition(
    tmp_path: Path, as_delta: bool, selection: Selection, positions: list[int]
) -> None:
    """A MsgId leads to the life that followed on another queue, too."""
    lake = made(tmp_path / "lake", as_delta=as_delta)
    erase_lives(lake, selection, BEGUN)
    assert [row[0] for row in people(lake) if row[1] == 0] == positions


@FORMATS
def test_a_wrong_condition_is_refused_and_nothing_is_recorded(
    tmp_path: Path, as_delta: bool
) -> None:
    lake = made(tmp_path / "lake", as_delta=as_delta)
    for condition in ("colour = 1", "position ="):
        with pytest.raises(PartError, match=f"{condition!r} is no condition: "):
            erase_lives(lake, Selection("where", condition), BEGUN)
    assert erasures(lake) == []


def test_the_bytes_are_gone_from_parquet_files_when_their_readers_have_ended(
    tmp_path: Path,
) -> None:
    lake = made(tmp_path / "lake", as_delta=False)
    reader = Lease(lake)
    done = erase_lives(lake, ALICE, BEGUN)
    assert done.old_file_count == 3
    assert (
        duckdb.read_parquet([str(f.path) for f in reader.snapshot.files])
        .filter("user_identifier = 'alice'")
        .fetchall()
    )
    reader.close()
    compact_lake(lake)
    for path in lake.rglob("*.parquet"):
        assert b"alice" not in path.read_bytes()
    assert check_lake(lake).texts == []


def test_files_of_delta_tables_stay_for_a_week_unless_they_are_vacuumed(tmp_path: Path) -> None:
    lake = made(tmp_path / "lake", as_delta=True)
    assert erase_lives(lake, ALICE, BEGUN).old_file_count == 4
    before = DeltaTable(lake / "lives", version=2).to_pyarrow_table()
    assert "alice" in before["user_id"].to_pylist()
    compact_tables(lake)
    assert DeltaTable(lake / "lives", version=2).to_pyarrow_table().equals(before)
    assert erase_lives(lake, ALICE, BEGUN, is_vacuumed=True) == LakeErasure(BEGUN, 0)
    with pytest.raises(OSError, match="parquet"):
        DeltaTable(lake / "lives", version=2).to_pyarrow_table()
    assert check_lake(lake).texts == []
    with opened(lake, INSTANCE, as_delta=True) as target:
        assert target.position == 6
        target.add(rows_of(life(7), first=7), 7)
    assert check_lake(lake).rows == 7


@FORMATS
def test_a_copy_at_work_goes_on_beside_an_erasure(tmp_path: Path, as_delta: bool) -> None:
    lake = made(tmp_path / "lake", as_delta=as_delta)
    with opened(lake, INSTANCE, as_delta=as_delta) as writer:
        erase_lives(lake, ALICE, BEGUN)
        writer.add(rows_of(life(7, user_identifier="alice"), first=7), 7)
        erase_lives(lake, ALICE, BEGUN)
        writer.add(rows_of(life(8), balance("Q1", 6, got=5, expired=1), first=8), 9)
    assert [row[0] for row in people(lake) if row[1] == 0] == [1, 4, 5, 7]
    assert (check_lake(lake).rows, check_lake(lake).texts) == (9, [])


@FORMATS
def test_the_ledger_goes_on_and_a_conversion_takes_the_records_along(
    tmp_path: Path, as_delta: bool
) -> None:
    lake, target = made(tmp_path / "lake", as_delta=as_delta), tmp_path / "target"
    done = erase_lives(lake, ALICE, BEGUN)
    with opened(lake, INSTANCE, as_delta=as_delta) as writer:
        writer.add(rows_of(life(7, user_identifier="alice"), first=7), 7)
    for _ in range(2):
        [*_progress] = convert_lake(lake, target)
    assert people(target) == people(lake)
    assert erasures(target) == [done.record]


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.soak)])
def test_cut_off_at_any_change_of_a_file_the_next_erasure_ends_it(
    tmp_path: Path, knife: Knife, step: int
) -> None:
    """At every change of a file, or at each sixth."""
    dates = ["2023-11-14", "2023-11-15", "2023-11-14"]
    erased = pa.table({"instance_id": [INSTANCE] * 3, "position": [1, 4, 5], "date": dates})
    whole = made(tmp_path / "whole", as_delta=False)
    before = answers.ledger_report(whole), check_lake(whole)
    cuts, is_done = 0, False
    while not is_done:
        lake = Path(shutil.copytree(whole, tmp_path / f"cut-{cuts}"))
        with knife.cut_at(lake, cuts):
            try:
                erase_rows(lake, erased, BEGUN)
                is_done = True
            except CutOffError:
                cuts += step
        assert (answers.ledger_report(lake), check_lake(lake)) == before, f"cut {cuts}"
        is_erased = any(row[1] == 0 for row in people(lake))
        assert not is_erased or erasures(lake)
        erase_lives(lake, ALICE, BEGUN)
        assert [row[0] for row in people(lake) if row[1] == 0] == [1, 4, 5]
        compact_lake(lake)
        left = [path for path in lake.rglob("*.parquet") if b"alice" in path.read_bytes()]
        assert left == [], f"cut {cuts}"
    assert cuts > 10


@pytest.mark.long
@pytest.mark.parametrize("as_delta", [pytest.param(False, marks=pytest.mark.soak), True])
def test_a_killed_erasure_is_run_again(tmp_path: Path, as_delta: bool) -> None:
    """kill -9 behind the first file that it writes."""
    lake = made(tmp_path / "lake", as_delta=as_delta)
    before = answers.ledger_report(lake), check_lake(lake)
    known = {*lake.rglob("*.parquet")}
    process = subprocess.Popen([sys.executable, "-m", "tests.lake.drive_erasing", lake])
    while process.poll() is None and {*lake.rglob("*.parquet")} <= known:
        pass
    process.kill()
    process.wait()
    assert (answers.ledger_report(lake), check_lake(lake)) == before
    erase_lives(lake, ALICE, BEGUN)
    assert [row[0] for row in people(lake) if row[1] == 0] == [1, 4, 5]
    assert (answers.ledger_report(lake), check_lake(lake)) == before
