"""Delayed puts and gets through our own interfaces, as the measurements of delay ask for them."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from mayfly import QueueManager, jms
from mayfly.lifetime.times import Clock

_HEAD = struct.Struct(">QQ")
_TAIL = os.urandom(200 - _HEAD.size)
#: How long our consumer waits in one get.
_WAIT_MS = 50


class Taken(NamedTuple):
    """One message at its consumer: its running number, when it was due and when it arrived."""

    number: int
    due_ms: int
    arrival_ms: int


class Producer(Protocol):
    """One connection of a producer, used by one thread."""

    def put(self, rows: Sequence[tuple[int, int]]) -> None:
        """Put messages, given as (running number, due time), as one durable unit of work."""

    def close(self) -> None:
        """Disconnect."""


class Client(Producer, Protocol):
    """One that also consumes."""

    def take(self, limit: int) -> list[Taken]:
        """Take up to so many due messages as one durable unit of work; [] when none is due."""


def body_of(number: int, due_ms: int) -> bytes:
    """Return the 200 bytes of a message: its running number, its due time, random bytes."""
    return _HEAD.pack(number, due_ms) + _TAIL


def read_body(body: bytes) -> tuple[int, int]:
    """Return running number and due time."""
    number, due_ms = _HEAD.unpack_from(body)
    return int(number), int(due_ms)


@contextmanager
def bench_manager(folder: Path, clock: Clock) -> Iterator[QueueManager]:
    """Open a queue manager of a folder with two deep queues."""
    with QueueManager("BENCH", folder, clock) as manager:
        manager.mqsc(
            "ALTER QMGR MAXUMSGS(100000)\n"
            "DEFINE QLOCAL(Q1) MAXDEPTH(999999999) REPLACE\n"
            "DEFINE QLOCAL(Q2) MAXDEPTH(999999999) REPLACE"
        )
        yield manager


class SessionClient:
    """The native transacted session; its consumer waits in get and commits when none is left."""

    def __init__(self, manager: QueueManager, clock: Clock) -> None:
        """Connect."""
        self._clock = clock
        self._session = manager.session(transacted=True)

    def put(self, rows: Sequence[tuple[int, int]]) -> None:
        """See Producer."""
        put, now_ms = self._session.put, self._clock.now_ms
        for number, due_ms in rows:
            delay_ms = max(1, due_ms - now_ms())
            put("Q1", body_of(number, due_ms), persistent=True, delay_ms=delay_ms)
        self._session.commit()

    def take(self, limit: int) -> list[Taken]:
        """See Client; a message has arrived when its get returns."""
        taken: list[Taken] = []
        wait_ms = _WAIT_MS
        while len(taken) < limit:
            message = self._session.get("Q1", wait_ms=wait_ms)
            if message is None:
                break
            number, _ = read_body(message.body)
            taken.append(Taken(number, message.deliver_at_ms, self._clock.now_ms()))
            wait_ms = 0
        self._session.commit()
        return taken

    def close(self) -> None:
        """See Producer."""
        self._session.close()


class JmsClient:
    """A transacted JMS context and its producer."""

    def __init__(self, manager: QueueManager, clock: Clock) -> None:
        """Connect."""
        self._clock = clock
        factory = jms.ConnectionFactory(manager)
        self._context = factory.create_context(jms.SESSION_TRANSACTED)
        self._producer = self._context.create_producer()
        self._queue = self._context.create_queue("Q1")

    def put(self, rows: Sequence[tuple[int, int]]) -> None:
        """See Producer."""
        for number, due_ms in rows:
            self._producer.set_delivery_delay(max(1, due_ms - self._clock.now_ms()))
            self._producer.send(self._queue, body_of(number, due_ms))
        self._context.commit()

    def close(self) -> None:
        """See Producer."""
        self._context.close()
