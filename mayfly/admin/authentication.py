"""How passwords are checked (AUTHINFO): define, alter, delete, inquire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mayfly.admin.errors import missing_attribute
from mayfly.admin.model import Record
from mayfly.admin.values import checked_all
from mayfly.engine import Engine, manager_definition
from mayfly.engine.face.administration import (
    AUTHINFO,
    DEFAULT_AUTHENTICATION,
    alter_named,
    define_named,
    delete_named,
    find_named,
    view_named,
)
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.verbs.facts import Value

_TYPE: Final = "AUTHTYPE"


def define(
    manager: Engine,
    kind: str,
    name: str,
    attributes: Mapping[str, Value],
    *,
    like: str | None = None,
    replace: bool = False,
) -> None:
    """Define one; other attributes are the model's, or SYSTEM.DEFAULT.AUTHINFO.IDPWOS's."""
    given = checked_all(kind, attributes)
    if _TYPE not in given:
        raise missing_attribute(_TYPE, "IDPWOS")
    known = {found.name: found for found in view_named(manager, kind, "*")}
    model = find_named(manager, kind, like) if like else known.get(DEFAULT_AUTHENTICATION)
    if replace and like is None:
        model = known.get(name, model)
    define_named(
        manager, kind, name, {**(model.attributes if model else {}), **given}, replace=replace
    )


def alter(manager: Engine, kind: str, name: str, attributes: Mapping[str, Value]) -> None:
    """Change attributes; they count for whoever connects next."""
    alter_named(manager, kind, name, checked_all(kind, attributes))


def delete(manager: Engine, kind: str, name: str) -> None:
    """Delete one; raises MQRC_OBJECT_IN_USE for that which the queue manager names in CONNAUTH."""
    find_named(manager, kind, name)
    if manager_definition(manager).connauth == name:
        raise mq_error(rc.MQRC_OBJECT_IN_USE, f"CONNAUTH of {manager.name} names {name}")
    delete_named(manager, kind, name)


def inquire(manager: Engine, pattern: str) -> list[Record]:
    """Return those whose names match."""
    found = view_named(manager, AUTHINFO, pattern)
    return [Record(AUTHINFO, definition.name, definition.attributes) for definition in found]
