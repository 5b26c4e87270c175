"""The total transaction lifetime of transacted sessions: late commits are refused (L9, L11)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from mayfly import QueueManager, jms
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.facts import wait_until
from tests.jms.scene import Receiver, number_of, on_queue, refused, text_of

LIFETIME_MS = 120_000
#: Before, at and after the lifetime; what is late to the millisecond is late.
around_the_lifetime = pytest.mark.parametrize(
    ("elapsed_ms", "is_late"),
    [(LIFETIME_MS - 1, False), (LIFETIME_MS, True), (LIFETIME_MS + 1, True)],
)


@pytest.fixture
def factory(manager: QueueManager) -> jms.ConnectionFactory:
    """A factory whose transactions may last 120 s."""
    return jms.ConnectionFactory(manager, total_tran_lifetime_timeout_s=120)


def put(manager: QueueManager, text: str) -> None:
    """Put a text on Q1."""
    with manager.session() as native:
        native.put("Q1", text.encode(), format_name="MQSTR")


def end(commit: Callable[[], None], *, is_late: bool) -> None:
    """Commit, which a late transaction refuses with MQRC_BACKED_OUT."""
    if is_late:
        with refused(jms.TransactionRolledBackRuntimeException, rc.MQRC_BACKED_OUT):
            commit()
    else:
        commit()


@around_the_lifetime
def test_L11_a_late_commit_of_a_context_is_refused_and_rolled_back(
    transacted: jms.JMSContext,
    manager: QueueManager,
    clock: VirtualClock,
    elapsed_ms: int,
    *,
    is_late: bool,
) -> None:
    put(manager, "got")
    assert text_of(transacted.create_consumer(transacted.create_queue("Q1"))) == "got"
    clock.advance(elapsed_ms // 2)
    # What follows begins no new time.
    transacted.create_producer().send(transacted.create_queue("Q2"), "sent")
    clock.advance(elapsed_ms - elapsed_ms // 2)
    assert manager.counts("Q1").locked == 1
    end(transacted.commit, is_late=is_late)
    assert (manager.curdepth("Q1"), manager.curdepth("Q2")) == ((1, 0) if is_late else (0, 1))
    if is_late:
        assert on_queue(manager).backout_count == 1


@around_the_lifetime
def test_L11_a_late_commit_of_a_session_is_refused_and_rolled_back(
    connection: jms.Connection,
    manager: QueueManager,
    clock: VirtualClock,
    elapsed_ms: int,
    *,
    is_late: bool,
) -> None:
    session = connection.create_session(jms.SESSION_TRANSACTED)
    producer = session.create_producer(session.create_queue("Q1"))
    producer.send(session.create_text_message("sent"))
    clock.advance(elapsed_ms)
    if is_late:
        with pytest.raises(jms.TransactionRolledBackException) as caught:
            session.commit()
        assert caught.value.reason == rc.MQRC_BACKED_OUT == 2003
        said = f"lifetime timeout is 120000 ms, the transaction has lasted {elapsed_ms} ms"
        assert said in str(caught.value)
    else:
        session.commit()
    assert manager.curdepth("Q1") == 1 - is_late


@around_the_lifetime
def test_L9_what_a_receive_waits_is_part_of_the_transaction(
    transacted: jms.JMSContext,
    manager: QueueManager,
    clock: VirtualClock,
    elapsed_ms: int,
    *,
    is_late: bool,
) -> None:
    consumer = transacted.create_consumer(transacted.create_queue("Q1"))
    receiver = Receiver(partial(consumer.receive, 115_000))
    receiver.wait_until_waiting(manager, number_of(manager))
    clock.advance(110_000)
    put(manager, "late")
    assert receiver.result() is not None
    clock.advance(elapsed_ms - 110_000)
    end(transacted.commit, is_late=is_late)
    assert manager.curdepth("Q1") == is_late


def test_L5_a_receive_that_finds_nothing_begins_no_transaction(
    transacted: jms.JMSContext, manager: QueueManager, clock: VirtualClock
) -> None:
    consumer = transacted.create_consumer(transacted.create_queue("Q1"))
    assert consumer.receive_no_wait() is None
    clock.advance(LIFETIME_MS)
    transacted.commit()
    put(manager, "x")
    assert text_of(consumer) == "x"
    clock.advance(LIFETIME_MS - 1)
    transacted.commit()
    assert manager.curdepth("Q1") == 0


def test_a_send_that_fails_begins_no_transaction(
    transacted: jms.JMSContext, manager: QueueManager, clock: VirtualClock
) -> None:
    producer = transacted.create_producer()
    with pytest.raises(jms.InvalidDestinationRuntimeException):
        producer.send(transacted.create_queue("NOWHERE"), "x")
    clock.advance(LIFETIME_MS)
    producer.send(transacted.create_queue("Q1"), "x")
    clock.advance(LIFETIME_MS - 1)
    transacted.commit()
    assert manager.curdepth("Q1") == 1


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_next_transaction_has_a_time_of_its_own(
    transacted: jms.JMSContext, manager: QueueManager, clock: VirtualClock, *, is_committed: bool
) -> None:
    producer, queue = transacted.create_producer(), transacted.create_queue("Q1")
    producer.send(queue, "1")
    clock.advance(LIFETIME_MS - 1)
    (transacted.commit if is_committed else transacted.rollback)()
    producer.send(queue, "2")
    clock.advance(LIFETIME_MS - 1)
    transacted.commit()
    assert manager.curdepth("Q1") == 1 + is_committed


def test_a_late_transaction_can_be_rolled_back_and_the_next_begins(
    transacted: jms.JMSContext, manager: QueueManager, clock: VirtualClock
) -> None:
    producer, queue = transacted.create_producer(), transacted.create_queue("Q1")
    producer.send(queue, "1")
    clock.advance(LIFETIME_MS)
    transacted.rollback()
    producer.send(queue, "2")
    transacted.commit()
    assert text_of(transacted.create_consumer(queue)) == "2"


@around_the_lifetime
def test_L11_what_a_message_listener_commits(
    transacted: jms.JMSContext,
    manager: QueueManager,
    clock: VirtualClock,
    elapsed_ms: int,
    *,
    is_late: bool,
) -> None:
    seen: list[tuple[object, int]] = []
    consumer = transacted.create_consumer(transacted.create_queue("Q1"))

    def work(message: Any) -> None:
        # The first time it takes too long.
        clock.advance(elapsed_ms if not seen else 0)
        try:
            transacted.commit()
            reason = rc.MQRC_NONE
        except jms.TransactionRolledBackRuntimeException as error:
            reason = error.reason
        seen.append((message.get_property("JMSXDeliveryCount"), reason))

    # Waiting is no part of it: a listener is handed its message, as in ASF.
    consumer.set_message_listener(work)
    clock.advance(10 * LIFETIME_MS)
    put(manager, "x")
    wait_until(lambda: len(seen) >= 1 + is_late)
    transacted.close()
    late_first = [(1, rc.MQRC_BACKED_OUT), (2, rc.MQRC_NONE)]
    assert seen == (late_first if is_late else [(1, rc.MQRC_NONE)])
    assert manager.curdepth("Q1") == 0


def test_acknowledgements_are_no_transaction(
    factory: jms.ConnectionFactory, manager: QueueManager, clock: VirtualClock
) -> None:
    put(manager, "x")
    with factory.create_context(jms.CLIENT_ACKNOWLEDGE) as context:
        message = context.create_consumer(context.create_queue("Q1")).receive_no_wait()
        assert message is not None
        clock.advance(LIFETIME_MS)
        message.acknowledge()
    assert manager.curdepth("Q1") == 0


def test_without_a_lifetime_a_transaction_lasts_for_ever(
    manager: QueueManager, clock: VirtualClock
) -> None:
    with jms.ConnectionFactory(manager).create_context(jms.SESSION_TRANSACTED) as context:
        context.create_producer().send(context.create_queue("Q1"), "x")
        clock.advance(365 * 86_400_000)
        context.commit()
    assert manager.curdepth("Q1") == 1


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (-1, ValueError, "total_tran_lifetime_timeout_s -1 is negative"),
        ("120", TypeError, "total_tran_lifetime_timeout_s '120' is no number of seconds"),
        (True, TypeError, "total_tran_lifetime_timeout_s True is no number of seconds"),
        (1.5, TypeError, "total_tran_lifetime_timeout_s 1.5 is no number of seconds"),
    ],
)
def test_a_wrong_lifetime_is_named(
    manager: QueueManager, value: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        jms.ConnectionFactory(manager, total_tran_lifetime_timeout_s=value)
