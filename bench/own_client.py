"""A client of Mayfly for measuring: a connection over the loopback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.peer_process import HOST
from mayfly.client.connection import Administration
from mayfly.client.connection.endpoint import Address, Endpoint
from mayfly.client.connection.remote import RemoteConnection, connect
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.verbs import requests as ask

_TOKEN: Final = "bench"
_BOTH_WAYS: Final = c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT
_PERSISTENT: Final = Descriptor(persistence=c.MQPER_PERSISTENT)


class OwnClient:
    """One connection to a queue."""

    def __init__(self, address: str, queue: str) -> None:
        """Connect to a port and open a queue."""
        self._connection = _connected(address)
        self._queue = self._connection.call(ask.Open(queue, _BOTH_WAYS)).handle

    def put(self, body: bytes) -> None:
        """Put a message; it is durable on return."""
        self._connection.put(self._queue, body, _PERSISTENT)

    def get(self) -> bytes:
        """Wait for a message and take it; its end is durable on return."""
        got = self._connection.get(self._queue, c.MQGMO_WAIT, wait_ms=c.MQWI_UNLIMITED)
        return got.message.body

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()


def define(address: str, queues: Sequence[str]) -> None:
    """Define deep queues."""
    connection = _connected(address)
    for queue in queues:
        Administration(connection.call).mqsc(f"DEFINE QLOCAL({queue}) MAXDEPTH(999999999) REPLACE")
    connection.close()


def _connected(address: str) -> RemoteConnection:
    return connect(Endpoint((Address(HOST, int(address)),), "", "BENCH"), _TOKEN, _TOKEN)
