"""Remote connections over TLS: whom the client takes for the server, and what it says otherwise."""

from __future__ import annotations

import os
import resource
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mayfly import MQError, QueueManager
from mayfly.client.connection.endpoint import Address, Endpoint, Tls
from mayfly.client.connection.remote import RemoteConnection, connect
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.servers.wire import WireServer
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from tests.connection.serving import HOST, AdmitEverybody
from tests.servers.certificates import certificate


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def port(files: tuple[Path, Path]) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    with QueueManager("QM1", clock=VirtualClock()) as qm:
        assert qm.mqsc("DEFINE QLOCAL(Q1)").ok
        server = WireServer([qm], AdmitEverybody())
        yield server.listen_tcp(HOST, 0, context)
        server.close()


def connected(port: int, tls: Tls | None) -> RemoteConnection:
    endpoint = Endpoint((Address(HOST, port),), "CH", "QM1", tls)
    return connect(endpoint, "operator", "secret", application="tests")


def refusal(port: int, tls: Tls | None) -> int:
    with pytest.raises(MQError) as caught:
        connected(port, tls)
    return caught.value.reason


def test_a_message_goes_and_comes_over_TLS(files: tuple[Path, Path], port: int) -> None:
    connection = connected(port, Tls(authorities=files[0]))
    handle = connection.call(ask.Open("Q1", c.MQOO_OUTPUT | c.MQOO_INPUT_SHARED)).handle
    body = bytes(range(256)) * 1_000
    connection.put(handle, body, Descriptor(), expiry_tenths=600)
    message = connection.get(handle).message
    connection.close()
    assert (message.body, message.remaining_tenths) == (body, 600)


def test_a_socket_of_any_number_is_waited_for(files: tuple[Path, Path], port: int) -> None:
    """select() knows the first 1,024 alone, and a program may have more files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2_000:
        pytest.skip("a process may not have 2,000 files open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2_000), hard))
    with ExitStack() as held:
        for _ in range(1_024):
            held.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        connection = connected(port, Tls(authorities=files[0]))
        handle = connection.call(ask.Open("Q1", c.MQOO_OUTPUT | c.MQOO_INPUT_SHARED)).handle
        connection.put(handle, bytes(3_000_000), Descriptor())
        assert connection.get(handle).message.body == bytes(3_000_000)
        connection.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_server_that_no_authority_of_the_client_vouches_for_is_refused(port: int) -> None:
    assert refusal(port, Tls()) == rc.MQRC_SSL_INITIALIZATION_ERROR


@pytest.mark.parametrize(
    ("peer_name", "reason"),
    [
        ("CN=localhost", None),
        ("CN=local*", None),
        ("CN=other", rc.MQRC_SSL_PEER_NAME_MISMATCH),
        ("CN=localhost,O=Example", rc.MQRC_SSL_PEER_NAME_MISMATCH),
        ("no name", rc.MQRC_SSL_PEER_NAME_ERROR),
    ],
)
def test_SSLPEER_says_which_name_the_server_has(
    files: tuple[Path, Path], port: int, peer_name: str, reason: int | None
) -> None:
    tls = Tls(authorities=files[0], peer_name=peer_name)
    if reason is None:
        connected(port, tls).close()
    else:
        assert refusal(port, tls) == reason


def test_TLS_where_none_is_configured_is_refused(files: tuple[Path, Path]) -> None:
    with QueueManager("QM1") as qm:
        server = WireServer([qm], AdmitEverybody())
        plain = server.listen_tcp(HOST, 0)
        assert refusal(plain, Tls(authorities=files[0])) == rc.MQRC_SSL_INITIALIZATION_ERROR
        server.close()


def test_a_client_without_TLS_is_told_that_it_should_have_it(port: int) -> None:
    assert refusal(port, None) == rc.MQRC_SSL_INITIALIZATION_ERROR
