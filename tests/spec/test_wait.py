"""Gets that wait, rule G4: who is served, when a wait ends, and what wakes it."""

import pytest

from mayfly import QueueManager
from mayfly.engine import GetRequest, Session
from mayfly.lifetime.times import Driven
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message
from tests.over import NewSession
from tests.spec.scene import (
    INPUT,
    START_MS,
    End,
    alias,
    bodies,
    ends,
    lives,
    local,
    refused,
    take,
    waiting,
)

WAIT = c.MQGMO_WAIT


def test_G4_no_wait_is_the_default_and_below_minus_one_is_refused(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    handle = session.open("Q1", INPUT)
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        handle.get(GetRequest(wait_ms=5_000))
    with refused(rc.MQRC_WAIT_INTERVAL_ERROR):
        take(handle, WAIT, wait_ms=-2)


@pytest.mark.parametrize(("put_at_ms", "comes"), [(999, True), (1_001, False)])
def test_G4_wait_ends_at_its_moment(
    any_manager: QueueManager,
    clock: VirtualClock,
    put_at_ms: int,
    comes: bool,
    new_session: NewSession,
) -> None:
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager) as getter:
        call = waiting(any_manager, "Q1", lambda: getter.get("Q1", wait_ms=1_000))
        clock.advance(put_at_ms)
        session.put("Q1", b"x")
        message = call.finish()
        assert (message is not None) == comes
        assert any_manager.curdepth("Q1") == int(not comes)
        bodies(session, "Q1")


@pytest.mark.parametrize(("delay_ms", "comes"), [(999, True), (1_000, True), (1_001, False)])
def test_G4_message_due_at_the_very_end_of_the_wait_wins(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    delay_ms: int,
    comes: bool,
    new_session: NewSession,
) -> None:
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager) as getter:
        session.put("Q1", b"x", delay_ms=delay_ms, persistent=persistent)
        call = waiting(any_manager, "Q1", lambda: getter.get("Q1", wait_ms=1_000))
        clock.advance(60_000)
        message = call.finish()
        assert (message is not None) == comes
        if isinstance(message, Message):
            assert lives(any_manager, "Q1")[0].ended_ms <= START_MS + 60_000
            assert message.deliver_at_ms == START_MS + delay_ms
        bodies(session, "Q1")


def test_G4_E4_expired_message_never_satisfies_a_wait(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """Committed after its deadline it is discarded by the waiting get, which goes on waiting."""
    local(any_manager)
    with new_session(any_manager, transacted=True) as unit, new_session(any_manager) as getter:
        call = waiting(any_manager, "Q1", lambda: getter.get("Q1", wait_ms=5_000))
        unit.put("Q1", b"dead", time_to_live_ms=1_000, persistent=persistent)
        clock.advance(1_000)
        unit.commit()
        assert call.is_under_way
        assert ends(any_manager, "Q1") == [End("expired", 1_000)]
        unit.put("Q1", b"live", persistent=persistent)
        unit.commit()
        message = call.finish()
    assert isinstance(message, Message)
    assert message.body == b"live"


def test_G4_unlimited_wait(
    queue_manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    local(queue_manager)
    clock = queue_manager.clock
    assert isinstance(clock, VirtualClock)
    with new_session(queue_manager) as getter:
        call = waiting(queue_manager, "Q1", lambda: getter.get("Q1", wait_ms=-1))
        clock.advance(1_000 * 86_400_000)
        assert call.is_under_way
        session.put("Q1", b"x")
        message = call.finish()
    assert isinstance(message, Message)
    assert message.body == b"x"


def test_G4_wait_takes_only_what_matches(
    queue_manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    local(queue_manager)
    with new_session(queue_manager) as getter:
        call = waiting(queue_manager, "Q1", lambda: getter.get("Q1", wait_ms=-1, correl_id=b"C"))
        session.put("Q1", b"other")
        assert call.is_under_way
        session.put("Q1", b"mine", correl_id=b"C")
        message = call.finish()
    assert isinstance(message, Message)
    assert message.body == b"mine"
    assert bodies(session, "Q1") == [b"other"]


@pytest.mark.parametrize("on_alias", [False, True])
def test_G4_get_inhibited_wakes_a_waiting_get(
    queue_manager: QueueManager, session: Session, on_alias: bool, new_session: NewSession
) -> None:
    local(queue_manager)
    name = alias(queue_manager, "A1", "Q1") if on_alias else "Q1"
    with new_session(queue_manager) as getter:
        call = waiting(queue_manager, "Q1", lambda: getter.get(name, wait_ms=-1))
        kind = "QALIAS" if on_alias else "QLOCAL"
        queue_manager.mqsc(f"ALTER {kind}({name}) GET(DISABLED)")
        call.finish()
        assert call.error is not None
        assert call.error.reason == rc.MQRC_GET_INHIBITED


def test_G4_closing_the_manager_ends_a_wait(clock: VirtualClock, new_session: NewSession) -> None:
    qm = QueueManager("QM1", clock=clock)
    local(qm)
    session = new_session(qm)
    call = waiting(qm, "Q1", lambda: session.get("Q1", wait_ms=-1))
    qm.close()
    call.finish()
    assert call.error is not None
    assert call.error.reason == rc.MQRC_Q_MGR_STOPPING


def test_G4_wait_for_a_message_that_a_backout_gives_back(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager, transacted=True) as unit, new_session(any_manager) as getter:
        unit.put("Q1", b"x", persistent=persistent)
        unit.commit()
        assert unit.get("Q1") is not None
        call = waiting(any_manager, "Q1", lambda: getter.get("Q1", wait_ms=-1))
        unit.backout()
        message = call.finish()
    assert isinstance(message, Message)
    assert message.backout_count == 1


class CountingClock(VirtualClock):
    """A virtual clock that counts how often it was woken."""

    def __init__(self) -> None:
        super().__init__()
        self.wake_count = 0

    def wake(self, driven: Driven) -> None:
        self.wake_count += 1
        super().wake(driven)


def test_G4_endless_wait_does_not_swallow_a_wake_that_another_thread_owes(
    new_session: NewSession,
) -> None:
    """Whoever leaves the lock next wakes the clock, with or without an end of its own wait."""
    clock = CountingClock()
    with QueueManager("QM1", clock=clock) as qm, new_session(qm) as session:
        local(qm)
        before = clock.wake_count
        with qm.engine.engine_lock:
            qm.engine.must_wake = True
        with new_session(qm) as getter:
            call = waiting(qm, "Q1", lambda: getter.get("Q1", wait_ms=-1))
            session.put("Q1", b"x")
            call.finish()
        assert clock.wake_count > before
