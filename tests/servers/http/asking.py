"""The application of HTTP asked without a server: one request, and the messages it sends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

from mayfly import QueueManager
from mayfly.servers.clients import Peer
from mayfly.servers.figure_history import FigureHistory
from mayfly.servers.http.application import Application
from mayfly.servers.http.connection import HttpConnection
from mayfly.servers.http.service import Service
from mayfly.servers.status import ServerStatus, ServingState
from tests.connection.serving import AdmitEverybody


class Asked(NamedTuple):
    """One request; the path is written as it is sent."""

    method: str
    path: str
    query: str = ""
    headers: Sequence[tuple[bytes, bytes]] = ()
    body: bytes = b""
    is_lost: bool = False


def application_of(*managers: QueueManager) -> ASGIApp:
    """Return the application of queue managers that are ready, to which everybody is let in."""
    server_status = ServerStatus(managers)
    server_status.state = ServingState.READY
    named = {manager.name: manager for manager in managers}
    histories = {name: FigureHistory(manager) for name, manager in named.items()}
    return Application(
        Service(
            named,
            AdmitEverybody(),
            server_status,
            channel="A",
            admin_channel="B",
            histories=histories,
        )
    )


async def ask(app: ASGIApp, asked: Asked) -> list[Message]:
    """Return the messages of an answer, none for a client that is gone."""
    line = HttpConnection(Peer("127.0.0.1", has_tls=False), asyncio.get_running_loop())
    if asked.is_lost:
        line.client_gone()
    sent: list[Message] = []
    coming = [{"type": "http.request", "body": asked.body, "more_body": False}]

    async def receive() -> Message:
        return coming.pop() if coming else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": asked.method,
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "path": unquote(asked.path),
        "raw_path": asked.path.encode(),
        "query_string": asked.query.encode(),
        "headers": list(asked.headers),
        "state": {"http_connection": line},
    }
    await app(scope, receive, send)
    line.client_gone()
    return sent
