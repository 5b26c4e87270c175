"""``mayfly.aio.connect``: an asynchronous client by the name of a queue manager, or by a URL."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from functools import partial
from types import TracebackType
from typing import Any

from mayfly import connection
from mayfly.aio.client import AsyncClient


def connect(name: str, *, user: str | None = None, transacted: bool = False) -> Connecting:
    """Connect to a queue manager: ``async with connect("QM1") as client``, or ``await`` it.

    Parameters and errors are those of ``mayfly.connect``. The connection belongs to the loop in
    which it is entered.
    """
    return Connecting(name, user, transacted=transacted)


class Connecting:
    """A client that is not connected yet."""

    def __init__(self, name: str, user: str | None, *, transacted: bool) -> None:
        """Note what ``connect`` was given."""
        self._connect = partial(connection.connect, name, user)
        self._transacted = transacted
        self._client: AsyncClient | None = None

    def __await__(self) -> Generator[Any, None, AsyncClient]:
        """Connect."""
        return self._connected().__await__()

    async def __aenter__(self) -> AsyncClient:
        """Connect."""
        self._client = await self._connected()
        return self._client

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit or, after an exception, back out; then disconnect."""
        if self._client is not None:
            await self._client.__aexit__(kind, value, traceback)

    async def _connected(self) -> AsyncClient:
        made = await asyncio.to_thread(self._connect)
        return AsyncClient(made, transacted=self._transacted)
