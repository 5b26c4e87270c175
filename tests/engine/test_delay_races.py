"""What changes of the schedule, releases, a full disk and the end do to each other at once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

import apsw
import pytest

from mayfly import QueueManager
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt
from tests.engine.delay_scene import EVERYTHING, LONG_MS, MANY, advance, delivered, put_many
from tests.spec.scene import (
    JOIN_SECONDS,
    STAGING,
    Running,
    bodies,
    local,
    refused,
)
from tests.spec.schedule_scene import AnySchedule
from tests.store.scene import failing_disk, gate, statement


def cancel(schedule: AnySchedule, msg_id: bytes) -> Receipt:
    return schedule.cancel(msg_id)


def release(schedule: AnySchedule, msg_id: bytes) -> Receipt:
    return schedule.release(msg_id)


def all_at_once(*calls: Callable[[], object]) -> list[object]:
    """Run calls on a thread each, begun together."""
    barrier = threading.Barrier(len(calls))

    def begin(call: Callable[[], object]) -> object:
        barrier.wait(JOIN_SECONDS)
        return call()

    running = [Running(partial(begin, call)) for call in calls]
    results = [one.finish() for one in running]
    assert [one.error for one in running] == [None] * len(calls)
    return results


def asked(
    qm: QueueManager, ids: list[bytes], call: Callable[[AnySchedule, bytes], Receipt], seed: int
) -> list[tuple[bytes, Receipt]]:
    """Ask something for every message in an order of one's own; return the receipts."""
    schedule, order = qm.session().schedule, Random(seed).sample(ids, len(ids))
    return [(msg_id, call(schedule, msg_id)) for msg_id in order]


def receipts_of(results: list[object]) -> dict[bytes, set[Receipt]]:
    found: dict[bytes, set[Receipt]] = {}
    for result in results:
        assert isinstance(result, list)
        for msg_id, receipt in result:
            found.setdefault(msg_id, set()).add(receipt)
    return found


def test_cancel_and_release_of_one_message_do_not_both_win(on_clock: QueueManager) -> None:
    """What is told agrees with what arrives, whoever came first."""
    qm = on_clock
    ids = put_many(qm)
    calls = [
        partial(asked, qm, ids, cancel, 1),
        partial(asked, qm, ids, release, 2),
        partial(asked, qm, ids, cancel, 3),
        partial(asked, qm, ids, release, 4),
    ]
    told = receipts_of(all_at_once(*calls))
    arrived = delivered(qm)
    assert set(arrived.values()) <= {1}
    for msg_id in ids:
        if Receipt.CANCELLED in told[msg_id]:
            assert msg_id not in arrived
            assert Receipt.ALREADY_RELEASED not in told[msg_id]
            assert Receipt.RELEASED not in told[msg_id]
        else:
            assert arrived[msg_id] == 1
            assert told[msg_id] <= {Receipt.RELEASED, Receipt.ALREADY_RELEASED}
    assert qm.curdepth(STAGING) == 0


def test_cancel_and_the_processor_do_not_both_win(on_clock: QueueManager) -> None:
    qm = on_clock
    with qm.session() as session:
        ids = [session.put("Q1", b"x", delay_ms=n, persistent=bool(n % 2)) for n in range(1, MANY)]

    def time_passes() -> list[object]:
        for _ in range(MANY):
            advance(qm, 1)
        return []

    calls: list[Callable[[], object]] = [
        partial(asked, qm, ids, cancel, 1),
        partial(asked, qm, ids, cancel, 2),
        time_passes,
    ]
    told = receipts_of(all_at_once(*calls))
    arrived = delivered(qm)
    for msg_id in ids:
        assert len(told[msg_id]) == 1, told[msg_id]
        assert (told[msg_id] == {Receipt.ALREADY_RELEASED}) == (arrived[msg_id] == 1)


def test_reschedule_against_release_loses_and_doubles_nothing(on_clock: QueueManager) -> None:
    qm = on_clock
    ids = put_many(qm)

    def later(schedule: AnySchedule, msg_id: bytes) -> Receipt:
        return schedule.reschedule(msg_id, delay_ms=LONG_MS)

    told = receipts_of(
        all_at_once(
            partial(asked, qm, ids, later, 1),
            partial(asked, qm, ids, release, 2),
            partial(asked, qm, ids, later, 3),
        )
    )
    allowed = {Receipt.RELEASED, Receipt.RESCHEDULED, Receipt.ALREADY_RELEASED}
    assert set().union(*told.values()) <= allowed
    arrived = delivered(qm)
    for msg_id in ids:
        assert (arrived[msg_id] == 1) or Receipt.RESCHEDULED in told[msg_id]
        assert (arrived[msg_id] == 1) == (qm.session().schedule.show(msg_id) is None)
    advance(qm, LONG_MS)
    assert delivered(qm) == Counter(ids)


@pytest.mark.usefixtures("small_batches")
def test_a_list_during_a_release_is_in_order_and_misses_nothing_that_stays(
    on_clock: QueueManager,
) -> None:
    qm = on_clock
    going = put_many(qm, delay_ms=10)
    staying = put_many(qm)
    is_over = threading.Event()

    def passes() -> int:
        schedule, count = qm.session().schedule, 0
        while not (is_over.is_set() and count):
            positions, seen, after = [], [], None
            while page := schedule.list(limit=7, after=after):
                positions += [entry.position for entry in page]
                seen += [entry.msg_id for entry in page]
                after = positions[-1]
            assert all(a < b for a, b in pairwise(positions))
            assert seen[-len(staying) :] == staying
            assert set(seen) <= {*going, *staying}
            count += 1
        return count

    listing = Running(passes)
    try:
        advance(qm, 10)
    finally:
        is_over.set()
    assert isinstance(listing.finish(), int)
    assert list(delivered(qm)) == going


#: Fewer than are changed in a batch (``small_batches``).
PUTS_BESIDE_A_BULK = 2


@pytest.mark.usefixtures("small_batches")
def test_a_bulk_while_puts_go_on_counts_what_it_has_done(on_clock: QueueManager) -> None:
    qm = on_clock
    ids: list[bytes] = []
    is_over = threading.Event()
    # A few for each batch: puts that are faster than the bulk would never let it end.
    room = threading.Semaphore(PUTS_BESIDE_A_BULK)

    def keep_putting() -> None:
        with qm.session() as session:
            while room.acquire() and not is_over.is_set():
                ids.append(session.put("Q1", b"x", delay_ms=LONG_MS, persistent=len(ids) % 2 == 0))

    def let_go_on() -> None:
        room.release(PUTS_BESIDE_A_BULK)

    def counted(bulk: Iterator[int]) -> int:
        counts = [0]
        for count in bulk:
            counts.append(count)
            let_go_on()
        return counts[-1]

    ids += put_many(qm, 50)
    putting = Running(keep_putting)
    schedule = qm.session().schedule
    try:
        moved = counted(schedule.reschedule_all(EVERYTHING, delay_ms=2 * LONG_MS))
        moved_by = counted(schedule.reschedule_all(EVERYTHING, by_ms=1))
        cancelled = counted(schedule.cancel_all(EVERYTHING))
    finally:
        is_over.set()
        let_go_on()
        putting.finish()
    assert min(moved, moved_by, cancelled) >= 50
    assert schedule.count() == len(ids) - cancelled
    told = Counter(schedule.cancel(msg_id) for msg_id in ids)
    assert told == Counter({Receipt.CANCELLED: len(ids)})
    advance(qm, 4 * LONG_MS)
    assert delivered(qm) == Counter()


@pytest.mark.usefixtures("small_batches")
def test_the_end_in_the_middle_of_a_bulk_leaves_whole_batches(tmp_path: Path) -> None:
    clock = VirtualClock()
    qm = QueueManager("QM1", tmp_path, clock)
    local(qm)
    with qm.session() as session:
        ids = [session.put("Q1", b"x", delay_ms=LONG_MS, persistent=True) for _ in range(20)]
    cancelling = qm.session().schedule.cancel_all(EVERYTHING)
    assert next(cancelling) == 3
    in_unit = qm.session(transacted=True).schedule.cancel_all(EVERYTHING)
    assert next(in_unit) == 3
    qm.close()
    for bulk in (cancelling, in_unit):
        with pytest.raises(MQError) as caught:
            next(bulk)
        assert caught.value.reason in (rc.MQRC_CONNECTION_BROKEN, rc.MQRC_HCONN_ERROR)
    with QueueManager("QM1", tmp_path, clock) as reopened:
        schedule = reopened.session().schedule
        assert [entry.msg_id for entry in schedule.list()] == ids[3:]
        assert [entry.message_count for entry in schedule.audit()] == [3]
        assert reopened.verify().ok


@pytest.mark.usefixtures("small_batches")
def test_a_bulk_ends_with_its_session(on_clock: QueueManager) -> None:
    for transacted in (False, True):
        put_many(on_clock, 8)
        session = on_clock.session(transacted=transacted)
        bulk = session.schedule.cancel_all(EVERYTHING)
        next(bulk)
        left = on_clock.curdepth(STAGING)
        session.close(commit=True)
        with refused(rc.MQRC_HCONN_ERROR):
            next(bulk)
        assert on_clock.curdepth(STAGING) == left
        assert on_clock.engine.hidden == {}


def test_a_receipt_waits_for_lives_that_are_on_their_way_to_the_ledger(tmp_path: Path) -> None:
    """The life of a released non-persistent message is in nobody's hands but the leader's."""
    clock = VirtualClock()
    with gate() as opening, QueueManager("QM1", tmp_path, clock) as qm:
        local(qm)
        session = qm.session()
        msg_id = session.put("Q1", b"x", delay_ms=10)
        clock.advance(10)
        leader = Running(lambda: qm.engine.store.commit([statement("SELECT gate()")]))
        assert opening.reached.wait(JOIN_SECONDS)
        asking = Running(lambda: qm.session().schedule.cancel(msg_id))
        asking.thread.join(0.05)
        opening.opened.set()
        leader.finish()
        assert asking.finish() == Receipt.ALREADY_RELEASED
        assert len(bodies(session, "Q1")) == 1


@pytest.mark.parametrize("persistent", [False, True])
def test_a_full_disk_under_a_unit_of_work_leaves_the_schedule_as_it_was(
    tmp_path: Path, persistent: bool
) -> None:
    with failing_disk() as disk, QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        disk.error = apsw.FullError
        local(qm)
        with qm.session() as plain, qm.session(transacted=True) as unit:
            ids = [plain.put("Q1", b"x", delay_ms=10, persistent=persistent) for _ in range(4)]
            before = unit.schedule.list()
            assert unit.schedule.cancel(ids[0]) == Receipt.CANCELLED
            assert unit.schedule.release(ids[1]) == Receipt.RELEASED
            assert unit.schedule.reschedule(ids[2], delay_ms=20) == Receipt.RESCHEDULED
            assert unit.schedule.cancel(ids[2]) == Receipt.LOCKED
            disk.failing = "write"
            with refused(rc.MQRC_STORAGE_MEDIUM_FULL):
                unit.commit()
            disk.failing = ""
            assert plain.schedule.list() == before
            uncommitted_staged = qm.engine.registry.queue(
                "SYSTEM.DDELAY.LOCAL.QUEUE"
            ).uncommitted_staged
            assert (plain.schedule.audit(), qm.engine.hidden, uncommitted_staged) == ([], {}, 0)
            found = qm.verify()
            assert found.ok, found.problems
            advance(qm, 10)
            assert list(delivered(qm)) == ids
