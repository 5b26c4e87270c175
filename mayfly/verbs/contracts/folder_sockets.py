"""Sockets in the folder of a queue manager, by which programs of its machine reach its server.

The folder is private. So every user that can reach a socket can read the messages as well, and no
other user can listen there. A port on the loopback interface is open to all users.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

#: The socket of the network protocol (verbs/contracts/wire.py).
MQ_SOCKET_FILE: Final = "mq.sock"


class FolderSocket:
    """The way to a socket of a folder, through a descriptor of the folder; :meth:`close` it.

    The path of a socket has at most 107 bytes, that of a folder may have 4,095. A path through
    ``/proc/self/fd`` is short, and leads to the same folder though it is renamed meanwhile.
    """

    def __init__(self, folder: Path, file: str = MQ_SOCKET_FILE) -> None:
        """Open the folder; raises OSError when it is none or cannot be opened."""
        self._descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        self._file = file

    @property
    def path(self) -> Path:
        """The path of the socket, in this process only."""
        return Path(f"/proc/self/fd/{self._descriptor}/{self._file}")

    def close(self) -> None:
        """Give the folder up; nothing can be connected any more."""
        os.close(self._descriptor)
