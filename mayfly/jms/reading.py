"""A message from a queue as a JMS message: by its MQRFH2 if it has one, else by its format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import NamedTuple

from mayfly.jms import constants as k
from mayfly.jms import values as v
from mayfly.jms.bodies import MapMessage, StreamMessage
from mayfly.jms.bytes_message import BytesMessage
from mayfly.jms.charsets import character_set_name, codec_of
from mayfly.jms.destinations import Destination, Queue, Topic, destination_of_uri
from mayfly.jms.messages import Message, TextMessage
from mayfly.mqi import constants as c
from mayfly.mqi.delay_header import FORMAT as DELAY_FORMAT
from mayfly.mqi.delay_header import find_delay_header
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.properties import FORMAT, Element, Header, Typed, properties_of, read_header
from mayfly.properties.life import as_said
from mayfly.properties.selectors import MessageFields
from mayfly.properties.selectors.names import (
    JMS_MAYFLY_DELAYED,
    REPORT_BITS,
    correlation_text,
    id_text,
    timestamp_of,
    type_of,
)
from mayfly.verbs.messages import Message as QueueMessage

_KINDS: dict[str, type[Message]] = {
    "jms_text": TextMessage,
    "jms_bytes": BytesMessage,
    "jms_map": MapMessage,
    "jms_stream": StreamMessage,
    "jms_none": Message,
}
Acknowledge = Callable[[], None] | None
_TYPES = {bool: v.BOOLEAN, int: v.INT, str: v.STRING}
_ALWAYS: tuple[str, ...] = (
    k.JMSX_DELIVERY_COUNT,
    k.JMSX_USERID,
    k.JMSX_APPID,
    k.JMS_IBM_MSGTYPE,
    k.JMS_IBM_FEEDBACK,
    k.JMS_IBM_PUTAPPLTYPE,
    k.JMS_IBM_PUTDATE,
    k.JMS_IBM_PUTTIME,
)
_OF_GROUPS = (k.JMSX_GROUPID, k.JMSX_GROUPSEQ, k.JMS_IBM_LAST_MSG_IN_GROUP)


class Parts(NamedTuple):
    """A message taken apart: the folders of its MQRFH2, and what its data are."""

    mcd: dict[str, Element]
    jms: dict[str, str]
    amqp: dict[str, str]
    usr: list[tuple[str, Typed]]
    data_format: str
    encoding: int
    coded_char_set_id: int
    data: bytes
    has_header: bool


def incoming(message: QueueMessage, manager_name: str, acknowledge: Acknowledge) -> Message:
    """Return a message got or browsed as a JMS message, its properties and body to be read only.

    A header or body that is not well formed is no error: all of it is the body of a BytesMessage.
    """
    descriptor, body = message.descriptor, message.body
    sent, delay = descriptor, None
    if descriptor.format == DELAY_FORMAT:
        delay = find_delay_header(DELAY_FORMAT, body)
    if delay is not None:
        # Found on the staging queue: it is shown as what was sent.
        sent, body = delay.descriptor_of_data(descriptor), body[delay.length_bytes :]
    parts = _parts(sent, body)
    received, parts = _with_body(parts, sent, body)
    _set_headers(received, message, parts, manager_name)
    if delay is not None and "Dst" not in parts.jms:
        manager = delay.target_manager
        received.jms_destination = Queue(
            delay.target_queue, "" if manager == manager_name else manager
        )
    received.received(partial(_properties, message, descriptor, parts), acknowledge)
    return received


def _parts(descriptor: Descriptor, body: bytes) -> Parts:
    if descriptor.format.strip() == FORMAT:
        try:
            header = read_header(descriptor.encoding, descriptor.coded_char_set_id, body)
            return _parts_of(header, body)
        except MQError:
            pass
    return _whole(descriptor, body)


def _parts_of(header: Header, body: bytes) -> Parts:
    return Parts(
        {element.name: element for element in header.folders.get("mcd", ())},
        {element.name: element.text for element in header.folders.get("jms", ())},
        {element.name: element.text for element in header.folders.get("amqp", ())},
        properties_of(header.folders.get("usr", ())),
        header.data_format,
        header.data_encoding,
        header.data_coded_char_set_id,
        body[header.data_start :],
        has_header=True,
    )


def _whole(descriptor: Descriptor, body: bytes) -> Parts:
    """Return a message without an MQRFH2, or with one that cannot be read."""
    return Parts(
        {},
        {},
        {},
        [],
        descriptor.format.strip(),
        descriptor.encoding,
        descriptor.coded_char_set_id,
        body,
        has_header=False,
    )


def _with_body(parts: Parts, descriptor: Descriptor, body: bytes) -> tuple[Message, Parts]:
    try:
        return _message(parts), parts
    except (MQError, UnicodeDecodeError):
        parts = _whole(descriptor, body)
        received = BytesMessage()
        received.set_raw(parts.data, parts.encoding)
        return received, parts


def _message(parts: Parts) -> Message:
    domain = parts.mcd.get("Msd")
    kind = _KINDS.get("" if domain is None else domain.text)
    if kind is None:
        kind = TextMessage if parts.data_format == "MQSTR" else BytesMessage
    received = kind()
    if isinstance(received, TextMessage):
        body = parts.mcd.get("msgbody")
        if body is None or not body.is_nil:
            received.set_raw(parts.data, _codec(parts), parts.coded_char_set_id)
    elif isinstance(received, BytesMessage):
        received.set_raw(parts.data, parts.encoding)
    elif isinstance(received, (MapMessage, StreamMessage)):
        received.set_raw(parts.data.decode(codec_of(parts.coded_char_set_id)))
    return received


def _codec(parts: Parts) -> str | None:
    try:
        codec = codec_of(parts.coded_char_set_id)
    except MQError:
        return None
    if codec == "utf-16-be" and parts.encoding & c.MQENC_INTEGER_MASK == c.MQENC_INTEGER_REVERSED:
        return "utf-16-le"
    return codec


def _set_headers(received: Message, message: QueueMessage, parts: Parts, manager_name: str) -> None:
    descriptor = message.descriptor
    # An MQRFH2 in a report is a copy of the original's, so its headers describe the original.
    is_report = descriptor.msg_type == c.MQMT_REPORT
    jms, amqp = ({}, {}) if is_report else (parts.jms, parts.amqp)
    received.jms_message_id = id_text(message.msg_id)
    # An MQRFH2 without Tms means that the sender disabled the timestamp: JMSTimestamp is then 0.
    put_ms = message.put_ms
    received.jms_timestamp = timestamp_of(jms.get("Tms", "0"), put_ms) if jms else put_ms
    received.jms_correlation_id = correlation_text(message.correl_id, jms.get("Cid"))
    received.jms_reply_to = _reply_to(
        descriptor, jms.get("Rto"), manager_name, has_header=parts.has_header
    )
    received.jms_destination = destination_of_uri(jms.get("Dst", "")) or _destination(message)
    received.jms_delivery_mode = k.PERSISTENT if message.persistent else k.NON_PERSISTENT
    received.jms_redelivered = message.backout_count > 0
    received.jms_type = _type(parts.mcd) if parts.mcd else None
    expiration, delivery_time = message.expire_at_ms, message.deliver_at_ms
    received.jms_expiration = 0 if expiration is None else expiration
    received.jms_delivery_time = delivery_time
    if amqp:
        # A client of AMQP has said them by its own clock.
        if "CreationTime" in amqp:
            received.jms_timestamp = timestamp_of(amqp["CreationTime"], put_ms)
        if expiration is not None:
            received.jms_expiration = as_said(amqp.get("ExpiryTime"), expiration)
        received.jms_delivery_time = as_said(amqp.get("DeliveryTime"), delivery_time)
    received.jms_priority = message.priority


def _destination(message: QueueMessage) -> Destination:
    return _queue(message.queue) if message.topic is None else Topic(message.topic)


@lru_cache(maxsize=256)
def _queue(name: str) -> Queue:
    """Return the queue of a name, one for all messages from it."""
    return Queue(name)


def _reply_to(
    descriptor: Descriptor, uri: str | None, manager_name: str, *, has_header: bool
) -> Destination | None:
    name = descriptor.reply_to_q.strip()
    named = None if uri is None else destination_of_uri(uri)
    if not name or (isinstance(named, Queue) and named.queue_name == name):
        return named
    manager = descriptor.reply_to_q_mgr.strip()
    # A program that sends without an MQRFH2 may not understand one in the answer.
    client = k.TARGET_CLIENT_JMS if has_header else k.TARGET_CLIENT_MQ
    return Queue(name, "" if manager == manager_name else manager, target_client=client)


def _type(mcd: dict[str, Element]) -> str | None:
    parts = (mcd.get(name) for name in ("Type", "Set", "Fmt", "Msd"))
    name, set_, form, domain = (None if part is None else part.text for part in parts)
    return type_of(name, set_, form, domain)


def _properties(message: QueueMessage, descriptor: Descriptor, parts: Parts) -> dict[str, Typed]:
    properties = {
        name: typed if typed.dt in v.CONVERSIONS else Typed(v.STRING, typed.value)
        for name, typed in parts.usr
    }
    properties[k.JMS_IBM_FORMAT] = Typed(v.STRING, parts.data_format.ljust(8))
    properties[k.JMS_IBM_ENCODING] = Typed(v.INT, parts.encoding)
    character_set = character_set_name(parts.coded_char_set_id)
    properties[k.JMS_IBM_CHARACTER_SET] = Typed(v.STRING, character_set)
    # The values that a selector has seen.
    fields = MessageFields(message, descriptor, message.put_ms)
    for name in _names(descriptor, parts.jms):
        value = fields.value(name)
        if value is not None:
            properties[name] = Typed(_TYPES[type(value)], value)
    return properties


def _names(descriptor: Descriptor, jms: dict[str, str]) -> Iterable[str]:
    """Return the properties that a message may have of those a selector knows."""
    names = _ALWAYS
    if descriptor.report:
        names += tuple(REPORT_BITS)
    if descriptor.group_id or descriptor.msg_flags or "Gid" in jms or "Seq" in jms:
        names += _OF_GROUPS
    if descriptor.format == DELAY_FORMAT:
        names += (JMS_MAYFLY_DELAYED,)
    return names
