"""AMQP over TLS: passwords and messages, and clients that are known by their certificate."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from proton import Message

from mayfly.servers.amqp.server import AmqpServer
from tests.servers.amqp.client import Client
from tests.servers.amqp.conftest import OneUser
from tests.servers.certificates import certificate


@pytest.fixture
def port(server: AmqpServer, tmp_path: Path) -> int:
    own, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own, key)
    context.load_verify_locations(own)
    context.verify_mode = ssl.CERT_OPTIONAL
    return server.listen_tcp("127.0.0.1", 0, context)


@pytest.fixture
def tls(port: int, tmp_path: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=tmp_path / "cert.pem")


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
    port: int, tls: ssl.SSLContext, admission: OneUser, tmp_path: Path
) -> None:
    tls.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    Client(port, user="", password="", mechanism="EXTERNAL", tls=tls).close()
    [applicant] = admission.applicants
    assert (applicant.user, applicant.password) == ("", "")
    assert (applicant.certificate_subject, applicant.certificate_issuer) == ("CN=localhost",) * 2
