"""The MQSC commands about topics: their objects, what applies to a string, what is retained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mayfly.engine.attributes.attribute import CHILD, Value
from mayfly.engine.objects.named import named_of
from mayfly.engine.pubsub import topic_administration
from mayfly.engine.pubsub.retained import clear_retained
from mayfly.engine.pubsub.topic_strings import check_topic_string
from mayfly.engine.pubsub.topics import DEFAULT_TOPIC
from mayfly.mqsc.display import Selection, selection, topic_row, topic_status_row
from mayfly.mqsc.grammar import Command, fold
from mayfly.mqsc.outcome import Outcome, done, not_found, nothing_else, shown
from mayfly.mqsc.values import (
    GENERIC,
    distinct,
    matches,
    no_value,
    object_name,
    one_value,
    settings,
    switch,
)

if TYPE_CHECKING:
    from mayfly.engine.manager import Manager

TOPICSTR: Final = "TOPICSTR"
PUBSUB: Final = "PUBSUB"
_RETAINED: Final = "RETAINED"


def define(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DEFINE TOPIC(name) TOPICSTR(text) [LIKE(name)] [REPLACE] attributes."""
    name = object_name(command.object)
    given = distinct(command.parameters)
    replace = switch(given, "REPLACE")
    like = given.pop("LIKE", None)
    model_name = DEFAULT_TOPIC if like is None else object_name(like)
    attributes = settings(given, kind)
    with queue_manager.latch:
        is_new = queue_manager.registry.topics.find(name) is None
        model = queue_manager.registry.topics.find(model_name)
        if model is not None:
            # The topic string is what makes an object this one and no other.
            inherited = {k: v for k, v in model.attributes.items() if k != TOPICSTR}
            attributes = {**inherited, **attributes}
        elif like is not None:
            return not_found(model_name)
    if is_new and TOPICSTR not in attributes:
        raise command.object.wrong(f"{TOPICSTR} is missing")
    topic_administration.define_topic(queue_manager, name, attributes, replace=replace)
    return done("AMQ8690I", "IBM MQ topic created.")


def alter(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """ALTER TOPIC(name) attributes."""
    name = object_name(command.object)
    given = distinct(command.parameters)
    if TOPICSTR in given:
        raise given[TOPICSTR].wrong(f"{TOPICSTR} cannot be changed")
    topic_administration.alter_topic(queue_manager, name, settings(given, kind))
    return done("AMQ8691I", "IBM MQ topic changed.")


def delete(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DELETE TOPIC(name)."""
    name = object_name(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    topic_administration.delete_topic(queue_manager, name)
    return done("AMQ8692I", "IBM MQ topic deleted.")


def display(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DISPLAY TOPIC(generic) [attributes] [WHERE()]."""
    pattern = object_name(command.object, generic=True)
    wanted = selection(distinct(command.parameters), (kind,), generic=pattern.endswith(GENERIC))
    with queue_manager.latch:
        rows = [
            topic_row(definition)
            for definition in queue_manager.registry.topics.definitions()
            if matches(definition.name, pattern)
        ]
    return shown(rows, wanted, pattern, ("AMQ8633I", "Display topic details."))


def display_status(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DISPLAY TPSTATUS(topic string): the values that apply there, none of them ASPARENT."""
    topic = one_value(command.object)
    wanted = selection(distinct(command.parameters), (kind,), generic=False)
    if topic:
        check_topic_string(topic, wildcards=False)
    with queue_manager.latch:
        row = topic_status_row(queue_manager, topic)
    return shown([row], wanted, topic, ("AMQ8754I", "Display topic status details."))


def clear(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """CLEAR TOPICSTR(topic string) CLRTYPE(RETAINED)."""
    topic = one_value(command.object)
    given = distinct(command.parameters)
    way = given.pop("CLRTYPE", None)
    if way is None or fold(one_value(way)) != _RETAINED:
        raise command.object.wrong(f"CLEAR {kind} needs CLRTYPE({_RETAINED})")
    nothing_else(command, kind, given)
    check_topic_string(topic, wildcards=False)
    clear_retained(queue_manager, topic)
    return done("AMQ8684I", "Topic string cleared.")


def display_neighbours(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DISPLAY PUBSUB: the queue manager itself, its parent and its children in a hierarchy."""
    no_value(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    with queue_manager.latch:
        parent = queue_manager.registry.queue_manager.parent
        children = [child.name for child in named_of(queue_manager, CHILD)]
    related = [("LOCAL", queue_manager.name), ("PARENT", parent)]
    related += [("CHILD", name) for name in children]
    rows: list[dict[str, Value]] = [
        {"QMNAME": name, "TYPE": relation} for relation, name in related if name
    ]
    heading = "AMQ8723I", "Display pub/sub status details."
    return shown(rows, Selection(None, None), queue_manager.name, heading)
