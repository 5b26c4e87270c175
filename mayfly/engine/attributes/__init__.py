"""The attribute tables of all kinds of objects; MQSC, MQINQ and MQSET follow from them."""

from __future__ import annotations

from mayfly.engine.attributes.definition import TABLES, attributes_of
from mayfly.engine.attributes.of_admission import (
    AuthenticationDefinition,
    ChannelRuleDefinition,
)
from mayfly.engine.attributes.of_authority import AuthorityDefinition, ChildDefinition
from mayfly.engine.attributes.of_channels import ChannelDefinition
from mayfly.engine.attributes.of_manager import ManagerDefinition
from mayfly.engine.attributes.of_processes import ProcessDefinition
from mayfly.engine.attributes.of_queues import QueueDefinition
from mayfly.engine.attributes.of_topics import SubscriptionDefinition, TopicDefinition
from mayfly.verbs.facts import Value

__all__ = [
    "ATTRIBUTES",
    "TABLES",
    "AuthenticationDefinition",
    "AuthorityDefinition",
    "ChannelDefinition",
    "ChannelRuleDefinition",
    "ChildDefinition",
    "ManagerDefinition",
    "ProcessDefinition",
    "QueueDefinition",
    "SubscriptionDefinition",
    "TopicDefinition",
    "attributes_of",
    "defaults_of",
]

#: The attributes of all kinds; one that several types of queues have stands here once a type.
ATTRIBUTES = tuple(a for kind in TABLES for a in attributes_of(kind).values())


def defaults_of(kind: str) -> dict[str, Value]:
    """Return the values a new object has."""
    return {keyword: a.default for keyword, a in attributes_of(kind).items()}
