"""The listener of a shared scenario: a listener port in non-ASF mode."""

from __future__ import annotations

import queue
import threading

from mayfly import QueueManager, jms
from mayfly.listener import ListenerPort
from mayfly.testing import VirtualClock
from tests.facts import PATIENCE_SECONDS, wait_until

_RECEIVE_TIMEOUT_MS = 110_000


class Failure(Exception):
    """Raised by the listener when its message asks for it."""


class Listener:
    """Does with each message as its properties say, and notes the calls.

    A message with ``held`` is at work until :meth:`let_go`. One with ``failures`` lets its first so
    many deliveries fail.
    """

    def __init__(
        self,
        manager: QueueManager,
        clock: VirtualClock,
        destination: str,
        sessions: int,
        selector: str | None,
    ) -> None:
        """Start."""
        self._clock = clock
        self._calls: queue.Queue[jms.Message] = queue.Queue()
        self._gate = threading.Event()
        self._port = ListenerPort(
            manager,
            destination=destination,
            on_message=self._on_message,
            max_sessions=sessions,
            selector=selector,
            properties={"NON.ASF.RECEIVE.TIMEOUT": str(_RECEIVE_TIMEOUT_MS)},
            total_tran_lifetime_timeout_s=0,
        )
        self._port.start()

    def wait_until_receiving(self, sessions: int) -> None:
        """Return when so many sessions wait for a message."""
        wait_until(lambda: self._port.statistics().receiving == sessions)

    def wait_until_idle(self, receives: int) -> None:
        """Let time pass until so many receives have found nothing."""

        def is_idle() -> bool:
            now = self._port.statistics()
            if now.idle_rollbacks >= receives:
                return True
            if now.receiving:
                self._clock.advance(_RECEIVE_TIMEOUT_MS)
            return False

        wait_until(is_idle)

    def next_call(self) -> jms.Message:
        """Return the next message that the listener was called with."""
        return self._calls.get(timeout=PATIENCE_SECONDS)

    @property
    def has_calls(self) -> bool:
        """Whether it was called with more messages."""
        return not self._calls.empty()

    def let_go(self) -> None:
        """Let all calls end, now and from now on."""
        self._gate.set()

    def stop(self) -> None:
        """Stop; calls at work end first."""
        if self._port.is_running:
            self._port.stop()

    def _on_message(self, message: jms.Message) -> None:
        self._calls.put(message)
        if message.property_exists("held"):
            assert self._gate.wait(PATIENCE_SECONDS)
        failures = (
            message.get_int_property("failures") if message.property_exists("failures") else 0
        )
        if message.get_int_property("JMSXDeliveryCount") <= failures:
            raise Failure
