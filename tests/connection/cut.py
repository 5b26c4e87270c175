"""A queue manager on one port, whose server gives way to the next one: connections break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Connection
from mayfly.client.connection.endpoint import Address, Endpoint
from mayfly.client.connection.reconnecting import ReconnectingConnection
from mayfly.client.connection.reconnection import ReconnectTiming
from mayfly.client.connection.remote import RemoteConnection, connect
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.servers.wire import WireServer
from tests.connection.serving import HOST, AdmitEverybody

SHORT = ReconnectTiming(first_ms=5, longest_ms=20, total_ms=60_000)


class Cut:
    """``QM1`` on one port, served by one server after the other."""

    def __init__(self, manager: QueueManager) -> None:
        self.manager = manager
        self.port = 0
        self.server: WireServer | None = None
        self.connections: list[RemoteConnection] = []
        self.serve()

    def serve(self, manager: QueueManager | None = None) -> None:
        admission = AdmitEverybody(operators=frozenset({"operator"}))
        self.server = WireServer([manager or self.manager], admission)
        self.port = self.server.listen_tcp(HOST, self.port)

    def stop(self) -> None:
        if self.server is not None:
            self.server.close()
            self.server = None

    def again(self) -> None:
        """Break all connections; the next server is there."""
        self.stop()
        self.serve()

    def connect(self) -> Connection:
        endpoint = Endpoint((Address(HOST, self.port),), "CH", "QM1")
        self.connections.append(connect(endpoint, "operator", ""))
        return self.connections[-1]


def put(connection: ReconnectingConnection, handle: int, body: bytes, options: int = 0) -> None:
    assert connection.put(handle, body, Descriptor(), options) is not None


def reason_of(call: Callable[[], Any]) -> int:
    with pytest.raises(MQError) as raised:
        call()
    return raised.value.reason
