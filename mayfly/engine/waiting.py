"""A get that waits: whoever brings a message, or the end of the wait, decides its outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from mayfly.engine.queues import LocalQueue
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error


class Waiter:
    """One waiting get. ``take`` tries to take a message under the latch and returns it or None.

    The decision is made by the thread that commits a message or passes the deadline, never by the
    waiting thread, so that under a virtual clock it is made at its exact moment.
    """

    def __init__(self, queue: LocalQueue, take: Callable[[], Any], until_ms: int | None) -> None:
        """Wait on a queue until a moment, None for ever."""
        self.queue = queue
        self.until_ms = until_ms
        self.result: Any = None
        self.error: MQError | None = None
        self._take = take
        self._decided = threading.Event()

    def attempt(self) -> bool:
        """Try to take a message; True when the wait is decided."""
        try:
            self.result = self._take()
        except MQError as error:
            # GET was inhibited while waiting (G4), or the unit of work is full.
            self.error = error
        if self.result is None and self.error is None:
            return False
        self._decided.set()
        return True

    def end(self) -> None:
        """The deadline has come: a message that is there at this moment wins."""
        if not self.attempt():
            self.fail(mq_error(rc.MQRC_NO_MSG_AVAILABLE, "nothing came while waiting"))

    def fail(self, error: MQError) -> None:
        """Decide the wait by an error."""
        self.error = error
        self._decided.set()

    def wait(self) -> Any:
        """Block until decided; return what was taken or raise the error."""
        self._decided.wait()
        if self.error is not None:
            raise self.error
        return self.result
