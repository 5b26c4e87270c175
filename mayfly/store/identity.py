"""identity.json: the least that the database of a folder must hold.

SQLite opens a database that was emptied, or that has lost its write-ahead log, without an error.
This file, written at creation, checkpoints and close, distinguishes such a store from a new one. It
is not written with each commit, which would double the syncs.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import NamedTuple

import apsw

from mayfly.mqi.errors import StoreDamaged
from mayfly.runtime import Files
from mayfly.store.damage import rows_of
from mayfly.store.totals import LAST_POSITION

IDENTITY_FILE = "identity.json"
_META = "SELECT name, value FROM meta WHERE name IN ('instance_id', 'sequence')"


class Identity(NamedTuple):
    """Marks of a database's state; all but ``instance`` and ``is_protected`` only grow."""

    instance: str
    schema: int
    ledger_position: int
    #: Numbers up to this one may have been given to messages.
    sequence: int
    #: Whether its pages have checksums.
    is_protected: bool


def read_identity(folder: Path, files: Files) -> Identity | None:
    """Return what the folder says, None when it says nothing; raises StoreDamaged."""
    file = folder / IDENTITY_FILE
    try:
        with files.open(file) as text:
            fields = json.loads(text.read().decode())
        # An older Mayfly has written none.
        checksum = fields.pop("checksum", None)
        identity = Identity(**fields)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise StoreDamaged(f"{file} cannot be read: {error}{_REMEDY}", folder) from error
    kinds = tuple(type(value) for value in identity)
    if kinds != (str, int, int, int, bool):
        raise StoreDamaged(f"{file} holds what nobody writes: {fields}{_REMEDY}", folder)
    if checksum not in (None, _checksum(identity)):
        raise StoreDamaged(f"{file} is damaged: its checksum is wrong{_REMEDY}", folder)
    return identity


def write_identity(folder: Path, identity: Identity, files: Files) -> None:
    """Put what a database says of itself beside it, on the disk; raises OSError."""
    fields = identity._asdict() | {"checksum": _checksum(identity)}
    files.write_whole(folder / IDENTITY_FILE, json.dumps(fields, indent=2) + "\n")


def _checksum(identity: Identity) -> str:
    return f"{zlib.crc32(json.dumps(identity).encode()):08x}"


def identity_of(connection: apsw.Connection) -> Identity:
    """Return what a database says of itself; one without tables is schema 0. StoreDamaged."""
    version = int(rows_of(connection, "PRAGMA user_version")[0][0])
    is_protected = connection.reserve_bytes() > 0
    if not version:
        return Identity("", 0, 0, 0, is_protected)
    meta = dict(rows_of(connection, _META))
    position = int(rows_of(connection, LAST_POSITION)[0][0])
    instance, sequence = str(meta.get("instance_id", "")), int(meta.get("sequence", 0))
    return Identity(instance, version, position, sequence, is_protected)


def check_identity(folder: Path, expected: Identity, found: Identity) -> None:
    """Raise StoreDamaged when a database is another one, or holds less than it must."""
    if found.instance != expected.instance and found.schema:
        wrong = f"it is the database of instance {found.instance}, not {expected.instance}"
    elif found.schema < expected.schema:
        wrong = f"its schema is {found.schema}, it was {expected.schema}"
    elif found.ledger_position < expected.ledger_position:
        wrong = f"its ledger ends at {found.ledger_position}, it was {expected.ledger_position}"
    elif found.sequence < expected.sequence:
        wrong = f"its last sequence number is {found.sequence}, it was {expected.sequence}"
    elif expected.is_protected and not found.is_protected:
        wrong = "its pages have no checksums any more"
    else:
        return
    raise StoreDamaged(f"the database is older than {IDENTITY_FILE} says: {wrong}{_REMEDY}", folder)


_REMEDY = "; after a restore on purpose: mayfly verify --accept-older"
