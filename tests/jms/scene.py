"""Helpers of the JMS tests: queues, expected errors, and a receive on another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from mayfly import MQError, QueueManager, jms
from mayfly.mqi.descriptor import Descriptor
from mayfly.verbs.messages import Message as QueueMessage
from tests.facts import PATIENCE_SECONDS, wait_until

START_MS = 1_700_000_000_000
STAGING = "SYSTEM.DDELAY.LOCAL.QUEUE"
DEFINITIONS = """
DEFINE QLOCAL(Q1) BOTHRESH(2) BOQNAME(BACKOUTS)
DEFINE QLOCAL(Q2)
DEFINE QLOCAL(BACKOUTS)
DEFINE QLOCAL(REPLIES)
DEFINE QLOCAL(DEAD)
DEFINE QALIAS(A1) TARGET(Q1) DEFPRTY(7) DEFPSIST(YES)
ALTER QMGR DEADQ(DEAD)
"""
M = TypeVar("M", bound=jms.Message)


@contextmanager
def refused(kind: type[Exception], reason: int) -> Iterator[None]:
    """Expect exactly this error with this reason; with one of MQ, its MQError is the cause."""
    with pytest.raises(kind) as caught:
        yield
    assert type(caught.value) is kind
    assert getattr(caught.value, "reason") == reason  # noqa: B009 - both trees have it
    if reason and isinstance(caught.value.__cause__, MQError):
        assert caught.value.__cause__.reason == reason


def received(consumer: jms.JMSConsumer | jms.MessageConsumer, kind: type[M]) -> M:
    """Receive a message that is there and must be of this kind."""
    message = consumer.receive_no_wait()
    assert type(message) is kind
    return message


def text_of(consumer: jms.JMSConsumer | jms.MessageConsumer) -> str | None:
    """Receive a text message that is there and return its text."""
    return received(consumer, jms.TextMessage).text


def on_queue(manager: QueueManager, name: str = "Q1") -> QueueMessage:
    """Return the first message of a queue as the engine has it."""
    with manager.session() as native:
        return next(native.browse(name))


def put_native(
    manager: QueueManager, body: bytes, descriptor: Descriptor, name: str = "Q1"
) -> bytes:
    """Put a message with a descriptor of one's own, as a program of the MQI does."""
    from mayfly.engine.put import PutRequest
    from mayfly.mqi.constants import MQOO_OUTPUT

    with manager.session("anna") as native:
        return native.open(name, MQOO_OUTPUT).put(body, PutRequest(descriptor)).msg_id


def alter(manager: QueueManager, command: str) -> None:
    """Run an MQSC command that must succeed."""
    result = manager.mqsc(command)
    assert result.ok, result.text


class Receiver:
    """A receive on a thread of its own."""

    def __init__(self, receive: Callable[[], jms.Message | None]) -> None:
        """Begin to receive."""
        self._receive = receive
        self._result: list[jms.Message | None] = []
        self._error: list[Exception] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_until_waiting(self, manager: QueueManager, number: int, count: int = 1) -> None:
        """Return when so many wait under this number."""

        def is_waiting() -> bool:
            assert self._thread.is_alive(), (self._result, self._error)
            return len(manager.engine.waits.by_queue.get(number, ())) >= count

        wait_until(is_waiting)

    def result(self) -> jms.Message | None:
        """Return what came."""
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        if self._error:
            raise self._error[0]
        return self._result[0]

    def _run(self) -> None:
        try:
            self._result.append(self._receive())
        except (jms.JMSException, jms.JMSRuntimeException) as error:
            self._error.append(error)


def number_of(manager: QueueManager, name: str = "Q1") -> int:
    """Return the number under which gets wait on a queue."""
    return manager.engine.registry.queue(name).number
