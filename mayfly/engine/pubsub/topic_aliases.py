"""A queue alias that leads to a topic, QALIAS TARGTYPE(TOPIC): puts to it are published."""

from __future__ import annotations

from mayfly.engine.attributes.of_queues import QueueDefinition
from mayfly.engine.objects.registry import Registry, topic_alias
from mayfly.engine.pubsub.topics import TopicValues
from mayfly.lifetime.times import ms_of_tenths
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQCEX_NOLIMIT, MQQA_PUT_INHIBITED
from mayfly.mqi.errors import mq_error


def behind_alias(registry: Registry, name: str) -> tuple[QueueDefinition, str]:
    """Return an alias and the topic string it leads to.

    Raises MQRC_Q_DELETED when there is no such alias any more, MQRC_UNKNOWN_ALIAS_BASE_Q when its
    topic object is not defined.
    """
    alias = topic_alias(registry, name)
    if alias is None:
        raise mq_error(rc.MQRC_Q_DELETED, f"{name} was deleted, or is no alias of a topic any more")
    target = alias.target
    definition = registry.topics.find(target)
    if definition is None:
        said = f"alias {name}: topic {target!r} is not defined"
        raise mq_error(rc.MQRC_UNKNOWN_ALIAS_BASE_Q, said)
    return alias, definition.topicstr


def through_alias(alias: QueueDefinition, values: TopicValues) -> TopicValues:
    """Return what applies to a publication through an alias.

    Priority and persistence are the alias's (P7), the lower cap counts (X3). Raises
    MQRC_PUT_INHIBITED.
    """
    if alias.put == MQQA_PUT_INHIBITED:
        raise mq_error(rc.MQRC_PUT_INHIBITED, f"PUT(DISABLED) for alias {alias.name}")
    if alias.cap_tenths != MQCEX_NOLIMIT:
        cap_ms = ms_of_tenths(alias.cap_tenths)
        if values.cap_ms is None or cap_ms < values.cap_ms:
            values = values._replace(cap_ms=cap_ms, capped_by=alias.cap_text)
    return values._replace(
        default_priority=alias.defprty,
        default_persistence=alias.defpsist,
    )
