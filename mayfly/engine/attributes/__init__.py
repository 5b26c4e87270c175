"""The attribute table: what each kind of object has; MQSC, MQINQ and MQSET follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from mayfly.engine.attributes.attribute import Attribute, Value
from mayfly.engine.attributes.of_channels import CHANNEL_ATTRIBUTES
from mayfly.engine.attributes.of_manager import MANAGER_ATTRIBUTES
from mayfly.engine.attributes.of_processes import PROCESS_ATTRIBUTES
from mayfly.engine.attributes.of_queues import QUEUE_ATTRIBUTES
from mayfly.engine.attributes.of_topics import TOPIC_ATTRIBUTES

ATTRIBUTES = (
    *QUEUE_ATTRIBUTES,
    *MANAGER_ATTRIBUTES,
    *TOPIC_ATTRIBUTES,
    *PROCESS_ATTRIBUTES,
    *CHANNEL_ATTRIBUTES,
)


@cache
def attributes_of(kind: str) -> Mapping[str, Attribute]:
    """Return the attributes an object kind has, by keyword, in display order."""
    return {a.keyword: a for a in ATTRIBUTES if kind in a.objects}


def defaults_of(kind: str) -> dict[str, Value]:
    """Return the values a new object has."""
    return {keyword: a.default for keyword, a in attributes_of(kind).items()}
