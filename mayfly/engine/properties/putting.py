"""A message and the properties it is put with, within what the queue manager allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQPROP_UNRESTRICTED_LENGTH
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error
from mayfly.properties.folders import Property, joined, properties_of_mapping
from mayfly.properties.values import raw_value

if TYPE_CHECKING:
    from mayfly.engine.core import Core


def with_mapping(
    core: Core, descriptor: Descriptor, body: bytes, properties: Mapping[str, object]
) -> tuple[Descriptor, bytes]:
    """Return a message with properties by name; raises as those it calls."""
    return with_properties(core, descriptor, body, properties_of_mapping(properties))


def with_properties(
    core: Core, descriptor: Descriptor, body: bytes, properties: Sequence[Property]
) -> tuple[Descriptor, bytes]:
    """Return a message with these properties; raises as ``joined``.

    Their names and values may have MAXPROPL bytes, else it is MQRC_PROPERTIES_TOO_BIG.
    """
    limit_bytes = core.registry.queue_manager.maxpropl
    if properties and limit_bytes != MQPROP_UNRESTRICTED_LENGTH:
        length = sum(len(p.name.encode()) + len(raw_value(p.typed)) for p in properties)
        if length > limit_bytes:
            detail = f"{length} bytes of properties, MAXPROPL is {limit_bytes}"
            raise mq_error(rc.MQRC_PROPERTIES_TOO_BIG, detail)
    return joined(descriptor, body, properties)
