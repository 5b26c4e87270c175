"""Clients of AMQP at a standby: what they send before anybody knows them is bounded."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from mayfly.runtime import Runtime
from mayfly.servers.addresses import ListenAddress, listen_address
from mayfly.servers.settings import Listen
from mayfly.servers.standby import OwnerPlace, StandbyPorts

HEADER = b"AMQP\0\1\0\0"


@pytest.fixture
def standby(monkeypatch: pytest.MonkeyPatch) -> Iterator[ListenAddress]:
    """The address of a standby, whose owner is elsewhere, and which waits long for clients."""
    monkeypatch.setattr("mayfly.servers.standby._CLIENT_SECONDS", 3_600.0)
    owner = OwnerPlace("elsewhere", {"amqp": "127.0.0.1:5672"})
    ports = StandbyPorts("QM1", None, owner, Runtime())
    try:
        yield listen_address(ports.listen(Listen(amqp=ListenAddress("127.0.0.1", 0)))["amqp"])
    finally:
        ports.close()


@pytest.mark.parametrize(
    ("size", "is_redirected"), [(4_096, True), (65_537, False), (2**31, False)]
)
def test_a_frame_that_is_too_large_is_not_waited_for(
    standby: ListenAddress, size: int, is_redirected: bool
) -> None:
    with socket.create_connection(standby, 60) as client:
        client.sendall(HEADER + size.to_bytes(4, "big") + b"\2\0\0\0")
        if is_redirected:
            client.sendall(bytes(size - len(HEADER)))
        answer = b""
        while data := client.recv(65_536):
            answer += data
    assert answer.startswith(HEADER)
    assert (b"amqp:connection:redirect" in answer) is is_redirected
