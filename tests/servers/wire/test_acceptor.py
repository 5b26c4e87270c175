"""The door: who does not come in by TLS stands in the log, and nobody holds the door for long."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from mayfly import MQError, QueueManager
from mayfly.client.connection.endpoint import Address, Endpoint, Tls
from mayfly.client.connection.remote import connect
from mayfly.mqi import reasons as rc
from mayfly.servers.acceptor import Acceptor, tcp_sockets
from mayfly.servers.wire import Limits, WireServer
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts.wire import HEADER, OURS, PREAMBLE, framed, packed, verb_of
from tests.connection.serving import HOST, AdmitEverybody, Served, serving
from tests.facts import PATIENCE_SECONDS, wait_until, wait_until_blocked
from tests.servers.certificates import certificate, certificate_of
from tests.servers.wire.test_hostile import answer_in

Listen = Callable[..., int]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def context(files: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    return context


@pytest.fixture
def listen(queue_manager: QueueManager, context: ssl.SSLContext) -> Iterator[Listen]:
    """Listens with TLS, with limits; returns the port."""
    with ExitStack() as stack:

        def listen(**limits: int) -> int:
            server = WireServer([queue_manager], AdmitEverybody(), limits=Limits(**limits))
            stack.callback(server.close)
            return server.listen_tcp(HOST, 0, context)

        yield listen


def logged(caplog: pytest.LogCaptureFixture, client: socket.socket, number: str) -> str:
    """Wait for the line about a client with a number of IBM MQ, and return it."""
    host, port = client.getsockname()

    def lines() -> list[str]:
        said = [record.getMessage() for record in caplog.records]
        return [line for line in said if line.startswith(f"{number}: {host}({port}) ")]

    wait_until(lambda: bool(lines()))
    [line] = lines()
    return line


def shaken(client: socket.socket, context: ssl.SSLContext) -> None:
    """Try a handshake to its end, and read: TLS 1.3 tells a client late that it is refused."""
    with suppress(OSError), context.wrap_socket(client.dup(), server_hostname="x") as encrypted:
        encrypted.recv(1)


def has_shaken_hands(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port)) as client:
        trusting().wrap_socket(client).close()
        return True
    return False


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def test_a_program_without_TLS_is_told_2393_and_logged_with_its_address(
    listen: Listen, caplog: pytest.LogCaptureFixture
) -> None:
    """As by a channel with SSLCIPH of IBM MQ."""
    port = listen()
    with pytest.raises(MQError, match="speaks TLS alone") as raised:
        connect(Endpoint((Address(HOST, port),), "CH", "QM1"), "a", "b", application="tests")
    assert raised.value.reason == rc.MQRC_SSL_INITIALIZATION_ERROR
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"AMQ9639E: {HOST}(")
    assert line.endswith(") has no CipherSpec, and TLS alone is spoken here")


@pytest.mark.parametrize(
    ("first", "spoken"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"TSH \0\0\0\0", "an IBM MQ client"),
        (b"AMQP\0\1\0\0", "AMQP"),
        (b"?", "an unknown protocol"),
    ],
)
def test_another_protocol_without_TLS_is_logged_by_its_name(
    listen: Listen, caplog: pytest.LogCaptureFixture, first: bytes, spoken: str
) -> None:
    with socket.create_connection((HOST, listen())) as client:
        client.sendall(first)
        assert client.recv(1) == b""
        assert spoken in logged(caplog, client, "AMQ9207E")


def distrusting(_own: Path) -> ssl.SSLContext:
    return ssl.create_default_context()


def of_old(_own: Path) -> ssl.SSLContext:
    context = trusting()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def of_other_ciphers(_own: Path) -> ssl.SSLContext:
    context = of_old(_own)
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    return context


def of_unknown_name(own: Path) -> ssl.SSLContext:
    context = trusting()
    context.load_cert_chain(certificate_of(own / "own.pem", CN="stranger"))
    return context


@pytest.mark.parametrize(
    ("client_context", "lowest", "number", "said"),
    [
        (distrusting, ssl.TLSVersion.TLSv1_2, "AMQ9665E", "UNKNOWN_CA"),
        (of_old, ssl.TLSVersion.TLSv1_3, "AMQ9616E", "version of TLS is not enabled"),
        (of_other_ciphers, ssl.TLSVersion.TLSv1_2, "AMQ9616E", "none of its CipherSpecs"),
        (of_unknown_name, ssl.TLSVersion.TLSv1_2, "AMQ9633E", "its certificate is bad"),
    ],
    ids=["no trust", "version", "CipherSpec", "certificate"],
)
def test_a_handshake_that_fails_is_logged_with_its_cause(
    listen: Listen,
    context: ssl.SSLContext,
    files: tuple[Path, Path],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    client_context: Callable[[Path], ssl.SSLContext],
    lowest: ssl.TLSVersion,
    number: str,
    said: str,
) -> None:
    context.minimum_version = lowest
    context.load_verify_locations(files[0])
    context.verify_mode = ssl.CERT_OPTIONAL
    port = listen()
    with socket.create_connection((HOST, port)) as client:
        shaken(client, client_context(tmp_path))
        assert said in logged(caplog, client, number)
    tls = Tls(authorities=files[0])
    if lowest is not ssl.TLSVersion.TLSv1_3:
        endpoint = Endpoint((Address(HOST, port),), "CH", "QM1", tls)
        connect(endpoint, "a", "b", application="tests").close()


def test_a_client_that_goes_in_its_handshake_is_logged(
    listen: Listen, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection((HOST, listen())) as client:
        client.sendall(b"\x16\x03\x01")
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
        logged(caplog, client, "AMQ9209E")


@pytest.mark.parametrize("first", [b"", b"\x16\x03\x01"], ids=["silent", "half"])
def test_a_handshake_has_the_time_to_be_let_in(
    listen: Listen, caplog: pytest.LogCaptureFixture, first: bytes
) -> None:
    with socket.create_connection((HOST, listen(admission_ms=50))) as client:
        client.settimeout(PATIENCE_SECONDS)
        client.sendall(first)
        assert client.recv(1) == b""
        assert logged(caplog, client, "AMQ9259E").endswith("has not ended its TLS handshake")


def test_handshakes_count_as_connections(listen: Listen, caplog: pytest.LogCaptureFixture) -> None:
    """So nobody has the server hold more sockets than its limit, and they are free again."""
    port = listen(connections=2)
    with socket.create_connection((HOST, port)), socket.create_connection((HOST, port)) as second:
        with socket.create_connection((HOST, port)) as third:
            third.settimeout(PATIENCE_SECONDS)
            assert third.recv(1) == b""
            logged(caplog, third, "AMQ9213E")
        second.close()
        # The server learns of the end at some time.
        wait_until(lambda: has_shaken_hands(port))


def test_who_only_looks_whether_somebody_listens_is_no_line_in_the_log(
    listen: Listen, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection((HOST, listen())) as client:
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    assert not caplog.records


class Entered(asyncio.Protocol):
    """A guest that is told a word, and is let go."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"welcome")
        transport.close()


class House:
    """Lets everybody in."""

    log = logging.getLogger("tests.door")
    handshake_seconds = None
    magic = refusal_without_tls = b""

    def capacity(self) -> int:
        return 10

    def new(self) -> Entered:
        return Entered()


def test_a_connection_that_waits_at_a_door_that_closes_is_let_in() -> None:
    listening = tcp_sockets(HOST, 0)
    address = listening[0].getsockname()
    with socket.create_connection(address) as client:

        async def open_and_close() -> None:
            Acceptor(listening, House()).close()
            reader, writer = await asyncio.open_connection(sock=client.dup())
            assert await reader.read() == b"welcome"
            writer.close()
            await writer.wait_closed()

        asyncio.run(open_and_close())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


class BlocksTheLoop(logging.Handler):
    """Keeps the loop of a server in the line that it logs."""

    def __init__(self) -> None:
        super().__init__()
        self.is_blocked, self.may_go_on = threading.Event(), threading.Event()

    def emit(self, _record: logging.LogRecord) -> None:
        self.is_blocked.set()
        self.may_go_on.wait(PATIENCE_SECONDS)


@pytest.fixture
def served(queue_manager: QueueManager) -> Iterator[Served]:
    with serving(queue_manager) as it:
        yield it


def received(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = client.recv(count - len(data))
        assert more
        data += more
    return data


def test_a_program_that_comes_as_the_drain_begins_is_told_2161(served: Served) -> None:
    """Not by a connection that is reset: the program would not know why."""
    log = logging.getLogger("mayfly.wire")
    block = BlocksTheLoop()
    address = served.address
    assert isinstance(address, Address)
    drain = threading.Thread(target=served.server.drain, args=(PATIENCE_SECONDS * 1_000,))
    asked = packed([verb_of(ask.Connect), "CH", "QM1", "anna", "secret", "raw", 0])
    with socket.create_connection(address) as stranger:
        log.addHandler(block)
        stranger.sendall(b"GET / HTTP/1.1\r\n")
        assert block.is_blocked.wait(PATIENCE_SECONDS)
        log.removeHandler(block)
        with socket.create_connection(address) as client:
            client.settimeout(PATIENCE_SECONDS)
            client.sendall(OURS.packed() + framed(1, 1, asked))
            drain.start()
            wait_until_blocked(drain)
            block.may_go_on.set()
            assert received(client, PREAMBLE.size) == OURS.packed()
            length, _, request = HEADER.unpack(received(client, HEADER.size))
            _, _, reason, detail = answer_in(received(client, length))
            assert (request, reason) == (1, rc.MQRC_Q_MGR_QUIESCING)
            assert detail == "the server ends"
    drain.join()
