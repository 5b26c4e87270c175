"""A server under clients that send too much: probes are answered, and memory has a bound."""

from __future__ import annotations

import base64
import contextlib
import http.client
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mayfly.client.connection.endpoint import Address, Endpoint
from mayfly.client.connection.remote import connect
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.verbs import requests as ask
from tests.client.processes import operating, serving
from tests.client.test_idle import resident_kib
from tests.facts import PATIENCE_SECONDS

#: All are started at once.
CLIENTS = 150
BODY = b"a" * 11_000_000
#: Clients of one thread pool of a test at a time.
TOGETHER = 60
#: The messages in memory have 256 MiB, and some three copies are made of each while it is put.
MAX_KIB = 900 * 1_024
SCRIPT = """
ALTER QMGR MAXMSGL(104857600)
ALTER CHANNEL(DEV.APP.SVRCONN) CHLTYPE(SVRCONN) MAXMSGL(104857600) MAXINST(999) MAXINSTC(999)
DEFINE QLOCAL(OF.OTHERS) MAXMSGL(104857600)
DEFINE QLOCAL(DEV.SHORT) MAXMSGL(1000)
"""


@pytest.fixture
def ready(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What a server says that listens at all doors, with objects for long messages.

    It is started as from a shell that allows 1,024 open files.
    """
    doors = ("--http", "127.0.0.1:0", "--amqp", "127.0.0.1:0")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, before[1]))
    with serving(tmp_path, ["QM1"], "127.0.0.1:0", "--dev", *doors) as said:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        with operating(tmp_path, "QM1") as operator:
            assert operator.mqsc(SCRIPT).ok
        yield said


class Probes:
    """Asks both probes all the while; ``answered`` are those with 200."""

    def __init__(self, ready: dict[str, Any]) -> None:
        self._address = ready["http"]
        self.answered, self.failures = 0, list[object]()
        self._is_over = threading.Event()

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        """Ask for a block; every probe must have been answered."""
        asking = threading.Thread(target=self._ask)
        asking.start()
        try:
            yield
        finally:
            self._is_over.set()
            asking.join()
        assert self.failures == []
        assert self.answered

    def _ask(self) -> None:
        while not self._is_over.wait(0.05):
            for path in ("/health/live", "/health/ready"):
                try:
                    with contextlib.closing(_connected(self._address)) as client:
                        client.request("GET", path)
                        status = client.getresponse().status
                except OSError as error:
                    self.failures.append(error)
                    continue
                if status == 200:
                    self.answered += 1
                else:
                    self.failures.append(status)


def _connected(address: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(address, timeout=PATIENCE_SECONDS)


def _together(count: int, work: Callable[[int], object], most: int = TOGETHER) -> list[Any]:
    with ThreadPoolExecutor(most) as threads:
        return list(threads.map(work, range(count)))


@pytest.mark.soak
def test_probes_are_answered_beside_1100_connections_with_half_a_request(
    ready: dict[str, Any],
) -> None:
    host, port = ready["http"].split(":")
    with contextlib.ExitStack() as stack:
        for _ in range(1_100):
            half = stack.enter_context(socket.create_connection((host, int(port))))
            half.sendall(b"GET /health/live HTTP/1.1\r\nHost:")
        probes = Probes(ready)
        with probes.asked():
            threading.Event().wait(5)


@pytest.mark.soak
def test_C7_bodies_for_a_queue_of_others_take_no_memory(ready: dict[str, Any]) -> None:
    before_kib = resident_kib(ready["pid"])
    user = base64.b64encode(f"{ready['user']}:{ready['password']}".encode()).decode()
    headers = {
        "Authorization": f"Basic {user}",
        "ibm-mq-rest-csrf-token": "x",
        "Content-Type": "text/plain",
    }
    path = "/ibmmq/rest/v3/messaging/qmgr/QM1/queue/OF.OTHERS/message"

    def put(_number: int) -> int:
        with contextlib.closing(_connected(ready["http"])) as client:
            # The answer comes while the client is still sending.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                client.request("POST", path, BODY, headers)
            return client.getresponse().status

    probes = Probes(ready)
    with probes.asked():
        # Of more at a time some would be refused: only so many passwords wait to be checked.
        assert set(_together(CLIENTS, put, 30)) == {403}
    assert resident_kib(ready["pid"]) - before_kib < 100 * 1_024


@pytest.mark.soak
def test_long_messages_of_many_clients_take_no_more_memory_than_they_may(
    ready: dict[str, Any],
) -> None:
    """Each is read whole, as its queue refuses it only then."""
    before_kib, highest = resident_kib(ready["pid"]), 0
    host, port = ready["mq"].split(":")
    endpoint = Endpoint((Address(host, int(port)),), "DEV.APP.SVRCONN", "QM1")
    endpoint = endpoint._replace(share_conversations=1, max_message_bytes=104_857_600)
    # One after the other: only so many passwords are checked at a time.
    clients = [
        connect(endpoint, ready["user"], ready["password"], application="load")
        for _ in range(CLIENTS)
    ]

    def put(number: int) -> int:
        nonlocal highest
        with pytest.raises(MQError) as refused:
            clients[number].call(ask.Put1.of("DEV.SHORT", BODY, Descriptor()))
        highest = max(highest, resident_kib(ready["pid"]))
        return refused.value.reason

    probes = Probes(ready)
    with probes.asked():
        assert set(_together(CLIENTS, put)) == {rc.MQRC_MSG_TOO_BIG_FOR_Q}
    assert highest - before_kib < MAX_KIB
    for client in clients:
        client.close()


@pytest.mark.soak
def test_long_messages_of_many_clients_of_AMQP_take_no_more_memory_than_they_may(
    ready: dict[str, Any],
) -> None:
    pytest.importorskip("proton", reason="python-qpid-proton is built by a C compiler")
    from proton import Delivery, Message

    from tests.servers.amqp.client import Client

    before_kib, highest = resident_kib(ready["pid"]), 0
    port = int(ready["amqp"].rpartition(":")[2])
    encoded = bytes(Message(body=BODY).encode())
    clients = [
        Client(port, user=ready["user"], password=ready["password"], container=f"{number}")
        for number in range(TOGETHER)
    ]

    def put(number: int) -> bool:
        nonlocal highest
        client = clients[number]
        sent = client.begin(client.sender("DEV.SHORT"), encoded)
        client.until(lambda: sent.settled, PATIENCE_SECONDS)
        highest = max(highest, resident_kib(ready["pid"]))
        return bool(sent.remote_state == Delivery.REJECTED)

    probes = Probes(ready)
    with probes.asked():
        assert all(_together(TOGETHER, put))
    assert highest - before_kib < MAX_KIB
    for client in clients:
        client.close()
