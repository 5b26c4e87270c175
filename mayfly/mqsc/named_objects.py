"""The MQSC commands about objects that are neither queue nor topic: processes and channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mayfly.engine.attributes import attributes_of
from mayfly.engine.attributes.attribute import PROCESS, Value
from mayfly.engine.objects.named import (
    alter_named,
    define_named,
    delete_named,
    find_named,
    named_of,
)
from mayfly.mqsc.display import selection
from mayfly.mqsc.grammar import Command
from mayfly.mqsc.outcome import Outcome, done, nothing_else, shown
from mayfly.mqsc.values import (
    GENERIC,
    distinct,
    matches,
    object_name,
    settings,
    switch,
    word_of,
)

if TYPE_CHECKING:
    from mayfly.engine.attributes.definition import Definition
    from mayfly.engine.manager import Manager


class _Texts(NamedTuple):
    """What runmqsc says of a kind of object."""

    created: tuple[str, str]
    changed: tuple[str, str]
    deleted: tuple[str, str]
    details: tuple[str, str]


_TEXTS = {
    PROCESS: _Texts(
        ("AMQ8010I", "IBM MQ process created."),
        ("AMQ8012I", "IBM MQ process changed."),
        ("AMQ8011I", "IBM MQ process deleted."),
        ("AMQ8407I", "Display Process details."),
    ),
}


def define(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DEFINE kind(name) [LIKE(name)] [REPLACE] attributes."""
    name = object_name(command.object)
    given = distinct(command.parameters)
    replace = switch(given, "REPLACE")
    like = given.pop("LIKE", None)
    attributes = settings(given, kind)
    if like is not None:
        model = find_named(queue_manager, kind, object_name(like))
        attributes = {**model.attributes, **attributes}
    define_named(queue_manager, kind, name, attributes, replace=replace)
    return done(*_TEXTS[kind].created)


def alter(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """ALTER kind(name) attributes."""
    name = object_name(command.object)
    alter_named(queue_manager, kind, name, settings(distinct(command.parameters), kind))
    return done(*_TEXTS[kind].changed)


def delete(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DELETE kind(name)."""
    name = object_name(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    delete_named(queue_manager, kind, name)
    return done(*_TEXTS[kind].deleted)


def display(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DISPLAY kind(generic) [attributes] [WHERE()]."""
    pattern = object_name(command.object, generic=True)
    wanted = selection(distinct(command.parameters), (kind,), generic=pattern.endswith(GENERIC))
    with queue_manager.latch:
        found = [d for d in named_of(queue_manager, kind) if matches(d.name, pattern)]
    return shown(map(_row, found), wanted, pattern, _TEXTS[kind].details)


def _row(definition: Definition) -> dict[str, Value]:
    values = definition.attributes
    known = attributes_of(definition.kind)
    words = {k: word_of(a, values[k]) for k, a in known.items()}
    return {definition.kind: definition.name, **words}
