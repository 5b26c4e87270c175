"""The operator's token: the secret of a server that its commands and pipelines show."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from mayfly.verbs.contracts.places import local_path

#: Environment variable of the token when no file is named.
TOKEN_VARIABLE: Final = "MAYFLY_TOKEN"
#: The file of a token that ``mayfly serve`` has made, in the folder of a queue manager.
TOKEN_FILE: Final = "token"
#: A token in a header has to stay below gRPC's limit for headers.
_TOKEN_BYTES = 4096


class TokenMissing(ValueError):
    """No token was given, or its file cannot be used."""


def check_token(token: str) -> str:
    """Return a token; raises ValueError for one that cannot stand in a header."""
    if not token.isascii() or not token.isprintable() or token != token.strip():
        raise ValueError("the token has characters other than printable ASCII, or spaces around it")
    return token


def read_token(token_file: str | Path | None = None) -> str:
    """Return the token in a file, without one that in MAYFLY_TOKEN; raises TokenMissing."""
    if token_file is not None:
        return _token_in(token_file)
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise TokenMissing(f"no token: name a token file or set {TOKEN_VARIABLE}")
    return token


def _token_in(token_file: str | Path) -> str:
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
        token = check_token(content.decode().strip())
    except UnicodeDecodeError as error:
        raise TokenMissing(f"token file {token_file} is not text: {error}") from error
    except ValueError as error:
        raise TokenMissing(f"token file {token_file} holds none: {error}") from error
    if not token:
        raise TokenMissing(f"token file {token_file} is empty")
    return token
