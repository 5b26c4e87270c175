"""Waits of coroutines for MQ verbs: callbacks become futures, and a shutdown ends waiting gets."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from mayfly.client.connection import OnDone, UnderWay
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.servers.http.connection import HttpConnection, finish

_T = TypeVar("_T")


class VerbFutures:
    """Turns callbacks from other threads into futures; wakes the loop once for several of them."""

    def __init__(self) -> None:
        """Start without results that wait to be set."""
        self._arrived: deque[tuple[asyncio.Future[Any], object]] = deque()
        self._is_woken = False

    def callback_for(self, future: asyncio.Future[_T]) -> OnDone[_T]:
        """Return a callback that sets the result or the MQError of a future, from any thread.

        A future that is already done stays as it is.
        """
        loop = future.get_loop()

        def on_done(outcome: _T | MQError) -> None:
            self._arrived.append((future, outcome))
            if not self._is_woken:
                # Two threads may both wake it up; the second finds nothing to do.
                self._is_woken = True
                loop.call_soon_threadsafe(self._set_results)

        return on_done

    async def of(self, begin: Callable[[OnDone[_T]], object]) -> _T:
        """Start an MQ verb with ``begin``, and await its result; raises the MQError of the verb.

        ``begin`` takes the callback to be called with result or error.
        """
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        begin(self.callback_for(future))
        return await future

    def _set_results(self) -> None:
        """Set the results of all futures whose verbs have ended; runs in the event loop."""
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


class ClientGone(Exception):
    """The client has gone while its request was waiting; no answer is sent."""


class GetWaits:
    """All gets of HTTP requests that wait for a message; a shutdown of the server cancels them."""

    def __init__(self) -> None:
        """Start without waiting gets."""
        self._changing = threading.Lock()
        #: A future for each wait, which a drain ends.
        self._draining = set[asyncio.Future[None]]()
        self._is_over = False

    def end(self) -> None:
        """Cancel all waiting gets, and those that begin from now on; any thread may call it."""
        with self._changing:
            self._is_over = True
            draining = list(self._draining)
        for each in draining:
            each.get_loop().call_soon_threadsafe(finish, each)

    async def wait(
        self, line: HttpConnection, outcome: asyncio.Future[_T], under_way: UnderWay
    ) -> _T:
        """Await a get that waits for a message; return its result, or raise its error.

        ``line`` is the client's connection, ``outcome`` the future of the get, and ``under_way``
        cancels it. The get is cancelled if the client goes (raises ClientGone), if an operator ends
        the connection (MQRC_CONNECTION_QUIESCING), or if the server shuts down
        (MQRC_Q_MGR_QUIESCING). A get that already has its message is not cancelled: the message is
        the result. If the client has gone, the caller must then return it to its queue.
        """
        draining: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._changing:
            self._draining.add(draining)
            is_over = self._is_over
        try:
            if not is_over:
                ends: list[asyncio.Future[Any]] = [outcome, line.when_closing(), draining]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            with self._changing:
                self._draining.remove(draining)
            if not outcome.done() and under_way.cancel():
                outcome.cancel()
        if not outcome.cancelled():
            return await outcome
        if line.is_lost:
            raise ClientGone
        if line.is_quiescing:
            raise mq_error(rc.MQRC_CONNECTION_QUIESCING, "the channel was stopped by an operator")
        raise mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server ends")
