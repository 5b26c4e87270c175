"""Coroutines: the verbs of ``mayfly.connect`` for programs that run on asyncio (docs/AIO.md)."""

from mayfly.client.aio.client import AsyncClient
from mayfly.client.aio.connecting import connect
from mayfly.client.aio.subscription import AsyncSubscription

__all__ = ["AsyncClient", "AsyncSubscription", "connect"]
