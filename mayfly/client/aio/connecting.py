"""``mayfly.aio.connect``: an asynchronous client by the name of a queue manager, or by a URL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from types import TracebackType
from typing import Any

from mayfly.client.aio.client import AsyncClient
from mayfly.client.connecting import TlsWanted, connected
from mayfly.client.connection import Connection
from mayfly.client.connection.choose import Wanted
from mayfly.client.connection.endpoint import Reconnect


def connect(
    name: str,
    *,
    user: str | None = None,
    password: str | None = None,
    tls: TlsWanted = None,
    transacted: bool = False,
    reconnect: Reconnect | None = None,
) -> Connecting:
    """Connect to a queue manager: ``async with connect("QM1") as client``, or ``await`` it.

    Parameters and errors are those of ``mayfly.connect``. The connection belongs to the loop in
    which it is entered.
    """
    wanted = Wanted(reconnect=reconnect, may_reconnect=True)
    made = partial(connected, name, wanted, user=user, password=password, tls=tls)
    return Connecting(made, transacted=transacted)


class Connecting:
    """A client that is not connected yet."""

    def __init__(self, connect: Callable[[], Connection], *, transacted: bool) -> None:
        """Note how to connect."""
        self._connect, self._transacted = connect, transacted
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
