"""Figures of the last hour, day and week: what a step holds, how many there are, what a file is."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import apsw
import pytest

from mayfly import QueueManager
from mayfly.servers.figure_history import (
    ALL,
    FIGURES_FILE,
    MAX_QUEUES,
    OTHERS,
    RINGS,
    FigureHistory,
    FiguresTable,
    RingStep,
)
from mayfly.testing import VirtualClock

HOUR, DAY, WEEK = RINGS.values()
#: A multiple of all steps.
START_MS = 1_700_100_000_000 // WEEK.step_ms * WEEK.step_ms


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START_MS)


@pytest.fixture
def manager(clock: VirtualClock) -> QueueManager:
    made = QueueManager("QM1", clock=clock)
    assert made.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)").ok
    return made


def test_a_sample_is_taken_at_its_moment_and_not_a_millisecond_before(
    manager: QueueManager, clock: VirtualClock
) -> None:
    with manager, FigureHistory(manager) as history, manager.session() as session:
        session.put("Q1", b"x")
        session.put("Q1", b"x", time_to_live_ms=2_000)
        session.put("Q2", b"x", delay_ms=60_000)
        clock.advance(9_999)
        assert history.table.steps(ALL, HOUR, clock.now_ms()) == []
        clock.advance(1)
        steps = history.table.steps(ALL, HOUR, clock.now_ms())
        # The expired one is there until somebody meets it.
        assert steps == [RingStep(START_MS, 10_000, 3, 0, 0, 0, 2, 1, 10_000)]
        assert session.get("Q1") is not None
        assert session.get("Q1") is None
        clock.advance(1)
        assert history.table.steps(ALL, HOUR, clock.now_ms()) == steps
        clock.advance(9_999)
        [_first, second] = history.table.steps(ALL, HOUR, clock.now_ms())
        assert second == RingStep(START_MS + 10_000, 10_000, 0, 1, 1, 2, 0, 1, 0, 0, 0, 1, 8_000)
        [_first, of_queue] = history.table.steps("Q1", HOUR, clock.now_ms())
        assert of_queue == RingStep(START_MS + 10_000, 10_000, 0, 1, 1, 2, 0, 0, 0, 0, 0, 1, 8_000)
        [_first, delayed] = history.table.steps("Q2", HOUR, clock.now_ms())
        assert delayed == RingStep(START_MS + 10_000, 10_000, 0, 0, 0, 0, 0, 1, 0)


@pytest.mark.parametrize("persistent", [False, True])
def test_lateness_belongs_to_the_queue_of_the_message(
    manager: QueueManager, clock: VirtualClock, persistent: bool
) -> None:
    with manager, FigureHistory(manager) as history, manager.session() as session:
        for queue, delay_ms in (("Q1", 1_000), ("Q1", 3_000), ("Q2", 2_000)):
            session.put(queue, b"x", delay_ms=delay_ms, persistent=persistent)
        session.put("Q2", b"x", time_to_live_ms=4_000, persistent=persistent)
        assert manager.mqsc("ALTER QLOCAL(SYSTEM.DDELAY.LOCAL.QUEUE) GET(DISABLED)").ok
        clock.advance(5_000)
        assert manager.mqsc("ALTER QLOCAL(SYSTEM.DDELAY.LOCAL.QUEUE) GET(ENABLED)").ok
        clock.advance(0)
        assert session.get("Q2") is not None
        assert session.get("Q2") is None
        clock.advance(5_000)
        now_ms = clock.now_ms()
        [one] = history.table.steps("Q1", HOUR, now_ms)
        [two] = history.table.steps("Q2", HOUR, now_ms)
        [whole] = history.table.steps(ALL, HOUR, now_ms)
        assert one[-4:] == (2, 4_000 + 2_000, 0, 0)
        assert two[-4:] == (1, 3_000, 1, 1_000)
        assert whole[-4:] == (3, 9_000, 1, 1_000)
        assert history.table.totals(HOUR, now_ms, 10)["Q2"].discard_lateness_ms == 1_000


def test_coarser_steps_are_sums_and_the_highest_of_finer_ones(
    manager: QueueManager, clock: VirtualClock
) -> None:
    with manager, FigureHistory(manager) as history, manager.session() as session:
        for _ in range(12):
            session.put("Q1", b"x")
            clock.advance(10_000)
        while session.get("Q1") is not None:
            pass
        clock.advance(10_000)
        now_ms = clock.now_ms()
        assert [one.put_count for one in history.table.steps("Q1", HOUR, now_ms)] == [1] * 12 + [0]
        first, second = history.table.steps("Q1", DAY, now_ms)
        assert (first.covered_ms, first.put_count, first.depth) == (120_000, 12, 12)
        assert (second.start_ms, second.got_count, second.depth) == (START_MS + 120_000, 12, 0)
        [week] = history.table.steps("Q1", WEEK, now_ms)
        assert (week.covered_ms, week.put_count, week.ended_count, week.depth) == (
            130_000,
            12,
            12,
            12,
        )
        assert history.table.totals(WEEK, now_ms, 10) == {"Q1": week._replace(covered_ms=0)}


def test_the_table_has_a_fixed_size_and_keeps_the_last_steps() -> None:
    table = FiguresTable(None, "QM1")
    one = RingStep(0, 10_000, 1, 0, 0, 0, 1, 0, 0)
    names = [ALL, *(f"Q{number:03}" for number in range(MAX_QUEUES + 20))]
    for place in range(HOUR.step_count + 40):
        table.add(START_MS + place * HOUR.step_ms, dict.fromkeys(names, one))
    now_ms = START_MS + (HOUR.step_count + 40) * HOUR.step_ms
    steps = table.steps("Q000", HOUR, now_ms)
    assert len(steps) == HOUR.step_count - 1
    assert steps[-1].start_ms == now_ms - HOUR.step_ms
    others = table.steps(OTHERS, HOUR, now_ms)
    assert {each.put_count for each in others} == {20}
    [[rows]] = table._rows("SELECT count(*) FROM figure WHERE step_ms = ?", [HOUR.step_ms])
    assert rows == HOUR.step_count * (MAX_QUEUES + 2)
    assert len(table.totals(HOUR, now_ms, 1_000)) == MAX_QUEUES + 1
    table.close()
    assert table.steps(ALL, HOUR, now_ms) == []


def test_a_restart_keeps_the_past_and_counts_nothing_twice(
    tmp_path: Path, clock: VirtualClock
) -> None:
    for _ in range(2):
        with (
            QueueManager("QM1", tmp_path, clock=clock) as manager,
            FigureHistory(manager) as history,
        ):
            manager.mqsc("DEFINE QLOCAL(Q1) DEFPSIST(YES)")
            with manager.session() as session:
                session.put("Q1", b"x")
                clock.advance(4_000)
    with QueueManager("QM1", tmp_path, clock=clock) as manager, FigureHistory(manager) as history:
        clock.advance(2_000)
        [step] = history.table.steps("Q1", HOUR, clock.now_ms())
        assert (step.put_count, step.depth, step.covered_ms) == (2, 2, 10_000)
        assert manager.verify().ok
    assert sorted(path.name for path in tmp_path.glob("figures*")) == [FIGURES_FILE]


@pytest.mark.parametrize("harm", ["deleted", "damaged", "torn", "of another version"])
def test_a_file_that_cannot_be_used_is_made_anew_with_a_line_in_the_log(
    tmp_path: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    file = tmp_path / FIGURES_FILE
    with QueueManager("QM1", tmp_path, clock=clock) as manager, FigureHistory(manager):
        manager.mqsc("DEFINE QLOCAL(Q1)")
        clock.advance(10_000)
    if harm == "damaged":
        file.write_bytes(b"no database at all" * 1_000)
    elif harm == "torn":
        whole = file.read_bytes()
        file.write_bytes(whole[:4_096] + b"\xff" * (len(whole) - 4_096))
    elif harm == "deleted":
        file.unlink()
    else:
        apsw.Connection(str(file)).pragma("user_version", 99)
    caplog.set_level(logging.INFO, "mayfly.figures")
    with QueueManager("QM1", tmp_path, clock=clock) as manager, FigureHistory(manager) as history:
        assert ("is made anew" in caplog.text) == (harm != "deleted")
        assert "made figures.db of QM1" in caplog.text
        clock.advance(10_000)
        assert [one.covered_ms for one in history.table.steps(ALL, HOUR, clock.now_ms())] == [
            10_000
        ]
        assert manager.verify().ok


def test_a_file_that_is_deleted_while_the_server_runs_is_made_anew(
    tmp_path: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with QueueManager("QM1", tmp_path, clock=clock) as manager, FigureHistory(manager) as history:
        clock.advance(10_000)
        (tmp_path / FIGURES_FILE).unlink()
        clock.advance(10_000)
        assert [one.start_ms for one in history.table.steps(ALL, HOUR, clock.now_ms())] == [
            START_MS + 10_000
        ]
        assert "figures.db of QM1 is made anew: it was deleted" in caplog.text


def test_an_hour_without_a_look_is_one_sample(manager: QueueManager, clock: VirtualClock) -> None:
    with manager, FigureHistory(manager) as history, manager.session() as session:
        session.put("Q1", b"x")
        clock.advance(3_600_000)
        [step] = history.table.steps(ALL, HOUR, clock.now_ms())
        assert (step.start_ms, step.covered_ms) == (START_MS + 3_590_000, 3_600_000)


def test_a_queue_manager_that_has_stopped_has_its_past(
    manager: QueueManager, clock: VirtualClock
) -> None:
    with FigureHistory(manager) as history:
        clock.advance(10_000)
        manager.crash()
        clock.advance(10_000)
        assert len(history.table.steps(ALL, HOUR, clock.now_ms())) == 1


def test_a_kill_keeps_the_samples_before(tmp_path: Path) -> None:
    one = RingStep(0, 10_000, 1, 0, 0, 0, 1, 0, 0)
    (tmp_path / "left").mkdir()
    table = FiguresTable(tmp_path, "QM1")
    table.add(START_MS, {ALL: one})
    # What a killed process leaves: the database, and its log, which nobody has written back.
    for file in tmp_path.glob("figures*"):
        shutil.copy(file, tmp_path / "left")
    again = FiguresTable(tmp_path / "left", "QM1")
    assert again.steps(ALL, HOUR, START_MS) == [one._replace(start_ms=START_MS)]
    again.close()
    table.close()


def test_a_folder_that_cannot_be_written_costs_the_figures_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FIGURES_FILE).mkdir()
    table = FiguresTable(tmp_path, "QM1")
    table.add(START_MS, {ALL: RingStep(0, 10_000, 1, 0, 0, 0, 1, 0, 0)})
    assert table.steps(ALL, HOUR, START_MS) == []
    assert caplog.text.count("figures.db of QM1 keeps no figures") == 1
    table.close()
