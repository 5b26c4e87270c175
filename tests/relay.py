"""A relay between clients and their server: it takes its time, or goes silent in the midst.

``python -m tests.relay 1415 127.0.0.1 1414`` relays from a port until its standard input ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

HOST: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 65_536
_LOOK_SECONDS: Final = 0.01


class Relay:
    """Passes bytes on, each way after ``delay_ms``; while ``is_silent`` nothing passes.

    Bytes that come meanwhile are kept: neither side is told.
    """

    def __init__(self, host: str, port: int) -> None:
        """Take the address of the server; a host that begins with ``/`` is a UNIX socket."""
        self.target = host, port
        self.port = 0
        self.delay_ms = 0.0
        self.is_silent = False
        self._is_cut = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, port: int) -> asyncio.Server:
        """Begin to listen; ``port`` is where."""
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._come, HOST, port)
        self.port = server.sockets[0].getsockname()[1]
        return server

    def cut(self) -> None:
        """Break all connections, and those that come until :meth:`mend`; any thread may call it."""
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    def mend(self) -> None:
        """Pass bytes of new connections on again."""
        self._is_cut = False

    async def _cut(self) -> None:
        self._is_cut = True
        await self.end()

    async def end(self) -> None:
        """Break all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.close()
            return
        try:
            there, back = await self._connected()
        except OSError:
            writer.close()
            return
        for source, target in ((reader, back), (there, writer)):
            task = asyncio.get_running_loop().create_task(self._pass_on(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = self.target
        if host.startswith("/"):
            return await asyncio.open_unix_connection(host)
        return await asyncio.open_connection(host, port)

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def send() -> None:
            while True:
                due, chunk = await waiting.get()
                await asyncio.sleep(due - loop.time())
                while self.is_silent:
                    await asyncio.sleep(_LOOK_SECONDS)
                if not chunk:
                    return
                target.write(chunk)
                await target.drain()

        sender = loop.create_task(send())
        try:
            chunk = b"-"
            while chunk:
                with contextlib.suppress(ConnectionError):
                    chunk = b""
                    chunk = await source.read(_CHUNK_BYTES)
                waiting.put_nowait((loop.time() + self.delay_ms / 1_000, chunk))
            with contextlib.suppress(ConnectionError):
                await sender
        finally:
            sender.cancel()
            target.close()


@contextmanager
def relaying(host: str, port: int) -> Iterator[Relay]:
    """Relay to a server for a block, in a thread."""
    relay = Relay(host, port)
    loop = asyncio.new_event_loop()

    async def run() -> None:
        server = await relay.listen(0)
        is_ready.set()
        await is_over.wait()
        server.close()
        await relay.end()

    is_ready, is_over = threading.Event(), asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), name="relay")
    thread.start()
    is_ready.wait()
    try:
        yield relay
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join()
        loop.close()


async def _main(port: str, host: str, server_port: str) -> None:
    await Relay(host, int(server_port)).listen(int(port))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
