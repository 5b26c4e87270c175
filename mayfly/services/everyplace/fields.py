"""Fields of a message of MQ Everyplace, with their types, its identity, and its form as JSON.

The JSON is the body of an MQ message, and of a row in the folder of a durable queue manager. It is
not the format of IBM's MQ Everyplace.
"""

from __future__ import annotations

import base64
import itertools
import json
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from mayfly.lifetime.everyplace import (
    INT_RANGE,
    LONG_RANGE,
    ExpireTime,
    Timepiece,
    moment_ms,
    moment_of,
)
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.runtime import Runtime
from mayfly.runtime.clocks import SystemClock
from mayfly.services.everyplace.errors import EveryplaceError

MSG_CORREL_ID = "Msg_CorrelID"
MSG_EXPIRE_TIME = "Msg_ExpireTime"
MSG_PRIORITY = "Msg_Priority"
MSG_REPLY_TO_Q = "Msg_ReplyToQ"
MSG_REPLY_TO_Q_MGR = "Msg_ReplyToQMgr"
MSG_RESEND = "Msg_Resend"

DEFAULT_PRIORITY, HIGHEST_PRIORITY = 4, 9

Value: TypeAlias = str | bool | int | float | bytes


class FieldType(StrEnum):
    """The types of fields; for an expire time the width of the number decides its meaning (M4)."""

    ASCII = "ascii"
    UNICODE = "unicode"
    BOOLEAN = "boolean"
    BYTE = "byte"
    SHORT = "short"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    BYTES = "bytes"


class TypedField(NamedTuple):
    """The value of a field, with its type."""

    type: FieldType
    value: Value


class MessageUid(NamedTuple):
    """The identity of a message: where and when (epoch ms) it was created.

    ``serial`` distinguishes messages of one millisecond; ``origin_queue_manager`` is empty before
    the first put.
    """

    origin_queue_manager: str
    created_ms: int
    serial: int


class _Identity:
    """The identity of a message, shared by all its copies, so that each copy knows of a put."""

    def __init__(self, uid: MessageUid) -> None:
        """Take the identity ``uid`` of a message that was not put yet."""
        self.uid = uid
        self.was_put = False


_RANGES = {
    FieldType.BYTE: (-(2**7), 2**7 - 1),
    FieldType.SHORT: (-(2**15), 2**15 - 1),
    FieldType.INT: INT_RANGE,
    FieldType.LONG: LONG_RANGE,
}
_CLASSES: dict[FieldType, type] = {
    FieldType.ASCII: str,
    FieldType.UNICODE: str,
    FieldType.BOOLEAN: bool,
    FieldType.DOUBLE: float,
    FieldType.BYTES: bytes,
}
#: Fields that a queue reads, and what they may be.
_OWN_TYPES = {
    MSG_EXPIRE_TIME: (FieldType.INT, FieldType.LONG),
    MSG_PRIORITY: (FieldType.BYTE,),
    MSG_RESEND: (FieldType.BOOLEAN,),
}
#: Numbers of messages begin somewhere below 2**56, so that they always fit into 64 bits.
_SERIAL_BYTES = 7
#: From somewhere in the middle: a process that comes later gives none a second time, though its
#: clock may show the same millisecond.
_SERIALS = itertools.count(int.from_bytes(Runtime().random_bytes(_SERIAL_BYTES), "big"))
_SYSTEM_CLOCK = SystemClock()


class MessageFields:
    """A message: named fields, each of one type; a put places a copy of it on the queue.

    ``put_*`` replaces a field of any type; ``get_*`` requires the type it was put with. A wrong
    name, type or number raises EveryplaceError and leaves the message unchanged.
    """

    def __init__(self, clock: Timepiece | None = None) -> None:
        """Create an empty message now, by ``clock``; None is the clock of this machine."""
        now_ms = checked_clock(clock).now_ms()
        self._fields: dict[str, TypedField] = {}
        self._identity = _Identity(MessageUid("", now_ms, next(_SERIALS)))

    @property
    def uid(self) -> MessageUid:
        """The identity, which all copies share; it names the queue manager of the first put."""
        return self._identity.uid

    @property
    def created_ms(self) -> int:
        """The epoch ms of its creation; a relative expire time always counts from this (M4)."""
        return self.uid.created_ms

    @property
    def expire_time(self) -> ExpireTime | None:
        """The expire time of the message itself, None without the field Msg_ExpireTime.

        An int is relative, a long absolute (M4).
        """
        field = self._fields.get(MSG_EXPIRE_TIME)
        if field is None:
            return None
        assert isinstance(field.value, int)
        return ExpireTime(field.value, field.type is FieldType.LONG)

    @property
    def priority(self) -> int:
        """The priority, 0 to 9, by default 4; the highest is got first."""
        field = self._fields.get(MSG_PRIORITY)
        return DEFAULT_PRIORITY if field is None else int(field.value)

    @property
    def is_resend(self) -> bool:
        """True if the field Msg_Resend is true: the sender knows that it was put before (M16)."""
        field = self._fields.get(MSG_RESEND)
        return field is not None and bool(field.value)

    @property
    def was_put(self) -> bool:
        """True if the message or a copy was put; another put then requires Msg_Resend (M16)."""
        return self._identity.was_put

    @was_put.setter
    def was_put(self, was_put: bool) -> None:
        self._identity.was_put = was_put

    def name_origin(self, queue_manager: str) -> None:
        """Set the queue manager in the identity; does nothing if the identity has one already."""
        uid = self._identity.uid
        if not uid.origin_queue_manager:
            self._identity.uid = uid._replace(origin_queue_manager=queue_manager)

    def put_ascii(self, name: str, value: str) -> None:
        """Set a field to a str of ASCII characters; raises EveryplaceError for any other value."""
        self._put(name, FieldType.ASCII, value)

    def put_unicode(self, name: str, value: str) -> None:
        """Set a field to a str; raises EveryplaceError for any other value."""
        self._put(name, FieldType.UNICODE, value)

    def put_boolean(self, name: str, value: bool) -> None:
        """Set a field to True or False; raises EveryplaceError for any other value."""
        self._put(name, FieldType.BOOLEAN, value)

    def put_byte(self, name: str, value: int) -> None:
        """Set a field to a signed 8-bit number; raises EveryplaceError for any other value."""
        self._put(name, FieldType.BYTE, value)

    def put_short(self, name: str, value: int) -> None:
        """Set a field to a signed 16-bit number; raises EveryplaceError for any other value."""
        self._put(name, FieldType.SHORT, value)

    def put_int(self, name: str, value: int) -> None:
        """Set a field to a signed 32-bit number; raises EveryplaceError for any other value.

        As Msg_ExpireTime it is in ms from the creation of the message (M4, M15).
        """
        self._put(name, FieldType.INT, value)

    def put_long(self, name: str, value: int) -> None:
        """Set a field to a signed 64-bit number; raises EveryplaceError for any other value.

        As Msg_ExpireTime it is a moment in epoch ms (M4, M15).
        """
        self._put(name, FieldType.LONG, value)

    def put_datetime(self, name: str, value: datetime) -> None:
        """Put a time as a long in epoch ms; as Msg_ExpireTime it is when the message expires (M4).

        Raises EveryplaceError with MQRC_PROPERTY_TYPE_ERROR for a value that is no datetime, and
        with MQRC_PROP_NUMBER_FORMAT_ERROR for a datetime without a time zone.
        """
        check_name(name)
        if not isinstance(value, datetime):
            raise EveryplaceError(rc.MQRC_PROPERTY_TYPE_ERROR, f"{name}: {value!r} is no datetime")
        try:
            at_ms = moment_ms(value)
        except MQError as error:
            raise EveryplaceError(error.reason, f"{name}: {error.detail}") from None
        self.put_long(name, at_ms)

    def put_double(self, name: str, value: float) -> None:
        """Set a field to a float; raises EveryplaceError for any other value."""
        self._put(name, FieldType.DOUBLE, value)

    def put_array_of_byte(self, name: str, value: bytes) -> None:
        """Set a field to bytes; raises EveryplaceError for any other value."""
        self._put(name, FieldType.BYTES, value)

    def get_ascii(self, name: str) -> str:
        """Return an ASCII field; raises EveryplaceError if it is missing or of another type."""
        return str(self._get(name, FieldType.ASCII))

    def get_unicode(self, name: str) -> str:
        """Return a Unicode field; raises EveryplaceError if it is missing or of another type."""
        return str(self._get(name, FieldType.UNICODE))

    def get_boolean(self, name: str) -> bool:
        """Return a boolean field; raises EveryplaceError if it is missing or of another type."""
        return bool(self._get(name, FieldType.BOOLEAN))

    def get_byte(self, name: str) -> int:
        """Return an 8-bit field; raises EveryplaceError if it is missing or of another type."""
        return int(self._get(name, FieldType.BYTE))

    def get_short(self, name: str) -> int:
        """Return a 16-bit field; raises EveryplaceError if it is missing or of another type."""
        return int(self._get(name, FieldType.SHORT))

    def get_int(self, name: str) -> int:
        """Return a 32-bit field; raises EveryplaceError if it is missing or of another type."""
        return int(self._get(name, FieldType.INT))

    def get_long(self, name: str) -> int:
        """Return a 64-bit field; raises EveryplaceError if it is missing or of another type."""
        return int(self._get(name, FieldType.LONG))

    def get_datetime(self, name: str) -> datetime:
        """Return a long field, in epoch ms, as a datetime in UTC.

        Raises the errors of the other ``get_*``, and EveryplaceError when the number is no possible
        date.
        """
        at_ms = self.get_long(name)
        try:
            return moment_of(at_ms)
        except MQError as error:
            raise EveryplaceError(error.reason, f"{name}: {error.detail}") from None

    def get_double(self, name: str) -> float:
        """Return a float field; raises EveryplaceError if it is missing or of another type."""
        return float(self._get(name, FieldType.DOUBLE))

    def get_array_of_byte(self, name: str) -> bytes:
        """Return a field of bytes; raises EveryplaceError if it is missing or of another type."""
        value = self._get(name, FieldType.BYTES)
        assert isinstance(value, bytes)
        return value

    def contains(self, name: str) -> bool:
        """Return True if the message has a field of this name."""
        check_name(name)
        return name in self._fields

    def delete(self, name: str) -> None:
        """Remove a field; does nothing when the message has no such field."""
        check_name(name)
        self._fields.pop(name, None)

    def fields(self) -> dict[str, TypedField]:
        """Return all fields by name, in the order in which they were first put."""
        return dict(self._fields)

    def copy(self) -> MessageFields:
        """Return a copy with separate fields and the same, shared identity."""
        twin = MessageFields.__new__(MessageFields)
        twin._fields = dict(self._fields)
        twin._identity = self._identity
        return twin

    def _put(self, name: str, kind: FieldType, value: Value) -> None:
        """Put a field after checking it; raises the errors of :func:`check_field`."""
        check_field(name, kind, value)
        self._fields[name] = TypedField(kind, value)

    def _get(self, name: str, kind: FieldType) -> Value:
        """Return the value of a field of this type.

        Raises MQRC_PROPERTY_NOT_AVAILABLE without the field, MQRC_PROPERTY_TYPE_ERROR for another
        type.
        """
        check_name(name)
        field = self._fields.get(name)
        if field is None:
            raise EveryplaceError(rc.MQRC_PROPERTY_NOT_AVAILABLE, f"there is no field {name!r}")
        if field.type is not kind:
            raise EveryplaceError(
                rc.MQRC_PROPERTY_TYPE_ERROR, f"field {name} is of type {field.type}, not {kind}"
            )
        return field.value

    def __repr__(self) -> str:
        return f"<MessageFields {self.uid} {', '.join(self._fields)}>"


def restored(uid: MessageUid, fields: dict[str, TypedField]) -> MessageFields:
    """Return a message read from a body or row, with its stored identity."""
    message = MessageFields.__new__(MessageFields)
    message._fields = dict(fields)
    message._identity = _Identity(uid)
    return message


def checked_clock(clock: Timepiece | None) -> Timepiece:
    """Return the clock, or this machine's for None.

    Raises MQRC_OPTIONS_ERROR if it has no ``now_ms``.
    """
    if clock is None:
        return _SYSTEM_CLOCK
    if not callable(getattr(clock, "now_ms", None)):
        raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"clock {clock!r} has no now_ms")
    return clock


def check_name(name: object) -> None:
    """Raise MQRC_PROPERTY_NAME_ERROR unless a field name is a str that is not empty."""
    if not isinstance(name, str) or not name:
        raise EveryplaceError(rc.MQRC_PROPERTY_NAME_ERROR, f"field name {name!r}")


def check_field(name: str, kind: FieldType, value: object) -> None:
    """Raise EveryplaceError unless a message may have a field of this name, type and value.

    The reason is MQRC_PROPERTY_NAME_ERROR, MQRC_PROPERTY_TYPE_ERROR or
    MQRC_PROP_NUMBER_FORMAT_ERROR.
    """
    check_name(name)
    allowed = _OWN_TYPES.get(name)
    if allowed is not None and kind not in allowed:
        raise EveryplaceError(
            rc.MQRC_PROPERTY_TYPE_ERROR, f"{name} is {' or '.join(allowed)}, not {kind}"
        )
    limits = _RANGES.get(kind)
    if limits is None:
        not_ascii = kind is FieldType.ASCII and isinstance(value, str) and not value.isascii()
        if type(value) is not _CLASSES[kind] or not_ascii:
            raise EveryplaceError(rc.MQRC_PROPERTY_TYPE_ERROR, f"{name}: {value!r} is no {kind}")
        return
    low, high = (0, HIGHEST_PRIORITY) if name == MSG_PRIORITY else limits
    if type(value) is not int or not low <= value <= high:
        raise EveryplaceError(
            rc.MQRC_PROP_NUMBER_FORMAT_ERROR, f"{name}: {value!r} is no {kind}: {low} .. {high}"
        )


def check_message(fields: object) -> None:
    """Raise MQRC_FORMAT_ERROR unless the value is an instance of MessageFields."""
    if not isinstance(fields, MessageFields):
        raise EveryplaceError(rc.MQRC_FORMAT_ERROR, f"fields {fields!r} is no MessageFields")


def check_uid(uid: object) -> None:
    """Raise MQRC_OPTIONS_ERROR unless the value is a MessageUid."""
    if not isinstance(uid, MessageUid):
        raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"uid {uid!r} is no MessageUid")


#: The field for the body of an MQ message that is not of Everyplace's types.
MQ_DATA = "MQ_Data"


def fields_as_body(message: MessageFields) -> bytes:
    """Return a message as JSON for the body of an MQ message, its identity included."""
    fields = {name: [kind, _json_of(value)] for name, (kind, value) in message.fields().items()}
    return json.dumps({"uid": message.uid, "fields": fields}).encode()


def fields_of_body(body: bytes) -> MessageFields:
    """Return the message in a body that ``fields_as_body`` has written.

    Raises EveryplaceError with MQRC_FORMAT_ERROR for any other body.
    """
    try:
        uid, fields = _parsed(body)
        _check_numbers(uid)
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        EveryplaceError,
    ) as error:
        raise EveryplaceError(
            rc.MQRC_FORMAT_ERROR, f"body {body[:40]!r} holds no Everyplace fields: {error!r}"
        ) from error
    return restored(uid, fields)


def fields_of_row(body: bytes) -> MessageFields:
    """Return the message in a row of the folder; it was put, so its ``was_put`` is True."""
    message = restored(*_parsed(body))
    message.was_put = True
    return message


def _parsed(body: bytes) -> tuple[MessageUid, dict[str, TypedField]]:
    """Return identity and fields from the JSON of a message.

    Raises ValueError, KeyError, TypeError, AttributeError or EveryplaceError for other content.
    """
    content: dict[str, Any] = json.loads(body)
    fields = {name: _field_of(name, *field) for name, field in content["fields"].items()}
    return MessageUid(*content["uid"]), fields


def _check_numbers(uid: MessageUid) -> None:
    """Raise ValueError unless origin and numbers of an identity from outside are valid."""
    origin, *numbers = uid
    if type(origin) is not str:
        raise ValueError(f"origin {origin!r}")
    for value in numbers:
        if type(value) is not int or not 0 <= value <= LONG_RANGE[1]:
            raise ValueError(f"uid number {value!r} is not within 0 .. {LONG_RANGE[1]}")


def _field_of(name: str, kind_name: str, value: Any) -> TypedField:
    """Return a field from its JSON form.

    Raises ValueError or EveryplaceError for an invalid one.
    """
    kind = FieldType(kind_name)
    if kind is FieldType.BYTES:
        value = base64.b64decode(value, validate=True)
    check_field(name, kind, value)
    return TypedField(kind, value)


def _json_of(value: object) -> object:
    """Return a value for JSON: bytes as a base64 text, all else unchanged."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
