"""The files of a folder beside its database: users, certificates, keys, settings.

Files that hold secrets are sealed by a passphrase (scrypt and AES-GCM), or left out.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from mayfly.mqi.errors import StoreDamaged, StoreError
from mayfly.runtime import Runtime
from mayfly.runtime.files import FILE_MODE
from mayfly.store.backup.epochs import files_path
from mayfly.store.backup.places import BackupPlace
from mayfly.store.database import REPLICA_FILE
from mayfly.store.replica.standing import STANDING_FILE

#: Who the server is now, what is made anew, and the row of a log that this database has: another
#: moment of it has another row.
_NEVER: Final = (
    *("identity.json", "served.json", "ballast", "users.lock", "server.log"),
    STANDING_FILE,
    REPLICA_FILE,
)
#: Databases, with their logs and what lies beside them.
_DATABASE: Final = ".db"
#: Begun anew by the server that misses it.
_FIGURES: Final = "figures.db"
_PUBLIC: Final = ("ccdt.json", "applied.json", "developer-cert.pem")
_SCRYPT_COST: Final = 2**15
_SALT_BYTES, _NONCE_BYTES = 16, 12


class Secrets(NamedTuple):
    """The treatment of files with secrets: sealed by ``passphrase``, left out without one."""

    passphrase: str | None


class FileStamp(NamedTuple):
    """Name, length and last change of a file; with another one it is copied again."""

    name: str
    size_bytes: int
    changed_ns: int


def stamps_of(folder: Path) -> list[FileStamp]:
    """Return the files that a backup holds beside the database, sorted by name; raises OSError."""
    found = []
    for entry in os.scandir(folder):
        is_ours = entry.is_file(follow_symlinks=False) and entry.name not in _NEVER
        if is_ours and _DATABASE not in entry.name and not entry.name.endswith(".new"):
            facts = entry.stat()
            found.append(FileStamp(entry.name, facts.st_size, facts.st_mtime_ns))
    return sorted(found)


def secret_names(folder: Path) -> list[str]:
    """Return the names of the files of a folder that hold secrets; all that are not known may."""
    return [stamp.name for stamp in stamps_of(folder) if stamp.name not in _PUBLIC]


def databases_left_out(folder: Path, database_file: str) -> list[str]:
    """Return the names of databases of the folder that a backup lacks: other than the messages."""
    names = (entry.name for entry in os.scandir(folder))
    have = (database_file, _FIGURES)
    return sorted(name for name in names if name.endswith(_DATABASE) and name not in have)


def write_files(place: BackupPlace, folder: Path, secrets: Secrets, now_ms: int) -> list[str]:
    """Write the files of a folder as one object; return the names of those that are left out.

    Raises OSError, and ModuleNotFoundError when there are secrets and no ``cryptography``.
    """
    plain, secret = dict[str, str](), dict[str, str]()
    for stamp in stamps_of(folder):
        kind = plain if stamp.name in _PUBLIC else secret
        kind[stamp.name] = b64encode((folder / stamp.name).read_bytes()).decode()
    left_out = []
    sealed = None
    if secrets.passphrase is None:
        left_out = sorted(secret)
    elif secret:
        sealed = _sealed(json.dumps(secret).encode(), secrets.passphrase)
    content = {"plain": plain, "sealed": sealed, "left_out": left_out}
    place.write(files_path(now_ms), json.dumps(content).encode())
    return left_out


def read_files(place: BackupPlace, at_ms: int, passphrase: str | None) -> Mapping[str, bytes]:
    """Return the content of files by name, as they were written at a moment.

    Raises StoreError when they are sealed and the passphrase is missing or wrong, StoreDamaged,
    OSError.
    """
    name = files_path(at_ms)
    try:
        content = json.loads(place.read(name))
        files, sealed = dict(content["plain"]), content["sealed"]
    except (ValueError, TypeError, KeyError) as error:
        raise StoreDamaged(f"{name} is damaged: {error}", Path(name)) from error
    if sealed is not None:
        if passphrase is None:
            raise StoreError(f"{name} is sealed: give the passphrase of the backup", Path(name))
        files |= json.loads(_opened(sealed, passphrase, name))
    return {file: b64decode(text) for file, text in files.items()}


def restore_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder, readable by their owner alone; raises OSError."""
    for name, content in files.items():
        # A name is one file of this folder, whatever the backup says.
        file = folder / Path(name).name
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE)
        with os.fdopen(descriptor, "wb") as output:
            output.write(content)
            output.flush()
            os.fsync(output.fileno())


def _sealed(content: bytes, passphrase: str) -> dict[str, str]:
    """Return content sealed by a passphrase, with what is needed to open it, for JSON."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    random_bytes = Runtime().random_bytes
    salt, nonce = random_bytes(_SALT_BYTES), random_bytes(_NONCE_BYTES)
    sealed = AESGCM(_key_of(passphrase, salt)).encrypt(nonce, content, None)
    parts = {"salt": salt, "nonce": nonce, "content": sealed}
    return {name: b64encode(part).decode() for name, part in parts.items()}


def _opened(sealed: Mapping[str, str], passphrase: str, name: str) -> bytes:
    """Return what was sealed; raises StoreError for a wrong passphrase or a changed object."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    salt, nonce, content = (b64decode(sealed[part]) for part in ("salt", "nonce", "content"))
    try:
        return AESGCM(_key_of(passphrase, salt)).decrypt(nonce, content, None)
    except InvalidTag:
        raise StoreError(f"the passphrase is not that of {name}", Path(name)) from None


def _key_of(passphrase: str, salt: bytes) -> bytes:
    """Return the key that scrypt makes of a passphrase."""
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    return Scrypt(salt=salt, length=32, n=_SCRYPT_COST, r=8, p=1).derive(passphrase.encode())
