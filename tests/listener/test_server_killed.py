"""kill -9 of a server under a listener port and an IMS bridge of another process.

Both go on by themselves when it is back: every message is answered once.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import cast

import pytest

from mayfly import jms
from mayfly.client import Client
from mayfly.client.connection import Connection
from mayfly.client.connection.endpoint import Address, Endpoint, Reconnect
from mayfly.client.connection.reconnecting import ReconnectingConnection
from mayfly.client.connection.remote import RemoteConnection, connect
from mayfly.ims_bridge import ImsBridge, Request
from mayfly.listener import current_transaction
from mayfly.pymqi import IIH
from tests.connection.cut import SHORT
from tests.connection.serving import HOST
from tests.facts import PATIENCE_SECONDS, wait_until
from tests.ims_bridge.scene import IMS
from tests.listener.scene import port_of, started
from tests.ports import held_port

SERVER = f"""
import sys
from pathlib import Path
from mayfly import QueueManager
from mayfly.servers.wire import WireServer
from tests.connection.serving import AdmitEverybody

with QueueManager("QM1", Path(sys.argv[1])) as manager:
    for queue in ("Q1", "REPLIES", "IMS.REPLIES", "{IMS}"):
        manager.mqsc(f"DEFINE QLOCAL({{queue}}) DEFPSIST(YES)")
    WireServer([manager], AdmitEverybody()).listen_tcp("{HOST}", int(sys.argv[2]))
    print("ready", flush=True)
    sys.stdin.read()
"""
TEXTS = [str(number) for number in range(12)]
FATAL = "5"


class Server:
    """A process that serves QM1 on a port, and is killed."""

    def __init__(self, folder: Path, port: int) -> None:
        self._command = [sys.executable, "-c", SERVER, str(folder), str(port)]
        self.port = port
        self.start()

    def start(self) -> None:
        """Start it; return when it listens."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def kill(self) -> None:
        """End it by kill -9."""
        self._process.kill()
        self._process.communicate()

    def connect(self) -> RemoteConnection:
        """Connect an operator."""
        endpoint = Endpoint((Address(HOST, self.port),), "CH", "QM1")
        return connect(endpoint, "operator", "secret", application="tests")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with held_port() as port:
        server = Server(tmp_path / "QM1", port)
        yield server
        server.kill()


@contextmanager
def operator(server: Server) -> Iterator[Client]:
    with Client(server.connect()) as client:
        yield client


def replies(server: Server, queue: str) -> Counter[bytes]:
    """Return the replies on a queue without their headers, with how often each is there."""
    with operator(server) as client:
        return Counter(m.body[m.body.rindex(b"re: ") :] for m in client.browse(queue))


def emptied(server: Server, queue: str) -> None:
    """Return when nothing is on a queue any more, also not in a unit of work."""
    with operator(server) as client:

        def is_empty() -> bool:
            counts = client.admin.counts(queue)
            return counts.live == counts.locked == counts.uncommitted == 0

        wait_until(is_empty)


@pytest.mark.slow
@pytest.mark.parametrize(
    "receive_timeout_ms",
    [
        pytest.param(110_000, id="non-ASF"),
        pytest.param(0, id="ASF", marks=pytest.mark.soak),
    ],
)
def test_G8_a_port_goes_on_when_its_killed_server_is_back(
    server: Server, receive_timeout_ms: int
) -> None:
    """Killed while a message is in work, which has sent its reply: both are backed out."""
    seen: list[str] = []

    def answer(message: jms.TextMessage) -> None:
        session = cast(jms.Session, current_transaction().session)
        producer = session.create_producer(session.create_queue("REPLIES"))
        producer.send(session.create_text_message(f"re: {message.text}"))
        producer.close()
        seen.append(message.text or "")
        if seen.count(FATAL) == 1 and message.text == FATAL:
            server.kill()
            server.start()

    factory = jms.ConnectionFactory(
        host=HOST, port=server.port, channel="CH", queue_manager="QM1", user="operator"
    )
    again: dict[str, str | int] = {"RECOVERY.RETRY.INTERVAL": 1, "MAX.RECOVERY.RETRIES": 1_000}
    with operator(server) as client:
        for text in TEXTS:
            client.put("Q1", text.encode(), persistent=True, format_name="MQSTR")
    port = port_of(factory, answer, receive_timeout_ms=receive_timeout_ms, properties=again)
    with started(port):
        wait_until(lambda: FATAL in seen)
        # The server is killed in the midst of this; its successor is asked.
        wait_until(lambda: seen.count(FATAL) == 2)
        emptied(server, "Q1")
        assert port.is_running
    assert replies(server, "REPLIES") == Counter(f"re: {text}".encode() for text in TEXTS)


@pytest.mark.slow
def test_E30_a_bridge_goes_on_when_its_killed_server_is_back(server: Server) -> None:
    """On a connection that reconnects; the request in work comes again, counted."""
    is_killed = Event()
    seen: list[bytes] = []

    def transaction(request: Request, _iih: IIH | None) -> bytes:
        seen.append(bytes(request))
        if request == FATAL.encode() and not is_killed.is_set():
            is_killed.set()
            server.kill()
            server.start()
        return b"re: " + request

    with operator(server) as client:
        for text in TEXTS:
            body = IIH().pack() + text.encode()
            client.put(IMS, body, persistent=True, format_name="MQIMS", reply_to_q="IMS.REPLIES")
    connection = cast(Connection, ReconnectingConnection(server.connect, Reconnect.YES, SHORT))
    bridge = ImsBridge(connection, queue=IMS, transaction=transaction)
    bridge.start()
    assert is_killed.wait(PATIENCE_SECONDS)
    wait_until(lambda: seen.count(FATAL.encode()) == 2)
    emptied(server, IMS)
    assert bridge.is_running
    bridge.stop()
    connection.close()
    assert replies(server, "IMS.REPLIES") == Counter(f"re: {text}".encode() for text in TEXTS)
