"""Message properties: their limit at a put, and their forms at a get."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from mayfly.engine.core import Core
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQPROP_UNRESTRICTED_LENGTH
from mayfly.mqi.descriptor import Descriptor, pack_descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.properties import FORMAT, Typed, read_texts
from mayfly.store.units import StoredMessage
from mayfly.verbs.properties.folders import (
    TOPIC,
    Parts,
    Property,
    joined,
    overridden,
    parts_of,
    raw_value,
    without_properties,
)

#: The options that say how properties are returned; only one of them may be set.
OPTIONS = (
    c.MQGMO_PROPERTIES_FORCE_MQRFH2,
    c.MQGMO_NO_PROPERTIES,
    c.MQGMO_PROPERTIES_IN_HANDLE,
    c.MQGMO_PROPERTIES_COMPATIBILITY,
)
_OPTION_BITS = sum(OPTIONS)
#: With a property in one of these, COMPAT returns all of them.
_COMPATIBLE = re.compile(r"\s*<(?:mcd|jms|usr|mqext)[\s/>]")


def with_properties(
    core: Core, descriptor: Descriptor, body: bytes, properties: Sequence[Property]
) -> tuple[Descriptor, bytes]:
    """Return descriptor and body of a message with these properties in an MQRFH2.

    Raises MQRC_PROPERTIES_TOO_BIG if names and values exceed MAXPROPL bytes, and the errors of
    ``joined``.
    """
    limit_bytes = core.registry.queue_manager.maxpropl
    if properties and limit_bytes != MQPROP_UNRESTRICTED_LENGTH:
        length = sum(len(p.name.encode()) + len(raw_value(p.typed)) for p in properties)
        if length > limit_bytes:
            detail = f"{length} bytes of properties, MAXPROPL is {limit_bytes}"
            raise mq_error(rc.MQRC_PROPERTIES_TOO_BIG, detail)
    return joined(descriptor, body, properties)


class View(Enum):
    """How a get returns properties, which are stored in the MQRFH2 of a message."""

    AS_STORED = "as they were put"
    COMPATIBLE = "as they were put, if JMS or an older program may have put them; else not at all"
    WITHOUT = "not at all"
    WITHOUT_IF_READABLE = "not at all; in an MQRFH2 that cannot be read, as they were put"
    IN_HANDLE = "in a message handle"


class MessageView(NamedTuple):
    """A row as a getter receives it, and the properties for its message handle, if any."""

    row: StoredMessage
    taken: list[Property] | None = None
    #: Why it cannot be returned as asked for.
    failure: MQError | None = None


_OF_QUEUE = {
    c.MQPROP_COMPATIBILITY: View.COMPATIBLE,
    c.MQPROP_NONE: View.WITHOUT_IF_READABLE,
    c.MQPROP_ALL: View.AS_STORED,
    c.MQPROP_FORCE_MQRFH2: View.AS_STORED,
    c.MQPROP_V6COMPAT: View.AS_STORED,
}


_OF_OPTION = {
    c.MQGMO_PROPERTIES_FORCE_MQRFH2: View.AS_STORED,
    c.MQGMO_NO_PROPERTIES: View.WITHOUT,
    c.MQGMO_PROPERTIES_IN_HANDLE: View.IN_HANDLE,
    c.MQGMO_PROPERTIES_COMPATIBILITY: View.COMPATIBLE,
}


@lru_cache(maxsize=256)
def view_of(options: int, property_control: int, *, has_handle: bool) -> View:
    """Return the form in which a get with these MQGMO options and this PROPCTL returns properties.

    Without a properties option PROPCTL decides; a get with a message handle then receives the
    properties in the handle, unless PROPCTL is FORCE.
    """
    option = options & _OPTION_BITS
    if option in _OF_OPTION:
        return _OF_OPTION[option]
    if has_handle and property_control != c.MQPROP_FORCE_MQRFH2:
        return View.IN_HANDLE
    return _OF_QUEUE[property_control]


def seen_as(view: View, row: StoredMessage) -> MessageView:
    """Return a row with its properties in the form of a view.

    For an MQRFH2 that cannot be read, the row is unchanged; ``failure`` is set if the getter, and
    not only PROPCTL of the queue, asked for its properties.
    """
    if view is View.AS_STORED:
        return MessageView(row)
    descriptor = unpack_descriptor(row.descriptor)
    if descriptor.format.strip() != FORMAT:
        return MessageView(row, _with_topic(row, []) if view is View.IN_HANDLE else None)
    try:
        if view is View.COMPATIBLE:
            texts = read_texts(descriptor.encoding, descriptor.coded_char_set_id, row.body)
            if any(_COMPATIBLE.match(text) for text in texts.folders):
                return MessageView(row)
        parts = parts_of(descriptor, row.body)
    except MQError as error:
        is_asked_for = view in (View.WITHOUT, View.IN_HANDLE)
        return MessageView(row, failure=error if is_asked_for else None)
    taken = _with_topic(row, parts.properties) if view is View.IN_HANDLE else None
    return MessageView(_without(row, descriptor, parts), taken)


def _with_topic(row: StoredMessage, properties: list[Property]) -> list[Property]:
    """Return the properties, and the topic string of a publication as MQTopicString.

    A message that is no publication adds nothing.
    """
    if row.topic is None:
        return properties
    return overridden(properties, [Property(TOPIC, Typed("string", row.topic))])


def _without(row: StoredMessage, descriptor: Descriptor, parts: Parts) -> StoredMessage:
    """Return a row without its property folders; unchanged if it has none.

    ``parts`` are the MQRFH2 headers and the data into which its body was divided.
    """
    if not parts.has_property_folder:
        return row
    plain, body = without_properties(descriptor, parts)
    return row._replace(descriptor=pack_descriptor(plain), body=body)
