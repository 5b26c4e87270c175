"""Incoming AMQP messages: conversion of their values, and to a put with lifetime.

The tables of docs/AMQP.md are implemented here. Times are relative to ``creation-time`` where a
client sends one, so that its clock and the queue manager's need not agree.

A :class:`MessageReader` reads the messages of one link. Most messages of a client have the same
sections before their body, except ids and times, which have a fixed length each. Such a message is
not decoded, which takes a fraction of the time.

Programs written for Azure Service Bus, ActiveMQ, Artemis or RabbitMQ ask for a delay by the names
of these brokers. A message that asks for a delay is delayed, or refused; it is never delivered
early.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from proton import Data

from mayfly.lifetime.window import LATEST_DUE_MS, LONGEST_LIFE_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.properties import Typed, format_value
from mayfly.mqi.reasons import MQRC_NONE
from mayfly.servers.amqp import addresses, codec
from mayfly.servers.amqp.codec import (
    DECODE_ERROR,
    INVALID_FIELD,
    AmqpError,
    Scalar,
    Section,
    Value,
    encoded,
    plain,
    text,
    wrong_field,
)
from mayfly.verbs.properties import folders
from mayfly.verbs.properties.folders import Property, checked_name
from mayfly.verbs.properties.selectors.names import correlation_bytes, id_bytes, id_text
from mayfly.verbs.topic_strings import is_temporary_topic

UTF_8: Final = 1208
DELIVERY_TIME, DELIVERY_DELAY = "x-opt-delivery-time", "x-opt-delivery-delay"
#: A moment in ms since 1970: of Azure Service Bus, and of Artemis.
_MOMENTS: Final = frozenset(("x-opt-scheduled-enqueue-time", "_AMQ_SCHED_DELIVERY"))
#: A delay in ms: of ActiveMQ, and of RabbitMQ's plugin.
_DELAYS: Final = frozenset(("AMQ_SCHEDULED_DELAY", "x-delay"))
#: Plans of ActiveMQ, which are no single delay; 0 and an empty text mean no plan.
_PLANS: Final = frozenset(("AMQ_SCHEDULED_CRON", "AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT"))
_MAX_DIGITS: Final = 20
_DELAY_NAMES: Final = _MOMENTS | _DELAYS | _PLANS
JMS_TYPE, REPORT = "x-opt-jms-msg-type", "x-opt-mq-report"
FEEDBACK, MESSAGE_TYPE = "x-opt-mq-feedback", "x-opt-mq-message-type"
#: Bodies by x-opt-jms-msg-type, as an MQRFH2 names them.
JMS_KINDS: Final = ("jms_none", "jms_object", "jms_map", "jms_bytes", "jms_stream", "jms_text")
#: The folder of values that have no field in MQ; AMQP receivers get them back.
FOLDER: Final = "amqp"
#: An application property with this prefix is kept apart from the folder.
_OWN_FOLDER: Final = f"{FOLDER}."
#: IBM MQ sends it with messages of unlimited life.
UNLIMITED_TTL_MS: Final = 2**32 - 1
_HIGHEST_PRIORITY, _DEFAULT_PRIORITY = 9, 4
_OWN_ANNOTATIONS = frozenset((DELIVERY_TIME, DELIVERY_DELAY, REPORT))
#: Annotations about the transport of a message; a message that is sent gets new ones.
_OF_TRANSPORT = frozenset(("x-opt-jms-dest", "x-opt-jms-reply-to", "x-opt-to-type"))
#: Capabilities of a reply address by x-opt-jms-reply-to.
_CAPABILITIES: Final = ("queue", "topic", "temporary-queue", "temporary-topic")
_LARGEST_UINT: Final = 2**32 - 1
_NO_HEADER: Final[list[Value]] = [None] * 5
_NO_PROPERTIES: Final[list[Value]] = [None] * 13
_NO_MAP: Final[dict[str, Value]] = {}
BODIES: Final = (codec.DATA, codec.SEQUENCE, codec.VALUE)
#: Ids and times that differ from message to message: of the section properties, and of the header.
_IDS: Final = (0, 5)
_TIMES: Final = (8, 9)
_TTL: Final = 2
_TIME_BYTES, _TTL_BYTES = 8, 4
#: AMQP has shorter forms for integers that fit into a byte.
_SHORT_INTEGERS: Final = range(-128, 256)


class Incoming(NamedTuple):
    """The arguments of a put; ``to`` is the address in the message, for an anonymous link.

    ``time_to_live_ms`` None means unlimited, ``delay_ms`` 0 means no delivery delay.
    """

    to: str
    body: bytes
    descriptor: Descriptor
    msg_id: bytes
    correl_id: bytes
    time_to_live_ms: int | None
    delay_ms: int
    properties: list[Property]
    #: The end of the delay, ms since 1970, where the client named this moment itself.
    until_ms: int | None = None


class Fields(NamedTuple):
    """The sections of a message.

    Header and properties have all their fields, absent ones as None.
    """

    header: list[Value]
    annotations: Mapping[str, Value]
    properties: list[Value]
    application: Mapping[str, Value]
    body: list[Section]

    @property
    def is_timeless(self) -> bool:
        """Whether the message contains no moment, so that the current time does not matter."""
        return self.properties[8] is None and not _says_moment(self.annotations, self.application)


def incoming(fields: Fields, now_ms: int) -> Incoming:
    """Return the put of a message that arrives at ``now_ms``, the queue manager's time.

    Raises AmqpError amqp:decode-error for a wrong section or body, and amqp:invalid-field, with
    field and value, for a wrong time to live, delay or other field.
    """
    properties = _own_properties(fields)
    body, data_format, kind = _body(fields)
    if kind:
        properties.insert(0, Property("mcd.Msd", Typed("string", kind)))
        if kind == "jms_text" and (not fields.body or fields.body[0].value is None):
            # As IBM MQ JMS writes a TextMessage whose text is null; an empty text has none of it.
            properties.insert(1, Property("mcd.msgbody", Typed("string", None)))
    life_ms, delay_ms = _lifetime(fields, now_ms)
    until_ms = _keep_times(properties, fields, now_ms, life_ms, delay_ms)
    message_id, _user, to, _subject, reply_to, correlation_id = fields.properties[:6]
    descriptor = _descriptor(
        _report(fields.annotations),
        _priority(fields.header[1]),
        int(bool(plain(fields.header[0]))),
        data_format,
    )
    if reply_to is not None:
        descriptor = _with_reply_to(descriptor, fields, properties)
    return Incoming(
        _text("to", to),
        body,
        descriptor,
        mq_id(message_id) or b"",
        _correl_id(correlation_id, properties),
        life_ms,
        delay_ms,
        properties,
        until_ms,
    )


@lru_cache(maxsize=64)
def _descriptor(report: int, priority: int, persistence: int, data_format: str) -> Descriptor:
    """Return a datagram's message descriptor with these fields; equal ones share one (cached)."""
    return Descriptor(
        report=report,
        msg_type=c.MQMT_DATAGRAM,
        encoding=c.MQENC_NORMAL,
        coded_char_set_id=UTF_8,
        priority=priority,
        persistence=persistence,
        format=data_format,
    )


def fields_of(sections: list[Section]) -> Fields:
    """Return the sections of a message by kind; absent ones are empty.

    Raises AmqpError amqp:decode-error or amqp:invalid-field for a malformed section.
    """
    header: list[Value] = _NO_HEADER
    properties: list[Value] = _NO_PROPERTIES
    annotations = application = _NO_MAP
    body = []
    for section in sections:
        code, value = section
        if code in BODIES:
            body.append(section)
        elif code == codec.HEADER:
            header = _list("header", value, _NO_HEADER)
        elif code == codec.PROPERTIES:
            properties = _list("properties", value, _NO_PROPERTIES)
        elif code == codec.MESSAGE_ANNOTATIONS:
            annotations = _map("message-annotations", value)
            if not "".join(annotations).isascii():
                raise AmqpError(INVALID_FIELD, f"annotations {[*annotations]}: a name is no symbol")
        elif code == codec.APPLICATION_PROPERTIES:
            application = _map("application-properties", value)
    return Fields(header, annotations, properties, application, body)


def _lifetime(fields: Fields, now_ms: int) -> tuple[int | None, int]:
    """Return time to live in ms, None for unlimited, and delivery delay in ms, 0 for none.

    A moment that the message names counts from its creation time, or without one from ``now_ms``.
    Field ttl takes precedence over absolute-expiry-time, which needs equal clocks. Raises AmqpError
    amqp:invalid-field.
    """
    expiry, created = fields.properties[8:10]
    base_ms = now_ms if created is None else integer("creation-time", created)
    ttl = fields.header[2]
    life_ms: int | None = None
    if ttl is not None:
        ttl_ms = integer("ttl", ttl, rc.MQRC_EXPIRY_ERROR)
        life_ms = None if ttl_ms == UNLIMITED_TTL_MS else _life("ttl", ttl_ms)
    elif expiry is not None and (
        at_ms := integer("absolute-expiry-time", expiry, rc.MQRC_EXPIRY_ERROR)
    ):
        life_ms = _life("absolute-expiry-time", at_ms - base_ms)
    if not fields.annotations and not fields.application:
        return life_ms, 0
    longest_ms = LATEST_DUE_MS - now_ms
    asked = fields.annotations, fields.application
    return life_ms, _delay_asked_ms(*asked, base_ms, longest_ms)


def _says_moment(annotations: Mapping[str, Value], application: Mapping[str, Value]) -> bool:
    """Return True if a message asks for a delivery time (a moment), not for a delay in ms.

    ``annotations`` are its message annotations, ``application`` its application properties.
    """
    if not annotations and not application:
        return False
    return DELIVERY_TIME in annotations or not (
        _MOMENTS.isdisjoint(annotations) and _MOMENTS.isdisjoint(application)
    )


def _delay_asked_ms(
    annotations: Mapping[str, Value],
    application: Mapping[str, Value],
    base_ms: int,
    longest_ms: int,
) -> int:
    """Return the delivery delay that a message asks for, in ms, 0 for none.

    ``annotations`` are its message annotations, ``application`` its application properties.
    ``base_ms`` is its creation time or else the present; a moment counts from it. Names of other
    brokers may be annotations or application properties. Raises AmqpError amqp:invalid-field
    (MQRC_OPTIONS_ERROR), with name and value, for an invalid delay, one above ``longest_ms``, or
    two that contradict each other. If the name is of another broker, the text recommends
    x-opt-delivery-time.
    """
    own_ms = _own_delay_ms(annotations, base_ms, longest_ms)
    if _DELAY_NAMES.isdisjoint(annotations) and _DELAY_NAMES.isdisjoint(application):
        return own_ms
    asked = {DELIVERY_TIME if DELIVERY_TIME in annotations else DELIVERY_DELAY: own_ms}
    for place in (annotations, application):
        for name in _DELAY_NAMES.intersection(place):
            found_ms = _others_delay_ms(name, place[name], base_ms)
            if asked.setdefault(name, found_ms) != found_ms:
                raise _contradiction({name: found_ms, f"its other {name}": asked[name]})
    # A delay of 0 contradicts no other: Qpid JMS sends a time with each message.
    late = {name: found_ms for name, found_ms in asked.items() if found_ms}
    if len(set(late.values())) > 1:
        raise _contradiction(late)
    name, longest_asked_ms = max(asked.items(), key=lambda each: each[1])
    if longest_asked_ms > longest_ms:
        raise _refused(f"{name}: a delay of {longest_asked_ms} ms is not within 0 .. {longest_ms}")
    return longest_asked_ms


def _own_delay_ms(annotations: Mapping[str, Value], base_ms: int, longest_ms: int) -> int:
    """Return the delay of the annotations x-opt-delivery-time or -delay, in ms, 0 without them.

    A moment counts from ``base_ms``, the message's creation time or else the present; one in the
    past gives 0. Raises AmqpError amqp:invalid-field unless the delay is within 0 and
    ``longest_ms``.
    """
    name, time = DELIVERY_TIME, annotations.get(DELIVERY_TIME)
    if time is not None:
        # A moment that is past delays nothing.
        delay_ms = max(0, integer(name, time, rc.MQRC_OPTIONS_ERROR) - base_ms)
    else:
        name, given = DELIVERY_DELAY, annotations.get(DELIVERY_DELAY)
        delay_ms = 0 if given is None else integer(name, given, rc.MQRC_OPTIONS_ERROR)
    if not 0 <= delay_ms <= longest_ms:
        text = f"{name}: a delay of {delay_ms} ms is not within 0 .. {longest_ms}"
        raise wrong_field(rc.MQRC_OPTIONS_ERROR, text)
    return delay_ms


def _others_delay_ms(name: str, value: Value, base_ms: int) -> int:
    """Return the delay in ms that a property of another broker asks for; null gives 0.

    A moment counts from ``base_ms``, the message's creation time or else the present. Raises
    AmqpError amqp:invalid-field for a repeated schedule, a negative delay, or no whole number.
    """
    if name in _PLANS:
        if plain(value) not in (None, "", 0):
            raise _refused(f"{name} {plain(value)!r} is a plan, and a message is delivered once")
        return 0
    if value is None:
        return 0
    found_ms = _number(name, value)
    if name in _MOMENTS:
        return max(0, found_ms - base_ms)
    if found_ms < 0:
        raise _refused(f"{name} {found_ms} is below 0")
    return found_ms


def _number(name: str, value: Value) -> int:
    """Return the value of a property of another broker as a whole number; digits may be text.

    Raises AmqpError amqp:invalid-field for any other value.
    """
    if isinstance(value, Scalar) and value.type in (Data.STRING, Data.SYMBOL):
        digits = str(value.value).strip()
        if digits.isascii() and digits.isdecimal() and len(digits) < _MAX_DIGITS:
            return int(digits)
    try:
        return integer(name, value)
    except AmqpError as error:
        raise _refused(f"{error}, and no number of ms") from None


def _contradiction(asked: Mapping[str, int]) -> AmqpError:
    """Return AmqpError amqp:invalid-field for delays that differ.

    ``asked`` has them in ms by name.
    """
    delays = ", ".join(f"{name} asks for {found_ms} ms" for name, found_ms in sorted(asked.items()))
    return _refused(delays)


def _refused(why: str) -> AmqpError:
    """Return AmqpError amqp:invalid-field for a wrong delay under a name of another broker."""
    text = f"{why}: say the delivery time in {DELIVERY_TIME} alone"
    return wrong_field(rc.MQRC_OPTIONS_ERROR, text)


def _keep_times(
    properties: list[Property], fields: Fields, now_ms: int, life_ms: int | None, delay_ms: int
) -> int | None:
    """Append creation, expiry and delivery time, as the client sent them, to ``properties``.

    ``now_ms`` is the time of arrival. ``life_ms`` is the time to live, None for unlimited, and
    ``delay_ms`` the delay, 0 for none. Returns the moment (ms since 1970) at which the delay ends,
    if the client named this moment without a creation time. Otherwise returns None: the delay is
    ``delay_ms``.
    """
    expiry, created = fields.properties[8:10]
    if created is not None and (created_ms := integer("creation-time", created)) >= 0:
        _keep(properties, folders.CREATION, str(created_ms))
    if expiry is not None and life_ms is not None:
        named_ms = integer("absolute-expiry-time", expiry)
        if named_ms:
            _keep(properties, folders.EXPIRY, folders.as_kept(named_ms, now_ms + life_ms))
    time = fields.annotations.get(DELIVERY_TIME)
    if time is not None:
        named_ms, base_ms = integer(DELIVERY_TIME, time), now_ms
        if created is not None:
            base_ms = integer("creation-time", created)
        if delay_ms != max(0, named_ms - base_ms):
            # It delays nothing, and the words of another broker do.
            return None
        if delay_ms and created is None:
            # The client's own moment counts, and need not be kept as well.
            return named_ms
        _keep(properties, folders.DELIVERY, folders.as_kept(named_ms, now_ms + delay_ms))
    return None


def _life(name: str, life_ms: int) -> int:
    """Return a time to live in ms, cut to the longest possible one.

    Raises AmqpError amqp:invalid-field (MQRC_EXPIRY_ERROR) unless it is positive. ``name`` is the
    field for the text.
    """
    if life_ms <= 0:
        text = f"{name}: a life of {life_ms} ms has ended before the message came"
        raise wrong_field(rc.MQRC_EXPIRY_ERROR, text)
    return min(life_ms, LONGEST_LIFE_MS)


def _priority(given: Value) -> int:
    """Return the priority of a header field, 4 if absent, 9 at most.

    Raises AmqpError amqp:invalid-field if it is not an integer.
    """
    if given is None:
        return _DEFAULT_PRIORITY
    return min(integer("priority", given, rc.MQRC_PRIORITY_ERROR), _HIGHEST_PRIORITY)


def _report(annotations: Mapping[str, Value]) -> int:
    """Return the report options in annotation x-opt-mq-report as a signed 32-bit number.

    0 if absent. Raises AmqpError amqp:invalid-field for more than 32 bits.
    """
    given = annotations.get(REPORT)
    report = 0 if given is None else integer(REPORT, given, rc.MQRC_REPORT_OPTIONS_ERROR)
    if not -(2**31) <= report < 2**32:
        text = f"{REPORT} {report} is more than 32 bits hold"
        raise wrong_field(rc.MQRC_REPORT_OPTIONS_ERROR, text)
    # Bits may come as the number with a sign that a descriptor holds.
    return report - 2**32 if report >= 2**31 else report


def _correl_id(value: Value, properties: list[Property]) -> bytes:
    """Return the CorrelId for a correlation-id, b"" if absent.

    An id that does not fit into 24 bytes is hashed, and its text is appended to ``properties``.
    """
    if value is None:
        return b""
    identifier = mq_id(value)
    if identifier is not None:
        return identifier
    shown = id_as_text("correlation-id", value)
    properties.append(Property("jms.Cid", Typed("string", shown)))
    return correlation_bytes(shown)


def _with_reply_to(
    descriptor: Descriptor, fields: Fields, properties: list[Property]
) -> Descriptor:
    """Return a descriptor with the queue of field reply-to as ReplyToQ, and the type request.

    Without reply-to the descriptor stays unchanged. A topic as reply-to is appended to
    ``properties`` instead.
    """
    reply_to = _text("reply-to", fields.properties[4])
    if not reply_to:
        return descriptor
    kind = plain(fields.annotations.get("x-opt-jms-reply-to"))
    is_known = isinstance(kind, int) and 0 <= kind < len(_CAPABILITIES)
    found = addresses.read(reply_to, (_CAPABILITIES[kind],) if is_known else ())
    if found.kind == addresses.TOPIC or is_temporary_topic(found.name):
        uri = f"topic://{found.name}"
        properties.append(Property("jms.Rto", Typed("string", uri)))
        if found.name != reply_to:
            # AMQP receivers get the prefix as well, others the name with its annotation.
            _keep(properties, f"{FOLDER}.ReplyTo", reply_to)
        return descriptor
    return descriptor._replace(
        msg_type=c.MQMT_REQUEST, reply_to_q=found.name, reply_to_q_mgr=found.manager
    )


def _own_properties(fields: Fields) -> list[Property]:
    """Return properties for the values of a message that have no field in a descriptor."""
    found: list[Property] = []
    given = fields.properties
    if given is not _NO_PROPERTIES:
        _keep_fields(found, given)
    if fields.header[3] is not None and plain(fields.header[3]) is False:
        # Another link had it before this sender: no receiver here is its first acquirer.
        found.append(Property(f"{FOLDER}.FirstAcquirer", Typed("boolean", False)))
    if not fields.annotations and not fields.application:
        return found
    others = {
        name: value
        for name, value in fields.annotations.items()
        if name not in _OWN_ANNOTATIONS and name not in _OF_TRANSPORT and name != JMS_TYPE
    }
    if others:
        _keep(found, f"{FOLDER}.Annotations", _as_json(others))
    found += _application_properties(fields.application)
    return found


def _keep_fields(found: list[Property], given: list[Value]) -> None:
    """Append to ``found`` the fields of the AMQP properties section that a descriptor cannot hold.

    ``given`` are all fields of the section. Raises AmqpError amqp:invalid-field for a wrong type.
    """
    message_id = given[0]
    if message_id is not None and mq_id(message_id) is None:
        _keep(found, f"{FOLDER}.MessageId", id_as_text("message-id", message_id))
    _keep(found, "mcd.Type", _text("subject", given[3]))
    _keep(found, f"{FOLDER}.ContentType", _symbol("content-type", given[6]))
    _keep(found, f"{FOLDER}.ContentEncoding", _symbol("content-encoding", given[7]))
    _keep(found, "jms.Gid", _text("group-id", given[10]))
    sequence = given[11]
    if sequence is not None:
        number = integer("group-sequence", sequence)
        if not 0 <= number <= _LARGEST_UINT:
            raise AmqpError(INVALID_FIELD, f"group-sequence {number} is no uint")
        found.append(Property("jms.Seq", Typed("i8", number)))
    _keep(found, f"{FOLDER}.ReplyToGroupId", _text("reply-to-group-id", given[12]))


def _application_properties(given: Mapping[str, Value]) -> list[Property]:
    """Return application properties as MQ properties; raises amqp:invalid-field for a wrong type.

    Those whose names MQ does not allow are kept together in one property, as JSON.
    """
    found, odd = [], {}
    for name, value in given.items():
        of_value = typed(name, value)
        if name.startswith(_OWN_FOLDER):
            odd[name] = value
            continue
        try:
            found.append(Property(checked_name(name), of_value))
        except MQError:
            # Names such as x-colour are invalid in MQ; AMQP receivers get them back.
            odd[name] = value
    if odd:
        _keep(found, f"{FOLDER}.Properties", _as_json(odd))
    return found


def _as_json(values: Mapping[str, Value]) -> str:
    """Return values by name as JSON: ``{"a": Scalar(Data.INT, 5)}`` -> ``{"a":[<code of INT>,5]}``.

    A value that is not a scalar gets type code 0 and its encoded bytes in hex.
    """
    kept: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Scalar) and value.type != Data.DECIMAL128:
            shown = value.value.hex() if value.type == Data.BINARY else value.value
            kept[name] = [value.type, str(shown) if value.type == Data.UUID else shown]
        else:
            kept[name] = [0, codec.encoded_value(value).hex()]
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False)


def _body(fields: Fields) -> tuple[bytes, str, str]:
    """Return the data of a message, their MQ format, and the JMS kind for the MQRFH2 ("" if none).

    Raises AmqpError amqp:decode-error for bodies of two kinds.
    """
    kind = _jms_kind(fields.annotations.get(JMS_TYPE))
    if not fields.body:
        return b"", "", kind
    code, first = fields.body[0]
    if any(s.code != code for s in fields.body):
        raise AmqpError(DECODE_ERROR, "the message has bodies of two kinds")
    if code == codec.DATA:
        return b"".join([_bytes(s.value) for s in fields.body]), "", kind
    if code == codec.VALUE and isinstance(first, Scalar) and first.type == Data.STRING:
        return first.value.encode(), "MQSTR", kind
    if kind in ("jms_map", "jms_stream"):
        return _typed_body(kind, first), "MQSTR", kind
    if first is None and kind == "jms_text":
        return b"", "MQSTR", kind
    # Any other body stays encoded; its format is AMQP.
    return encoded(fields.body), "AMQP", kind


def _jms_kind(number: Value) -> str:
    """Return the JMS kind of annotation x-opt-jms-msg-type, as ``'jms_text'``; "" if absent.

    Raises AmqpError amqp:invalid-field for an unknown number.
    """
    if number is None:
        return ""
    place = integer(JMS_TYPE, number)
    if not 0 <= place < len(JMS_KINDS):
        raise AmqpError(INVALID_FIELD, f"{JMS_TYPE} {place} is none of 0 to {len(JMS_KINDS) - 1}")
    return JMS_KINDS[place]


def _typed_body(kind: str, value: Value) -> bytes:
    """Return a JMS map or stream as XML, the form of such messages in MQ.

    Raises AmqpError amqp:invalid-field if the value does not fit the kind.
    """
    parts: Sequence[tuple[str | None, Value]]
    if kind == "jms_map" and isinstance(value, dict):
        root, parts = "map", [(str(plain(key)), part) for key, part in value.items()]
    elif kind == "jms_stream" and isinstance(value, list):
        root, parts = "stream", [(None, part) for part in value]
    else:
        raise AmqpError(INVALID_FIELD, f"the body is no {kind.removeprefix('jms_')}")
    elements = (_element(name, typed("body", part)) for name, part in parts)
    return f"<{root}>{''.join(elements)}</{root}>".encode()


def _element(name: str | None, value: Typed) -> str:
    """Return one XML element of a map (with ``name``) or stream; ``<elt dt='i4'>5</elt>``."""
    attributes = "" if name is None else f' name="{format_value(Typed("string", name))}"'
    if value.value is None:
        return f"<elt{attributes} xsi:nil='true'></elt>"
    kind = "" if value.dt == "string" else f" dt='{value.dt}'"
    return f"<elt{attributes}{kind}>{format_value(value)}</elt>"


def _bytes(value: Value) -> bytes:
    """Return the bytes of a data section; raises AmqpError amqp:decode-error for another type."""
    if isinstance(value, Scalar) and value.type == Data.BINARY:
        return bytes(value.value)
    raise AmqpError(DECODE_ERROR, "a data section is no binary")


def _keep(properties: list[Property], name: str, value: str) -> None:
    """Append a string property to ``properties``; does nothing for ""."""
    if value:
        properties.append(Property(name, Typed("string", value)))


def _text(name: str, value: Value) -> str:
    """Return a string or symbol as str, "" for null.

    Raises AmqpError amqp:invalid-field, with the field's name, for another type.
    """
    if value is None:
        return ""
    if isinstance(value, Scalar) and value.type in (Data.STRING, Data.SYMBOL):
        return str(value.value)
    raise AmqpError(INVALID_FIELD, f"{name} {plain(value)!r} is no text")


def _symbol(name: str, value: Value) -> str:
    """Return a string or symbol as str, "" for null.

    Raises AmqpError amqp:invalid-field if it has another type or is not ASCII.
    """
    found = _text(name, value)
    if not found.isascii():
        raise AmqpError(INVALID_FIELD, f"{name} {found!r} is no symbol: it is not ASCII")
    return found


def _list(name: str, value: Value, absent: list[Value]) -> list[Value]:
    """Return all fields of a section, None for those that its list leaves out.

    ``absent`` is the section without any value. Raises AmqpError amqp:decode-error unless it is a
    list.
    """
    if value is None or value == []:
        return absent
    if isinstance(value, list):
        return value + absent[len(value) :]
    raise AmqpError(DECODE_ERROR, f"the section {name} is no list")


def _map(name: str, value: Value) -> dict[str, Value]:
    """Return a section that is a map from names to values; {} for null.

    Raises AmqpError amqp:decode-error for another type or keys that are not text.
    """
    if value is None:
        return {}
    if isinstance(value, dict) and all(isinstance(plain(key), str) for key in value):
        return {plain(key): part for key, part in value.items()}
    raise AmqpError(DECODE_ERROR, f"the section {name} is no map with names")


class _Slot(NamedTuple):
    """A value that differs from message to message: section, name or number, type and length."""

    section: str
    key: Any
    type: int
    length_bytes: int


#: Fixed bytes of a front, and the value behind them; the last ones have none.
_Piece: TypeAlias = "tuple[bytes, _Slot | None]"


class MessageReader:
    """Reads the messages of one link, and decodes only values that differ from the last message."""

    def __init__(self) -> None:
        """Begin without a last message: the first message is decoded completely."""
        self._front = b""
        self._is_text = False
        #: The last message; None when those with the same front may be put differently.
        self._last: Incoming | None = None
        #: Its sections; None when others cannot be compared with them.
        self._fields: Fields | None = None
        self._pieces: list[_Piece] = []

    def read(self, raw: bytes, now_ms: int) -> Incoming:
        """Return the put of a message that arrives at ``now_ms``.

        Raises AmqpError amqp:decode-error or amqp:invalid-field for a wrong message.
        """
        last = self._last
        if last is not None and raw.startswith(self._front):
            body = codec.body_behind(raw, len(self._front), is_text=self._is_text)
            if body is not None:
                return last._replace(body=body)
        fields = None if self._fields is None else self._like_last(raw, self._fields)
        if fields is not None:
            return incoming(fields, now_ms)
        fields = fields_of(codec.decoded(raw))
        message = incoming(fields, now_ms)
        self._last = self._fields = None
        self._remember(raw, fields, message)
        return message

    def _like_last(self, raw: bytes, last: Fields) -> Fields | None:
        """Return the sections of a message that differs from the last only in ids, times and body.

        Returns None for any other message, which must be decoded.
        """
        place = 0
        header, annotations, properties, _application, _body = last
        for fixed, slot in self._pieces:
            if not raw.startswith(fixed, place):
                return None
            place += len(fixed)
            if slot is None:
                break
            value = _value_of(raw[place : place + slot.length_bytes], slot)
            if value is None:
                return None
            place += slot.length_bytes
            if slot.section == "annotations":
                annotations = {**annotations, slot.key: value}
            elif slot.section == "header":
                header = [*header]
                header[slot.key] = value
            else:
                properties = [*properties]
                properties[slot.key] = value
        body = codec.body_behind(raw, place, is_text=self._is_text)
        if body is None:
            return None
        kind = Data.STRING if self._is_text else Data.BINARY
        shown = body.decode() if self._is_text else body
        section = last.body[0]._replace(value=Scalar(kind, shown))
        return Fields(header, annotations, properties, last.application, [section])

    def _remember(self, raw: bytes, fields: Fields, message: Incoming) -> None:
        """Keep the bytes before a message's body, for comparison with the next message.

        Does nothing if the body is longer than 16 KiB or has several sections.
        """
        if len(fields.body) != 1 or len(message.body) > codec.LONGEST_KNOWN_BYTES:
            return
        is_text = fields.body[0].code == codec.VALUE
        front_bytes = len(raw) - len(message.body)
        front_bytes -= len(codec.body_front(len(message.body), is_text=is_text))
        if front_bytes < 0 or message.body != codec.body_behind(raw, front_bytes, is_text=is_text):
            return
        self._front, self._is_text, self._fields = raw[:front_bytes], is_text, fields
        self._pieces = _pieces_of(self._front, fields)
        if fields.is_timeless:
            self._last = message


def _value_of(raw: bytes, slot: _Slot) -> Scalar | None:
    """Return the value in the bytes of a slot; None if they are not valid UTF-8."""
    if slot.type == Data.STRING:
        try:
            return Scalar(Data.STRING, raw.decode())
        except UnicodeDecodeError:
            return None
    return Scalar(slot.type, int.from_bytes(raw, "big", signed=slot.type != Data.UINT))


def _pieces_of(front: bytes, fields: Fields) -> list[_Piece]:
    """Split the bytes before a body at the values that may differ (slots).

    A value whose bytes occur twice counts as fixed.
    """
    places: list[tuple[int, _Slot]] = []
    for slot, value in _slots(fields):
        mark = _bytes_of(value)
        if mark and front.count(mark) == 1:
            places.append((front.index(mark), slot._replace(length_bytes=len(mark))))
    pieces: list[_Piece] = []
    begin = 0
    for place, slot in sorted(places, key=lambda each: each[0]):
        if place < begin:
            return [(front, None)]
        pieces.append((front[begin:place], slot))
        begin = place + slot.length_bytes
    pieces.append((front[begin:], None))
    return pieces


def _slots(fields: Fields) -> list[tuple[_Slot, Value]]:
    """Return the values that usually differ between two messages of one sender.

    These are its integer and time annotations, its ttl, its ids and its times, each with its slot:
    the place of the value in a message, by which a later message is read without decoding the rest.
    """
    found: list[tuple[_Slot, Value]] = []
    for name, value in fields.annotations.items():
        if isinstance(value, Scalar) and value.type in (Data.LONG, Data.TIMESTAMP):
            found.append((_Slot("annotations", name, value.type, 0), value))
    ttl = fields.header[_TTL]
    if isinstance(ttl, Scalar) and ttl.type == Data.UINT:
        found.append((_Slot("header", _TTL, ttl.type, 0), ttl))
    for number in (*_IDS, *_TIMES):
        value = fields.properties[number]
        wanted = Data.STRING if number in _IDS else Data.TIMESTAMP
        if isinstance(value, Scalar) and value.type == wanted:
            found.append((_Slot("properties", number, value.type, 0), value))
    return found


def _bytes_of(value: Value) -> bytes:
    """Return the encoded bytes of a value without its type; b"" if their length may vary."""
    assert isinstance(value, Scalar)
    if value.type == Data.STRING:
        return str(value.value).encode()
    number = int(value.value)
    if value.type != Data.TIMESTAMP and number in _SHORT_INTEGERS:
        return b""
    if value.type == Data.UINT:
        return number.to_bytes(_TTL_BYTES, "big")
    return number.to_bytes(_TIME_BYTES, "big", signed=True)


# Conversion of single AMQP values: properties to types of an MQRFH2, and ids
#
# MQ has 24 bytes for an id; AMQP has a ulong, a UUID, bytes or text. An id that MQ cannot hold is
# kept as a text property, marked with its type as in the JMS mapping of AMQP: AMQP_ULONG:5.


#: Types of an MQRFH2 by AMQP type; unsigned integers get the next wider type.
_DATA_TYPES: Final[Mapping[int, str]] = {
    Data.BOOL: "boolean",
    Data.BYTE: "i1",
    Data.UBYTE: "i2",
    Data.SHORT: "i2",
    Data.USHORT: "i4",
    Data.INT: "i4",
    Data.UINT: "i8",
    Data.LONG: "i8",
    Data.ULONG: "i8",
    Data.TIMESTAMP: "i8",
    Data.FLOAT: "r4",
    Data.DOUBLE: "r8",
    Data.STRING: "string",
    Data.SYMBOL: "string",
    Data.CHAR: "char",
    Data.BINARY: "bin.hex",
}
_AMQP_TYPES: Final[Mapping[str, int]] = {
    "boolean": Data.BOOL,
    "i1": Data.BYTE,
    "i2": Data.SHORT,
    "i4": Data.INT,
    "int": Data.INT,
    "i8": Data.LONG,
    "r4": Data.FLOAT,
    "r8": Data.DOUBLE,
    "char": Data.CHAR,
    "bin.hex": Data.BINARY,
}
_LARGEST_LONG = 2**63 - 1
_ID_BYTES: Final = 24
_ULONG, _UUID, _BINARY = "AMQP_ULONG:", "AMQP_UUID:", "AMQP_BINARY:"
_LARGEST_ULONG = 2**64 - 1
#: All integer types of AMQP, and its timestamp.
_INTEGERS: Final = frozenset(
    (
        Data.BYTE,
        Data.UBYTE,
        Data.SHORT,
        Data.USHORT,
        Data.INT,
        Data.UINT,
        Data.LONG,
        Data.ULONG,
        Data.TIMESTAMP,
    )
)


def typed(name: str, value: Value) -> Typed:
    """Return an AMQP scalar as the value of an MQRFH2 property; null becomes a null string.

    Raises AmqpError amqp:invalid-field, which names the property, for a list, a map, a decimal, or
    an unsigned integer of 2**63 or more.
    """
    if value is None:
        return Typed("string", None)
    if isinstance(value, Scalar):
        if value.type == Data.UUID:
            return Typed("string", str(value.value))
        dt = _DATA_TYPES.get(value.type)
        if dt == "i8" and value.value > _LARGEST_LONG:
            text = f"property {name}: {value.value} is more than 64 bits with a sign hold"
            raise AmqpError(INVALID_FIELD, text)
        if dt is not None:
            return Typed(dt, value.value)
    raise AmqpError(INVALID_FIELD, f"property {name} is no scalar value")


def scalar(value: Typed) -> Value:
    """Return the value of an MQRFH2 property as AMQP value.

    A type unknown to AMQP becomes a string. Null gives None.
    """
    if value.value is None:
        return None
    kind = _AMQP_TYPES.get(value.dt)
    if kind == Data.CHAR and len(str(value.value)) != 1:
        kind = None
    return Scalar(Data.STRING, str(value.value)) if kind is None else Scalar(kind, value.value)


def integer(name: str, value: Value, reason: int = MQRC_NONE) -> int:
    """Return an AMQP integer or timestamp, or a float with a whole value, as an int.

    Raises AmqpError amqp:invalid-field, with name and value, for anything else. ``reason`` is the
    MQRC_* for the description, 0 for none.
    """
    if isinstance(value, Scalar):
        # Some clients use floats for all numbers.
        is_whole = value.type in (Data.FLOAT, Data.DOUBLE) and float(value.value).is_integer()
        if is_whole or value.type in _INTEGERS:
            return int(value.value)
    shown: Any = value.value if isinstance(value, Scalar) else value
    text = f"{name} {shown!r} is no integer"
    raise wrong_field(reason, text) if reason else AmqpError(INVALID_FIELD, text)


def mq_id(value: Value) -> bytes | None:
    """Return the 24 bytes of an id that MQ can hold: 24 bytes, or ``ID:`` and 48 hex digits.

    Returns None for any other value.
    """
    if not isinstance(value, Scalar):
        return None
    if value.type == Data.STRING and len(value.value) == 3 + 2 * _ID_BYTES:
        return id_bytes(value.value)
    if value.type == Data.BINARY and len(value.value) == _ID_BYTES:
        return bytes(value.value)
    return None


def id_as_text(field: str, value: Value) -> str:
    """Return an AMQP id as text; ``Scalar(Data.ULONG, 5)`` -> ``'AMQP_ULONG:5'``.

    :func:`id_of_text` restores the id. Raises AmqpError amqp:invalid-field for a value that is not
    an id.
    """
    if isinstance(value, Scalar):
        if value.type == Data.STRING:
            return str(value.value)
        if value.type in (Data.ULONG, Data.UINT):
            return f"{_ULONG}{value.value}"
        if value.type == Data.UUID:
            return f"{_UUID}{value.value}"
        if value.type == Data.BINARY:
            return f"{_BINARY}{value.value.hex().upper()}"
    raise AmqpError(INVALID_FIELD, f"{field} is no id: neither ulong, uuid, binary nor string")


def id_of_text(kept: str) -> Scalar:
    """Return the AMQP id in a text of :func:`id_as_text`; any other text becomes a string id."""
    try:
        if kept.startswith(_ULONG) and 0 <= int(kept[len(_ULONG) :]) <= _LARGEST_ULONG:
            return Scalar(Data.ULONG, int(kept[len(_ULONG) :]))
        if kept.startswith(_UUID):
            return Scalar(Data.UUID, UUID(kept[len(_UUID) :]))
        if kept.startswith(_BINARY):
            return Scalar(Data.BINARY, bytes.fromhex(kept[len(_BINARY) :]))
    except ValueError:
        pass
    return text(kept)


def id_of_mq(identifier: bytes) -> Scalar | None:
    """Return a MsgId or CorrelId as a string id, ``ID:`` and 48 hex digits; None for zeros."""
    shown = id_text(identifier)
    return None if shown is None else text(shown)
