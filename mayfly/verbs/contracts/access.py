"""Access of a program to a server: the socket in a folder, the operator's token, TLS files.

The folder of a queue manager is private: every user who can reach a socket in it could also read
the messages, and no other user can listen there. A port of the loopback interface, in contrast, is
open to all users.

A token is a secret of a server that commands and pipelines present to it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from mayfly.verbs.contracts.config_files import local_path

#: The socket of the network protocol (verbs/contracts/wire.py).
MQ_SOCKET_FILE: Final = "mq.sock"


class FolderSocket:
    """A short path to a Unix socket in a folder, through an open descriptor of the folder.

    :meth:`close` closes the descriptor.

    The path of a socket has at most 107 bytes, that of a folder up to 4,095. A path through
    ``/proc/self/fd`` is short, and stays valid when the folder is renamed.
    """

    def __init__(self, folder: Path, file: str = MQ_SOCKET_FILE) -> None:
        """Open the folder; raises OSError if the folder does not exist or cannot be opened.

        ``file`` is the name of the socket in it, which need not exist.
        """
        self._descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        self._file = file

    @property
    def path(self) -> Path:
        """The path of the socket, valid in this process until :meth:`close`."""
        return Path(f"/proc/self/fd/{self._descriptor}/{self._file}")

    def close(self) -> None:
        """Close the descriptor, which makes ``path`` invalid; must be called only once."""
        os.close(self._descriptor)


#: Environment variable of the token when no file is named.
TOKEN_VARIABLE: Final = "MAYFLY_TOKEN"
#: The file of a token that ``mayfly serve`` has made, in the folder of a queue manager.
TOKEN_FILE: Final = "token"
#: A token in a header has to stay below gRPC's limit for headers.
_TOKEN_BYTES = 4096


class TokenMissing(ValueError):
    """No token is configured, or the token file cannot be used."""


def check_token(token: str) -> str:
    """Return ``token`` unchanged if it is printable ASCII without white space around it.

    Raises ValueError for any other text, and for an empty one.
    """
    if not token:
        raise ValueError("the token is empty")
    if not token.isascii() or not token.isprintable() or token != token.strip():
        raise ValueError("the token has characters other than printable ASCII, or spaces around it")
    return token


def read_token(token_file: str | Path | None = None) -> str:
    """Return the token in ``token_file``, or without a file the value of MAYFLY_TOKEN.

    White space around the token is removed. Raises TokenMissing if the variable is unset or blank,
    or if the file cannot be used.
    """
    if token_file is not None:
        return _token_in(token_file)
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise TokenMissing(f"no token: name a token file or set {TOKEN_VARIABLE}")
    return token


def _token_in(token_file: str | Path) -> str:
    """Return the token in a file, without the white space around it.

    Raises TokenMissing if the file cannot be read, is empty, has more than 4,096 bytes, or holds
    text other than printable ASCII.
    """
    try:
        with local_path(token_file).open("rb") as file:
            # At most the bytes of a token are read: the name may be that of a device.
            content = file.read(_TOKEN_BYTES + 1)
    except OSError as error:
        raise TokenMissing(f"token file {token_file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise TokenMissing(f"token file {error}") from error
    if len(content) > _TOKEN_BYTES:
        raise TokenMissing(f"token file {token_file} has more than {_TOKEN_BYTES} bytes")
    try:
        return check_token(content.decode().strip())
    except UnicodeDecodeError as error:
        raise TokenMissing(f"token file {token_file} is not text: {error}") from error
    except ValueError as error:
        raise TokenMissing(f"token file {token_file} holds none: {error}") from error


#: The certificates that servers are checked against.
ROOTS_VARIABLE: Final = "MAYFLY_TLS_ROOTS"
#: A client's own certificate chain and its key, which some servers ask for.
CERTIFICATE_VARIABLE: Final = "MAYFLY_TLS_CERTIFICATE"
KEY_VARIABLE: Final = "MAYFLY_TLS_KEY"
