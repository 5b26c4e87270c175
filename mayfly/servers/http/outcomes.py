"""Outcomes of verbs with callbacks, brought to the loop of the server: no thread waits for one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from mayfly.client.connection import OnDone
from mayfly.mqi.errors import MQError

_T = TypeVar("_T")


class Outcomes:
    """Futures that callbacks of other threads end; those that come together wake the loop once."""

    def __init__(self) -> None:
        """Begin with none."""
        self._arrived: deque[tuple[asyncio.Future[Any], object]] = deque()
        self._is_woken = False

    def ending(self, future: asyncio.Future[_T]) -> OnDone[_T]:
        """Return the ``on_done`` that ends a future of the loop that runs."""
        loop = future.get_loop()

        def on_done(outcome: _T | MQError) -> None:
            self._arrived.append((future, outcome))
            if not self._is_woken:
                # Two threads may both wake it up; the second finds nothing to do.
                self._is_woken = True
                loop.call_soon_threadsafe(self._bring)

        return on_done

    async def of(self, begin: Callable[[OnDone[_T]], object]) -> _T:
        """Begin a verb with an ``on_done``; return its outcome. Raises its MQError."""
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        begin(self.ending(future))
        return await future

    def _bring(self) -> None:
        # First: an outcome that comes from now on wakes the loop again.
        self._is_woken = False
        while self._arrived:
            future, outcome = self._arrived.popleft()
            if future.done():
                continue
            if isinstance(outcome, MQError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
