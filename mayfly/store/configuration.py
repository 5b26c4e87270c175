"""The configuration of a queue manager as its folder keeps it: one row of JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mayfly.store.damage import damaged
from mayfly.store.messages import Messages
from mayfly.store.units import Statement

_NAME = "configuration"
_READ = "SELECT value FROM meta WHERE name = ?"
_WRITE = "INSERT OR REPLACE INTO meta VALUES (?, ?)"


def read_configuration(messages: Messages) -> dict[str, Any]:
    """Return what was written last, empty when nothing was: a folder of an older Mayfly.

    Raises StoreDamaged.
    """
    rows = messages.fetch(_READ, (_NAME,))
    if not rows:
        return {}
    try:
        return dict(json.loads(rows[0][0]))
    except (ValueError, TypeError) as error:
        raise damaged(Path(messages.writer.filename), error) from error


def write_configuration(values: dict[str, Any]) -> Statement:
    """Return what writes it into the store."""
    return _WRITE, (_NAME, json.dumps(values))
