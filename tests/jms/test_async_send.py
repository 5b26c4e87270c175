"""Asynchronous sends: what completion listeners are told, when, and on which thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mayfly import QueueManager, jms
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.facts import PATIENCE_SECONDS
from tests.jms.scene import alter, on_queue, refused, text_of

Outcome = tuple[jms.Message, Exception | None]


class Outcomes:
    """A completion listener that notes what it is told, and then does something."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        """Note, then do this."""
        self._notes: queue.Queue[Outcome] = queue.Queue()
        self._then = then
        self.threads: set[threading.Thread] = set()

    def on_completion(self, message: jms.Message) -> None:
        """Note a message that was sent."""
        self._note(message, None)

    def on_exception(self, message: jms.Message, error: Exception) -> None:
        """Note a message that was not."""
        self._note(message, error)

    def next(self) -> Outcome:
        """Return what was told next, waiting for it."""
        return self._notes.get(timeout=PATIENCE_SECONDS)

    def told(self) -> list[Outcome]:
        """Return what has been told and not been asked for."""
        return [self._notes.get_nowait() for _ in range(self._notes.qsize())]

    def _note(self, message: jms.Message, error: Exception | None) -> None:
        self.threads.add(threading.current_thread())
        self._then()
        self._notes.put((message, error))


class Gate:
    """Holds a listener until it is opened."""

    def __init__(self) -> None:
        """Begin closed."""
        self._opened = threading.Event()
        self.open = self._opened.set

    def __call__(self) -> None:
        """Wait until it is open."""
        assert self._opened.wait(PATIENCE_SECONDS)


def ended_behind(gate: Gate, call: Callable[[], object]) -> None:
    """Prove that a call waits for a listener behind a gate, and only for that."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    gate.open()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_listeners_are_told_in_order_on_one_other_thread(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    alter(manager, "ALTER QLOCAL(Q1) MAXDEPTH(3)")
    outcomes = Outcomes()
    producer = context.create_producer()
    assert producer.get_async() is None
    assert producer.set_async(outcomes).get_async() is outcomes
    texts = [str(number) for number in range(6)]
    for text in texts:
        producer.send(q1, text)
    told = [outcomes.next() for _ in texts]
    assert [m.text for m, _ in told if isinstance(m, jms.TextMessage)] == texts
    errors = [error for _, error in told]
    assert errors[:3] == [None, None, None]
    assert {type(error) for error in errors[3:]} == {jms.ResourceAllocationRuntimeException}
    assert {getattr(error, "reason", 0) for error in errors[3:]} == {rc.MQRC_Q_FULL}
    assert len(outcomes.threads) == 1
    assert threading.current_thread() not in outcomes.threads
    producer.set_async(None)
    with refused(jms.ResourceAllocationRuntimeException, rc.MQRC_Q_FULL):
        producer.send(q1, "7")


def test_D10_a_listener_of_the_classic_api_is_told_jms_exceptions(
    session: jms.Session, manager: QueueManager
) -> None:
    alter(manager, "ALTER QLOCAL(Q1) PUT(DISABLED)")
    outcomes = Outcomes()
    producer = session.create_producer(session.create_queue("Q1"))
    message = session.create_text_message("x")
    producer.send(message, completion_listener=outcomes)
    told, error = outcomes.next()
    assert told is message
    assert type(error) is jms.JMSException
    assert error.reason == rc.MQRC_PUT_INHIBITED
    assert message.jms_message_id is None


def test_the_headers_are_filled_in_and_the_terms_of_the_send_hold(
    session: jms.Session, manager: QueueManager
) -> None:
    outcomes = Outcomes()
    producer = session.create_producer()
    message = session.create_text_message("x")
    q1 = session.create_queue("Q1")
    producer.send(q1, message, jms.NON_PERSISTENT, 7, 1_000, completion_listener=outcomes)
    told, error = outcomes.next()
    assert (told, error) == (message, None)
    put = on_queue(manager)
    assert message.jms_message_id == "ID:" + put.msg_id.hex()
    assert (put.descriptor.priority, put.descriptor.persistence) == (7, 0)
    assert message.jms_expiration == put.expire_at_ms == manager.now_ms() + 1_000


@pytest.mark.parametrize(("passes_ms", "lives"), [(999, True), (1_000, False)])
def test_a_life_begins_when_the_message_is_sent_not_when_its_listener_is_told(
    context: jms.JMSContext,
    q1: jms.Queue,
    clock: VirtualClock,
    manager: QueueManager,
    passes_ms: int,
    lives: bool,
) -> None:
    gate = Gate()
    outcomes = Outcomes(gate)
    context.create_producer().set_async(outcomes).set_time_to_live(1_000).send(q1, "x")
    clock.advance(passes_ms)
    assert manager.counts("Q1").expired_present == (not lives)
    gate.open()
    assert outcomes.next()[1] is None
    assert context.create_consumer(q1).receive_no_wait() is None or lives


def test_a_synchronous_send_comes_behind_asynchronous_ones(
    context: jms.JMSContext, q1: jms.Queue
) -> None:
    gate = Gate()
    producer = context.create_producer().set_async(Outcomes(gate))
    producer.send(q1, "1").send(q1, "2").set_async(None).send(q1, "3")
    gate.open()
    consumer = context.create_consumer(q1)
    assert [text_of(consumer) for _ in range(3)] == ["1", "2", "3"]


@pytest.mark.parametrize("ending", ["commit", "rollback", "close"])
def test_the_end_of_a_unit_of_work_waits_for_the_listener(
    factory: jms.ConnectionFactory, manager: QueueManager, ending: str
) -> None:
    context = factory.create_context(jms.SESSION_TRANSACTED)
    gate = Gate()
    outcomes = Outcomes(gate)
    context.create_producer().set_async(outcomes).send(context.create_queue("Q1"), "x")
    ended_behind(gate, getattr(context, ending))
    assert [error for _, error in outcomes.told()] == [None]
    assert manager.counts("Q1").live == (ending == "commit")
    context.close()


@pytest.mark.parametrize("what", ["producer", "session", "connection"])
def test_a_close_waits_for_the_listener(
    connection: jms.Connection, session: jms.Session, what: str
) -> None:
    gate = Gate()
    outcomes = Outcomes(gate)
    producer = session.create_producer(session.create_queue("Q1"))
    producer.send(session.create_text_message("x"), completion_listener=outcomes)
    closing = {"producer": producer, "session": session, "connection": connection}[what]
    ended_behind(gate, getattr(closing, "close"))  # noqa: B009 - three types without a common one
    assert [error for _, error in outcomes.told()] == [None]


@pytest.mark.parametrize("call", ["producer.close", "close", "connection.close", "commit"])
def test_a_completion_listener_cannot_end_what_waits_for_it(
    connection: jms.Connection, call: str
) -> None:
    session = connection.create_session(jms.SESSION_TRANSACTED)
    producer = session.create_producer(session.create_queue("Q1"))
    calls = {
        "producer.close": producer.close,
        "close": session.close,
        "connection.close": connection.close,
        "commit": session.commit,
    }

    def attempt() -> None:
        with refused(jms.IllegalStateException, 0):
            calls[call]()

    outcomes = Outcomes(attempt)
    producer.send(session.create_text_message("x"), completion_listener=outcomes)
    assert outcomes.next()[1] is None
    session.commit()


def test_a_completion_listener_may_stop_the_connection(
    context: jms.JMSContext, q1: jms.Queue
) -> None:
    outcomes = Outcomes(context.stop)
    consumer = context.create_consumer(q1)
    context.create_producer().set_async(outcomes).send(q1, "1")
    assert outcomes.next()[1] is None
    assert consumer.receive_no_wait() is None
    context.start()
    assert text_of(consumer) == "1"


def test_a_listener_may_send_again(context: jms.JMSContext, q1: jms.Queue) -> None:
    last = Outcomes()
    producer = context.create_producer()
    first = Outcomes(lambda: producer.set_async(last).send(q1, "2"))
    producer.set_async(first).send(q1, "1")
    assert (first.next()[1], last.next()[1]) == (None, None)
    consumer = context.create_consumer(q1)
    assert [text_of(consumer), text_of(consumer)] == ["1", "2"]


def test_what_a_completion_listener_raises_is_told_to_the_exception_listener(
    context: jms.JMSContext, q1: jms.Queue
) -> None:
    errors: queue.Queue[jms.JMSException] = queue.Queue()

    def note_and_close(error: jms.JMSException) -> None:
        context.close()
        errors.put(error)

    def fail() -> None:
        raise ValueError("bug")

    context.set_exception_listener(note_and_close)
    context.create_producer().set_async(Outcomes(fail)).send(q1, "1")
    error = errors.get(timeout=PATIENCE_SECONDS)
    assert type(error) is jms.JMSException
    assert type(error.__cause__) is ValueError


def test_mistakes_of_the_caller_are_raised_at_once(
    context: jms.JMSContext, session: jms.Session, q1: jms.Queue
) -> None:
    outcomes: Any = Outcomes()
    nobody: Any = "listener"
    with refused(jms.JMSRuntimeException, 0):
        context.create_producer().set_async(nobody)
    producer = session.create_producer(q1)
    with refused(jms.JMSException, 0):
        producer.send(session.create_text_message("x"), completion_listener=nobody)
    with refused(jms.MessageFormatException, 0):
        producer.send("x", completion_listener=outcomes)
    with refused(jms.JMSException, rc.MQRC_EXPIRY_ERROR):
        producer.send(
            session.create_text_message("x"), time_to_live=-1, completion_listener=outcomes
        )
    simple = context.create_producer().set_async(outcomes)
    with refused(jms.MessageFormatRuntimeException, 0):
        simple.send(q1, object())
    context.close()
    with refused(jms.IllegalStateRuntimeException, rc.MQRC_HCONN_ERROR):
        simple.send(q1, "x")
    session.close()
    assert outcomes.told() == []
