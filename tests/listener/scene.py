"""Helpers of the listener tests: queues, a port that is stopped at the end, calls in control."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mayfly import QueueManager, jms
from mayfly.listener import ActivationSpec, ListenerPort, Statistics
from mayfly.testing import VirtualClock

RECEIVE_TIMEOUT_MS = 110_000
LIFETIME_MS = 120_000
DEFINITIONS = """
DEFINE QLOCAL(Q1)
DEFINE QLOCAL(Q2)
DEFINE QLOCAL(POISONED) BOTHRESH(2) BOQNAME(BACKOUTS)
DEFINE QLOCAL(BACKOUTS)
DEFINE QLOCAL(REPLIES)
"""
#: How long a test waits for another thread before it fails.
PATIENCE_SECONDS = 60
Endpoint = ListenerPort | ActivationSpec


def ignore(message: jms.Message) -> None:
    """Do nothing with a message."""


def port_of(
    manager: QueueManager | jms.ConnectionFactory,
    on_message: Callable[[Any], object] = ignore,
    *,
    receive_timeout_ms: int = RECEIVE_TIMEOUT_MS,
    destination: str = "Q1",
    properties: dict[str, str | int] | None = None,
    **options: Any,
) -> ListenerPort:
    """Return a port in non-ASF mode; a receive timeout of 0 is ASF."""
    timeout = {"NON.ASF.RECEIVE.TIMEOUT": str(receive_timeout_ms)}
    return ListenerPort(
        manager,
        destination=destination,
        on_message=on_message,
        properties=timeout | (properties or {}),
        **options,
    )


@contextmanager
def started(port: Endpoint) -> Iterator[Endpoint]:
    """Start a port and stop it in the end."""
    port.start()
    try:
        yield port
    finally:
        port.stop()


def put(manager: QueueManager, *texts: str, name: str = "Q1", **terms: Any) -> None:
    """Put texts."""
    with manager.session() as session:
        for text in texts:
            session.put(name, text.encode(), format_name="MQSTR", **terms)


def until(port: Endpoint, is_so: Callable[[Statistics], bool]) -> Statistics:
    """Return the statistics of a port as soon as they are so."""
    pause = threading.Event()
    for _ in range(PATIENCE_SECONDS * 1_000):
        statistics = port.statistics()
        if is_so(statistics):
            return statistics
        # Others need the processor to make it so.
        pause.wait(0.001)
    pytest.fail(f"it stays so: {port.statistics()}")


def receiving(port: Endpoint, count: int = 1) -> Statistics:
    """Return when so many sessions wait for a message."""
    return until(port, lambda statistics: statistics.receiving == count)


def idle(port: Endpoint, count: int) -> Statistics:
    """Return when so many receives have found nothing."""
    return until(port, lambda statistics: statistics.idle_rollbacks == count)


def ends_ms(manager: QueueManager) -> list[int | None]:
    """Return when the waits end that are under way."""
    with manager.engine.engine_lock:
        by_queue = manager.engine.waits.by_queue.values()
        return [waiter.until_ms for waiters in by_queue for waiter in waiters]


def next_end_ms(manager: QueueManager) -> int | None:
    """Return when the next wait ends."""
    with manager.engine.engine_lock:
        return manager.engine.waits.next_end_ms()


def ticking_until(port: Endpoint, clock: VirtualClock, is_so: Callable[[], bool]) -> None:
    """Let minute after minute pass until it is so."""

    def tick(_: Statistics) -> bool:
        clock.advance(60_000)
        return is_so()

    until(port, tick)


class Calls:
    """An on_message that notes each call, then waits until the test lets it go on."""

    def __init__(self, then: Callable[[Any], object] = ignore, *, is_held: bool = False) -> None:
        """Do this after each note; ``is_held`` begins with calls that wait."""
        self._notes: queue.Queue[Any] = queue.Queue()
        self._then = then
        self._gate = threading.Event()
        if not is_held:
            self._gate.set()

    def __call__(self, message: Any) -> None:
        """Note a message."""
        self._notes.put(message)
        assert self._gate.wait(PATIENCE_SECONDS)
        self._then(message)

    def next(self) -> Any:
        """Return the next message, waiting for it."""
        return self._notes.get(timeout=PATIENCE_SECONDS)

    def text(self) -> str | None:
        """Return the text of the next message."""
        message = self.next()
        assert type(message) is jms.TextMessage
        return message.text

    def let_go(self) -> None:
        """Let all calls end, now and from now on."""
        self._gate.set()

    def hold(self) -> None:
        """Let calls wait from now on."""
        self._gate.clear()

    @property
    def is_empty(self) -> bool:
        """Whether no call was made since."""
        return self._notes.empty()


def fail(message: object) -> None:
    """Raise, as an application with a bug does."""
    raise ValueError("bug")


def backout_count(manager: QueueManager, name: str = "Q1") -> int:
    """Return how often the first message of a queue was backed out."""
    with manager.session() as session:
        return next(session.browse(name)).backout_count
