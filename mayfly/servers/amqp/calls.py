"""Calls that one connection makes later: in its loop, at the end of a pass, or when it has sent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

Call: TypeAlias = Callable[[], object]


class Calls:
    """Calls to be made later for one connection; none is made once the connection has ended."""

    __slots__ = (
        "_at_end",
        "_behind",
        "_is_over",
        "_is_woken",
        "_loop",
        "_pump",
        "_soon",
        "_when_sent",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, pump: Call) -> None:
        """Begin with none; ``pump`` ends the pass in which calls of other threads are made."""
        self._loop, self._pump = loop, pump
        self._soon: deque[Call] = deque()
        self._at_end: list[Call] = []
        self._behind: list[Call] = []
        self._when_sent: list[Call] = []
        self._is_woken = self._is_over = False

    def soon(self, call: Call) -> None:
        """Make a call in the loop, from any thread; several share one wake-up."""
        self._soon.append(call)
        if not self._is_woken:
            # Two threads may both wake it up; the second finds nothing to do.
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._run_soon)

    def at_end(self, call: Call) -> None:
        """Make a call at the end of this pass of the loop, or before the client ends something."""
        self._at_end.append(call)

    def behind_end(self, call: Call) -> None:
        """Make a call behind those for the end of this pass."""
        self._behind.append(call)

    def when_sent(self, call: Call) -> None:
        """Make a call in the loop once bytes have been sent to the client."""
        self._when_sent.append(call)

    def carry_out(self) -> None:
        """Make the calls for the end of a pass now: the client ends what they belong to."""
        calls, self._at_end = self._at_end, []
        for call in calls:
            call()

    def end_pass(self) -> None:
        """Make the calls for the end of a pass."""
        self.carry_out()
        calls, self._behind = self._behind, []
        for call in calls:
            call()

    @property
    def has_more(self) -> bool:
        """Whether the pass has an end again."""
        return bool(self._at_end or self._behind)

    def note_sent(self) -> None:
        """Note that bytes have been sent."""
        calls, self._when_sent = self._when_sent, []
        for call in calls:
            self.soon(call)

    def end(self) -> None:
        """Make no call any more: the links and deliveries of the connection are gone."""
        self._is_over = True

    def _run_soon(self) -> None:
        # First: a call that comes from now on wakes it up again.
        self._is_woken = False
        while self._soon:
            call = self._soon.popleft()
            if not self._is_over:
                call()
        self._pump()
