"""The thread of a client that calls callbacks, one after the other, while another one reads."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from mayfly.runtime import Loop, Runtime

_LOG = logging.getLogger("mayfly.client")


class Callbacks:
    """Callbacks in the order in which they are to be called; they may call verbs."""

    def __init__(self, runtime: Runtime) -> None:
        """Begin without a thread."""
        self._runtime = runtime
        self._changed = runtime.condition()
        self._calls: deque[Callable[[], object]] = deque()
        self._has_thread = self._is_over = False

    def add(self, call: Callable[[], object]) -> None:
        """Let the thread call something."""
        with self._changed:
            self._calls.append(call)
            is_new, self._has_thread = not self._has_thread, True
            self._changed.notify_all()
        if is_new:
            Loop(self._runtime, self._call_next, "mayfly-wire-call").start()

    def end(self) -> None:
        """End the thread when all are called."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _call_next(self) -> bool:
        """Wait for the next callback and call it; False at the end."""
        with self._changed:
            while not self._calls and not self._is_over:
                self._changed.wait()
            if not self._calls:
                self._has_thread = False
                return False
            call = self._calls.popleft()
        try:
            call()
        except (Exception, SystemExit):  # noqa: BLE001 - it is the program's; the others go on
            _LOG.exception("a callback has failed")
        return True
