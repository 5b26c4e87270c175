"""The socket in the folder of a queue manager, for pipelines on the same machine."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from mayfly.verbs.contracts.access import FolderSocket

#: The scheme of ``grpc+unix:///FOLDER``, which means the server of the queue manager in a folder.
FOLDER_SCHEME = "grpc+unix"
SOCKET_FILE = "flight.sock"


def folder_url(folder: Path) -> str:
    """Return the URL of the server that has the queue manager in ``folder`` open.

    Example: ``/var/QM1`` -> ``grpc+unix:///var/QM1``.
    """
    return f"{FOLDER_SCHEME}://{quote(str(folder.absolute()))}"


def folder_of_url(url: str) -> Path:
    """Return the folder in a URL ``grpc+unix:///FOLDER``; raises ValueError for another URL."""
    parts = urlsplit(url)
    if parts.scheme != FOLDER_SCHEME or parts.netloc or not parts.path.startswith("/"):
        raise ValueError(f"url {url!r} is not {FOLDER_SCHEME}:///FOLDER")
    return Path(unquote(parts.path))


class FlightSocket(FolderSocket):
    """The socket of Arrow Flight in the folder of a queue manager."""

    def __init__(self, folder: Path) -> None:
        """Open the folder; raises OSError if it is no folder or cannot be opened."""
        super().__init__(folder, SOCKET_FILE)

    @property
    def location(self) -> str:
        """The address for gRPC to listen on or connect to, such as ``grpc+unix://PATH``.

        The address is valid in this process only.
        """
        return f"{FOLDER_SCHEME}://{self.path}"
