"""The keeper of a process: shows servers that it lives, and notices servers that do not."""

from __future__ import annotations

import logging
import os
from typing import Protocol

from mayfly.runtime import Loop, Runtime, elapsed_ms

_LOG = logging.getLogger("mayfly.client")
_NAME = "mayfly-heartbeat"


class Kept(Protocol):
    """A connection that is looked after."""

    @property
    def tick_ms(self) -> int:
        """How often it is looked at: half an interval of heartbeats."""

    @property
    def is_over(self) -> bool:
        """Whether it needs no more looks."""

    def tick(self) -> None:
        """Look at it: read what came, send a sign of life, break it off when all is silent."""


class Keeper:
    """One thread for all connections of a process, which ends when there is none."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        """Begin with nothing to look after; the thread will have a name."""
        self._runtime, self._name = runtime, name
        self._changed = runtime.condition()
        self._due: dict[Kept, int] = {}
        self._has_thread = False

    def keep(self, kept: Kept) -> None:
        """Look after a connection from now on."""
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
        """Look after a connection no more."""
        with self._changed:
            self._due.pop(kept, None)
            self._changed.notify_all()

    def _turn(self) -> bool:
        """Look at what is due, or wait for it; False when nothing is to be looked after."""
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


def _begin_anew() -> None:
    """Begin without connections in a forked child; its parent looks after those it has made."""
    global _keeper  # noqa: PLW0603 - the thread of the old one is not there
    _keeper = Keeper(Runtime(), _NAME)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
