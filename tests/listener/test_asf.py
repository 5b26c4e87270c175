"""ASF mode: one dispatcher finds messages, sessions have threads while they are needed."""

from __future__ import annotations

import logging
import threading
from types import FrameType

import pytest

from mayfly import QueueManager, jms
from mayfly.engine.finding.next_live import REFUSALS
from mayfly.listener import current_transaction
from mayfly.services.listener.runs import _Worker
from mayfly.testing import VirtualClock
from tests.listener.scene import (
    LIFETIME_MS,
    PATIENCE_SECONDS,
    Calls,
    fail,
    port_of,
    put,
    started,
    until,
)

ASF: dict[str, str | int] = {"NON.ASF.RECEIVE.TIMEOUT": "0"}
POOL: dict[str, str | int] = {
    "SERVER.SESSION.POOL.REAP.TIME": 10,
    "SERVER.SESSION.POOL.UNUSED.TIMEOUT": 25,
}


def test_ASF_threads_come_when_messages_are_found_up_to_the_maximum(manager: QueueManager) -> None:
    calls = Calls(is_held=True)
    with started(port_of(manager, calls, properties=ASF, max_sessions=2)) as port:
        assert (port.statistics().threads, port.statistics().connections) == (0, 1)
        for count, locked in ((1, 1), (2, 2), (3, 2)):
            put(manager, str(count))
            until(port, lambda now: now.delivered == locked)  # noqa: B023 - called at once
            assert port.statistics().threads == manager.counts("Q1").locked == locked
        calls.let_go()
        assert until(port, lambda now: now.committed == 3).threads == 2


def test_ASF_of_two_free_sessions_the_one_with_a_thread_has_the_message(
    manager: QueueManager,
) -> None:
    """The first that is free has no thread: it was opened while the other was at work."""
    calls = Calls(is_held=True)
    port = port_of(manager, calls, properties=ASF, max_sessions=2, conversations_per_connection=1)
    with started(port):
        put(manager, "1")
        until(port, lambda now: now.delivered == 1 and now.connections == 2)
        calls.let_go()
        until(port, lambda now: now.committed == 1 and now.receiving == 1)
        for count in range(2, 12):
            put(manager, str(count))
            now = until(port, lambda now: now.committed == count)  # noqa: B023 - called at once
            assert (now.threads, now.connections) == (1, 2)
            until(port, lambda now: now.receiving == 1)


def test_ASF_the_transaction_begins_behind_the_hand_over(
    manager: QueueManager, clock: VirtualClock
) -> None:
    calls = Calls(lambda _message: clock.advance(LIFETIME_MS - 1))
    with started(port_of(manager, calls, properties=ASF)) as port:
        for count in (1, 2):
            clock.advance(10 * LIFETIME_MS)
            put(manager, "x")
            now = until(port, lambda now: now.committed == count)  # noqa: B023 - called at once
            assert (now.timed_out, now.idle_rollbacks) == (0, 0)


def test_ASF_what_takes_the_whole_lifetime_is_rolled_back(
    manager: QueueManager, clock: VirtualClock
) -> None:
    calls = Calls(lambda _message: clock.advance(LIFETIME_MS))
    put(manager, "x")
    with started(port_of(manager, calls, properties=ASF, max_retries=0)) as port:
        now = until(port, lambda now: now.rolled_back == 1)
        assert (now.timed_out, now.committed, manager.curdepth("Q1")) == (1, 0, 1)


def test_ASF_poison_goes_to_the_backout_queue(manager: QueueManager) -> None:
    with started(port_of(manager, fail, properties=ASF, destination="POISONED")) as port:
        put(manager, "x", name="POISONED")
        now = until(port, lambda now: now.requeued == 1)
        assert (now.delivered, now.rolled_back) == (2, 2)
        assert (manager.curdepth("POISONED"), manager.curdepth("BACKOUTS")) == (0, 1)


def test_ASF_what_the_selector_refuses_stays(manager: QueueManager) -> None:
    calls = Calls()
    texts = [str(number) for number in range(REFUSALS + 10)]
    put(manager, *texts, properties={"colour": "blue"})
    port = port_of(manager, calls, properties=ASF, selector="colour = 'red'", max_sessions=3)
    with started(port):
        for text in ("1", "2", "3"):
            put(manager, text, properties={"colour": "red"})
            assert calls.text() == text
        until(port, lambda now: now.committed == 3)
    assert manager.counts("Q1").live == len(texts)


def test_ASF_unused_sessions_lose_their_threads_at_the_next_look(
    manager: QueueManager, clock: VirtualClock
) -> None:
    calls = Calls(is_held=True)
    port = port_of(
        manager,
        calls,
        properties=ASF | POOL,
        max_sessions=3,
        conversations_per_connection=1,
    )
    with started(port):
        put(manager, "1", "2")
        calls.next()
        calls.next()
        until(port, lambda now: now.connections == 3)
        clock.advance(4_000)
        calls.let_go()
        until(port, lambda now: now.receiving == 2)
        # Unused for 25 s at 29 s; the looks are at 10, 20 and 30 s.
        clock.advance(25_999)
        assert (port.statistics().threads, port.statistics().connections) == (2, 3)
        clock.advance(1)
        # One session stays for the next message.
        until(port, lambda now: (now.threads, now.connections) == (0, 1))
        put(manager, "3")
        assert until(port, lambda now: now.committed == 3).threads == 1


def test_ASF_a_session_that_was_closed_behind_its_work_is_replaced_at_once(
    manager: QueueManager,
) -> None:
    sessions: list[jms.Session] = []

    def refuse_the_first(_message: jms.Message) -> None:
        session = current_transaction().session
        assert isinstance(session, jms.Session)
        sessions.append(session)
        if len(sessions) == 1:
            current_transaction().set_rollback_only()

    class Closer(logging.Handler):
        """Closes the session between the end of its transaction and its next message."""

        def emit(self, record: logging.LogRecord) -> None:
            if "the commit was refused" in record.getMessage():
                sessions[0].connection.close()

    log, closer = logging.getLogger("mayfly.listener"), Closer()
    log.addHandler(closer)
    try:
        with started(port_of(manager, refuse_the_first, properties=ASF)) as port:
            put(manager, "x")
            now = until(port, lambda now: now.committed == 1)
    finally:
        log.removeHandler(closer)
    assert (now.delivered, now.rolled_back, now.listener_retries) == (2, 1, 0)
    assert sessions[1] is not sessions[0]


def test_ASF_without_the_properties_sessions_keep_their_threads(
    manager: QueueManager, clock: VirtualClock
) -> None:
    calls = Calls()
    with started(port_of(manager, calls, properties=ASF, max_sessions=2)) as port:
        put(manager, "1")
        until(port, lambda now: now.committed == 1)
        clock.advance(86_400_000)
        assert port.statistics().threads == 1


def test_ASF_a_thread_that_ends_late_does_not_close_the_session_of_its_successor(
    manager: QueueManager, clock: VirtualClock
) -> None:
    ending, may_end = threading.Event(), threading.Event()

    def hold_the_first_end(frame: FrameType, event: str, _argument: object) -> None:
        is_end = event == "call" and frame.f_code is _Worker._end.__code__
        if is_end and not ending.is_set():
            ending.set()
            assert may_end.wait(PATIENCE_SECONDS)

    calls = Calls()
    port = port_of(manager, calls, properties=ASF | POOL)
    threading.setprofile(hold_the_first_end)
    try:
        port.start()
        put(manager, "1")
        calls.next()
        until(port, lambda now: now.receiving == 1)
        clock.advance(30_000)
        assert ending.wait(PATIENCE_SECONDS)
        calls.hold()
        put(manager, "2")
        calls.next()
    finally:
        threading.setprofile(None)
    # The second thread of the session is in on_message.
    dispatcher, first, _second = (
        one for one in threading.enumerate() if one.name == "mayfly-listener"
    )
    stopper = threading.Thread(target=port.stop)
    stopper.start()
    dispatcher.join(PATIENCE_SECONDS)
    may_end.set()
    first.join(PATIENCE_SECONDS)
    calls.let_go()
    stopper.join(PATIENCE_SECONDS)
    assert (port.statistics().committed, port.statistics().rolled_back) == (2, 0)
    assert (manager.curdepth("Q1"), port.statistics().connections) == (0, 0)


@pytest.mark.slow
def test_ASF_reaping_loses_no_message(manager: QueueManager, clock: VirtualClock) -> None:
    pool: dict[str, str | int] = {
        "SERVER.SESSION.POOL.REAP": 1,
        "SERVER.SESSION.POOL.UNUSED.TIMEOUT.lpname": 1,
    }
    is_over = threading.Event()

    def let_time_pass() -> None:
        while not is_over.is_set():
            clock.advance(500)

    ticker = threading.Thread(target=let_time_pass)
    port = port_of(
        manager,
        name="lpname",
        properties=ASF | pool,
        max_sessions=4,
        total_tran_lifetime_timeout_s=0,
    )
    with started(port):
        ticker.start()
        for number in range(300):
            put(manager, str(number))
        until(port, lambda now: now.committed == 300)
        is_over.set()
        ticker.join()
    assert (port.statistics().delivered, port.statistics().listener_retries) == (300, 0)
    assert manager.curdepth("Q1") == 0
