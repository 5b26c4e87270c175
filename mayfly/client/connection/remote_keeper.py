"""The heartbeat thread of a client process: sends heartbeats and detects silent servers."""

from __future__ import annotations

import logging
import os
from typing import Protocol

from mayfly.runtime import Loop, Runtime, elapsed_ms

_LOG = logging.getLogger("mayfly.client")
_NAME = "mayfly-heartbeat"


class Kept(Protocol):
    """A connection that the keeper checks regularly."""

    @property
    def tick_ms(self) -> int:
        """The time between two checks in ms: half a heartbeat interval."""

    @property
    def is_over(self) -> bool:
        """True when the connection needs no more checks."""

    def tick(self) -> None:
        """Read what has arrived, send a heartbeat; break the connection off after long silence."""


class Keeper:
    """One heartbeat thread for all connections of a process; it ends when none is left."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        """Prepare a thread named ``name``; the first connection starts it."""
        self._runtime, self._name = runtime, name
        self._changed = runtime.condition()
        self._due: dict[Kept, int] = {}
        self._has_thread = False

    def keep(self, kept: Kept) -> None:
        """Begin to check a connection every ``tick_ms``."""
        with self._changed:
            self._due[kept] = elapsed_ms() + kept.tick_ms
            is_new, self._has_thread = not self._has_thread, True
            self._changed.notify_all()
        if is_new:
            try:
                Loop(self._runtime, self._turn, self._name).start()
            except BaseException:
                # The next connection tries again.
                self._has_thread = False
                raise

    def leave(self, kept: Kept) -> None:
        """Stop checking a connection; one that is not checked is ignored."""
        with self._changed:
            self._due.pop(kept, None)
            self._changed.notify_all()

    def _turn(self) -> bool:
        """Check the due connections, or wait until one is due; return False when none is left."""
        with self._changed:
            if not self._due:
                self._has_thread = False
                return False
            now_ms = elapsed_ms()
            due = [kept for kept, at_ms in self._due.items() if at_ms <= now_ms]
            for kept in due:
                self._due[kept] = now_ms + kept.tick_ms
            if not due:
                self._changed.wait((min(self._due.values()) - now_ms) / 1_000)
        for kept in due:
            if kept.is_over:
                self.leave(kept)
                continue
            try:
                kept.tick()
            except Exception:  # noqa: BLE001 - the other connections are looked after as well
                _LOG.exception("a connection cannot be looked after")
        return True


_keeper = Keeper(Runtime(), _NAME)


def keeper() -> Keeper:
    """Return the keeper of this process."""
    return _keeper


def _forget_connections() -> None:
    """Begin without connections in a forked child: they and the thread belong to the parent."""
    global _keeper  # noqa: PLW0603 - the thread of the old one is not there
    _keeper = Keeper(Runtime(), _NAME)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_connections)
