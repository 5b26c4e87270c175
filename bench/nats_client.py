"""A client of NATS JetStream for measuring: its asyncio client, used from a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from bench.peer_process import HOST, client_library

T = TypeVar("T")
#: A fetch waits for so long, and is then asked for again.
_WAIT_SECONDS = 30.0


class NatsClient:
    """One connection to a stream whose messages end with their acknowledgement.

    Methods return when the server has answered: it then has synced.
    """

    def __init__(self, port: str, queue: str) -> None:
        """Connect, and make the stream where there is none."""
        self._loop, self._queue = asyncio.new_event_loop(), queue
        self._subscription: Any = None
        self._connection: Any = self._run(client_library("nats").connect(f"nats://{HOST}:{port}"))
        self._stream: Any = self._connection.jetstream()
        api = client_library("nats.js.api")
        self._run(
            self._stream.add_stream(
                name=queue,
                subjects=[queue],
                storage=api.StorageType.FILE,
                retention=api.RetentionPolicy.WORK_QUEUE,
            )
        )

    def put(self, body: bytes) -> None:
        """Publish one message."""
        self._run(self._stream.publish(self._queue, body))

    def put_all(self, bodies: Sequence[bytes]) -> None:
        """Publish messages, none of which waits for the answer to another."""
        self._run(self._published(bodies))

    def get(self) -> bytes:
        """Wait for a message, and acknowledge it."""
        (body,) = self.get_all(1)
        return body

    def get_all(self, count: int) -> list[bytes]:
        """Wait for up to so many messages, and acknowledge them."""
        return self._run(self._got(count))

    def stored(self) -> tuple[int, int]:
        """Return messages and bytes of the stream."""
        state = self._run(self._stream.stream_info(self._queue)).state
        return int(state.messages), int(state.bytes)

    def close(self) -> None:
        """Disconnect."""
        self._run(self._closed())
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    async def _closed(self) -> None:
        own = asyncio.current_task()
        await self._connection.close()
        # Its tasks are cancelled, and end in their own time.
        tasks = [task for task in asyncio.all_tasks() if task is not own]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _published(self, bodies: Sequence[bytes]) -> None:
        answers = [await self._stream.publish_async(self._queue, body) for body in bodies]
        await asyncio.gather(*answers)

    async def _got(self, count: int) -> list[bytes]:
        if self._subscription is None:
            self._subscription = await self._stream.pull_subscribe(self._queue, durable="bench")
        timed_out = client_library("nats.errors").TimeoutError
        while True:
            try:
                found = await self._subscription.fetch(count, _WAIT_SECONDS)
            except timed_out:
                continue
            # Acknowledgements are taken in order: the answer to the last one speaks for all.
            for message in found[:-1]:
                await message.ack()
            await found[-1].ack_sync()
            return [bytes(message.data) for message in found]
