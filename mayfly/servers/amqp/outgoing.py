"""Outgoing AMQP messages: conversion of a queue manager's message; its remaining expiry is the ttl.

For messages that differ only in ids, times and data, proton encodes the rest once: a specimen with
marks in place of values that have a fixed length in AMQP. Messages like it get their own values at
these places, which takes a tenth of the time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from proton import Data

from mayfly.mqi import constants as c
from mayfly.mqi.code_pages import codec_name
from mayfly.mqi.delay_header import FORMAT as DELAY_FORMAT
from mayfly.mqi.delay_header import DelayHeader, find_delay_header
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import CannotBeGiven, MQError
from mayfly.mqi.properties import Typed, parse
from mayfly.mqi.reasons import cause_name
from mayfly.servers.amqp import addresses, codec
from mayfly.servers.amqp.addresses import is_temporary_queue
from mayfly.servers.amqp.codec import DECODE_ERROR, AmqpError, Scalar, Section, Value, symbol, text
from mayfly.servers.amqp.incoming import (
    BODIES,
    DELIVERY_TIME,
    FEEDBACK,
    FOLDER,
    JMS_KINDS,
    JMS_TYPE,
    MESSAGE_TYPE,
    UTF_8,
    id_of_mq,
    id_of_text,
    scalar,
)
from mayfly.services.dead_letter import DeadLetter, dead_letter_of
from mayfly.verbs.messages import Message
from mayfly.verbs.properties.folders import (
    EXPIRED_AT,
    ORIGINAL_QUEUE,
    REASON,
    Parts,
    as_said,
    parts_of,
)
from mayfly.verbs.properties.selectors.names import (
    JMS_MAYFLY_DELAYED,
    correlation_text,
    timestamp_of,
)
from mayfly.verbs.topic_strings import is_temporary_topic

_TEXT_FORMAT, _AMQP_FORMAT = "MQSTR", "AMQP"
#: Kinds of destinations, of x-opt-jms-dest and x-opt-jms-reply-to.
_QUEUE, _TOPIC, _TEMPORARY_QUEUE, _TEMPORARY_TOPIC = range(4)
_BYTES, _TEXT = JMS_KINDS.index("jms_bytes"), JMS_KINDS.index("jms_text")
_NO_SECTION: Final = Section(0, None)
_NO_DATA: Final = Scalar(Data.BINARY, b"")
#: Stands for a body that is no value section; no kind of message is a boolean.
_OTHER: Final = Scalar(Data.BOOL, False)
_REASON, _ORIGINAL_QUEUE = "x-opt-mayfly-reason", "x-opt-mayfly-original-queue"
#: The annotation with the reason why a message is sent as bytes, and its longest text.
_DETAIL, _LONGEST_WHY = "x-opt-mayfly-detail", 200
_DEAD_LETTERED_AT: Final = "x-opt-mayfly-dead-lettered-at"
_NO_ANNOTATIONS: Final[Mapping[Value, Value]] = {}
#: Annotations about the life of a message on an expiry queue: annotation by property.
_OF_EXPIRED: Final = {
    REASON: _REASON,
    ORIGINAL_QUEUE: _ORIGINAL_QUEUE,
    EXPIRED_AT: "x-opt-mayfly-expired-at",
}
_ZERO_ID: Final = bytes(24)
_MAX_PATTERNS: Final = 256
#: One more means unlimited in IBM MQ.
_LONGEST_TTL_MS: Final = 2**32 - 2
_PUT_MARK: Final = 0x0102030405060708
_TTL_MARK: Final = 0x11121314
_DELIVERY_MARK: Final = 0x2122232425262728
_EXPIRY_MARK: Final = 0x3132333435363738
#: Errors of conversion of values whose type, size, shape or depth AMQP does not have.
_CONVERSION_ERRORS: Final = (
    AmqpError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MQError,
    RecursionError,
    TypeError,
    ValueError,
)


class _Specimen(NamedTuple):
    """A sample message with marks in place of ids and times.

    Its other fields stand for many messages.
    """

    descriptor: Descriptor
    persistent: bool
    backout_count: int
    topic: str | None
    remaining_ms: int | None
    deliver_at_ms: int
    expire_at_ms: int | None
    put_ms: int = _PUT_MARK
    msg_id: bytes = bytes(range(0xA0, 0xB8))
    correl_id: bytes = _ZERO_ID
    body: bytes = b""


#: The sections before the body are made of one of these.
_AnyMessage: TypeAlias = Message | _Specimen
_patterns: dict[tuple[object, ...], bytes] = {}


class _Folders(NamedTuple):
    """The properties of a message by MQRFH2 folder: mcd, jms, amqp (``own``), and all others."""

    mcd: dict[str, Typed]
    jms: dict[str, Typed]
    own: dict[str, Typed]
    application: list[tuple[str, Typed]]


_NO_FOLDERS: Final = _Folders({}, {}, {}, [])


def outgoing(
    message: Message,
    *,
    destination: str,
    manager: str,
    added: Mapping[Value, Value] = _NO_ANNOTATIONS,
) -> bytes:
    """Return a message as AMQP bytes; ``destination`` is the address for the field ``to``.

    ``manager`` is the local queue manager, which an address leaves out. ``added`` are annotations
    of clients that have returned the message with *modified*.

    The remaining expiry becomes ttl, and the deadline absolute-expiry-time; a message of unlimited
    expiry has neither. A message with a damaged MQRFH2 is sent complete, as data. A message on the
    staging queue is sent as its sender sent it, with the original address. So is a dead letter,
    with annotations in place of its MQDLH.

    Raises CannotBeGiven for a message that AMQP cannot represent. Only programs that write
    properties of the folder ``amqp`` or bodies of format ``AMQP`` themselves can cause this.
    """
    try:
        return _outgoing(message, destination, manager, added)
    except _CONVERSION_ERRORS as error:
        raise CannotBeGiven(f"{type(error).__name__}: {error}"[:_LONGEST_WHY]) from error


def shown_as_bytes(message: Message, why: CannotBeGiven, *, destination: str) -> bytes:
    """Return AMQP bytes for a browsed message that AMQP cannot represent.

    The MQ message is sent as data, with the reason ``why`` in annotations. ``destination`` is the
    address for the field ``to``.
    """
    annotations: dict[Value, Value] = {
        symbol(_REASON): text(cause_name(why.reason)),
        symbol(_DETAIL): text(why.detail),
        **_jms_annotations(_BYTES, _QUEUE, None),
    }
    properties: list[Value] = [id_of_mq(message.msg_id), None, text(destination)]
    backouts = message.backout_count
    return _header(
        message.persistent, message.priority, message.remaining_ms, backouts, backouts == 0
    ) + (
        codec.encoded(
            [
                Section(codec.MESSAGE_ANNOTATIONS, annotations),
                Section(codec.PROPERTIES, properties),
                Section(codec.DATA, Scalar(Data.BINARY, message.body)),
            ],
            size_bytes=len(message.body),
        )
    )


def _outgoing(
    message: Message, destination: str, manager: str, added: Mapping[Value, Value]
) -> bytes:
    """Return a message as AMQP bytes; raises any error that the conversion causes.

    The parameters are those of :func:`outgoing`.
    """
    like_others = None if added else _patterned(message, destination, manager)
    if like_others is not None:
        return like_others
    descriptor, delay, letter = message.descriptor, None, dead_letter_of(message)
    if descriptor.format == DELAY_FORMAT:
        delay = find_delay_header(DELAY_FORMAT, message.body)
    parts = _parts(message, delay) if letter is None else _readable(letter.original, letter.data)
    known = _known(parts) if parts.properties or delay is not None else _NO_FOLDERS
    if delay is not None:
        # Its MsgId and CorrelId there are those of the staging queue (D3).
        known.own.pop("MessageId", None)
        known.application.append((JMS_MAYFLY_DELAYED, Typed("boolean", True)))
        if message.topic is None:
            destination = _address_of(delay, manager)
    more = added if letter is None else {**added, **_dead_letter_annotations(letter)}
    body = _body(parts, known)
    front = _front(message, known, _jms_kind(known, body), destination, manager, more)
    if parts.data_format.strip() == _AMQP_FORMAT:
        return front + parts.data
    return front + codec.encoded([body], size_bytes=len(parts.data))


def _front(
    message: _AnyMessage,
    known: _Folders,
    kind: int | None,
    destination: str,
    manager: str,
    more: Mapping[Value, Value] = _NO_ANNOTATIONS,
) -> bytes:
    """Return the encoded sections before the body; ``manager`` is the local queue manager.

    ``destination`` is the address for the field ``to``. ``known`` are the properties of the message
    by folder. ``kind`` is the x-opt-jms-msg-type, None for none; ``more`` are annotations that are
    not stored with the message.
    """
    sections = [Section(codec.PROPERTIES, _properties(message, known, destination, manager))]
    if known is not _NO_FOLDERS:
        application: dict[Value, Value] = {
            text(name): scalar(value) for name, value in known.application
        }
        odd = _of_json(known.own.get("Properties"))
        application.update((text(name), value) for name, value in odd.items())
        if application:
            sections.append(Section(codec.APPLICATION_PROPERTIES, application))
    priority = message.descriptor.priority
    return (
        _header(
            message.persistent,
            priority,
            message.remaining_ms,
            message.backout_count,
            message.backout_count == 0 and "FirstAcquirer" not in known.own,
        )
        + _annotations(message, known, kind, more)
        + codec.encoded(sections)
    )


def _address_of(delay: DelayHeader, here: str) -> str:
    """Return the address of the target in a delay header: ``Q1``, or ``queue://QM2/Q1``.

    The local queue manager, ``here``, is left out.
    """
    queue, manager = delay.target_queue, delay.target_manager
    return queue if manager in ("", here) else f"queue://{manager}/{queue}"


def _parts(message: Message, delay: DelayHeader | None) -> Parts:
    """Return the properties and data of a message.

    ``delay`` is the delay header before them, or None.
    """
    descriptor, body = message.descriptor, message.body
    if delay is not None:
        descriptor, body = delay.descriptor_of_data(descriptor), body[delay.length_bytes :]
    return _readable(descriptor, body)


def _readable(descriptor: Descriptor, body: bytes) -> Parts:
    """Return the properties and data of a message body; a damaged MQRFH2 counts as data."""
    try:
        return parts_of(descriptor, body)
    except MQError:
        encoding, ccsid = descriptor.encoding, descriptor.coded_char_set_id
        return Parts([], [], False, descriptor.format, encoding, ccsid, body)


def _dead_letter_annotations(letter: DeadLetter) -> dict[Value, Value]:
    """Return the annotations of a dead letter: reason, original queue, and time if known."""
    found: dict[Value, Value] = {
        symbol(_REASON): text(cause_name(letter.reason)),
        symbol(_ORIGINAL_QUEUE): text(letter.target),
    }
    if letter.since_ms is not None:
        found[symbol(_DEAD_LETTERED_AT)] = Scalar(Data.LONG, letter.since_ms)
    return found


def _known(parts: Parts) -> _Folders:
    """Return the properties in ``parts`` by folder; those of ``mqps.`` are left out."""
    folders: dict[str, dict[str, Typed]] = {"mcd": {}, "jms": {}, FOLDER: {}}
    application: list[tuple[str, Typed]] = []
    for name, value, _description in parts.properties:
        folder, dot, rest = name.partition(".")
        if dot and folder in folders:
            folders[folder][rest] = value
        elif not name.startswith("mqps."):
            application.append((name, value))
    return _Folders(folders["mcd"], folders["jms"], folders[FOLDER], application)


@lru_cache(maxsize=256)
def _header(
    persistent: bool,
    priority: int,
    remaining_ms: int | None,
    backout_count: int,
    is_first_acquirer: bool,
) -> bytes:
    """Return the encoded header section.

    ``is_first_acquirer`` is True if the message was never backed out. Ttl is at least 1 ms, absent
    if ``remaining_ms`` is None.
    """
    ttl = None
    if remaining_ms is not None:
        ttl = Scalar(Data.UINT, min(max(remaining_ms, 1), _LONGEST_TTL_MS))
    fields: list[Value] = [
        Scalar(Data.BOOL, persistent),
        Scalar(Data.UBYTE, priority),
        ttl,
        Scalar(Data.BOOL, is_first_acquirer),
        Scalar(Data.UINT, backout_count),
    ]
    return codec.encoded([Section(codec.HEADER, fields)])


def _annotations(
    message: _AnyMessage, known: _Folders, kind: int | None, more: Mapping[Value, Value]
) -> bytes:
    """Return the encoded message annotations; ``kind`` None means no x-opt-jms-msg-type.

    ``known`` are the properties of the message by folder. ``more`` are annotations that are not
    stored with the message.
    """
    descriptor = message.descriptor
    destination = _QUEUE if message.topic is None else _TOPIC
    reply = None
    if "Rto" in known.jms or descriptor.reply_to_q.strip():
        reply = _reply_kind(descriptor, known)
    kept = _of_json(known.own.get("Annotations")) if "Annotations" in known.own else {}
    others: dict[Value, Value] = {symbol(name): value for name, value in kept.items()}
    others.update(more)
    kept_time = _kept_time(message, known.own.get("DeliveryTime"))
    if kept_time is not None or message.deliver_at_ms != message.put_ms:
        at_ms = as_said(kept_time, message.deliver_at_ms)
        others[symbol(DELIVERY_TIME)] = Scalar(Data.LONG, at_ms)
    if descriptor.msg_type == c.MQMT_REPORT:
        others[symbol(MESSAGE_TYPE)] = Scalar(Data.INT, descriptor.msg_type)
        others[symbol(FEEDBACK)] = Scalar(Data.INT, descriptor.feedback)
    for name, value in known.application:
        if name in _OF_EXPIRED:
            others[symbol(_OF_EXPIRED[name])] = scalar(value)
    if others:
        return _encoded_annotations(others | _jms_annotations(kind, destination, reply))
    return _jms_annotations_alone(kind, destination, reply)


def _reply_kind(descriptor: Descriptor, known: _Folders) -> int | None:
    """Return the x-opt-jms-reply-to of a message: 0 queue, 1 topic, 2 or 3 temporary.

    Returns None if the message wants no reply.
    """
    queue = descriptor.reply_to_q.strip()
    if queue:
        return _TEMPORARY_QUEUE if is_temporary_queue(queue) else _QUEUE
    topic = _reply_topic(known)
    if not topic:
        return None
    return _TEMPORARY_TOPIC if is_temporary_topic(topic) else _TOPIC


def _reply_topic(known: _Folders) -> str:
    """Return the topic for replies, "" for none; options of JMS behind its URI are cut."""
    found = addresses.read(_text(known.jms.get("Rto")).partition("?")[0])
    return found.name if found.kind == addresses.TOPIC else ""


@lru_cache(maxsize=64)
def _jms_annotations_alone(kind: int | None, destination: int, reply: int | None) -> bytes:
    """Return the encoded JMS annotations of a message without other annotations; cached."""
    return _encoded_annotations(_jms_annotations(kind, destination, reply))


def _jms_annotations(kind: int | None, destination: int, reply: int | None) -> dict[Value, Value]:
    """Return the annotations of the JMS mapping: body kind, destination and reply address.

    ``kind`` and ``reply`` are left out if None.
    """
    found: dict[Value, Value] = {symbol("x-opt-jms-dest"): Scalar(Data.BYTE, destination)}
    if kind is not None:
        found[symbol(JMS_TYPE)] = Scalar(Data.BYTE, kind)
    if reply is not None:
        found[symbol("x-opt-jms-reply-to")] = Scalar(Data.BYTE, reply)
    return found


def _encoded_annotations(annotations: dict[Value, Value]) -> bytes:
    """Return the encoded message-annotations section."""
    return codec.encoded([Section(codec.MESSAGE_ANNOTATIONS, annotations)])


def _properties(
    message: _AnyMessage, known: _Folders, destination: str, manager: str
) -> list[Value]:
    """Return the fields of the AMQP properties section, without absent ones at the end.

    ``known`` are the properties of the message by folder. ``destination`` is the address for the
    field ``to``. ``manager`` is the local queue manager, which addresses leave out.
    """
    expiry, own = message.expire_at_ms, known.own
    if expiry is not None:
        expiry = as_said(_kept_time(message, own.get("ExpiryTime")), expiry)
    created = _kept_time(message, own.get("CreationTime", known.jms.get("Tms")))
    sequence = known.jms.get("Seq")
    fields: list[Value] = [
        _message_id(message, own),
        None,
        text(destination),
        _optional(known.mcd.get("Type")),
        _reply_to(message, known, manager),
        _correlation_id(message, known),
        _symbol(own.get("ContentType")),
        _symbol(own.get("ContentEncoding")),
        None if expiry is None else Scalar(Data.TIMESTAMP, expiry),
        Scalar(Data.TIMESTAMP, timestamp_of(created or "", message.put_ms)),
        _optional(known.jms.get("Gid")),
        None if sequence is None else Scalar(Data.UINT, _number(sequence)),
        _optional(own.get("ReplyToGroupId")),
    ]
    while fields and fields[-1] is None:
        # Absent fields at the end of a list need not be sent.
        fields.pop()
    return fields


def _kept_time(message: _AnyMessage, kept: Typed | None) -> str | None:
    """Return a moment in the sender's words, as kept in a property; None without one.

    Returns None for a report too, since a report contains the MQRFH2 of its original.
    """
    if kept is None or message.descriptor.msg_type == c.MQMT_REPORT:
        return None
    return _text(kept)


def _message_id(message: _AnyMessage, own: dict[str, Typed]) -> Value:
    """Return the message-id: the sender's, or the MsgId as ``ID:`` and hex digits.

    The sender's is among ``own``, the properties that :mod:`incoming` has stored. Returns None for
    a MsgId of zeros.
    """
    # A report contains the header of its original, whose id is not that of the report.
    is_report = message.descriptor.msg_type == c.MQMT_REPORT
    kept = None if is_report else own.get("MessageId")
    return id_of_mq(message.msg_id) if kept is None else id_of_text(_text(kept))


def _correlation_id(message: _AnyMessage, known: _Folders) -> Value:
    """Return the correlation-id: the sender's, or the CorrelId as ``ID:`` and hex digits.

    Returns None for a CorrelId of zeros.
    """
    kept = known.jms.get("Cid")
    shown = correlation_text(message.correl_id, None if kept is None else _text(kept))
    return None if shown is None else id_of_text(shown)


def _reply_to(message: _AnyMessage, known: _Folders, here: str) -> Value:
    """Return the address for replies as string value; None if the message wants no reply.

    ``here`` is the local queue manager, which the address leaves out.
    """
    descriptor = message.descriptor
    queue, manager = descriptor.reply_to_q.strip(), descriptor.reply_to_q_mgr.strip()
    if queue:
        return text(queue if manager in ("", here) else f"queue://{manager}/{queue}")
    if "Rto" not in known.jms:
        return None
    topic = _reply_topic(known)
    return text(_text(known.own.get("ReplyTo")) or topic) if topic else None


def _jms_kind(known: _Folders, body: Section) -> int | None:
    """Return the x-opt-jms-msg-type: the sender's if it fits the body, otherwise the body's.

    ``known`` has the sender's, among the properties of the message. None means that the body fits
    no kind: a JMS client then derives the kind from the body, and would fail with a wrong
    annotation.
    """
    name, value = _text(known.mcd.get("Msd")), body.value
    kind = JMS_KINDS.index(name) if name in JMS_KINDS else None
    if kind is not None and _is_of_kind(JMS_KINDS[kind], body.code, value):
        return kind
    if body.code == codec.DATA:
        return _BYTES
    is_text = isinstance(value, Scalar) and value.type == Data.STRING
    return _TEXT if body.code == codec.VALUE and is_text else None


def _is_of_kind(name: str, code: int, value: Value) -> bool:
    """Return True if a body fits a kind of JMS message such as ``jms_map``.

    ``code`` and ``value`` are those of the body's section.
    """
    of_value = value if code == codec.VALUE else _OTHER
    if name == "jms_text":
        return of_value is None or (isinstance(of_value, Scalar) and of_value.type == Data.STRING)
    if name == "jms_bytes":
        return code == codec.DATA
    if name == "jms_map":
        return isinstance(of_value, Mapping)
    if name == "jms_stream":
        return isinstance(of_value, list) or code == codec.SEQUENCE
    if name == "jms_object":
        return of_value is not None
    # A message without a body.
    return of_value is None or value == _NO_DATA


def _body(parts: Parts, known: _Folders) -> Section:
    """Return the section of the body; of several stored AMQP sections, the first.

    Raises AmqpError amqp:decode-error if data of format AMQP are not an AMQP body.
    """
    if parts.data_format.strip() == _AMQP_FORMAT:
        first, *others = codec.decoded(parts.data) or [_NO_SECTION]
        if first.code not in BODIES or any(other.code != first.code for other in others):
            raise AmqpError(DECODE_ERROR, f"format {_AMQP_FORMAT}: the data are no body of AMQP")
        return first
    kind, data = _text(known.mcd.get("Msd")), parts.data
    if kind == "jms_text" and not data and "msgbody" in known.mcd:
        return Section(codec.VALUE, None)
    value = _structured(kind, data)
    if value is None and (
        kind == "jms_text" or (not kind and parts.data_format.strip() == _TEXT_FORMAT)
    ):
        value = _decoded_text(data, codec_name(parts.data_coded_char_set_id, parts.data_encoding))
    if value is None:
        return Section(codec.DATA, Scalar(Data.BINARY, data))
    return Section(codec.VALUE, value)


def _structured(kind: str, data: bytes) -> Value:
    """Return the map or list in the XML of a JMS message.

    ``kind`` is ``jms_map`` or ``jms_stream``. Returns None for another kind, or malformed XML.
    """
    if kind not in ("jms_map", "jms_stream"):
        return None
    try:
        root = parse(data.decode())[0]
        parts = [(element.attributes.get("name", ""), element.typed()) for element in root.children]
    except (MQError, UnicodeDecodeError, IndexError):
        return None
    if kind == "jms_map":
        return {text(name): scalar(value) for name, value in parts}
    return [scalar(value) for _name, value in parts]


def _decoded_text(data: bytes, name: str | None) -> Value:
    """Decode data with the Python codec ``name``, and return an AMQP string value.

    Returns None if ``name`` is None or the data do not fit it.
    """
    if name is None:
        return None
    try:
        return text(data.decode(name))
    except UnicodeDecodeError:
        return None


def _of_json(kept: Typed | None) -> dict[str, Value]:
    """Return the values that ``incoming`` has stored as JSON, by name; {} for None."""
    given = json.loads(_text(kept) or "{}")
    return {name: _of_pair(*pair) for name, pair in given.items()}


def _of_pair(kind: int, value: object) -> Value:
    """Return the AMQP value of a type code and its JSON form; raises TypeError for no code.

    Type code 0 means the encoded value in hex.
    """
    if type(kind) is not int:
        raise TypeError(f"{kind!r} is no type of AMQP")
    if kind == 0:
        return codec.decoded_value(bytes.fromhex(str(value)))
    if kind == Data.BINARY:
        return Scalar(kind, bytes.fromhex(str(value)))
    if kind == Data.UUID:
        return id_of_text(f"AMQP_UUID:{value}")
    return Scalar(kind, value)


def _optional(value: Typed | None) -> Value:
    """Return a property as AMQP string; None for None."""
    return None if value is None else text(_text(value))


def _symbol(value: Typed | None) -> Value:
    """Return a property as AMQP symbol; None for None."""
    return None if value is None else symbol(_text(value))


def _text(value: Typed | None) -> str:
    """Return the value of a property as str; "" if it is absent or null."""
    return "" if value is None or value.value is None else str(value.value)


def _number(value: Typed) -> int:
    """Return the number of a group sequence as a uint; 0 for a text that is not a number."""
    found = value.value
    digits = str(found)
    return min(int(digits), 2**32 - 1) if digits.isdecimal() else 0


def _patterned(message: Message, destination: str, manager: str) -> bytes | None:
    """Return a message without properties as AMQP bytes, from a cached pattern.

    ``destination`` and ``manager`` are those of :func:`outgoing`. Returns None for a message that
    does not qualify, such as a report or one with a CorrelId.
    """
    descriptor, body = message.descriptor, message.body
    is_text = descriptor.format.strip() == _TEXT_FORMAT
    remaining_ms, delivery_ms, put_ms = message.remaining_ms, message.deliver_at_ms, message.put_ms
    if (
        (not _is_utf_8(descriptor, body) if is_text else descriptor.format.strip())
        or message.correl_id != _ZERO_ID
        or descriptor.msg_type == c.MQMT_REPORT
        or len(body) > codec.LONGEST_KNOWN_BYTES
    ):
        return None
    is_delayed = delivery_ms != put_ms
    key = (
        descriptor.persistence,
        descriptor.priority,
        descriptor.reply_to_q,
        descriptor.reply_to_q_mgr,
        is_text,
        message.backout_count,
        message.topic is None,
        remaining_ms is None,
        is_delayed,
        destination,
        manager,
    )
    pattern = _patterns.get(key)
    if pattern is None:
        pattern = _patterns[key] = _learn(message, destination, manager)
    values = [b"ID:" + message.msg_id.hex().encode(), put_ms.to_bytes(8, "big")]
    if is_delayed:
        values.insert(0, delivery_ms.to_bytes(8, "big"))
    if remaining_ms is not None:
        expire_at_ms = message.expire_at_ms
        assert expire_at_ms is not None
        left_ms = min(max(remaining_ms, 1), _LONGEST_TTL_MS)
        values.insert(0, left_ms.to_bytes(4, "big"))
        values.insert(-1, expire_at_ms.to_bytes(8, "big"))
    return pattern % tuple(values) + codec.body_front(len(body), is_text=is_text) + body


def _is_utf_8(descriptor: Descriptor, body: bytes) -> bool:
    """Return True if a body is valid UTF-8 and its descriptor has CCSID 1208."""
    if descriptor.coded_char_set_id != UTF_8:
        return False
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _learn(message: Message, destination: str, manager: str) -> bytes:
    """Return a new pattern for all messages that differ from this one only in ids, times and data.

    ``destination`` and ``manager`` are those of :func:`outgoing`. A pattern is a format string for
    the bytes before the data.
    """
    is_mortal, is_delayed = (
        message.remaining_ms is not None,
        message.deliver_at_ms != message.put_ms,
    )
    specimen = _Specimen(
        message.descriptor,
        message.persistent,
        message.backout_count,
        message.topic,
        _TTL_MARK if is_mortal else None,
        _DELIVERY_MARK if is_delayed else _PUT_MARK,
        _EXPIRY_MARK if is_mortal else None,
    )
    if len(_patterns) >= _MAX_PATTERNS:
        _patterns.clear()
    body = _body(parts_of(specimen.descriptor, b""), _NO_FOLDERS)
    kind = _jms_kind(_NO_FOLDERS, body)
    front = _front(specimen, _NO_FOLDERS, kind, destination, manager)
    return _pattern_of(specimen, front)


def _pattern_of(specimen: _Specimen, front: bytes) -> bytes:
    """Return the bytes of a specimen as a format string with ``%b`` at each mark.

    ``front`` are the bytes before the data. Before the message id there are only annotations of
    fixed content, and behind it the times are the last fields: so names chosen by programs cannot
    be mistaken for marks.
    """
    before, message_id, behind = front.partition(b"ID:" + specimen.msg_id.hex().encode())
    assert message_id
    head, tail = b"", b""
    if specimen.remaining_ms is not None:
        head, before = _split_at(before, specimen.remaining_ms.to_bytes(4, "big"))
    if specimen.deliver_at_ms != specimen.put_ms:
        delivery, before = _split_at(before, specimen.deliver_at_ms.to_bytes(8, "big"))
        head += delivery
    head += _literal(before) + b"%b"
    marks = [specimen.put_ms]
    if specimen.expire_at_ms is not None:
        marks.append(specimen.expire_at_ms)
    for mark in marks:
        behind, found, end = behind.rpartition(mark.to_bytes(8, "big"))
        assert found
        tail = b"%b" + _literal(end) + tail
    return head + _literal(behind) + tail


def _split_at(raw: bytes, mark: bytes) -> tuple[bytes, bytes]:
    """Split bytes at a mark: return a format string that ends with ``%b``, and the bytes after."""
    before, found, behind = raw.partition(mark)
    assert found
    return _literal(before) + b"%b", behind


def _literal(raw: bytes) -> bytes:
    """Return bytes for use in a format string: ``%`` becomes ``%%``."""
    return raw.replace(b"%", b"%%")
