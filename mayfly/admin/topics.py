"""Topic objects and topic strings, subscriptions, and the neighbours of a hierarchy."""

from __future__ import annotations

from collections.abc import Mapping

from mayfly.admin.errors import UnknownModel, fixed_attribute, missing_attribute
from mayfly.admin.model import (
    DURABLE_NO,
    DURABLE_YES,
    NO,
    PUBSUB,
    SUBSCRIPTION_TYPES,
    TPSTATUS,
    YES,
    Record,
)
from mayfly.admin.values import checked_all
from mayfly.engine import Engine
from mayfly.engine.face.administration import (
    CHANGEABLE_OF_SUBSCRIPTIONS,
    DEFAULT_TOPIC,
    SUB,
    TOPIC,
    TopicDefinition,
    alter_subscription,
    alter_topic,
    clear_retained,
    define_subscription,
    define_topic,
    delete_subscription,
    delete_topic,
    view_neighbours,
    view_subscriptions,
    view_topic_string,
    view_topics,
)
from mayfly.verbs.facts import Value
from mayfly.verbs.topic_strings import check_topic_string

_TOPIC_STRING = "TOPICSTR"


def define(
    manager: Engine,
    kind: str,
    name: str,
    attributes: Mapping[str, Value],
    *,
    like: str | None = None,
    replace: bool = False,
) -> None:
    """Define a topic object; a new one needs its topic string, which no model gives it."""
    given = checked_all(kind, attributes)
    is_new = _topic(manager, name) is None
    model = _topic(manager, like or DEFAULT_TOPIC)
    if model is not None:
        inherited = {k: v for k, v in model.attributes.items() if k != _TOPIC_STRING}
        given = {**inherited, **given}
    elif like is not None:
        raise UnknownModel(kind, like)
    if is_new and _TOPIC_STRING not in given:
        raise missing_attribute(_TOPIC_STRING)
    define_topic(manager, name, given, replace=replace)


def _topic(manager: Engine, name: str) -> TopicDefinition | None:
    # No object has an asterisk in its name: a pattern finds none here.
    return next((found for found in view_topics(manager, name) if found.name == name), None)


def alter(manager: Engine, kind: str, name: str, attributes: Mapping[str, Value]) -> None:
    """Change attributes of a topic object; its topic string is what it is."""
    if _TOPIC_STRING in attributes:
        raise fixed_attribute(_TOPIC_STRING, attributes[_TOPIC_STRING])
    alter_topic(manager, name, checked_all(kind, attributes))


def delete(manager: Engine, _kind: str, name: str) -> None:
    """Delete a topic object."""
    delete_topic(manager, name)


def inquire(manager: Engine, pattern: str) -> list[Record]:
    """Return the topic objects whose names match."""
    found = view_topics(manager, pattern)
    return [Record(TOPIC, definition.name, definition.attributes) for definition in found]


def inquire_topic_string(manager: Engine, topic: str) -> Record:
    """Return what applies to a topic string; raises MQRC_TOPIC_STRING_ERROR."""
    if topic:
        check_topic_string(topic, wildcards=False)
    view = view_topic_string(manager, topic)
    values: dict[str, Value] = {
        "ADMIN": view.admin_name,
        **view.values,
        "RETAINED": YES if view.is_retained else NO,
        "SUBCOUNT": view.subscription_count,
    }
    return Record(TPSTATUS, topic, values)


def clear(manager: Engine, topic: str) -> None:
    """Remove the retained publication of a topic string; raises MQRC_TOPIC_STRING_ERROR."""
    check_topic_string(topic, wildcards=False)
    clear_retained(manager, topic)


def subscribe(
    manager: Engine,
    kind: str,
    name: str,
    attributes: Mapping[str, Value],
    *,
    like: str | None = None,
    replace: bool = False,
) -> None:
    """Define an administrative subscription; a model gives what can be altered of it."""
    given = checked_all(kind, attributes)
    if like is not None:
        models = [m for m, _ in view_subscriptions(manager, like) if m.name == like]
        if not models:
            raise UnknownModel(kind, like)
        inherited = models[0].attributes.items()
        given = {**{k: v for k, v in inherited if k in CHANGEABLE_OF_SUBSCRIPTIONS}, **given}
    define_subscription(manager, name, given, replace=replace)


def alter_subscribed(
    manager: Engine, kind: str, name: str, attributes: Mapping[str, Value]
) -> None:
    """Change what can be changed of a subscription."""
    given = checked_all(kind, attributes)
    for keyword, value in given.items():
        if keyword not in CHANGEABLE_OF_SUBSCRIPTIONS:
            raise fixed_attribute(keyword, value)
    alter_subscription(manager, name, given)


def unsubscribe(manager: Engine, _kind: str, name: str) -> None:
    """Delete a subscription."""
    delete_subscription(manager, name)


def inquire_subscriptions(manager: Engine, pattern: str) -> list[Record]:
    """Return the subscriptions whose names match; non-durable ones while they last."""
    records = []
    for definition, is_durable in view_subscriptions(manager, pattern):
        values: dict[str, Value] = {
            "SUBID": definition.sub_id.upper(),
            **definition.attributes,
            "SUBTYPE": SUBSCRIPTION_TYPES[definition.made_by],
            "DURABLE": DURABLE_YES if is_durable else DURABLE_NO,
        }
        records.append(Record(SUB, definition.name, values))
    return records


def inquire_neighbours(manager: Engine) -> list[Record]:
    """Return the queue manager itself, its parent and its children in a hierarchy."""
    parent, children = view_neighbours(manager)
    related = [("LOCAL", manager.name), ("PARENT", parent)]
    related += [("CHILD", name) for name in children]
    return [Record(PUBSUB, name, {"TYPE": relation}) for relation, name in related if name]
