"""A queue manager in virtual time, behind HTTP on a real socket."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from mayfly import QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.admin.security.developer import DEFINITIONS, PASSWORD_VARIABLES, developer_users
from mayfly.admin.security.users import users_of
from mayfly.servers.addresses import ListenAddress
from mayfly.servers.budget import Budget
from mayfly.servers.clients import Admits
from mayfly.servers.figure_history import FigureHistory
from mayfly.servers.listeners import HttpListener
from mayfly.servers.settings import TlsFiles
from mayfly.servers.status import ServerStatus, ServingState
from tests.connection.serving import AdmitEverybody
from tests.facts import PATIENCE_SECONDS
from tests.servers.http.conformance import check_answer

ADMIN = ("admin", "admin-password")
APP = ("app", "app-password")
TOKEN = "the operator's token"
CHANNEL = "DEV.ADMIN.SVRCONN"
PROGRAMS = "DEV.APP.SVRCONN"


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


def answer_of(answer: http.client.HTTPResponse) -> Answer:
    """Return an answer; several headers of one name are joined by a comma."""
    found: dict[str, str] = {}
    for written, value in answer.getheaders():
        name, text = written.lower(), value.encode("latin-1").decode()
        found[name] = f"{found[name]}, {text}" if name in found else text
    read = answer.read()
    is_json = "json" in found.get("content-type", "")
    return Answer(answer.status, found, json.loads(read) if is_json else read.decode())


@dataclass
class Web:
    """A client of HTTP, which connects for each request unless it is :meth:`connected`."""

    port: int
    tls: ssl.SSLContext | None = None
    kept: http.client.HTTPConnection | None = None

    @contextmanager
    def connected(self) -> Iterator[Web]:
        """Have a client for a block that sends all requests over one connection."""
        with closing(self._connect()) as connection:
            yield Web(self.port, self.tls, connection)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        user: tuple[str, str] | None = ADMIN,
        **headers: str | list[str],
    ) -> Answer:
        """Send a request, its body in JSON unless it is bytes; _ is - in a header."""
        sent: dict[str, str | list[str]] = {}
        if body is not None:
            sent["content-type"] = "application/json"
        if user is not None:
            sent["authorization"] = f"Basic {base64.b64encode(':'.join(user).encode()).decode()}"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection = self.kept or self._connect()
        try:
            connection.putrequest(method, path)
            for name, value in sent.items():
                for each in [value] if isinstance(value, str) else value:
                    connection.putheader(name, each.encode())
            if data is not None:
                connection.putheader("content-length", str(len(data)))
            connection.endheaders(data)
            answer = answer_of(connection.getresponse())
            media_type = answer.headers.get("content-type", "")
            check_answer(method, path, answer.status, media_type, answer.content)
            return answer
        finally:
            if connection is not self.kept:
                connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        if self.tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=PATIENCE_SECONDS, context=self.tls
        )


@dataclass
class Site:
    """A listener, who stands behind it, and a client of it."""

    listener: HttpListener
    server_status: ServerStatus
    web: Web


def listening(
    *managers: QueueManager,
    admission: Admits,
    admin_channel: str = CHANNEL,
    channel: str = PROGRAMS,
    tls: TlsFiles | None = None,
    budget: Budget | None = None,
    fleet: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Site]:
    """Listen for queue managers that are ready."""
    server_status = ServerStatus(managers)
    server_status.state = ServingState.READY
    with ExitStack() as stack:
        histories = {each.name: stack.enter_context(FigureHistory(each)) for each in managers}
        listener = HttpListener(
            managers,
            admission,
            ListenAddress("127.0.0.1", 0),
            channel=channel,
            admin_channel=admin_channel,
            tls=tls or TlsFiles(),
            server_status=server_status,
            histories=histories,
            fleet=fleet,
            budget=budget,
        )
        port = int(listener.start().rpartition(":")[2])
        stack.callback(listener.stop)
        yield Site(listener, server_status, Web(port))


@pytest.fixture
def developed(queue_manager: QueueManager) -> QueueManager:
    """``QM1`` with the users and objects of ``--dev``; a wrong password is answered at once."""
    given = {PASSWORD_VARIABLES[user]: password for user, password in (ADMIN, APP)}
    developer_users(users_of(queue_manager.engine), None, given)
    assert queue_manager.mqsc(DEFINITIONS).ok
    no_delay = "ALTER AUTHINFO(DEV.AUTHINFO) AUTHTYPE(IDPWOS) FAILDLAY(0)\nREFRESH SECURITY"
    assert queue_manager.mqsc(no_delay).ok
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
