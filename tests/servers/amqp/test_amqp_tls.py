"""AMQP over TLS: passwords and messages, and clients that are known by their certificate."""

from __future__ import annotations

import logging
import socket
import ssl
from pathlib import Path

import pytest
from proton import Message

from mayfly.servers.amqp.connection import AmqpServer
from tests.facts import PATIENCE_SECONDS, wait_until
from tests.servers.amqp.client import Client
from tests.servers.amqp.conftest import OneUser
from tests.servers.certificates import certificate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the certificate, which takes a second to make."""
    made = tmp_path_factory.mktemp("certificate")
    certificate(made)
    return made


@pytest.fixture
def port(server: AmqpServer, folder: Path) -> int:
    own, key = folder / "cert.pem", folder / "key.pem"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own, key)
    context.load_verify_locations(own)
    context.verify_mode = ssl.CERT_OPTIONAL
    return server.listen_tcp("127.0.0.1", 0, context)


@pytest.fixture
def tls(port: int, folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=folder / "cert.pem")


def test_a_password_and_a_message_go_over_TLS(
    port: int, tls: ssl.SSLContext, admission: OneUser
) -> None:
    one = Client(port, tls=tls)
    one.send(one.sender("Q1"), Message(body="x" * 100_000))
    assert len(one.receive(one.receiver("Q1", credit=1))[0].body) == 100_000
    one.close()
    [applicant] = admission.applicants
    assert (applicant.user, applicant.has_tls, applicant.certificate_subject) == ("app", True, "")


def test_EXTERNAL_is_the_name_in_the_certificate(
    port: int, tls: ssl.SSLContext, admission: OneUser, folder: Path
) -> None:
    tls.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    Client(port, user="", password="", mechanism="EXTERNAL", tls=tls).close()
    [applicant] = admission.applicants
    assert (applicant.user, applicant.password) == ("", "")
    assert (applicant.certificate_subject, applicant.certificate_issuer) == ("CN=localhost",) * 2


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)


def is_ended(client: socket.socket) -> bool:
    """Return True when the server has hung up; bytes that it has not read reset the connection."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def said_of(client: socket.socket, caplog: pytest.LogCaptureFixture) -> str:
    """Return the warning about a client, which names its address, when it has come."""
    host, port = client.getsockname()

    def lines() -> list[str]:
        said = [record.getMessage() for record in caplog.records]
        return [line for line in said if f": {host}({port}) " in line]

    wait_until(lambda: bool(lines()))
    [line] = lines()
    return line


def test_a_handshake_that_fails_is_logged_with_its_cause(
    server: AmqpServer, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of it is left behind: a drain waits for nobody."""
    with caplog.at_level(logging.WARNING, "mayfly.amqp"), connected(port) as client:
        with pytest.raises(ssl.SSLCertVerificationError):
            ssl.create_default_context().wrap_socket(client.dup(), server_hostname="localhost")
        assert said_of(client, caplog).startswith("AMQ9665E: ")
    server.drain(1_000 * PATIENCE_SECONDS)
    assert server.connections() == []


@pytest.mark.parametrize(
    ("first", "told", "number"),
    [
        (b"AMQP\x00\x01\x00\x00", b"AMQP\x02\x01\x00\x00", "AMQ9639E"),
        (b"AMQP\x03\x01\x00\x00", b"AMQP\x02\x01\x00\x00", "AMQ9639E"),
        (b"GET / HTTP/1.1\r\n\r\n", b"", "AMQ9207E"),
    ],
    ids=["AMQP", "SASL", "HTTP"],
)
def test_a_client_without_TLS_is_told_so_and_logged(
    port: int, caplog: pytest.LogCaptureFixture, first: bytes, told: bytes, number: str
) -> None:
    with connected(port) as client:
        client.sendall(first)
        assert said_of(client, caplog).startswith(f"{number}: ")
        assert client.recv(100) == told


def test_a_client_that_stands_still_in_its_handshake_is_given_up(
    port: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AmqpServer, "handshake_seconds", 0.01)
    with connected(port) as client:
        client.sendall(b"\x16\x03\x01")
        assert is_ended(client)
        assert said_of(client, caplog).startswith("AMQ9259E: ")


def test_a_close_ends_handshakes_under_way(server: AmqpServer, port: int) -> None:
    with connected(port) as client:
        client.sendall(b"\x16\x03\x01")
        server.close()
        assert is_ended(client)
