"""Own time apart from the wall clock: what is between them, and how they meet again."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mayfly import QueueManager, QueueSharingGroup
from mayfly.engine import return_to_wall_clock
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.runtime.clocks import SystemClock
from mayfly.testing import VirtualClock
from mayfly.verbs.facts import OwnTime
from tests.over import NewSession
from tests.spec.scene import REPLIES, STAGING, bodies, local, refused

WALL_MS = 1_700_000_000_000
#: A glitch that is followed: less than the tolerance of an hour.
GLITCH_MS = 3_590_000
MS = 1_000_000


class Machine:
    """A machine whose wall clock can be set; its boot clock runs when it is told to."""

    def __init__(self) -> None:
        self.wall_ms = WALL_MS
        self.boot_ms = 5_000

    def clock(self) -> SystemClock:
        """Return the clock of a process that starts now."""
        return SystemClock(wall_ns=lambda: self.wall_ms * MS, elapsed_ns=lambda: self.boot_ms * MS)

    def run(self, ms: int) -> None:
        """Let time pass."""
        self.wall_ms += ms
        self.boot_ms += ms

    def step(self, ms: int) -> None:
        """Set the wall clock."""
        self.wall_ms += ms


@pytest.fixture
def machine() -> Machine:
    """A machine that is in order."""
    return Machine()


def put(qm: QueueManager, text: bytes, life_ms: int | None = None, delay_ms: int = 0) -> None:
    """Put a persistent message that asks for an expiration report."""
    with qm.session() as session:
        session.put(
            "Q1",
            text,
            time_to_live_ms=life_ms,
            delay_ms=delay_ms,
            persistent=True,
            report=c.MQRO_EXPIRATION,
            reply_to_q=REPLIES,
        )


def glitched(machine: Machine, folder: Path) -> None:
    """Leave a folder whose queue manager has followed a glitch of the wall clock and its end."""
    with QueueManager("QM1", folder, machine.clock()) as qm:
        local(qm)
        local(qm, REPLIES)
        put(qm, b"before", life_ms=GLITCH_MS + 60_000)
        put(qm, b"gone", life_ms=60_000)
        machine.step(GLITCH_MS)
        machine.run(1_000)
        put(qm, b"during", life_ms=60_000)
        put(qm, b"delayed", delay_ms=30_000)
        machine.step(-GLITCH_MS)
        machine.run(1_000)
        assert qm.now_ms() == WALL_MS + GLITCH_MS + 2_000


def test_clock_step_that_was_followed_is_shown_as_a_queue_manager_ahead(
    machine: Machine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    glitched(machine, tmp_path)
    caplog.clear()
    with (
        caplog.at_level(logging.WARNING, "mayfly.clock"),
        QueueManager("QM1", tmp_path, machine.clock()) as qm,
    ):
        assert qm.own_time() == OwnTime(
            own_ms=WALL_MS + GLITCH_MS + 2_000,
            wall_ms=WALL_MS + 2_000,
            step_count=0,
            expiring_count=1,
            due_count=0,
            expired_count=1,
            put_ahead_count=1,
            waiting_count=3,
        )
        assert qm.own_time().difference_ms == -GLITCH_MS
    assert caplog.messages[0].startswith("QM1 is 3590000 ms ahead of the wall clock")


def test_clock_step_that_was_followed_is_left_by_coming_back(
    machine: Machine, tmp_path: Path, new_session: NewSession
) -> None:
    """What expired stays expired and is reported; what was put meanwhile lives as long as asked."""
    glitched(machine, tmp_path)
    with QueueManager("QM1", tmp_path, machine.clock()) as qm:
        assert return_to_wall_clock(qm.engine, qm.close).difference_ms == -GLITCH_MS
        assert qm.is_stopped
    with QueueManager("QM1", tmp_path, machine.clock()) as qm, new_session(qm) as session:
        assert qm.now_ms() == WALL_MS + 2_000
        report = session.get(REPLIES)
        assert report is not None
        assert report.descriptor.feedback == c.MQFB_EXPIRATION
        assert session.get(REPLIES) is None
        found = list(session.browse("Q1"))
        assert [(m.body, m.remaining_ms) for m in found] == [
            (b"before", GLITCH_MS + 58_000),
            (b"during", 59_000),
        ]
        # Its delivery time stays: later by the difference.
        assert qm.counts("Q1").staged == 1
        machine.run(29_000 + GLITCH_MS)
        qm.run_due()
        assert b"delayed" in bodies(session, "Q1")
        assert qm.verify().ok


def test_clock_that_came_back_stays_there_after_a_restart(machine: Machine, tmp_path: Path) -> None:
    glitched(machine, tmp_path)
    with QueueManager("QM1", tmp_path, machine.clock()) as qm:
        return_to_wall_clock(qm.engine, qm.close)
    for _ in range(2):
        machine.run(1_000)
        with QueueManager("QM1", tmp_path, machine.clock()) as qm:
            assert qm.own_time().difference_ms == 0
            assert qm.now_ms() == machine.wall_ms
            put(qm, b"x")


def test_clock_that_is_ahead_does_not_go_back_while_programs_use_it(
    machine: Machine, tmp_path: Path
) -> None:
    glitched(machine, tmp_path)
    with QueueManager("QM1", tmp_path, machine.clock()) as qm:
        with refused(rc.MQRC_ENVIRONMENT_ERROR):
            qm.follow_wall()
        assert qm.own_time().difference_ms == -GLITCH_MS


@pytest.mark.parametrize(("end_ms", "count"), [(1, 1), (3_600_001, 1), (3_600_002, 0)])
def test_clock_step_beyond_the_tolerance_is_accepted_with_what_it_does_shown_before(
    machine: Machine, end_ms: int, count: int, new_session: NewSession
) -> None:
    """A deadline and a delivery time just inside of what is between, and just outside."""
    with QueueManager("QM1", clock=machine.clock()) as qm, new_session(qm) as session:
        local(qm)
        session.put("Q1", b"dies", time_to_live_ms=end_ms)
        session.put("Q1", b"comes", delay_ms=end_ms)
        machine.step(3_600_001)
        found = qm.own_time()
        assert found.difference_ms == 3_600_001
        assert (found.expiring_count, found.due_count) == (count, count)
        assert (found.waiting_count, found.expired_count, found.step_count) == (2 - 2 * count, 0, 1)
        assert qm.follow_wall() == found
        assert qm.now_ms() == machine.wall_ms
        assert qm.own_time().difference_ms == 0
        qm.run_due()
        assert qm.curdepth(STAGING) == 1 - count
        assert bodies(session, "Q1") == ([b"comes"] if count else [b"dies"])


def test_clock_without_a_difference_has_nothing_to_accept(clock: VirtualClock) -> None:
    with QueueManager("QM1", clock=clock) as qm:
        before = qm.own_time()
        assert before.difference_ms == 0
        assert qm.follow_wall() == before
        clock.advance(5)
        assert qm.own_time().own_ms == before.own_ms + 5


def test_clock_of_a_member_is_that_of_its_group(clock: VirtualClock) -> None:
    with (
        QueueSharingGroup("QSG1", clock=clock) as group,
        QueueManager("QM1", sharing_group=group) as qm,
    ):
        for call in (qm.follow_wall, lambda: return_to_wall_clock(qm.engine, qm.close)):
            with refused(rc.MQRC_FUNCTION_NOT_SUPPORTED):
                call()
