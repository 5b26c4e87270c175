"""Values by name in the table ``meta``: the configuration, the groups of users, and others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from mayfly.store.damage import damaged
from mayfly.store.messages import Messages
from mayfly.store.units import Statement

_READ = "SELECT value FROM meta WHERE name = ?"
_WRITE = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_ERASE = "DELETE FROM meta WHERE name = ?"
_CONFIGURATION: Final = "configuration"
#: The name of a row is this word with the user behind it.
_GROUPS: Final = "groups of "
#: The first text behind all that begin with the prefix.
_GROUPS_END: Final = _GROUPS[:-1] + chr(ord(_GROUPS[-1]) + 1)
_READ_GROUPS = "SELECT name, value FROM meta WHERE name >= ? AND name < ?"


def read_value(messages: Messages, name: str) -> Any:
    """Return the value with this name, None when none is stored."""
    rows = messages.fetch(_READ, (name,))
    return rows[0][0] if rows else None


def write_value(name: str, value: str | int) -> Statement:
    """Return the SQL statement that stores a value under a name, or replaces it."""
    return _WRITE, (name, value)


def read_configuration(messages: Messages) -> dict[str, Any]:
    """Return the configuration that was stored last, empty if none was; raises StoreDamaged."""
    packed = read_value(messages, _CONFIGURATION)
    if packed is None:
        return {}
    try:
        return dict(json.loads(packed))
    except (ValueError, TypeError) as error:
        raise damaged(Path(messages.writer.filename), error) from error


def write_configuration(values: dict[str, Any]) -> Statement:
    """Return the SQL statement that stores the configuration, as JSON."""
    return write_value(_CONFIGURATION, json.dumps(values))


def read_user_groups(messages: Messages) -> dict[str, tuple[str, ...]]:
    """Return the groups of each user that programs have stored; raises StoreDamaged."""
    found = {}
    for name, value in messages.fetch(_READ_GROUPS, (_GROUPS, _GROUPS_END)):
        try:
            found[str(name).removeprefix(_GROUPS)] = tuple(map(str, json.loads(value)))
        except (ValueError, TypeError) as error:
            raise damaged(Path(messages.writer.filename), error) from error
    return found


def write_user_groups(user: str, groups: tuple[str, ...]) -> Statement:
    """Return the SQL statement that stores the groups of a user.

    Without groups it deletes the entry of the user.
    """
    name = _GROUPS + user
    return write_value(name, json.dumps(groups)) if groups else (_ERASE, (name,))
