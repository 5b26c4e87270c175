"""A folder whose queue manager this process serves, as ``mayfly serve`` does for commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mayfly import QueueManager
from mayfly.contracts.folder_sockets import MQ_SOCKET_FILE
from mayfly.security.admission import Admission
from mayfly.servers.wire import WireServer


@contextmanager
def listening(manager: QueueManager, folder: Path, token: str) -> Iterator[None]:
    """Listen on the socket in a folder for a block; the bearer of the token is the operator."""
    server = WireServer([manager], Admission([manager.engine], token=token))
    try:
        server.listen_unix(folder / MQ_SOCKET_FILE)
        yield
    finally:
        server.close()
