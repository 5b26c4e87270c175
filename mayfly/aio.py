"""Asyncio client: the verbs of ``mayfly.connect`` as coroutines (docs/SESSION.md)."""

from mayfly.client.aio.client import AsyncClient, AsyncSubscription, connect

__all__ = ["AsyncClient", "AsyncSubscription", "connect"]
