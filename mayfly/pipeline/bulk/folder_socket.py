"""The socket in the folder of a queue manager, by which pipelines of its machine reach a server."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from mayfly.verbs.contracts.access import FolderSocket

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


class FlightSocket(FolderSocket):
    """The way to the socket of Arrow Flight."""

    def __init__(self, folder: Path) -> None:
        """Open the folder; raises OSError when it is none or cannot be opened."""
        super().__init__(folder, SOCKET_FILE)

    @property
    def location(self) -> str:
        """The address for gRPC to listen on or connect to, in this process only."""
        return f"{FOLDER_SCHEME}://{self.path}"
