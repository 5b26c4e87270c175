"""The socket in the folder of a queue manager, by which commands of its machine reach its server.

The folder is private. So every user that can reach the socket can read the messages as well, and no
other user can listen there. A port on the loopback interface is open to all users.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

#: The scheme of ``grpc+unix:///FOLDER``, which means the server of the queue manager in a folder.
FOLDER_SCHEME = "grpc+unix"
SOCKET_FILE = "flight.sock"


def folder_url(folder: Path) -> str:
    """Return the url of the server that has a folder open."""
    return f"{FOLDER_SCHEME}://{quote(str(folder.absolute()))}"


def folder_of_url(url: str) -> Path:
    """Return the folder that a url names; raises ValueError for a url of another form."""
    parts = urlsplit(url)
    if parts.scheme != FOLDER_SCHEME or parts.netloc or not parts.path.startswith("/"):
        raise ValueError(f"url {url!r} is not {FOLDER_SCHEME}:///FOLDER")
    return Path(unquote(parts.path))


class FolderSocket:
    """The way to the socket of a folder, through a descriptor of the folder; :meth:`close` it.

    The path of a socket has at most 107 bytes, that of a folder may have 4,095. A path through
    ``/proc/self/fd`` is short, and leads to the same folder though it is renamed meanwhile.
    """

    def __init__(self, folder: Path) -> None:
        """Open the folder; raises OSError when it is none or cannot be opened."""
        self._descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)

    @property
    def path(self) -> Path:
        """The path of the socket, in this process only."""
        return Path(f"/proc/self/fd/{self._descriptor}/{SOCKET_FILE}")

    @property
    def location(self) -> str:
        """The address for gRPC to listen on or connect to, in this process only."""
        return f"{FOLDER_SCHEME}://{self.path}"

    def close(self) -> None:
        """Give the folder up; nothing can be connected any more."""
        os.close(self._descriptor)
