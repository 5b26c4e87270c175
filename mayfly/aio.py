"""Coroutines: the verbs of ``mayfly.connect`` for programs that run on asyncio (docs/AIO.md)."""

from mayfly.client.aio.client import AsyncClient, AsyncSubscription, connect

__all__ = ["AsyncClient", "AsyncSubscription", "connect"]
