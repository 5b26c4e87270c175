"""Definitions in the folder of a queue manager, read without opening it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from mayfly.mqi.errors import StoreError
from mayfly.store.database import DATABASE_FILE

_READ_ONLY = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


def stored_objects(folder: Path, kind: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a kind in a folder, name -> attributes by MQSC keyword, as stored.

    ``kind`` is that of the store, as ``CHANNEL`` or ``QLOCAL``. A folder without a queue manager
    has none. The folder may be open in another process, and nothing in it is changed. Raises
    StoreError if the database cannot be read.
    """
    file = folder / DATABASE_FILE
    if not file.exists():
        return {}
    # Beside a log SQLite takes part in its index. Without one it would make both files.
    has_log = file.with_name(f"{DATABASE_FILE}-wal").exists()
    uri = f"{file.absolute().as_uri()}?{'mode=ro' if has_log else 'immutable=1'}"
    try:
        with closing(apsw.Connection(uri, flags=_READ_ONLY)) as database:
            rows = database.execute("SELECT name, attributes FROM object WHERE kind = ?", (kind,))
            return {name: json.loads(attributes) for name, attributes in rows}
    except apsw.Error as error:
        raise StoreError(f"{file} cannot be read: {error}", file) from error
