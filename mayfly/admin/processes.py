"""Processes: define, alter, delete, inquire."""

from __future__ import annotations

from collections.abc import Mapping

from mayfly.admin.model import Record
from mayfly.admin.values import checked_all
from mayfly.engine import Engine
from mayfly.engine.face.administration import (
    PROCESS,
    alter_named,
    define_named,
    delete_named,
    find_named,
    view_named,
)
from mayfly.verbs.facts import Value


def define(
    manager: Engine,
    kind: str,
    name: str,
    attributes: Mapping[str, Value],
    *,
    like: str | None = None,
    replace: bool = False,
) -> None:
    """Define a process; other attributes are the model's, else the defaults."""
    given = checked_all(kind, attributes)
    if like is not None:
        given = {**find_named(manager, kind, like).attributes, **given}
    define_named(manager, kind, name, given, replace=replace)


def alter(manager: Engine, kind: str, name: str, attributes: Mapping[str, Value]) -> None:
    """Change attributes of a process."""
    alter_named(manager, kind, name, checked_all(kind, attributes))


def delete(manager: Engine, kind: str, name: str) -> None:
    """Delete a process."""
    delete_named(manager, kind, name)


def inquire(manager: Engine, pattern: str) -> list[Record]:
    """Return the processes whose names match."""
    found = view_named(manager, PROCESS, pattern)
    return [Record(PROCESS, definition.name, definition.attributes) for definition in found]
