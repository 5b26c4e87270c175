"""Clients of AMQP at a standby: they are redirected, and what they send before that is bounded."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from proton import Endpoint

from mayfly.client.connection.by_name import connect
from mayfly.queue_manager import QueueManager
from mayfly.servers.amqp.connection import AmqpServer
from mayfly.servers.amqp.entrance import redirect_of
from mayfly.servers.managers import ManagerTable, OwnerPlace
from tests.servers.amqp.client import Client
from tests.servers.amqp.conftest import OneUser

HEADER = b"AMQP\0\1\0\0"


@contextmanager
def serving(table: ManagerTable) -> Iterator[int]:
    """Return a context with the port of a server of these queue managers, which follows QM1."""
    table.stand_by("QM1", OwnerPlace("elsewhere", {"amqp": "127.0.0.1:5672"}))
    server = AmqpServer(
        table.names,
        OneUser(),
        lambda name, *_who: connect(name),
        redirect=partial(redirect_of, table),
    )
    try:
        yield server.listen_tcp("127.0.0.1", 0)
    finally:
        server.close()


@pytest.mark.parametrize(
    ("size", "is_redirected"), [(4_096, True), (65_537, False), (2**31, False)]
)
def test_a_frame_that_is_too_large_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, size: int, is_redirected: bool
) -> None:
    monkeypatch.setattr("mayfly.servers.amqp.connection.HANDSHAKE_SECONDS", 3_600.0)
    with (
        serving(ManagerTable((), ["QM1"])) as port,
        socket.create_connection(("127.0.0.1", port), 60) as client,
    ):
        client.sendall(HEADER + size.to_bytes(4, "big") + b"\2\0\0\0")
        if is_redirected:
            client.sendall(bytes(size - len(HEADER)))
        answer = b""
        while data := client.recv(65_536):
            answer += data
    assert answer.startswith(HEADER)
    assert (b"amqp:connection:redirect" in answer) is is_redirected


def test_a_client_is_redirected_by_the_name_in_its_open_and_one_of_another_name_is_let_in() -> None:
    with (
        QueueManager("QM2") as manager,
        serving(ManagerTable([manager], ["QM2", "QM1"])) as port,
    ):
        open_one, standby = Client(port, hostname="QM2"), Client(port, hostname="qm1")
        standby.until(lambda: standby.connection.state & Endpoint.REMOTE_CLOSED)
        refused = standby.connection.remote_condition
        assert (refused.name, refused.info) == (
            "amqp:connection:redirect",
            {"hostname": "127.0.0.1", "network-host": "127.0.0.1", "port": 5672},
        )
        assert refused.description.startswith("QM1 is a standby here; its owner is elsewhere")
        assert open_one.connection.remote_container == "QM2"
        open_one.close()
        standby.cut()
