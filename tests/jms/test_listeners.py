"""Message listeners: threads, acknowledging, start, stop and close, lifetimes, what goes wrong."""

from __future__ import annotations

import gc
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mayfly import QueueManager, jms
from mayfly.engine.finding.next_live import REFUSALS
from mayfly.engine.waiting import DEFINITIONS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import StoreDamaged
from mayfly.store.database import DATABASE_FILE
from mayfly.testing import VirtualClock
from tests.facts import PATIENCE_SECONDS, wait_until, wait_until_blocked
from tests.jms.scene import alter, number_of, on_queue, refused, text_of

MODES = [jms.AUTO_ACKNOWLEDGE, jms.DUPS_OK_ACKNOWLEDGE]


class Inbox:
    """A listener that notes what it is called with, and then does something."""

    def __init__(self, then: Callable[[Any], object] = lambda _message: None) -> None:
        """Note, then do this."""
        self._notes: queue.Queue[Any] = queue.Queue()
        self._then = then

    def __call__(self, message: Any) -> None:
        """Note a message, or an error."""
        self._notes.put(message)
        self._then(message)

    def next(self) -> Any:
        """Return the next that came, waiting for it."""
        return self._notes.get(timeout=PATIENCE_SECONDS)

    def text(self) -> str | None:
        """Return the text of the next message."""
        message = self.next()
        assert type(message) is jms.TextMessage
        return message.text

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come since."""
        return self._notes.empty()


class Gate:
    """Lets a listener wait in its work until the test opens it."""

    def __init__(self) -> None:
        """Begin closed."""
        self._opened = threading.Event()

    def __call__(self, message: object) -> None:
        """Wait until it is open."""
        assert self._opened.wait(PATIENCE_SECONDS)

    def open(self) -> None:
        """Let everybody through, from now on."""
        self._opened.set()


@contextmanager
def waiting_elsewhere(call: Callable[[], object]) -> Iterator[None]:
    """Run a call on another thread; it waits for what the block does."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    wait_until_blocked(thread)
    yield
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def wait_until_idle(manager: QueueManager, name: str = "Q1") -> None:
    """Return when a listener waits for the next message of a queue."""
    engine, number = manager.engine, number_of(manager, name)

    def is_waited_on() -> bool:
        # A get that has just been decided is still there, to those without the lock.
        with engine.engine_lock:
            return engine.waits.is_waited_on(number)

    wait_until(is_waited_on)


def send(manager: QueueManager, *texts: str, name: str = "Q1", **terms: Any) -> None:
    """Put texts by another connection."""
    with manager.session() as native:
        for text in texts:
            native.put(name, text.encode(), format_name="MQSTR", **terms)


def fail(message: object) -> None:
    """Raise, as a listener with a bug does."""
    raise ValueError("bug")


def listen(
    context: jms.JMSContext, listener: Callable[[Any], object], name: str = "Q1"
) -> jms.JMSConsumer:
    """Return a consumer with a listener."""
    consumer = context.create_consumer(context.create_queue(name))
    consumer.set_message_listener(listener)
    return consumer


# One after the other


def test_messages_there_before_and_after_the_listener_come_in_order(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    send(manager, "1", "2")
    inbox = Inbox()
    consumer = listen(context, inbox)
    send(manager, "3")
    assert [inbox.text() for _ in range(3)] == ["1", "2", "3"]
    assert consumer.message_listener is inbox
    wait_until_idle(manager)
    assert manager.curdepth("Q1") == manager.counts("Q1").locked == 0


def test_listeners_of_one_session_are_called_one_at_a_time(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    gate = Gate()
    first, second = Inbox(gate), Inbox()
    listen(context, first)
    listen(context, second, "Q2")
    wait_until_idle(manager)
    with manager.session(transacted=True) as native:
        for name in ("Q1", "Q2"):
            native.put(name, b"x", format_name="MQSTR")
    first.next()
    assert (manager.counts("Q2").live, manager.counts("Q2").locked) == (1, 0)
    assert second.is_empty
    gate.open()
    assert second.text() == "x"


def test_listeners_of_one_session_take_turns(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    context.set_auto_start(False)
    inbox = Inbox()
    send(manager, "1a", "1b")
    send(manager, "2a", "2b", name="Q2")
    context.stop()
    listen(context, inbox)
    listen(context, inbox, "Q2")
    context.start()
    assert [inbox.text() for _ in range(4)] == ["1a", "2a", "1b", "2b"]


def test_sessions_compete_and_each_message_comes_once(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    inbox = Inbox()
    contexts = [factory.create_context() for _ in range(3)]
    for context in contexts:
        listen(context, inbox)
    sent = [str(number) for number in range(60)]
    send(manager, *sent)
    texts = [inbox.text() for _ in sent]
    assert sorted(texts, key=lambda text: int(text or "")) == sent
    for context in contexts:
        context.close()
    assert inbox.is_empty
    assert manager.curdepth("Q1") == 0


def test_a_listener_of_a_selector_has_what_that_takes(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    inbox = Inbox()
    q1 = context.create_queue("Q1")
    context.create_consumer(q1, "JMSPriority > 5").set_message_listener(inbox)
    send(manager, "low", priority=1)
    send(manager, "high", priority=9)
    assert inbox.text() == "high"
    wait_until_idle(manager)
    assert manager.counts("Q1").live == 1


@pytest.mark.parametrize("condition", ["JMSPriority > 5", "Root.MQMD.Expiry > 900 AND 1 = 1"])
def test_a_long_search_ends_and_its_listener_waits(
    context: jms.JMSContext, manager: QueueManager, condition: str
) -> None:
    send(manager, *["no"] * (2 * REFUSALS + 1), priority=1)
    inbox = Inbox()
    q1 = context.create_queue("Q1")
    context.create_consumer(q1, condition).set_message_listener(inbox)
    wait_until_idle(manager)
    send(manager, "yes", priority=9, time_to_live_ms=100_000)
    assert inbox.text() == "yes"


def test_several_listeners_of_one_session_leave_their_thread_at_its_close(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    threads: set[threading.Thread] = set()
    inbox = Inbox(lambda _message: threads.add(threading.current_thread()))
    with factory.create_context() as context:
        for name in ("Q1", "Q2"):
            listen(context, inbox, name)
            send(manager, name, name=name)
            assert inbox.text() == name
        [thread] = threads
        assert thread.is_alive()
    assert not thread.is_alive()


def test_listeners_of_a_topic_and_of_a_queue_share_a_thread(
    context: jms.JMSContext, factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    threads: set[threading.Thread] = set()
    inbox = Inbox(lambda _message: threads.add(threading.current_thread()))
    gates = context.create_topic("flight/+/gate")
    context.create_consumer(gates).set_message_listener(inbox)
    listen(context, inbox)
    with factory.create_context() as publisher:
        topic = publisher.create_topic("flight/LH400/gate")
        publisher.create_producer().send(topic, "B42")
    message = inbox.next()
    assert (message.text, str(message.jms_destination)) == ("B42", str(topic))
    send(manager, "x")
    assert inbox.text() == "x"
    assert len(threads) == 1


# Started and stopped


def test_a_classic_connection_delivers_from_its_start(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    inbox = Inbox()
    with factory.create_connection() as connection:
        session = connection.create_session()
        session.create_consumer(session.create_queue("Q1")).set_message_listener(inbox)
        send(manager, "x")
        assert (manager.counts("Q1").live, manager.counts("Q1").locked) == (1, 0)
        connection.start()
        assert inbox.text() == "x"


def test_a_context_without_auto_start_delivers_from_its_start(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    context.set_auto_start(False)
    inbox = Inbox()
    listen(context, inbox)
    send(manager, "x")
    assert manager.counts("Q1").live == 1
    context.start()
    assert inbox.text() == "x"


def test_stop_waits_for_the_listener_and_then_nothing_comes(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    gate = Gate()
    inbox = Inbox(gate)
    listen(context, inbox)
    send(manager, "1", "2")
    assert inbox.text() == "1"
    with waiting_elsewhere(context.stop):
        gate.open()
    assert inbox.is_empty
    assert (manager.counts("Q1").live, manager.counts("Q1").locked) == (1, 0)
    context.start()
    assert inbox.text() == "2"


def test_close_waits_for_the_listener_which_may_still_use_its_session(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    gate = Gate()
    context = factory.create_context(jms.SESSION_TRANSACTED)
    producer = context.create_producer()

    def answer(message: jms.Message) -> None:
        gate(message)
        producer.send(context.create_queue("Q2"), "answer")
        context.commit()

    inbox = Inbox(answer)
    listen(context, inbox)
    send(manager, "1", "2")
    assert inbox.text() == "1"
    with waiting_elsewhere(context.close):
        gate.open()
    assert inbox.is_empty
    assert (manager.curdepth("Q1"), manager.counts("Q2").live) == (1, 1)
    assert on_queue(manager).backout_count == 0


def test_what_was_taken_before_a_close_reaches_its_listener(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    inbox = Inbox()
    with factory.create_context() as context:
        listen(context, inbox)
        wait_until_idle(manager)
        send(manager, "x")
    assert inbox.text() == "x"
    assert manager.curdepth("Q1") == 0


@pytest.mark.parametrize("call", ["close", "stop"])
def test_a_listener_cannot_close_or_stop_its_own_context(
    context: jms.JMSContext, manager: QueueManager, call: str
) -> None:
    errors = Inbox()

    def attempt(message: jms.Message) -> None:
        with refused(jms.IllegalStateRuntimeException, 0):
            getattr(context, call)()
        errors(None)

    listen(context, attempt)
    send(manager, "x")
    assert errors.next() is None
    wait_until_idle(manager)
    assert manager.curdepth("Q1") == 0
    # Nothing was half closed.
    context.close()
    with refused(jms.IllegalStateRuntimeException, rc.MQRC_HCONN_ERROR):
        context.create_text_message()


@pytest.mark.parametrize("what", ["session", "connection"])
def test_a_listener_cannot_close_its_own_session_or_connection(
    connection: jms.Connection, session: jms.Session, manager: QueueManager, what: str
) -> None:
    closed = session if what == "session" else connection
    inbox = Inbox()

    def attempt(message: jms.Message) -> None:
        with refused(jms.IllegalStateException, 0):
            closed.close()
        inbox(message)

    session.create_consumer(session.create_queue("Q1")).set_message_listener(attempt)
    send(manager, "1", "2")
    assert [inbox.text(), inbox.text()] == ["1", "2"]


@pytest.mark.parametrize("mode", [*MODES, jms.CLIENT_ACKNOWLEDGE])
def test_a_listener_may_close_its_own_consumer(
    factory: jms.ConnectionFactory, manager: QueueManager, mode: int
) -> None:
    with factory.create_context(mode) as context:

        def close(message: jms.Message) -> None:
            consumer.close()
            message.acknowledge()

        inbox, other = Inbox(close), Inbox()
        consumer = context.create_consumer(context.create_queue("Q1"))
        consumer.set_message_listener(inbox)
        listen(context, other, "Q2")
        send(manager, "1", "2")
        assert inbox.text() == "1"
        send(manager, "3", name="Q2")
        assert other.text() == "3"
        with refused(jms.IllegalStateRuntimeException, rc.MQRC_HOBJ_ERROR):
            consumer.set_message_listener(inbox)
    assert inbox.is_empty
    assert manager.curdepth("Q1") == 1


def test_close_of_a_consumer_waits_for_its_listener_only(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    gate = Gate()
    inbox = Inbox(gate)
    busy = listen(context, inbox)
    other = listen(context, Inbox(), "Q2")
    send(manager, "1", "2")
    inbox.next()
    other.close()
    with waiting_elsewhere(busy.close):
        gate.open()
    assert inbox.is_empty
    assert manager.counts("Q1").live == 1


# With receives, and other threads


def test_nothing_is_received_in_a_session_with_listeners(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    listening = listen(context, Inbox())
    other = context.create_consumer(context.create_queue("Q2"))
    for call in (listening.receive, listening.receive_no_wait, other.receive_no_wait):
        with refused(jms.IllegalStateRuntimeException, 0):
            call()
    listening.set_message_listener(None)
    assert listening.message_listener is None
    send(manager, "x")
    assert text_of(listening) == "x"
    listening.set_message_listener(inbox := Inbox())
    send(manager, "y")
    assert inbox.text() == "y"


def test_a_message_whose_body_was_refused_reaches_the_listener_first(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    send(manager, "1", "2")
    consumer = context.create_consumer(context.create_queue("Q1"))
    with refused(jms.MessageFormatRuntimeException, 0):
        consumer.receive_body_no_wait(dict)
    inbox = Inbox()
    consumer.set_message_listener(inbox)
    first = inbox.next()
    assert (first.text, first.jms_redelivered, inbox.text()) == ("1", False, "2")
    wait_until_idle(manager)
    assert manager.curdepth("Q1") == manager.counts("Q1").locked == 0


def test_what_is_no_listener_is_refused(context: jms.JMSContext, q1: jms.Queue) -> None:
    consumer: Any = context.create_consumer(q1)
    with refused(jms.JMSRuntimeException, 0):
        consumer.set_message_listener("on_message")
    consumer.close()
    with refused(jms.IllegalStateRuntimeException, rc.MQRC_HOBJ_ERROR):
        consumer.set_message_listener(Inbox())


def test_a_listener_may_put_another_in_its_place(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    after = Inbox()
    before = Inbox(lambda _message: consumer.set_message_listener(after))
    consumer = context.create_consumer(context.create_queue("Q1"))
    consumer.set_message_listener(before)
    send(manager, "1", "2", "3")
    assert [before.text(), after.text(), after.text()] == ["1", "2", "3"]
    assert before.is_empty


def test_a_unit_of_work_of_listeners_ends_on_their_thread_or_after_stop(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    inbox = Inbox()
    with factory.create_context(jms.SESSION_TRANSACTED) as context:
        listen(context, inbox)
        send(manager, "x")
        assert inbox.text() == "x"
        send_more = context.create_producer().send
        answers = context.create_queue("Q2")
        for call in (context.commit, context.rollback, lambda: send_more(answers, "y")):
            with refused(jms.IllegalStateRuntimeException, 0):
                call()
        context.stop()
        assert manager.counts("Q1").locked == 1
        send_more(answers, "y")
        context.commit()
    assert (manager.curdepth("Q1"), manager.curdepth("Q2")) == (0, 1)


def test_an_acknowledgement_from_another_thread_is_refused(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    inbox = Inbox()
    with factory.create_context(jms.CLIENT_ACKNOWLEDGE) as context:
        listen(context, inbox)
        send(manager, "x")
        message = inbox.next()
        with refused(jms.IllegalStateException, 0):
            message.acknowledge()
        with refused(jms.IllegalStateRuntimeException, 0):
            context.recover()
    assert manager.curdepth("Q1") == 1


# Acknowledging


@pytest.mark.parametrize("mode", MODES)
def test_automatic_a_listener_that_raises_has_its_message_again(
    factory: jms.ConnectionFactory, manager: QueueManager, mode: int
) -> None:
    seen: queue.Queue[tuple[bool, int]] = queue.Queue()

    def listener(message: jms.Message) -> None:
        count = message.get_int_property("JMSXDeliveryCount")
        seen.put((message.jms_redelivered, count))
        if count == 1:
            fail(message)

    with factory.create_context(mode) as context:
        listen(context, listener)
        send(manager, "x")
        assert seen.get(timeout=PATIENCE_SECONDS) == (False, 1)
        assert seen.get(timeout=PATIENCE_SECONDS) == (True, 2)
    assert seen.empty()
    assert manager.curdepth("Q1") == 0


def test_automatic_a_message_is_gone_when_its_listener_has_returned(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    gate = Gate()
    inbox = Inbox(gate)
    listen(context, inbox)
    send(manager, "x")
    inbox.next()
    assert manager.counts("Q1").locked == 1
    gate.open()
    wait_until_idle(manager)
    assert manager.counts("Q1").locked == manager.curdepth("Q1") == 0


def test_automatic_recover_inside_of_a_listener_brings_its_message_again(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    def listener(message: jms.Message) -> None:
        if not message.jms_redelivered:
            context.recover()

    inbox = Inbox(listener)
    listen(context, inbox)
    send(manager, "x")
    assert [inbox.next().jms_redelivered, inbox.next().jms_redelivered] == [False, True]
    wait_until_idle(manager)
    assert manager.curdepth("Q1") == manager.curdepth("BACKOUTS") == 0


@pytest.mark.parametrize("mode", [*MODES, jms.CLIENT_ACKNOWLEDGE, jms.SESSION_TRANSACTED])
def test_backed_out_as_often_as_the_queue_allows_a_message_goes_to_boqname(
    factory: jms.ConnectionFactory, manager: QueueManager, mode: int
) -> None:
    with factory.create_context(mode) as context:

        def listener(message: jms.TextMessage) -> None:
            if message.text == "good":
                context.acknowledge()
                if mode == jms.SESSION_TRANSACTED:
                    context.commit()
            elif mode == jms.SESSION_TRANSACTED:
                context.rollback()
            elif mode == jms.CLIENT_ACKNOWLEDGE:
                context.recover()
            else:
                fail(message)

        inbox = Inbox(listener)
        listen(context, inbox)
        send(manager, "bad", "good")
        assert [inbox.text() for _ in range(3)] == ["bad", "bad", "good"]
    assert manager.curdepth("Q1") == 0
    assert on_queue(manager, "BACKOUTS").body == b"bad"


def test_client_a_listener_that_raises_has_the_next_message(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    def listener(message: jms.TextMessage) -> None:
        if message.text == "1":
            fail(message)

    inbox = Inbox(listener)
    with factory.create_context(jms.CLIENT_ACKNOWLEDGE) as context:
        listen(context, inbox)
        send(manager, "1", "2")
        assert [inbox.text(), inbox.text()] == ["1", "2"]
        wait_until_idle(manager)
        assert manager.counts("Q1").locked == 2
    assert manager.counts("Q1").live == 2


def test_client_a_listener_acknowledges_all_that_has_come(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    def listener(message: jms.TextMessage) -> None:
        if message.text == "2":
            message.acknowledge()

    inbox = Inbox(listener)
    with factory.create_context(jms.CLIENT_ACKNOWLEDGE) as context:
        listen(context, inbox)
        send(manager, "1", "2", "3")
        assert [inbox.text() for _ in range(3)] == ["1", "2", "3"]
    assert manager.curdepth("Q1") == 1
    assert on_queue(manager).body == b"3"


def test_transacted_a_listener_commits_get_and_put_together_or_neither(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    with factory.create_context(jms.SESSION_TRANSACTED) as context:
        producer, answers = context.create_producer(), context.create_queue("Q2")

        def listener(message: jms.TextMessage) -> None:
            producer.send(answers, message.text)
            if message.jms_redelivered:
                context.commit()
            else:
                context.rollback()

        inbox = Inbox(listener)
        listen(context, inbox)
        send(manager, "x")
        assert [inbox.text(), inbox.text()] == ["x", "x"]
    assert manager.curdepth("Q1") == 0
    assert manager.counts("Q2").live == 1


# Lifetimes


def test_a_message_is_taken_at_the_moment_it_comes(
    context: jms.JMSContext, manager: QueueManager, clock: VirtualClock
) -> None:
    inbox = Inbox()
    listen(context, inbox)
    wait_until_idle(manager)
    send(manager, "x", time_to_live_ms=1_000)
    clock.advance(5_000)
    assert inbox.text() == "x"


@pytest.mark.parametrize(("waited_ms", "texts"), [(999, ["old", "new"]), (1_000, ["new"])])
def test_E9_what_expires_while_its_listener_is_at_work_never_reaches_it(
    context: jms.JMSContext,
    manager: QueueManager,
    clock: VirtualClock,
    waited_ms: int,
    texts: list[str],
) -> None:
    gate = Gate()
    inbox = Inbox(gate)
    listen(context, inbox)
    send(manager, "busy")
    assert inbox.text() == "busy"
    report = c.MQRO_EXPIRATION
    send(manager, "old", time_to_live_ms=1_000, report=report, reply_to_q="REPLIES")
    send(manager, "new")
    clock.advance(waited_ms)
    gate.open()
    assert [inbox.text() for _ in texts] == texts
    wait_until_idle(manager)
    assert inbox.is_empty
    assert manager.counts("REPLIES").live == 2 - len(texts)


@pytest.mark.parametrize(("passes_ms", "calls"), [(999, 2), (1_000, 1)])
def test_E15_what_a_listener_gives_back_past_its_deadline_is_discarded_with_its_report(
    context: jms.JMSContext,
    manager: QueueManager,
    clock: VirtualClock,
    passes_ms: int,
    calls: int,
) -> None:
    def listener(message: jms.Message) -> None:
        if not message.jms_redelivered:
            clock.advance(passes_ms)
            fail(message)

    inbox = Inbox(listener)
    listen(context, inbox)
    wait_until_idle(manager)
    report = c.MQRO_EXPIRATION
    send(manager, "x", time_to_live_ms=1_000, report=report, reply_to_q="REPLIES")
    for _ in range(calls):
        inbox.next()
    wait_until_idle(manager)
    assert inbox.is_empty
    assert manager.curdepth("Q1") == 0
    # The thread of the listener may still be committing the report.
    wait_until(lambda: manager.counts("REPLIES").live == 2 - calls)


def test_D1_a_delayed_message_reaches_a_listener_at_its_delivery_time(
    context: jms.JMSContext, manager: QueueManager, clock: VirtualClock
) -> None:
    inbox = Inbox(lambda _message: times.append(clock.now_ms()))
    times: list[int] = []
    listen(context, inbox)
    wait_until_idle(manager)
    send(manager, "x", delay_ms=1_000)
    clock.advance(999)
    assert manager.counts("Q1").live == 0
    assert manager.engine.waits.is_waited_on(number_of(manager))
    clock.advance(1)
    assert inbox.text() == "x"
    wait_until_idle(manager)
    assert times == [clock.now_ms()]


# What goes wrong


def test_a_deleted_alias_is_told_and_the_others_are_listened_to(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    errors, inbox, other = Inbox(), Inbox(), Inbox()
    context.set_exception_listener(errors)
    alter(manager, "DEFINE QALIAS(A2) TARGET(Q1)")
    listen(context, inbox, "A2")
    listen(context, other, "Q2")
    wait_until_idle(manager)
    alter(manager, "DELETE QALIAS(A2)")
    send(manager, "x")
    assert errors.next().reason == rc.MQRC_Q_DELETED
    send(manager, "y", name="Q2")
    assert other.text() == "y"
    wait_until_idle(manager)
    assert inbox.is_empty
    assert manager.counts("Q1").live == 1


def test_what_a_listener_raises_is_told_to_the_exception_listener(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    errors = Inbox()
    assert context.exception_listener is None
    context.set_exception_listener(errors)
    listen(context, fail)
    send(manager, "x")
    for _ in range(2):
        error = errors.next()
        assert type(error) is jms.JMSException
        assert type(error.__cause__) is ValueError
    wait_until_idle(manager)
    assert errors.is_empty
    assert manager.curdepth("BACKOUTS") == 1


def test_a_listener_that_ends_its_thread_has_its_message_again(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    def listener(message: jms.Message) -> None:
        if not message.jms_redelivered:
            raise SystemExit

    inbox = Inbox(listener)
    listen(context, inbox)
    send(manager, "x")
    assert [inbox.text(), inbox.text()] == ["x", "x"]


def test_a_queue_that_is_inhibited_is_told_once_and_listened_to_when_it_is_not(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    errors, inbox, other = Inbox(), Inbox(), Inbox()
    context.set_exception_listener(errors)
    listen(context, inbox)
    listen(context, other, "Q2")
    wait_until_idle(manager)
    for _ in range(2):
        alter(manager, "ALTER QLOCAL(Q1) GET(DISABLED)")
        assert errors.next().reason == rc.MQRC_GET_INHIBITED
        send(manager, "1")
        send(manager, "2", name="Q2")
        assert other.text() == "2"
        assert inbox.is_empty
        alter(manager, "ALTER QLOCAL(Q1) GET(ENABLED)")
        assert inbox.text() == "1"
        wait_until_idle(manager)
    assert errors.is_empty


@pytest.mark.parametrize("mode", [*MODES, jms.CLIENT_ACKNOWLEDGE, jms.SESSION_TRANSACTED])
def test_a_message_that_nobody_takes_is_told_once_and_held_until_somebody_can(
    factory: jms.ConnectionFactory, manager: QueueManager, mode: int
) -> None:
    alter(manager, "ALTER QLOCAL(Q1) BOQNAME(GONE)")
    alter(manager, "ALTER QMGR DEADQ(GONE)")
    errors, inbox = Inbox(), Inbox()
    with manager.session(transacted=True) as native:
        native.put("Q1", b"bad")
        native.commit()
        for _ in range(2):
            native.get("Q1")
            native.backout()
    with factory.create_context(mode) as context:
        context.set_exception_listener(errors)
        listen(context, inbox)
        assert errors.next().reason == rc.MQRC_BACKOUT_THRESHOLD_REACHED
        # Over a socket the wait begins a moment later.
        wait_until(lambda: manager.engine.waits.is_waited_on(DEFINITIONS))
        assert (manager.counts("Q1").live, manager.counts("Q1").locked) == (1, 0)
        context.start()
        assert errors.next().reason == rc.MQRC_BACKOUT_THRESHOLD_REACHED
        alter(manager, "ALTER QLOCAL(Q1) BOQNAME(BACKOUTS)")
        send(manager, "good")
        assert inbox.text() == "good"
        assert errors.is_empty
        context.stop()
        if mode == jms.SESSION_TRANSACTED:
            context.commit()
        context.acknowledge()
    assert (manager.curdepth("Q1"), manager.curdepth("BACKOUTS")) == (0, 1)


@pytest.mark.differs_over_socket
def test_the_end_of_the_queue_manager_is_told_once(clock: VirtualClock) -> None:
    errors = Inbox()
    with QueueManager("QM2", clock=clock) as manager:
        alter(manager, "DEFINE QLOCAL(Q1)")
        connection = jms.ConnectionFactory(manager).create_connection()
        connection.set_exception_listener(errors)
        connection.start()
        for _ in range(3):
            session = connection.create_session()
            session.create_consumer(session.create_queue("Q1")).set_message_listener(Inbox())
        wait_until_idle(manager)
    assert errors.next().reason in (rc.MQRC_Q_MGR_STOPPING, rc.MQRC_CONNECTION_BROKEN)
    connection.close()
    assert errors.is_empty


@pytest.mark.in_process
@pytest.mark.slow
def test_damage_that_is_read_for_a_listener_is_told(tmp_path: Path, clock: VirtualClock) -> None:
    with QueueManager("QM1", tmp_path, clock) as manager, manager.session(transacted=True) as s:
        alter(manager, "DEFINE QLOCAL(Q1)")
        for _ in range(2_000):
            s.put("Q1", bytes(1_000), persistent=True)
    file = tmp_path / DATABASE_FILE
    whole = bytearray(file.read_bytes())
    for offset in range(200_000, len(whole) - 100_000, 4_096):
        whole[offset : offset + 16] = b"\xff" * 16
    file.write_bytes(whole)
    manager = QueueManager("QM1", tmp_path, clock)
    errors = Inbox()
    context = jms.ConnectionFactory(manager).create_context(jms.CLIENT_ACKNOWLEDGE)
    context.set_exception_listener(errors)
    listen(context, Inbox())
    error = errors.next()
    assert (type(error), error.reason) == (jms.JMSException, rc.MQRC_CONNECTION_BROKEN)
    assert type(error.__cause__) is StoreDamaged
    manager.close()
    context.close()
    assert errors.is_empty


def test_an_exception_listener_may_close_its_connection(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    closed = Inbox()
    threads: set[threading.Thread] = set()
    connection = factory.create_connection()

    def close(error: jms.JMSException) -> None:
        connection.close()
        closed(error)

    def note_and_fail(message: jms.Message) -> None:
        threads.add(threading.current_thread())
        fail(message)

    connection.set_exception_listener(close)
    connection.start()
    for name in ("Q1", "Q1", "Q2"):
        session = connection.create_session()
        session.create_consumer(session.create_queue(name)).set_message_listener(note_and_fail)
    send(manager, *"123")
    send(manager, "x", name="Q2")
    assert type(closed.next()) is jms.JMSException
    assert closed.is_empty
    assert threads
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    assert manager.counts("Q1").locked == manager.counts("Q2").locked == 0


def test_an_exception_listener_has_one_error_at_a_time(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    gate = Gate()
    begun: queue.Queue[jms.JMSException] = queue.Queue()

    def note(error: jms.JMSException) -> None:
        begun.put(error)
        gate(error)

    with factory.create_context() as context, context.create_context() as other:
        context.set_exception_listener(note)
        for one, name in ((context, "Q1"), (other, "Q2")):
            listen(one, lambda message: None if message.jms_redelivered else fail(message), name)
            send(manager, "x", name=name)
        begun.get(timeout=PATIENCE_SECONDS)
        with pytest.raises(queue.Empty):
            begun.get(timeout=0.05)
        gate.open()
        begun.get(timeout=PATIENCE_SECONDS)


def test_an_exception_listener_that_raises_does_no_harm(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    errors = Inbox(fail)
    context.set_exception_listener(errors)
    inbox = Inbox(lambda message: None if message.jms_redelivered else fail(message))
    listen(context, inbox)
    send(manager, "x")
    assert [inbox.text(), inbox.text()] == ["x", "x"]
    errors.next()


def test_what_is_no_exception_listener_is_refused(connection: jms.Connection) -> None:
    listener: Any = "on_exception"
    with refused(jms.JMSException, 0):
        connection.set_exception_listener(listener)
    connection.close()
    with refused(jms.IllegalStateException, rc.MQRC_HCONN_ERROR):
        connection.set_exception_listener(None)


def test_a_connection_that_nothing_refers_to_goes_on_while_it_has_a_listener(
    manager: QueueManager, factory: jms.ConnectionFactory
) -> None:
    """As in a program that sets its listeners up and does something else."""
    inbox = Inbox()

    def set_up() -> None:
        context = factory.create_context()
        context.create_consumer(context.create_queue("Q1")).set_message_listener(inbox)

    set_up()
    gc.collect()
    with manager.session() as native:
        native.put("Q1", b"x", format_name="MQSTR")
    assert inbox.next().text == "x"


def test_an_idle_listener_has_what_another_gives_back(
    manager: QueueManager, factory: jms.ConnectionFactory
) -> None:
    inbox = Inbox()
    with factory.create_context() as context, manager.session(transacted=True) as native:
        native.put("Q1", b"x", format_name="MQSTR")
        native.commit()
        assert native.get("Q1") is not None
        context.create_consumer(context.create_queue("Q1")).set_message_listener(inbox)
        # It looks and finds nothing; so it does when something has come that another takes first.
        native.put("Q1", b"own", format_name="MQSTR")
        assert native.get("Q1") is not None
        assert inbox.is_empty
        native.backout()
        message = inbox.next()
        assert (message.text, message.get_property("JMSXDeliveryCount")) == ("x", 2)
