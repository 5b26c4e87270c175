"""A queue manager in virtual time, behind HTTP on a real socket."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from mayfly import QueueManager
from mayfly.security.admission import Admission
from mayfly.security.developer import DEFINITIONS, PASSWORD_VARIABLES, developer_users
from mayfly.security.users import users_of
from mayfly.servers.exposure import ListenAddress
from mayfly.servers.http.listener import HttpListener
from mayfly.servers.settings import TlsFiles
from mayfly.servers.standing import Standing, State
from mayfly.servers.wire.exchange import Admits
from tests.connection.serving import AdmitEverybody

ADMIN = ("admin", "admin-password")
APP = ("app", "app-password")
TOKEN = "the operator's token"
CHANNEL = "DEV.ADMIN.SVRCONN"


class Answer(NamedTuple):
    """What a server has answered."""

    status: int
    headers: dict[str, str]
    content: Any

    @property
    def said(self) -> tuple[int, str, int | None]:
        """Status, detail and reason code of a problem."""
        assert self.headers["content-type"] == "application/problem+json"
        assert self.content["status"] == self.status
        return self.status, self.content["detail"], self.content.get("reason")


@dataclass
class Web:
    """A client of HTTP, which connects for each request."""

    port: int
    tls: ssl.SSLContext | None = None

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        user: tuple[str, str] | None = ADMIN,
        **headers: str,
    ) -> Answer:
        """Send a request, its body in JSON unless it is bytes; _ is - in a header."""
        sent = {"content-type": "application/json"} if body is not None else {}
        if user is not None:
            sent["authorization"] = f"Basic {base64.b64encode(':'.join(user).encode()).decode()}"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection = (
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            if self.tls is None
            else http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.tls)
        )
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, json.loads(answer.read() or b"null"))
        finally:
            connection.close()


@dataclass
class Site:
    """A listener, who stands behind it, and a client of it."""

    listener: HttpListener
    standing: Standing
    web: Web


def listening(
    *managers: QueueManager, admission: Admits, channel: str = CHANNEL, tls: TlsFiles | None = None
) -> Iterator[Site]:
    """Listen for queue managers that are ready."""
    standing = Standing(managers)
    standing.state = State.READY
    listener = HttpListener(
        managers,
        admission,
        ListenAddress("127.0.0.1", 0),
        channel=channel,
        tls=tls or TlsFiles(),
        standing=standing,
    )
    port = int(listener.start().rpartition(":")[2])
    try:
        yield Site(listener, standing, Web(port))
    finally:
        listener.stop()


@pytest.fixture
def developed(queue_manager: QueueManager) -> QueueManager:
    """``QM1`` with the users and objects of ``--dev``."""
    given = {PASSWORD_VARIABLES[user]: password for user, password in (ADMIN, APP)}
    developer_users(users_of(queue_manager.engine), None, given)
    assert queue_manager.mqsc(DEFINITIONS).ok
    return queue_manager


@pytest.fixture
def admission(developed: QueueManager) -> Iterator[Admission]:
    """Who is let in there."""
    made = Admission([developed.engine], token=TOKEN)
    yield made
    made.close()


@pytest.fixture
def guarded(developed: QueueManager, admission: Admission) -> Iterator[Web]:
    """A client of ``QM1`` behind HTTP, to which its users come in by their passwords."""
    for site in listening(developed, admission=admission):
        yield site.web


@pytest.fixture
def site(queue_manager: QueueManager) -> Iterator[Site]:
    """``QM1`` behind HTTP, where admin needs no password and everybody is let in."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)").ok
    yield from listening(queue_manager, admission=AdmitEverybody(operators=frozenset({"admin"})))


@pytest.fixture
def web(site: Site) -> Web:
    """A client of it."""
    return site.web
