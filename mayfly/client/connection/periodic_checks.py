"""Threads of a client process that check its connections regularly: heartbeats, idle handles."""

from __future__ import annotations

import logging
import os
from typing import Protocol

from mayfly.runtime import Loop, Runtime, elapsed_ms

_LOG = logging.getLogger("mayfly.client")


class Checked(Protocol):
    """A connection, or the open objects of a client, that is checked regularly."""

    @property
    def tick_ms(self) -> int:
        """The time between two checks in ms."""

    @property
    def is_over(self) -> bool:
        """True when no more checks are needed."""

    def tick(self) -> None:
        """Do one check."""


class PeriodicChecks:
    """One thread for all checks of one kind in a process; it ends when nothing is left to check.

    A forked child begins with nothing to check: the thread and the connections are its parent's.
    """

    def __init__(self, name: str) -> None:
        """Prepare a thread named ``name``; the first :meth:`add` starts it."""
        self._name = name
        self._start_anew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self) -> None:
        """Begin with nothing to check and without a thread, also in a forked child."""
        self._runtime = Runtime()
        self._changed = self._runtime.condition()
        self._due: dict[Checked, int] = {}
        self._has_thread = False

    def add(self, checked: Checked) -> None:
        """Begin to check a connection every ``tick_ms``, until it is over or removed.

        An exception of a check is logged, and the checks continue.
        """
        with self._changed:
            self._due[checked] = elapsed_ms() + checked.tick_ms
            is_new, self._has_thread = not self._has_thread, True
            self._changed.notify_all()
        if is_new:
            try:
                Loop(self._runtime, self._turn, self._name).start()
            except BaseException:
                # The next connection tries again.
                self._has_thread = False
                raise

    def remove(self, checked: Checked) -> None:
        """Stop checking a connection; one that is not checked is ignored."""
        with self._changed:
            self._due.pop(checked, None)
            self._changed.notify_all()

    def _turn(self) -> bool:
        """Do the checks that are due, or wait until one is due; return False when none is left."""
        with self._changed:
            if not self._due:
                self._has_thread = False
                return False
            now_ms = elapsed_ms()
            due = [checked for checked, at_ms in self._due.items() if at_ms <= now_ms]
            for checked in due:
                self._due[checked] = now_ms + checked.tick_ms
            if not due:
                self._changed.wait((min(self._due.values()) - now_ms) / 1_000)
        for checked in due:
            if checked.is_over:
                self.remove(checked)
                continue
            try:
                checked.tick()
            except Exception:  # noqa: BLE001 - the other connections are checked as well
                _LOG.exception("a connection cannot be looked after")
        return True
