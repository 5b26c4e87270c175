"""Topic objects change: define, alter, delete, and what a new queue manager has of them."""

from __future__ import annotations

from collections.abc import Mapping

from mayfly.engine.attributes.attribute import LARGEST, QMODEL, TOPIC
from mayfly.engine.attributes.of_queues import QueueDefinition
from mayfly.engine.attributes.of_topics import TopicDefinition
from mayfly.engine.core import Core
from mayfly.engine.objects.administration import enter_at_opening, erase, save
from mayfly.engine.pubsub.topics import (
    BASE_TOPIC,
    BASE_VALUES,
    DEFAULT_TOPIC,
    DURABLE_MODEL,
    NON_DURABLE_MODEL,
)
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.verbs.checks import check_name
from mayfly.verbs.facts import Value
from mayfly.verbs.topic_strings import check_topic_string

_MODELS = {
    DURABLE_MODEL: c.MQQDT_PERMANENT_DYNAMIC,
    NON_DURABLE_MODEL: c.MQQDT_TEMPORARY_DYNAMIC,
}


def define_topic(
    core: Core, name: str, attributes: Mapping[str, Value], *, replace: bool = False
) -> None:
    """Define the topic object of a topic string; attributes left out are ASPARENT.

    With ``replace`` an existing one takes the attributes given; its topic string stays. Raises
    MQRC_OBJECT_NAME_ERROR, MQRC_TOPIC_STRING_ERROR, MQRC_OBJECT_ALREADY_EXISTS, also when another
    object stands for the topic string.
    """
    check_name(name)
    core.check_running()
    definition = TopicDefinition(TOPIC, name).altered(attributes)
    with core.definitions_lock:
        tree = core.registry.topics
        existing = tree.find(name)
        if existing is not None:
            if not replace:
                raise mq_error(rc.MQRC_OBJECT_ALREADY_EXISTS, f"topic {name} exists")
            if "TOPICSTR" not in attributes:
                definition.topicstr = existing.topicstr
            _change(core, existing, definition)
            return
        topic = definition.topicstr
        if name not in (BASE_TOPIC, DEFAULT_TOPIC):
            check_topic_string(topic, wildcards=False)
            other = tree.at(topic)
            if other is not None:
                said = f"topic {other.name} stands for {topic!r}"
                raise mq_error(rc.MQRC_OBJECT_ALREADY_EXISTS, said)
        _enter(core, definition)


def alter_topic(core: Core, name: str, attributes: Mapping[str, Value]) -> None:
    """Change attributes; they act on later publications and subscriptions.

    Raises MQRC_UNKNOWN_OBJECT_NAME, and MQRC_TOPIC_STRING_ERROR for another topic string.
    """
    core.check_running()
    with core.definitions_lock:
        definition = _find(core, name)
        _change(core, definition, definition.altered(attributes))


def delete_topic(core: Core, name: str) -> None:
    """Delete a topic object: its topic string and those below take their values further up.

    Subscriptions and retained publications stay. Raises MQRC_UNKNOWN_OBJECT_NAME.
    """
    core.check_running()
    with core.definitions_lock:
        definition = _find(core, name)
        erase(core, definition)
        with core.engine_lock:
            core.registry.topics.remove(name)


def set_up_topics(core: Core) -> None:
    """Define the root of the topic tree and the models of managed queues once."""
    if core.registry.topics.definitions():
        return
    models = [
        QueueDefinition(QMODEL, name, deftype=kind, maxdepth=LARGEST)
        for name, kind in _MODELS.items()
        if core.registry.find(name) is None
    ]
    topics = [
        TopicDefinition(TOPIC, name).altered(values)
        for name, values in ((DEFAULT_TOPIC, {}), (BASE_TOPIC, BASE_VALUES))
        if core.registry.topics.find(name) is None
    ]
    with core.engine_lock:
        for topic in topics:
            core.registry.topics.add(topic)
    enter_at_opening(core, models, topics)


def _find(core: Core, name: str) -> TopicDefinition:
    definition = core.registry.topics.find(name)
    if definition is None:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"topic {name} is not defined")
    return definition


def _change(core: Core, definition: TopicDefinition, changed: TopicDefinition) -> None:
    topic = definition.topicstr
    if changed.topicstr != topic:
        raise mq_error(rc.MQRC_TOPIC_STRING_ERROR, f"{definition.name} stands for {topic!r}")
    _enter(core, changed)


def _enter(core: Core, definition: TopicDefinition) -> None:
    save(core, definition, 0)
    with core.engine_lock:
        core.registry.topics.add(definition)
