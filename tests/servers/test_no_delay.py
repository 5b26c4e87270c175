"""Servers send each answer at once, also where they listen on a numeric address."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.servers.acceptor import send_at_once
from mayfly.servers.wire.link import ClientLink
from tests.connection.serving import serving


def delay_is_off(transport: object) -> bool:
    assert isinstance(transport, asyncio.BaseTransport)
    accepted = transport.get_extra_info("socket")
    return bool(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_programs_are_answered_at_once(queue_manager: QueueManager, host: str) -> None:
    with serving(queue_manager) as served:
        port = served.server.listen_tcp(host, 0)
        with socket.create_connection((host, port)):
            while not (links := list(served.server._server_loop.members)):
                pass
            [link] = links
            assert isinstance(link, ClientLink)
            assert delay_is_off(link._transport)


def test_a_unix_socket_is_left_as_it_is(tmp_path: Path) -> None:
    async def accept() -> None:
        loop, accepted = asyncio.get_running_loop(), asyncio.Event()

        class Accepting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                send_at_once(transport)
                accepted.set()

        server = await loop.create_unix_server(Accepting, str(tmp_path / "socket"))
        async with server:
            _reader, writer = await asyncio.open_unix_connection(str(tmp_path / "socket"))
            await accepted.wait()
            writer.close()

    asyncio.run(accept())
