"""The life table and the messages: every edge is driven once, and what it lacks stops the test.

A message is asked for its state as anybody asks (``why``); how a life has ended is in the ledger.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from mayfly import QueueManager
from mayfly.engine import Session, queue_state
from mayfly.engine.api.administration import QLOCAL
from mayfly.engine.api.programs import ANY
from mayfly.engine.api.transit import ChannelBatch
from mayfly.engine.finding.search import in_order
from mayfly.engine.objects import administration
from mayfly.engine.queue_state import Hold
from mayfly.engine.queues import Found
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.life import NEXT, OUTCOMES, Event, State, TransitionError
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.contracts.outcomes import NOBODY
from tests.spec.scene import (
    DEAD,
    JOIN_SECONDS,
    REPLIES,
    STAGING,
    Running,
    alter,
    alter_manager,
    bodies,
    local,
    refused,
    take,
)
from tests.store.scene import failing_disk, gate, statement

EDGES = [(state, event) for state, events in NEXT.items() for event in events]
DELAY_MS = 5_000


class Scene:
    """A queue manager with Q1, a session outside of units of work and one that is transacted."""

    def __init__(self, qm: QueueManager, clock: VirtualClock) -> None:
        self.qm, self.clock = qm, clock
        self.plain, self.unit = qm.session(), qm.session(transacted=True)

    def put(self, session: Session, **more: Any) -> bytes:
        """Put on Q1 and return the MsgId."""
        return session.put("Q1", b"x", **more)

    def state(self, msg_id: bytes, queue: str = "Q1") -> State | None:
        """Return the state of a message on a queue, or how its life there ended."""
        states = [State(s.state) for s in self.qm.why(msg_id).entries if s.queue == queue]
        return states[-1] if states else None

    def found(self, queue: str = "Q1") -> Found:
        """Return the first message that can be seen."""
        local_queue = self.qm.engine.registry.queue(queue)
        with self.qm.engine.engine_lock:
            row, side = next(in_order(self.qm.engine, local_queue, ANY, local_queue.low))
        return local_queue, row, side

    def pass_ms(self, passed_ms: int) -> None:
        self.clock.advance(passed_ms)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    clock = VirtualClock()
    with QueueManager("QM1", tmp_path, clock) as qm:
        local(qm)
        local(qm, REPLIES)
        alter_manager(qm, DEADQ=DEAD)
        yield Scene(qm, clock)
        found = qm.verify()
        assert found.ok, found.problems


def test_uncommitted_commit(scene: Scene) -> None:
    msg_id = scene.put(scene.unit)
    assert scene.state(msg_id) is State.UNCOMMITTED
    scene.unit.commit()
    assert scene.state(msg_id) is State.AVAILABLE


def test_uncommitted_commit_delayed(scene: Scene) -> None:
    msg_id = scene.put(scene.unit, delay_ms=DELAY_MS)
    assert scene.state(msg_id, STAGING) is State.UNCOMMITTED
    scene.unit.commit()
    assert scene.state(msg_id, STAGING) is State.DELAYED


def test_uncommitted_backout(scene: Scene) -> None:
    msg_id = scene.put(scene.unit)
    scene.unit.backout()
    # WITHDRAWN: it was never part of the queue and leaves no record.
    assert scene.state(msg_id) is None
    assert scene.qm.curdepth("Q1") == 0


def test_uncommitted_get_under_syncpoint(scene: Scene) -> None:
    msg_id = scene.put(scene.unit)
    assert scene.unit.get("Q1") is not None
    assert scene.state(msg_id) is State.LOCKED
    assert scene.qm.curdepth("Q1") == 0


def test_delayed_due(scene: Scene) -> None:
    msg_id = scene.put(scene.plain, delay_ms=DELAY_MS)
    scene.pass_ms(DELAY_MS)
    assert (scene.state(msg_id, STAGING), scene.state(msg_id)) == (State.RELEASED, State.AVAILABLE)


def test_delayed_cancel(scene: Scene) -> None:
    msg_id = scene.put(scene.plain, delay_ms=DELAY_MS)
    scene.plain.schedule.cancel(msg_id)
    assert scene.state(msg_id, STAGING) is State.CANCELLED


def test_delayed_get_under_syncpoint(scene: Scene) -> None:
    msg_id = scene.put(scene.plain, delay_ms=DELAY_MS)
    assert scene.unit.get(STAGING) is not None
    assert scene.state(msg_id, STAGING) is State.LOCKED


def test_delayed_deadline_seen(scene: Scene) -> None:
    msg_id = scene.put(scene.plain, delay_ms=DELAY_MS, time_to_live_ms=2 * DELAY_MS)
    alter(scene.qm, STAGING, GET=c.MQQA_GET_INHIBITED)
    scene.pass_ms(2 * DELAY_MS)
    alter(scene.qm, STAGING, GET=c.MQQA_GET_ALLOWED)
    scene.pass_ms(1)
    assert scene.state(msg_id, STAGING) is State.EXPIRED


def test_delayed_dead_letter(scene: Scene) -> None:
    msg_id = scene.put(scene.plain, delay_ms=DELAY_MS)
    alter(scene.qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    scene.pass_ms(DELAY_MS)
    assert scene.state(msg_id, STAGING) is State.DEAD_LETTERED


def test_delayed_discard(scene: Scene) -> None:
    msg_id = scene.put(scene.plain, delay_ms=DELAY_MS, report=c.MQRO_DISCARD_MSG)
    alter(scene.qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    scene.pass_ms(DELAY_MS)
    assert scene.state(msg_id, STAGING) is State.DISCARDED


def test_delayed_clear(scene: Scene) -> None:
    msg_id = scene.put(scene.plain, delay_ms=DELAY_MS)
    scene.qm.mqsc(f"CLEAR QLOCAL({STAGING})")
    assert scene.state(msg_id, STAGING) is State.CLEARED


def test_available_get(scene: Scene) -> None:
    msg_id = scene.put(scene.plain)
    assert scene.plain.get("Q1") is not None
    assert scene.state(msg_id) is State.GOT


def test_available_get_under_syncpoint(scene: Scene) -> None:
    msg_id = scene.put(scene.plain)
    assert scene.state(msg_id) is State.AVAILABLE
    assert scene.unit.get("Q1") is not None
    assert scene.state(msg_id) is State.LOCKED


def test_available_transmit(scene: Scene) -> None:
    msg_id = scene.put(scene.plain)
    batch = taken_by_a_channel(scene)
    assert queue_state.state_of(batch.queue, batch._rows[0][1].k) is State.AVAILABLE
    batch.end(scene.qm.engine.channel_states.state("C1"))
    assert scene.state(msg_id) is State.TRANSMITTED


def test_available_deadline_seen(scene: Scene) -> None:
    msg_id = scene.put(scene.plain, time_to_live_ms=DELAY_MS)
    scene.pass_ms(DELAY_MS)
    assert scene.plain.get("Q1") is None
    assert scene.state(msg_id) is State.EXPIRED


@pytest.mark.parametrize("event", [Event.DEAD_LETTER, Event.DISCARD])
def test_available_leaves_its_channel(scene: Scene, event: Event) -> None:
    msg_id = scene.put(scene.plain)
    batch, work = taken_by_a_channel(scene), Transaction()
    with scene.qm.engine.engine_lock:
        key, reason = batch._rows[0][1].k, rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL
        batch._leave(work, key, event, batch.terminated_by, reason=reason)
    scene.qm.engine.committer.run(work)
    assert scene.state(msg_id) is NEXT[State.AVAILABLE][event]


def test_available_clear(scene: Scene) -> None:
    msg_id = scene.put(scene.plain)
    scene.qm.mqsc("CLEAR QLOCAL(Q1)")
    assert scene.state(msg_id) is State.CLEARED


@pytest.mark.parametrize("delay_ms", [0, DELAY_MS], ids=["available", "delayed"])
def test_restart_ends_what_is_not_persistent(tmp_path: Path, delay_ms: int) -> None:
    clock = VirtualClock()
    queue = STAGING if delay_ms else "Q1"
    with QueueManager("QM1", tmp_path, clock) as qm:
        local(qm)
        msg_id = qm.session().put("Q1", b"x", persistent=False, delay_ms=delay_ms)
    with QueueManager("QM1", tmp_path, clock) as qm:
        (entry,) = qm.why(msg_id).entries
        assert (entry.queue, entry.state) == (queue, State.LOST_AT_RESTART)


def test_locked_commit(scene: Scene) -> None:
    msg_id = scene.put(scene.plain)
    scene.unit.get("Q1")
    scene.unit.commit()
    assert scene.state(msg_id) is State.GOT


def test_locked_cancel(scene: Scene) -> None:
    msg_id = scene.put(scene.plain, delay_ms=DELAY_MS)
    scene.unit.get(STAGING)
    scene.unit.commit()
    assert scene.state(msg_id, STAGING) is State.CANCELLED


def test_locked_backout(scene: Scene) -> None:
    msg_id = scene.put(scene.plain)
    scene.unit.get("Q1")
    scene.unit.backout()
    assert scene.state(msg_id) is State.AVAILABLE


def test_locked_backout_delayed(scene: Scene) -> None:
    msg_id = scene.put(scene.plain, delay_ms=DELAY_MS)
    scene.unit.get(STAGING)
    scene.unit.backout()
    assert scene.state(msg_id, STAGING) is State.DELAYED
    scene.pass_ms(DELAY_MS)
    assert scene.state(msg_id) is State.AVAILABLE


def test_delayed_redeliver(scene: Scene) -> None:
    alter(scene.qm, "Q1", BODELAY=5)
    msg_id = scene.put(scene.plain)
    scene.unit.get("Q1")
    scene.unit.backout()
    assert scene.state(msg_id) is State.DELAYED
    scene.pass_ms(5_000)
    assert scene.state(msg_id) is State.AVAILABLE


def test_locked_withdraw(scene: Scene) -> None:
    msg_id = scene.put(scene.unit)
    scene.unit.get("Q1")
    scene.unit.backout()
    assert scene.state(msg_id) is None


def test_each_edge_of_the_life_table_has_its_test() -> None:
    """Three tests above drive two edges each; the rest are named by theirs."""
    named = {(s, e) for s, e in EDGES if f"test_{s}_{e}" in globals()}
    together = {
        (State.AVAILABLE, Event.DEAD_LETTER),
        (State.AVAILABLE, Event.DISCARD),
        (State.AVAILABLE, Event.RESTART),
        (State.DELAYED, Event.RESTART),
    }
    assert len(EDGES) == 26
    assert named | together == set(EDGES)


# What is not in the table


def taken_by_a_channel(scene: Scene) -> ChannelBatch:
    batch = ChannelBatch(scene.qm.engine, scene.qm.engine.registry.queue("Q1"), "CH1")
    assert len(batch.take(10)) == 1
    return batch


def message_in(scene: Scene, state: State) -> tuple[Found, Hold | None]:
    """Put a message and bring it into a state; return it, and who holds it."""
    delay_ms = DELAY_MS if state is State.DELAYED else 0
    scene.put(scene.plain, delay_ms=delay_ms)
    found = scene.found(STAGING if delay_ms else "Q1")
    assert queue_state.state_of(found[0], found[1].k) is not State.LOCKED
    if state is not State.LOCKED:
        return found, None
    scene.unit.get("Q1")
    return found, scene.unit.unit_of_work


def happen(scene: Scene, found: Found, event: Event, requester: Hold | None) -> None:
    """Let an event happen to a message, as the engine does."""
    if event is Event.GET_UNDER_SYNCPOINT:
        queue_state.hold(found, Hold())
    elif event in (Event.BACKOUT, Event.BACKOUT_DELAYED) and requester is None:
        queue_state.give_back(found, scene.unit.unit_of_work)
    elif event is Event.WITHDRAW:
        queue_state.withdraw_put_and_got(found[0])
    else:
        now_ms = scene.qm.now_ms()
        queue_state.end(
            scene.qm.engine, Transaction(), found, event, now_ms, terminated_by=NOBODY, by=requester
        )


STORED = State.DELAYED, State.AVAILABLE, State.LOCKED
MISSING = [(s, e) for s in STORED for e in Event if e not in NEXT[s]]


@pytest.mark.parametrize(("state", "event"), MISSING, ids=lambda each: str(each))
def test_a_pair_that_the_table_lacks_stops_at_that_place(
    scene: Scene, state: State, event: Event
) -> None:
    found, requester = message_in(scene, state)
    queue = found[0]
    assert queue_state.state_of(queue, found[1].k) is state
    before = queue.depth, queue.locked, dict(scene.qm.engine.hidden)
    with scene.qm.engine.engine_lock, pytest.raises(TransitionError):
        happen(scene, found, event, requester)
    assert (queue.depth, queue.locked, scene.qm.engine.hidden) == before
    scene.unit.backout()


def test_a_put_is_withdrawn_and_got_by_its_own_unit_once(scene: Scene) -> None:
    queue = scene.qm.engine.registry.queue("Q1")
    with scene.qm.engine.engine_lock:
        for again in (
            queue_state.withdraw,
            queue_state.get_uncommitted,
            queue_state.withdraw_put_and_got,
        ):
            with pytest.raises(TransitionError):
                again(queue)
    assert (queue.depth, queue.uncommitted, queue.put_and_got) == (0, 0, 0)


@pytest.mark.parametrize("event", [e for e in Event if NEXT[State.AVAILABLE].get(e) in OUTCOMES])
def test_a_life_ends_once(scene: Scene, event: Event) -> None:
    scene.put(scene.plain)
    found, work = scene.found(), Transaction()
    with scene.qm.engine.engine_lock:
        now_ms = scene.qm.now_ms()
        queue_state.end(scene.qm.engine, work, found, Event.CLEAR, now_ms, terminated_by=NOBODY)
        with pytest.raises(TransitionError):
            queue_state.end(
                scene.qm.engine, Transaction(), found, event, now_ms, terminated_by=NOBODY
            )
    scene.qm.engine.committer.run(work)
    assert scene.qm.curdepth("Q1") == 0


def test_only_who_holds_a_message_goes_on_with_it(scene: Scene) -> None:
    scene.put(scene.plain)
    found, mine, other = scene.found(), Hold(), Hold()
    with scene.qm.engine.engine_lock:
        queue_state.hold(found, mine)
        for go_on in (queue_state.hold, queue_state.give_back, queue_state.lock_for_browse):
            with pytest.raises(TransitionError):
                go_on(found, other)
        for by in (None, other):
            with pytest.raises(TransitionError):
                queue_state.end(
                    scene.qm.engine, Transaction(), found, Event.GET, 0, terminated_by=NOBODY, by=by
                )
        queue_state.give_back(found, mine)
        with pytest.raises(TransitionError):
            queue_state.give_back(found, mine)
    assert (scene.qm.curdepth("Q1"), scene.qm.counts("Q1").locked) == (1, 0)


def test_a_message_that_is_handed_over_is_held_by_the_other_one(scene: Scene) -> None:
    scene.put(scene.plain)
    found, mine, other = scene.found(), Hold(), Hold()
    with scene.qm.engine.engine_lock:
        queue_state.hold(found, mine)
        queue_state.transfer_hold(found, mine, other)
        with pytest.raises(TransitionError):
            queue_state.give_back(found, mine)
        queue_state.give_back(found, other)
    assert (scene.qm.curdepth("Q1"), scene.qm.counts("Q1").locked) == (1, 0)


# What a failure leaves


def test_what_a_channel_could_not_end_stays_with_it(tmp_path: Path) -> None:
    """The partner has it: nobody else may see it, not even for a moment."""
    with failing_disk() as disk, QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        disk.error = apsw.FullError
        local(qm)
        scene = Scene(qm, VirtualClock())
        msg_id = scene.put(scene.plain, persistent=True)
        batch = taken_by_a_channel(scene)
        queue, key = batch.queue, batch._rows[0][1].k
        disk.failing = "write"
        with refused(rc.MQRC_STORAGE_MEDIUM_FULL):
            batch.end(scene.qm.engine.channel_states.state("C1"))
        disk.failing = ""
        assert qm.engine.hidden[key] is batch
        assert (queue.depth, queue.locked, scene.plain.get("Q1")) == (0, 1, None)
        batch.end(scene.qm.engine.channel_states.state("C1"))
        assert (queue.depth, queue.locked) == (0, 0)
        assert scene.state(msg_id) is State.TRANSMITTED
        found = qm.verify()
        assert found.ok, found.problems


def test_a_commit_that_fails_gives_back_what_it_had_locked(tmp_path: Path) -> None:
    with failing_disk() as disk, QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        disk.error = apsw.FullError
        local(qm)
        scene = Scene(qm, VirtualClock())
        msg_id = scene.put(scene.plain, persistent=True)
        scene.unit.get("Q1")
        disk.failing = "write"
        with refused(rc.MQRC_STORAGE_MEDIUM_FULL):
            scene.unit.commit()
        disk.failing = ""
        assert (qm.curdepth("Q1"), qm.counts("Q1").locked, qm.engine.hidden) == (1, 0, {})
        assert scene.state(msg_id) is State.AVAILABLE


def test_a_staging_queue_with_an_open_put_is_not_deleted(scene: Scene) -> None:
    """D12 keeps such a put out of the depth; the queue is in use all the same."""
    msg_id = scene.put(scene.unit, delay_ms=DELAY_MS)
    assert (scene.qm.curdepth(STAGING), scene.qm.counts(STAGING).uncommitted) == (0, 0)
    with refused(rc.MQRC_OBJECT_IN_USE):
        administration.delete(scene.qm.engine, QLOCAL, STAGING)
    scene.unit.commit()
    assert scene.state(msg_id, STAGING) is State.DELAYED


def test_a_get_in_logical_order_takes_off_the_schedule(scene: Scene) -> None:
    """D3: as every get from the staging queue does."""
    msg_id = scene.put(scene.plain, delay_ms=DELAY_MS)
    handle = scene.plain.open(STAGING, c.MQOO_INPUT_SHARED)
    assert take(handle, c.MQGMO_LOGICAL_ORDER).message.correl_id == msg_id
    handle.close()
    assert scene.state(msg_id, STAGING) is State.CANCELLED


class Committed:
    """A queue manager whose next commit stops between the disk and its effect."""

    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock()
        with gate() as self._gate:
            self.qm = QueueManager("QM1", folder, self.clock)
        self.queue = self.qm.engine.registry.queue(local(self.qm))

    @contextmanager
    def on_disk(self, work: Callable[[], object], count: int) -> Iterator[None]:
        """Have work done elsewhere; within, so many messages of Q1 are committed and no more."""
        store, queue = self.qm.engine.store, self.queue
        leader = Running(lambda: store.commit([statement("SELECT gate()")]))
        assert self._gate.reached.wait(JOIN_SECONDS)
        working = Running(work)
        while not store.group.waiting:
            threading.Event().wait(0.001)
        with self.qm.engine.engine_lock:
            self._gate.opened.set()
            while len(store.persistent.in_order(queue.low, queue.high, 9)) < count:
                threading.Event().wait(0.001)
            yield
        leader.finish()
        working.finish()

    def seen(self) -> list[bytes]:
        """Return the bodies of what can be got now."""
        found = in_order(self.qm.engine, self.queue, ANY, self.queue.low)
        return [row.body for row, _persistence in found]

    def end(self, *left: bytes) -> None:
        """Get what is left; nothing is hidden then, and the books are right."""
        with self.qm.session() as session:
            assert bodies(session, "Q1") == [*left]
        assert self.qm.engine.hidden == {}
        assert self.qm.verify().ok
        self.qm.close()


@pytest.mark.parametrize("is_released", [False, True])
def test_G1_messages_of_both_persistences_are_seen_in_one_moment(
    tmp_path: Path, is_released: bool
) -> None:
    """The disk has the persistent ones a moment before the others are on their queue."""
    scene = Committed(tmp_path)
    clock, delay_ms = scene.clock, DELAY_MS if is_released else 0
    with scene.qm.session() as session, scene.qm.session(transacted=True) as unit:
        session.put("Q1", b"before", persistent=True)
        for body_, persistent in ((b"1", False), (b"2", True), (b"3", False), (b"4", True)):
            unit.put("Q1", body_, persistent=persistent, delay_ms=delay_ms)
        if is_released:
            unit.commit()
            # The bookkeeping of that time is done.
            clock.advance(DELAY_MS - 1)
        with scene.on_disk(partial(clock.advance, 1) if is_released else unit.commit, 3):
            assert scene.seen() == [b"before"]
    scene.end(b"before", b"1", b"2", b"3", b"4")


def test_a_message_that_the_disk_has_is_seen_when_its_put_takes_effect(tmp_path: Path) -> None:
    """Got before it has arrived, it would arrive all the same, and be got twice."""
    scene = Committed(tmp_path)
    with scene.qm.session() as session, scene.qm.session() as putter:
        session.put("Q1", b"before", persistent=True)
        with scene.on_disk(lambda: putter.put("Q1", b"late", persistent=True), 2):
            assert scene.seen() == [b"before"]
    scene.end(b"before", b"late")


def test_a_released_message_that_is_got_at_once_stays_with_who_got_it(tmp_path: Path) -> None:
    """Its release makes a report too, and shows that one only when it takes effect."""
    scene = Committed(tmp_path)
    local(scene.qm, REPLIES)
    with scene.qm.session() as session, scene.qm.session(transacted=True) as unit:
        # So long that it is not kept in memory, and the rest of the queue is read.
        session.put("Q1", bytes(100_000), persistent=True)
        session.put("Q1", b"moved", persistent=True, delay_ms=DELAY_MS)
        session.put(
            "Q1",
            b"reported",
            persistent=True,
            delay_ms=DELAY_MS,
            report=c.MQRO_COA,
            reply_to_q=REPLIES,
        )
        scene.clock.advance(DELAY_MS - 1)
        with scene.on_disk(partial(scene.clock.advance, 1), 3):
            assert [one.body for one in unit.get_many("Q1", 2)] == [bytes(100_000), b"moved"]
        assert scene.qm.counts("Q1").locked == 2
        unit.commit()
        assert scene.qm.curdepth(REPLIES) == 1
    scene.end(b"reported")


def test_those_of_a_unit_that_failed_are_hidden_from_nobody(tmp_path: Path) -> None:
    with failing_disk() as disk, QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        disk.error = apsw.FullError
        local(qm)
        with qm.session(transacted=True) as unit:
            unit.put("Q1", b"1", persistent=False)
            unit.put("Q1", b"2", persistent=True)
            disk.failing = "write"
            with refused(rc.MQRC_STORAGE_MEDIUM_FULL):
                unit.commit()
            disk.failing = ""
        assert (qm.curdepth("Q1"), qm.engine.hidden) == (0, {})
