"""The client for asyncio, with coroutines as verbs; `mayfly.aio` has the public names."""
