"""Inheritance: the object from which a new definition takes the attributes that are left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mayfly.admin.model import UnknownLikeObject
from mayfly.engine import Engine
from mayfly.engine.api.administration import (
    QUEUE_KINDS,
    SUB,
    TOPIC,
    Definition,
    view_named,
    view_queue,
    view_subscriptions,
    view_topics,
)


def source_of(
    manager: Engine, kind: str, like: str | None, defaults: Iterable[str] = ()
) -> Definition | None:
    """Return the object from which a new one inherits attributes, None without such an object.

    It is the object ``like``; without ``like``, the first of ``defaults`` that exists. Raises
    UnknownLikeObject if ``like`` is no object of this kind.
    """
    if like:
        found = find_definition(manager, kind, like)
        if found is None:
            raise UnknownLikeObject(kind, like)
        return found
    candidates = (find_definition(manager, kind, name) for name in defaults)
    return next((found for found in candidates if found is not None), None)


def find_definition(manager: Engine, kind: str, name: str) -> Definition | None:
    """Return the object of a kind with exactly this name, None without one."""
    found: Sequence[Definition | None]
    if kind in QUEUE_KINDS:
        found = [view_queue(manager, name)]
    elif kind == TOPIC:
        found = view_topics(manager, name)
    elif kind == SUB:
        found = [view.definition for view in view_subscriptions(manager, name)]
    else:
        found = view_named(manager, kind, name)
    # A name that ends in an asterisk is a pattern for the views.
    same = (each for each in found if each is not None and each.name == name)
    return next((each for each in same if each.kind == kind), None)
