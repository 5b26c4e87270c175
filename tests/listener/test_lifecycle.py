"""Start, stop, failure and recovery of ports, in both modes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from mayfly import QueueManager, jms
from mayfly.client.connection.waits import Wait
from mayfly.jms.protocols import OwningConnection
from mayfly.listener import ListenerPort, current_transaction
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.listener.scene import (
    PATIENCE_SECONDS,
    RECEIVE_TIMEOUT_MS,
    Calls,
    Endpoint,
    backout_count,
    ends_ms,
    fail,
    ignore,
    port_of,
    put,
    receiving,
    started,
    until,
)

both_modes = pytest.mark.parametrize("timeout_ms", [RECEIVE_TIMEOUT_MS, 0])


def listener_threads() -> list[str]:
    """Return the threads of ports that are left."""
    return [one.name for one in threading.enumerate() if one.name == "mayfly-listener"]


@both_modes
def test_a_port_starts_and_stops_and_starts_again(manager: QueueManager, timeout_ms: int) -> None:
    calls = Calls()
    port = port_of(manager, calls, receive_timeout_ms=timeout_ms, max_sessions=2)
    assert not port.is_running
    port.stop()
    for count in (1, 2):
        port.start()
        port.start()
        assert [port.is_running] == [True]
        put(manager, str(count))
        assert calls.text() == str(count)
        until(port, lambda now: now.committed == count)  # noqa: B023 - called at once
        port.stop()
        port.stop()
        assert not port.is_running
        now = port.statistics()
        assert (now.threads, now.connections, now.receiving) == (0, 0, 0)
        assert (now.idle_rollbacks, manager.counts("Q1").locked) == (0, 0)
    assert listener_threads() == []
    put(manager, "3")
    assert (manager.curdepth("Q1"), calls.is_empty) == (1, True)


@both_modes
def test_a_port_that_says_it_stops_takes_no_message_any_more(
    manager: QueueManager, timeout_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sees ``is_running`` change puts at once: no get of the port is under way by then."""
    port = port_of(manager, Calls(), receive_timeout_ms=timeout_ms)
    port.start()
    late: list[str] = []

    def before(step: Callable[[Wait], None], wait: Wait) -> None:
        if not port.is_running:
            late.append("not any more")
            put(manager, late[-1])
        step(wait)

    end, join = Wait.end, Wait.join
    monkeypatch.setattr(Wait, "end", lambda wait: before(end, wait))
    monkeypatch.setattr(Wait, "join", lambda wait: before(join, wait))
    port.stop()
    put(manager, "not any more")
    assert (port.statistics().committed, manager.curdepth("Q1")) == (0, len(late) + 1)


@both_modes
def test_what_comes_before_a_port_has_ended_its_gets_is_worked_on(
    manager: QueueManager, timeout_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The get cannot be cancelled any more: its message is in work, and stop waits for that."""
    port = port_of(manager, Calls(), receive_timeout_ms=timeout_ms)
    port.start()
    end, putters = Wait.end, list[str]()

    def put_before(wait: Wait) -> None:
        if not putters:
            putters.append("just in time")
            put(manager, *putters)
        end(wait)

    monkeypatch.setattr(Wait, "end", put_before)
    port.stop()
    now = port.statistics()
    assert (now.delivered, now.committed, now.rolled_back, manager.curdepth("Q1")) == (1, 1, 0, 0)


@both_modes
def test_stop_waits_for_the_message_in_work(manager: QueueManager, timeout_ms: int) -> None:
    calls = Calls(is_held=True)
    port = port_of(manager, calls, receive_timeout_ms=timeout_ms, max_sessions=2)
    port.start()
    put(manager, "x")
    calls.next()
    stopper = threading.Thread(target=port.stop)
    stopper.start()
    until(port, lambda _: not port.is_running)
    assert stopper.is_alive()
    put(manager, "not any more")
    calls.let_go()
    stopper.join(PATIENCE_SECONDS)
    assert not stopper.is_alive()
    assert (port.statistics().committed, manager.curdepth("Q1")) == (1, 1)


@both_modes
def test_stop_inside_of_on_message_ends_the_port_when_that_returns(
    manager: QueueManager, timeout_ms: int
) -> None:
    port: ListenerPort

    def stop(_message: jms.Message) -> None:
        port.stop()
        assert not port.is_running
        with pytest.raises(jms.IllegalStateException, match="inside of on_message"):
            port.start()

    port = port_of(manager, stop, receive_timeout_ms=timeout_ms, max_sessions=2)
    put(manager, "1", "2", "3")
    port.start()
    until(port, lambda now: now.committed > 0 and not now.threads)
    port.stop()
    taken = port.statistics().committed
    assert (manager.curdepth("Q1"), port.statistics().rolled_back) == (3 - taken, 0)
    assert taken <= 2
    assert listener_threads() == []


@both_modes
def test_closing_the_queue_manager_ends_the_port(
    tmp_path: Path, clock: VirtualClock, timeout_ms: int
) -> None:
    calls = Calls(is_held=True)
    with QueueManager("QM2", tmp_path, clock) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        port = port_of(manager, calls, receive_timeout_ms=timeout_ms, max_sessions=50)
        port.start()
        put(manager, "x", persistent=True)
        calls.next()
    calls.let_go()
    port.stop()
    assert not port.is_running
    assert (port.statistics().threads, port.statistics().committed) == (0, 0)
    assert listener_threads() == []
    clock.advance(1_000_000)
    with QueueManager("QM2", tmp_path, clock) as manager:
        assert (manager.curdepth("Q1"), manager.verify().ok) == (1, True)
    with pytest.raises(jms.JMSException) as caught:
        port.start()
    assert caught.value.reason == rc.MQRC_CONNECTION_BROKEN


@both_modes
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_whatever_on_message_raises_its_thread_goes_on(
    manager: QueueManager, timeout_ms: int, kind: type[BaseException]
) -> None:
    def end_the_world(_message: jms.Message) -> None:
        raise kind

    port = port_of(manager, end_the_world, receive_timeout_ms=timeout_ms, destination="POISONED")
    with started(port):
        put(manager, "x", name="POISONED")
        now = until(port, lambda now: now.requeued == 1)
        assert (now.delivered, now.rolled_back, now.threads) == (2, 2, 1)
        assert (manager.curdepth("BACKOUTS"), port.is_running) == (1, True)


def test_statistics_are_a_value_that_stays_as_it_is(manager: QueueManager) -> None:
    with started(port_of(manager)) as port:
        before = port.statistics()
        with pytest.raises(FrozenInstanceError):
            before.delivered = 1  # type: ignore[misc]  # nobody may
        put(manager, "x")
        until(port, lambda now: now.committed == 1)
        assert (before.delivered, before.committed) == (0, 0)


@both_modes
def test_a_start_that_fails_leaves_nothing_open(manager: QueueManager, timeout_ms: int) -> None:
    port = port_of(manager, destination="NOWHERE", receive_timeout_ms=timeout_ms, max_sessions=3)
    with pytest.raises(jms.InvalidDestinationException) as caught:
        port.start()
    assert caught.value.reason == rc.MQRC_UNKNOWN_OBJECT_NAME
    assert not port.is_running
    assert port.statistics().connections == port.statistics().threads == 0
    assert listener_threads() == []
    assert manager.mqsc("DEFINE QLOCAL(NOWHERE)").ok
    with started(port):
        assert port.is_running


def test_a_wrong_selector_is_refused_at_the_start(manager: QueueManager) -> None:
    with pytest.raises(jms.InvalidSelectorException) as caught:
        port_of(manager, selector="colour =").start()
    assert caught.value.reason == rc.MQRC_SELECTOR_SYNTAX_ERROR


@both_modes
def test_max_recovery_retries_then_the_port_is_stopped(
    manager: QueueManager, clock: VirtualClock, timeout_ms: int
) -> None:
    with started(port_of(manager, receive_timeout_ms=timeout_ms)) as port:
        assert manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)").ok
        for count in range(1, 6):
            pausing(port, manager)
            clock.advance(59_999)
            assert (port.statistics().listener_retries, port.is_running) == (count - 1, True)
            clock.advance(1)
            until(port, lambda now: now.listener_retries == count)  # noqa: B023 - called at once
        until(port, lambda now: not (now.threads or port.is_running))
        assert port.statistics().listener_retries == 5
    assert listener_threads() == []


def pausing(port: Endpoint, manager: QueueManager, session_count: int = 1) -> None:
    """Return when so many sessions of a port wait for their next try."""
    due_ms = manager.now_ms() + 60_000

    def are_waiting(_: object) -> bool:
        return ends_ms(manager).count(due_ms) >= session_count

    until(port, are_waiting)


@both_modes
def test_a_port_recovers_when_what_failed_works_again(
    manager: QueueManager, clock: VirtualClock, timeout_ms: int
) -> None:
    calls = Calls()
    properties: dict[str, str | int] = {"RECOVERY.RETRY.INTERVAL": 60, "MAX.RECOVERY.RETRIES": 1}
    port = port_of(manager, calls, receive_timeout_ms=timeout_ms, properties=properties)
    with started(port):
        for count in (1, 2):
            assert manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)").ok
            pausing(port, manager)
            assert manager.mqsc("ALTER QLOCAL(Q1) GET(ENABLED)").ok
            put(manager, str(count))
            assert calls.is_empty
            clock.advance(60_000)
            assert calls.text() == str(count)
            # What has worked begins the count anew; it has when the next message is there.
            put(manager, "next")
            assert calls.text() == "next"
            until(port, lambda now: now.committed == 2 * count)  # noqa: B023 - called at once
            if timeout_ms:
                receiving(port)
        assert port.statistics().listener_retries == 2


def test_a_session_that_pauses_is_not_receiving(manager: QueueManager, clock: VirtualClock) -> None:
    with started(port_of(manager, max_sessions=2)) as port:
        assert receiving(port, 2).connections == 1
        assert manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)").ok
        now = until(port, lambda now: not now.connections)
        assert (now.threads, now.receiving) == (2, 0)
        pausing(port, manager, 2)
        assert port.statistics().receiving == 0
        assert manager.mqsc("ALTER QLOCAL(Q1) GET(ENABLED)").ok
        clock.advance(60_000)
        assert receiving(port, 2).connections == 1


@both_modes
def test_a_connection_that_was_closed_is_opened_anew(
    manager: QueueManager, clock: VirtualClock, timeout_ms: int
) -> None:
    connections: list[OwningConnection] = []

    def note(_message: jms.Message) -> None:
        session = current_transaction().session
        assert isinstance(session, jms.Session)
        connections.append(session.connection)

    calls = Calls(note)
    with started(port_of(manager, calls, receive_timeout_ms=timeout_ms, max_sessions=3)) as port:
        put(manager, "1")
        assert calls.text() == "1"
        until(port, lambda now: now.committed == 1)
        connections[0].close()
        # It is met with the next message.
        put(manager, "2")
        pausing(port, manager)
        until(port, lambda now: not now.connections)
        assert manager.curdepth("Q1") == 1
        clock.advance(60_000)
        assert calls.text() == "2"
        now = until(port, lambda now: now.committed == 2)
        assert (now.connections, manager.curdepth("Q1")) == (1, 0)
        assert connections[1] is not connections[0]


@both_modes
def test_stop_ends_a_recovery(manager: QueueManager, timeout_ms: int) -> None:
    port = port_of(manager, receive_timeout_ms=timeout_ms)
    port.start()
    assert manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)").ok
    pausing(port, manager)
    port.stop()
    assert (port.statistics().listener_retries, listener_threads()) == (0, [])


@both_modes
def test_no_retries_stops_at_the_first_failure(manager: QueueManager, timeout_ms: int) -> None:
    properties: dict[str, str | int] = {"MAX.RECOVERY.RETRIES": "0"}
    port = port_of(manager, receive_timeout_ms=timeout_ms, properties=properties)
    with started(port):
        assert manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)").ok
        until(port, lambda now: not now.threads and not port.is_running)
        assert port.statistics().listener_retries == 0


@both_modes
@pytest.mark.parametrize("max_retries", [0, 2])
def test_max_retries_stops_the_port_when_one_message_fails_too_often(
    manager: QueueManager, timeout_ms: int, max_retries: int
) -> None:
    port = port_of(manager, fail, receive_timeout_ms=timeout_ms, max_retries=max_retries)
    put(manager, "x")
    port.start()
    until(port, lambda now: not now.threads and not port.is_running)
    port.stop()
    assert (port.statistics().delivered, backout_count(manager)) == (max_retries + 1,) * 2
    assert manager.curdepth("Q1") == 1


@pytest.mark.slow
def test_it_works_in_real_time() -> None:
    calls = Calls()
    with QueueManager("QM2") as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        with started(port_of(manager, calls, receive_timeout_ms=20)) as port:
            until_idle = threading.Event()
            while port.statistics().idle_rollbacks < 3:
                assert not until_idle.wait(0.01)
            put(manager, "x", delay_ms=30)
            assert calls.text() == "x"
        with started(port_of(manager, ignore, receive_timeout_ms=0)) as port:
            put(manager, "y")
            until(port, lambda now: now.committed == 1)
        assert manager.verify().ok


@pytest.mark.slow
def test_a_transaction_times_out_in_real_time_while_on_message_runs() -> None:
    calls = Calls(is_held=True)
    with QueueManager("QM2") as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        port = port_of(
            manager, calls, receive_timeout_ms=500, total_tran_lifetime_timeout_s=1, max_retries=0
        )
        put(manager, "x")
        with started(port):
            pause = threading.Event()
            while not port.statistics().timed_out:
                assert not pause.wait(0.01)
            assert port.statistics().rolled_back == 0
            calls.let_go()
            assert until(port, lambda now: now.rolled_back == 1).committed == 0


@both_modes
@pytest.mark.parametrize("is_inside", [True, False])
def test_a_session_that_was_closed_is_opened_anew(
    manager: QueueManager, clock: VirtualClock, timeout_ms: int, *, is_inside: bool
) -> None:
    sessions: list[jms.Session] = []

    def close(_message: jms.Message) -> None:
        session = current_transaction().session
        assert isinstance(session, jms.Session)
        sessions.append(session)
        if is_inside and len(sessions) == 1:
            session.close()

    calls = Calls(close)
    with started(port_of(manager, calls, receive_timeout_ms=timeout_ms)) as port:
        put(manager, "1")
        assert calls.text() == "1"
        if not is_inside:
            receiving(port)
            sessions[0].close()
            put(manager, "1")
        pausing(port, manager)
        assert (manager.curdepth("Q1"), manager.counts("Q1").locked) == (1, 0)
        clock.advance(60_000)
        assert calls.text() == "1"
        assert until(port, lambda now: now.committed == 2 - is_inside).listener_retries == 1
        assert sessions[0] is not sessions[1]
        receiving(port)
        assert (port.statistics().threads, port.statistics().connections) == (1, 1)


@both_modes
def test_a_commit_that_the_queue_manager_refuses_is_not_tried_again_at_once(
    manager: QueueManager, clock: VirtualClock, timeout_ms: int
) -> None:
    assert manager.mqsc("ALTER QLOCAL(POISONED) BOQNAME(NOWHERE)").ok
    put(manager, "poison", name="POISONED")
    with manager.session(transacted=True) as session:
        for _ in range(2):
            session.get("POISONED")
            session.backout()

    def receive_poison(_message: jms.Message) -> None:
        session = current_transaction().session
        assert isinstance(session, jms.Session)
        consumer = session.create_consumer(session.create_queue("POISONED"))
        try:
            consumer.receive_no_wait()
        finally:
            consumer.close()

    def swallow(message: jms.Message) -> None:
        with pytest.raises(jms.JMSException):
            receive_poison(message)

    put(manager, "x")
    with started(port_of(manager, swallow, receive_timeout_ms=timeout_ms)) as port:
        for count in (1, 2):
            pausing(port, manager)
            now = port.statistics()
            assert (now.delivered, now.rolled_back, now.committed) == (count, count, 0)
            clock.advance(60_000)
    assert manager.curdepth("Q1") == 1
