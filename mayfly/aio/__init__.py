"""Coroutines: the verbs of ``mayfly.connect`` for programs that run on asyncio (docs/AIO.md)."""

from mayfly.aio.client import AsyncClient
from mayfly.aio.connecting import connect
from mayfly.aio.subscription import AsyncSubscription

__all__ = ["AsyncClient", "AsyncSubscription", "connect"]
