"""Coroutines for programs that run on asyncio; `mayfly.aio` has the public names."""
