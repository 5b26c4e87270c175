"""The ports of a standby: they are bound, and refuse each client with the place of the owner."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import failure_of, mq_error
from mayfly.runtime import Loop, Runtime
from mayfly.servers.acceptor import tcp_sockets, unix_socket
from mayfly.servers.addresses import ListenAddress, listen_address
from mayfly.servers.settings import Listen
from mayfly.verbs.contracts.wire import ENDED, OURS, PREAMBLE, framed, packed

#: A client has so long to say what it wants, and to hang up.
_CLIENT_SECONDS: Final = 10.0
_CHUNK_BYTES: Final = 65_536
_LIVE_PATH: Final = b"/health/live"
_ALIVE, _ELSEWHERE = "200 OK", "503 Service Unavailable"
_Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class OwnerPlace(NamedTuple):
    """Who owns a queue manager, empty if that is not known, and where, by names of listeners."""

    name: str
    addresses: Mapping[str, str] = MappingProxyType({})

    def address(self, listener: str) -> ListenAddress | None:
        """Return where the owner has this listener; None if it has none."""
        text = self.addresses.get(listener)
        return None if text is None else listen_address(text)


class StandbyPorts:
    """Bound ports of a server whose queue manager another one owns, in one thread."""

    def __init__(
        self,
        queue_manager: str,
        context: ssl.SSLContext | None,
        owner: OwnerPlace,
        runtime: Runtime,
    ) -> None:
        """Start the thread; nothing listens yet. With ``context`` the ports speak TLS.

        ``owner`` is named to clients.
        """
        self._queue_manager, self._context = queue_manager, context
        self.owner = owner
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._worker = Loop(runtime, self._run, "mayfly-standby")
        self._worker.start()

    def listen(self, addresses: Listen) -> dict[str, str]:
        """Listen on addresses; return them, with the ports that the system has given, by listener.

        Raises OSError, which names the address.
        """
        found = {}
        for name, address in addresses._asdict().items():
            if address is None:
                continue
            try:
                sockets = tcp_sockets(*address)
            except OSError as error:
                text = f"cannot listen on {address}: {error.strerror or error}"
                raise OSError(text) from error
            found[name] = str(address._replace(port=sockets[0].getsockname()[1]))
            for each in sockets:
                self._call(
                    asyncio.start_server(self._answering(name), sock=each, ssl=self._context)
                )
        return found

    def listen_unix(self, path: Path) -> None:
        """Listen on a UNIX socket for programs of this machine; raises OSError."""
        path.unlink(missing_ok=True)
        self._call(asyncio.start_unix_server(self._answering("mq"), sock=unix_socket(path)))

    def close(self) -> None:
        """Close the ports and all connections, and end the thread."""

        async def end() -> None:
            """Close the servers, and cancel the answers that wait for clients."""
            for server in self._servers:
                server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._worker.join()
        self._loop.close()

    def _run(self) -> bool:
        """Run the event loop until it is stopped; the turn of the thread."""
        self._loop.run_forever()
        return False

    def _call(self, starting: Awaitable[asyncio.Server]) -> None:
        """Start a server in the event loop."""

        async def start() -> asyncio.Server:
            """Wait for the start."""
            return await starting

        self._servers.append(asyncio.run_coroutine_threadsafe(start(), self._loop).result())

    def _answering(self, listener: str) -> _Answer:
        """Return what answers the clients of a listener."""
        refuse = {"mq": self._refuse_mq, "http": self._refuse_http, "amqp": self._refuse_amqp}
        return partial(self._answer, refuse.get(listener))

    async def _answer(
        self,
        refuse: _Answer | None,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Refuse one client, and wait until it hangs up; Flight's clients are hung up at once."""
        try:
            async with asyncio.timeout(_CLIENT_SECONDS):
                if refuse is not None:
                    await refuse(reader, writer)
                    await writer.drain()
                    if writer.can_write_eof():
                        writer.write_eof()
                    while await reader.read(_CHUNK_BYTES):
                        pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            # It has gone, says nothing, or speaks something else: nobody is to be told.
            return
        except asyncio.CancelledError:
            # The ports are closed. Streams of Python 3.11 would log a traceback.
            return
        finally:
            writer.close()

    def _why(self) -> str:
        """Return a text for clients."""
        owner = self.owner.name or "nobody at the moment"
        return f"this is a standby of {self._queue_manager}, which is owned by {owner}"

    async def _refuse_mq(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer MQRC_HOST_NOT_AVAILABLE, after which a client tries its next address."""
        await reader.readexactly(PREAMBLE.size)
        error = mq_error(rc.MQRC_HOST_NOT_AVAILABLE, self._why())
        writer.write(OURS.packed() + framed(0, ENDED, packed([ENDED, failure_of(error)])))

    async def _refuse_http(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer 503 with the owner as JSON; a probe for life gets 200."""
        head = await reader.readuntil(b"\r\n\r\n")
        words = head.split(b" ", 2)
        is_alive = len(words) > 1 and words[1].split(b"?")[0] == _LIVE_PATH
        address = self.owner.address("http")
        facts = {
            "queue_manager": self._queue_manager,
            "role": "standby",
            "owner": self.owner.name or None,
            "address": None if address is None else str(address),
            "detail": self._why(),
        }
        body = json.dumps(facts).encode()
        lines = (
            f"HTTP/1.1 {_ALIVE if is_alive else _ELSEWHERE}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Retry-After: 1",
            "Connection: close",
        )
        writer.write("\r\n".join((*lines, "", "")).encode() + body)

    async def _refuse_amqp(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Close the connection with the address of the owner."""
        from mayfly.servers.amqp.errors import AmqpError
        from mayfly.servers.amqp.redirecting import redirect

        try:
            await redirect(
                reader, writer, self._queue_manager, self._why(), self.owner.address("amqp")
            )
        except AmqpError as error:
            raise ValueError(str(error)) from error
