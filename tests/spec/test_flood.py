"""Many messages due at once: bounded batches, everything at its moment, nobody left behind."""

from pathlib import Path

from mayfly import QueueManager
from mayfly.engine.api.administration import QMGR
from mayfly.engine.delay.delay_processor import BATCH
from mayfly.engine.objects import administration
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.scene import STAGING, local


def test_D12_a_flood_committed_when_due_is_released_at_once(
    queue_manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    """More than two batches, and nobody moves the clock any more."""
    count = 2 * BATCH + 1
    local(queue_manager, MAXDEPTH=count)
    administration.alter(queue_manager.engine, QMGR, "", {"MAXUMSGS": count})
    with new_session(queue_manager, transacted=True) as unit:
        for number in range(count):
            unit.put("Q1", b"%d" % number, delay_ms=1_000, persistent=number % 3 > 0)
        clock.advance(1_000)
        unit.commit()
        assert queue_manager.curdepth("Q1") == count
    with new_session(queue_manager) as session:
        assert [m.body for m in session.browse("Q1")] == [b"%d" % n for n in range(count)]


def test_D17_a_flood_that_fell_due_while_closed_is_released_after_opening(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    count = 11 * BATCH + 1
    with QueueManager("QM1", tmp_path, clock) as qm:
        local(qm, MAXDEPTH=count)
        administration.alter(qm.engine, QMGR, "", {"MAXUMSGS": count})
        with new_session(qm, transacted=True) as unit:
            for _ in range(count):
                unit.put("Q1", b"", delay_ms=1_000, persistent=True)
    clock.advance(1_000)
    with QueueManager("QM1", tmp_path, clock) as qm:
        assert (qm.curdepth("Q1"), qm.curdepth(STAGING)) == (count, 0)
        assert qm.verify().ok
