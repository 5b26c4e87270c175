"""A folder whose queue manager this process serves, as ``mayfly serve`` does for commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mayfly import QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.servers.wire import WireServer
from mayfly.verbs.contracts.access import MQ_SOCKET_FILE


@contextmanager
def listening(manager: QueueManager, folder: Path, token: str) -> Iterator[None]:
    """Listen on the socket in a folder for a block; the bearer of the token is the operator."""
    server = listening_server(manager, folder, token)
    try:
        yield
    finally:
        server.close()


def listening_server(manager: QueueManager, folder: Path, token: str) -> WireServer:
    """Return a server that listens on the socket in a folder, to be closed by the caller."""
    server = WireServer([manager], Admission([manager.engine], token=token))
    server.listen_unix(folder / MQ_SOCKET_FILE)
    return server
