"""Check of the folder of a queue manager: finds damaged files that are not part of its store.

The store checks the database, its log, the identity and the ballast. This module checks the files
of security, administration and servers. Any further file is read to its end, which fails on a
failing disk; databases are not: to close one that this process has open drops the locks that
SQLite has on it, and another process would remove its log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from mayfly.admin.channels import CLIENT_TABLE as CLIENT_TABLE
from mayfly.admin.channels import client_table_of
from mayfly.admin.security.developer import (
    CERTIFICATE_FILE,
    KEY_FILE,
    PASSWORDS_FILE,
    check_certificate,
    check_passwords,
)
from mayfly.admin.security.users import FILE as USERS
from mayfly.admin.security.users import users_of
from mayfly.engine import Engine, manager_folder
from mayfly.mqi.errors import StoreError
from mayfly.verbs.contracts.access import TOKEN_FILE, TokenMissing, read_token

_PART_BYTES: Final = 2**16
#: In the names of databases, of their logs and of what lies beside them.
_DATABASE: Final = ".db"


def check_files(manager: Engine) -> list[str]:
    """Return a text for each damaged file of the folder, with its name; change nothing.

    The list is empty if no file is damaged, and for a queue manager in memory.
    """
    folder = manager_folder(manager)
    if folder is None:
        return []
    checks: Mapping[str, Callable[[Path], None]] = {
        USERS: lambda _file: users_of(manager).check(),
        CLIENT_TABLE: lambda file: _check_client_table(manager, file),
        PASSWORDS_FILE: check_passwords,
        CERTIFICATE_FILE: lambda file: check_certificate(file, folder / KEY_FILE),
        TOKEN_FILE: _check_token,
    }
    return list(_problems(folder, checks))


def _problems(folder: Path, checks: Mapping[str, Callable[[Path], None]]) -> Iterator[str]:
    """Yield a text for each file that cannot be read or is damaged, sorted by file name.

    ``checks`` has the check function of a file name; files without one are only read. Databases,
    sockets, folders and files that vanish meanwhile are skipped.
    """
    for file in sorted(folder.iterdir()):
        if not file.is_file() or _DATABASE in file.name:
            continue
        try:
            _read_to_end(file)
            check = checks.get(file.name)
            if check is not None:
                check(file)
        except FileNotFoundError:
            # Sockets and files of a server come and go.
            continue
        except OSError as error:
            yield f"{file} cannot be read: {error.strerror or error}"
        except (StoreError, ValueError) as error:
            yield str(error) if str(file) in str(error) else f"{file} is damaged: {error}"


def _read_to_end(file: Path) -> None:
    """Read a file to its end, to find disk errors; raises OSError."""
    with file.open("rb") as content:
        while content.read(_PART_BYTES):
            pass


def _check_client_table(manager: Engine, file: Path) -> None:
    """Raise ValueError if the CCDT file differs from the client channels that are defined."""
    if file.read_bytes() != client_table_of(manager).encode():
        text = "is not the table of the channels of clients as they are defined"
        raise ValueError(f"{file} {text}: ALTER one of them, and it is written anew")


def _check_token(file: Path) -> None:
    """Raise ValueError if the file of the operator's token is not valid."""
    try:
        read_token(file)
    except TokenMissing as error:
        raise ValueError(str(error)) from error
