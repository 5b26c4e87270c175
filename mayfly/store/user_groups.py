"""The groups of users as programs have told them, in rows of the table ``meta``: JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from mayfly.store.damage import damaged
from mayfly.store.messages import Messages
from mayfly.store.units import Statement

#: The name of a row is this word with the user behind it.
_PREFIX: Final = "groups of "
#: The first text behind all that begin with the prefix.
_END: Final = _PREFIX[:-1] + chr(ord(_PREFIX[-1]) + 1)
_READ = "SELECT name, value FROM meta WHERE name >= ? AND name < ?"
_WRITE = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_ERASE = "DELETE FROM meta WHERE name = ?"


def read_user_groups(messages: Messages) -> dict[str, tuple[str, ...]]:
    """Return the groups of each user that has some; raises StoreDamaged."""
    found = {}
    for name, value in messages.fetch(_READ, (_PREFIX, _END)):
        try:
            found[str(name).removeprefix(_PREFIX)] = tuple(map(str, json.loads(value)))
        except (ValueError, TypeError) as error:
            raise damaged(Path(messages.writer.filename), error) from error
    return found


def write_user_groups(user: str, groups: tuple[str, ...]) -> Statement:
    """Return what writes the groups of a user into the store; no row says that there are none."""
    name = _PREFIX + user
    return (_WRITE, (name, json.dumps(groups))) if groups else (_ERASE, (name,))
