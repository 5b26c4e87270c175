"""Waits of clients for messages, which end when the client goes or the server drains."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from mayfly.client.connection import UnderWay
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.servers.http.line import Line, finish

_T = TypeVar("_T")


class ClientGone(Exception):
    """The client has gone while its request was waiting, so an answer would not be read."""


class Waits:
    """The waits under way; a drain ends them."""

    def __init__(self) -> None:
        """Begin with none."""
        self._changing = threading.Lock()
        self._ends: dict[int, Callable[[], object]] = {}
        self._is_over = False

    def end(self) -> None:
        """End all waits, and those that begin from now on; any thread may call it."""
        with self._changing:
            self._is_over = True
            ends = list(self._ends.values())
        for end in ends:
            end()

    async def wait(self, line: Line, outcome: asyncio.Future[_T], under_way: UnderWay) -> _T:
        """Return the outcome of a get that was begun with a wait.

        Raises the error of the get. When the client goes, is to go, or the server drains, the get
        is cancelled, and ClientGone, MQRC_CONNECTION_QUIESCING or MQRC_Q_MGR_QUIESCING is raised. A
        get that is decided already cannot be cancelled: its message is returned, and the caller
        gives it back.
        """
        loop = asyncio.get_running_loop()
        draining: asyncio.Future[None] = loop.create_future()
        number = id(draining)

        def end() -> None:
            loop.call_soon_threadsafe(finish, draining)

        with self._changing:
            self._ends[number] = end
            is_over = self._is_over
        try:
            if not is_over:
                ends: list[asyncio.Future[Any]] = [outcome, line.when_over(), draining]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            with self._changing:
                del self._ends[number]
            if not outcome.done() and under_way.cancel():
                outcome.cancel()
        if not outcome.cancelled():
            return await outcome
        if line.is_lost:
            raise ClientGone
        if line.is_quiescing:
            raise mq_error(rc.MQRC_CONNECTION_QUIESCING, "the channel was stopped by an operator")
        raise mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server ends")
