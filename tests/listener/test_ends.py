"""Who ends a transaction: the port alone, once; each delivery is counted as one of two ends."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from mayfly import QueueManager, jms
from mayfly.listener import ListenerPort, Status, Transaction, current_transaction
from mayfly.testing import VirtualClock
from tests.listener.scene import (
    LIFETIME_MS,
    PATIENCE_SECONDS,
    RECEIVE_TIMEOUT_MS,
    Calls,
    backout_count,
    next_end_ms,
    port_of,
    put,
    started,
    until,
)

both_modes = pytest.mark.parametrize("timeout_ms", [RECEIVE_TIMEOUT_MS, 0])


def session_here() -> jms.Session:
    """Return the session of the message."""
    session = current_transaction().session
    assert isinstance(session, jms.Session)
    return session


#: The ways in which an on_message could end the transaction of its port.
ENDS: list[Callable[[], None]] = [
    lambda: current_transaction().commit(),
    lambda: current_transaction().rollback(),
    lambda: session_here().commit(),
    lambda: session_here().rollback(),
]


@both_modes
@pytest.mark.parametrize("end", ENDS)
def test_L7_on_message_cannot_end_the_transaction_of_its_port(
    manager: QueueManager, timeout_ms: int, end: Callable[[], None]
) -> None:
    """Refused, it changes nothing: the message is committed when on_message returns."""

    def try_it(_message: jms.Message) -> None:
        with pytest.raises(jms.IllegalStateException, match="inside of on_message"):
            end()
        assert current_transaction().status is Status.ACTIVE

    with started(port_of(manager, try_it, receive_timeout_ms=timeout_ms)) as port:
        put(manager, "1", "2")
        now = until(port, lambda now: now.committed == 2)
        assert (now.delivered, now.rolled_back, now.listener_retries) == (2, 0, 0)
        assert manager.curdepth("Q1") == 0


@both_modes
def test_L11_a_commit_inside_of_on_message_does_not_escape_the_lifetime(
    manager: QueueManager, clock: VirtualClock, timeout_ms: int
) -> None:
    def commit_then_hang(_message: jms.Message) -> None:
        with pytest.raises(jms.IllegalStateException):
            session_here().commit()
        clock.advance(LIFETIME_MS)

    port = port_of(manager, commit_then_hang, receive_timeout_ms=timeout_ms, max_retries=0)
    with started(port):
        put(manager, "x")
        now = until(port, lambda now: now.rolled_back == 1)
        assert (now.committed, now.timed_out) == (0, 1)
    assert (manager.curdepth("Q1"), backout_count(manager)) == (1, 1)


@both_modes
def test_a_rollback_inside_of_on_message_does_not_escape_max_retries(
    manager: QueueManager, timeout_ms: int
) -> None:
    def roll_back(_message: jms.Message) -> None:
        session_here().rollback()

    port = port_of(manager, roll_back, receive_timeout_ms=timeout_ms, max_retries=2)
    with started(port):
        put(manager, "x")
        until(port, lambda now: not (now.threads or port.is_running))
        now = port.statistics()
    assert (now.delivered, now.rolled_back, now.committed) == (3, 3, 0)
    assert (manager.curdepth("Q1"), backout_count(manager)) == (1, 3)


@both_modes
@pytest.mark.parametrize("is_raised", [True, False])
def test_what_a_closed_session_gave_back_is_counted_as_rolled_back(
    manager: QueueManager, timeout_ms: int, *, is_raised: bool
) -> None:
    def close(_message: jms.Message) -> None:
        session_here().close()
        if is_raised:
            raise ValueError("bug")

    with started(port_of(manager, close, receive_timeout_ms=timeout_ms)) as port:
        put(manager, "x")
        now = until(port, lambda now: not now.connections)
        assert (now.delivered, now.committed, now.rolled_back) == (1, 0, 1)
        assert (manager.curdepth("Q1"), manager.counts("Q1").locked) == (1, 0)


def test_outside_of_on_message_a_transaction_has_ended(manager: QueueManager) -> None:
    """Who keeps it learns how it ended, and can do nothing with it any more."""
    kept: list[Transaction] = []

    def keep(_message: jms.Message) -> None:
        kept.append(current_transaction())

    with started(port_of(manager, keep)) as port:
        put(manager, "x")
        until(port, lambda now: now.committed == 1)
        assert kept[0].status is Status.COMMITTED
        with pytest.raises(jms.IllegalStateException, match="that is committed"):
            kept[0].rollback()


@both_modes
def test_start_inside_of_on_message_does_not_wait_for_who_starts_elsewhere(
    manager: QueueManager, timeout_ms: int
) -> None:
    port: ListenerPort
    refused: list[str] = []

    def stop_and_start(_message: jms.Message) -> None:
        if refused:
            return
        port.stop()
        starter.start()
        # The other waits for this on_message to return.
        while not port._lock.locked():
            assert starter.is_alive()
        with pytest.raises(jms.IllegalStateException, match="inside of on_message") as caught:
            port.start()
        refused.append(str(caught.value))

    calls = Calls(stop_and_start)
    port = port_of(manager, calls, receive_timeout_ms=timeout_ms)
    starter = threading.Thread(target=port.start, daemon=True)
    port.start()
    put(manager, "1")
    calls.next()
    until(port, lambda now: now.committed == 1)
    starter.join(PATIENCE_SECONDS)
    assert (len(refused), port.is_running) == (1, True)
    put(manager, "2")
    until(port, lambda now: now.committed == 2)
    port.stop()


def test_ASF_what_fails_while_all_pause_is_no_further_failure(
    manager: QueueManager, clock: VirtualClock
) -> None:
    """Two sessions fail in one outage: one pause, one retry, and MAX.RECOVERY.RETRIES 1 holds."""
    calls = Calls(lambda _message: session_here().close(), is_held=True)
    properties: dict[str, str | int] = {"MAX.RECOVERY.RETRIES": 1}
    port = port_of(
        manager, calls, receive_timeout_ms=0, max_sessions=2, properties=properties, max_retries=0
    )
    with started(port):
        put(manager, "1", "2")
        calls.next()
        calls.next()
        calls.let_go()
        until(port, lambda now: not now.threads and now.rolled_back == 2)
        # Their connection is closed a moment later; the one below is that of the retry.
        until(port, lambda now: not now.connections)
        until(port, lambda _: next_end_ms(manager) == clock.now_ms() + 60_000)
        assert manager.mqsc("CLEAR QLOCAL(Q1)").ok
        clock.advance(60_000)
        now = until(port, lambda now: now.connections == 1 or not port.is_running)
        assert (now.listener_retries, port.is_running) == (1, True)
        assert next_end_ms(manager) is None
