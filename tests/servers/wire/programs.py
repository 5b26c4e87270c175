"""Programs that tests kill and stop: a server, a holder of a message, a mover of messages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from mayfly import QueueManager
from mayfly.admin.security.applicant import Admitted
from mayfly.client.connection.endpoint import Address, Endpoint
from mayfly.client.connection.remote import RemoteConnection, connect
from mayfly.mqi import constants as c
from mayfly.mqi.errors import NoMessage
from mayfly.verbs import requests as ask
from tests.connection.scene import BOTH_WAYS, got
from tests.connection.serving import HOST, serving


def _connected(port: str) -> RemoteConnection:
    return connect(Endpoint((Address(HOST, int(port)),), "CH", "QM1"), "operator", "secret")


def serve(folder: str, heartbeat_s: str) -> None:
    """Serve ``QM1`` with ``Q1`` until the standard input ends."""
    terms = Admitted(user="", heartbeat_s=int(heartbeat_s))
    with QueueManager("QM1", Path(folder)) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(100000)")
        with serving(manager, terms=terms) as served:
            assert isinstance(served.address, Address)
            print(served.address.port, flush=True)
            sys.stdin.read()


def hold(port: str) -> None:
    """Get a message of ``Q1`` and keep it."""
    connection = _connected(port)
    got(connection, connection.call(ask.Open("Q1", BOTH_WAYS)).handle)
    print("held", flush=True)
    sys.stdin.read()


def move(port: str) -> None:
    """Move messages from ``Q1`` to ``Q2``, five in each unit of work, until there is none."""
    connection = _connected(port)
    source = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    target = connection.call(ask.Open("Q2", c.MQOO_OUTPUT)).handle
    print("moving", flush=True)
    while True:
        for _ in range(5):
            try:
                message = connection.get(source, c.MQGMO_SYNCPOINT).message
            except NoMessage:
                connection.close()
                return
            connection.put(target, message.body, message.descriptor, c.MQPMO_SYNCPOINT)
        connection.call(ask.Commit())
        print("moved", flush=True)


if __name__ == "__main__":
    programs: dict[str, Callable[..., None]] = {"serve": serve, "hold": hold, "move": move}
    programs[sys.argv[1]](*sys.argv[2:])
