"""Codec for AMQP: values, message sections and errors, as bytes and as Python objects.

proton's codec does the work. Its C functions are called directly, because its Python classes take
twice as long for a message. A value of a scalar AMQP type is a :class:`Scalar`, so that an integer
keeps its width. An error has a condition, such as amqp:not-found, and a description.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import cproton as p
import proton
from proton import Condition, Data

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error

DECODE_ERROR: Final = "amqp:decode-error"
FRAMING_ERROR: Final = "amqp:connection:framing-error"
FORCED: Final = "amqp:connection:forced"
INTERNAL_ERROR: Final = "amqp:internal-error"
INVALID_FIELD: Final = "amqp:invalid-field"
LIMIT_EXCEEDED: Final = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final = "amqp:not-allowed"
NOT_FOUND: Final = "amqp:not-found"
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
DELETED: Final = "amqp:resource-deleted"
LOCKED: Final = "amqp:resource-locked"
UNAUTHORIZED: Final = "amqp:unauthorized-access"
TOO_LARGE: Final = "amqp:link:message-size-exceeded"
UNATTACHED_HANDLE: Final = "amqp:session:unattached-handle"
HANDLE_IN_USE: Final = "amqp:session:handle-in-use"
UNKNOWN_TRANSACTION: Final = "amqp:transaction:unknown-id"
ROLLED_BACK: Final = "amqp:transaction:rollback"

#: Conditions for which clients have a specific exception; every other reason code becomes
#: amqp:not-allowed.
CONDITIONS: Final = {
    rc.MQRC_NOT_AUTHORIZED: UNAUTHORIZED,
    rc.MQRC_IDENTITY_MISMATCH: UNAUTHORIZED,
    rc.MQRC_UNKNOWN_OBJECT_NAME: NOT_FOUND,
    rc.MQRC_UNKNOWN_ALIAS_BASE_Q: NOT_FOUND,
    rc.MQRC_UNKNOWN_REMOTE_Q_MGR: NOT_FOUND,
    rc.MQRC_UNKNOWN_DEF_XMIT_Q: NOT_FOUND,
    rc.MQRC_NO_SUBSCRIPTION: NOT_FOUND,
    rc.MQRC_OBJECT_NAME_ERROR: NOT_FOUND,
    rc.MQRC_TOPIC_STRING_ERROR: INVALID_FIELD,
    rc.MQRC_SELECTOR_SYNTAX_ERROR: INVALID_FIELD,
    rc.MQRC_EXPIRY_ERROR: INVALID_FIELD,
    rc.MQRC_Q_FULL: LIMIT_EXCEEDED,
    rc.MQRC_STORAGE_MEDIUM_FULL: LIMIT_EXCEEDED,
    rc.MQRC_RESOURCE_PROBLEM: LIMIT_EXCEEDED,
    rc.MQRC_CHANNEL_NOT_AVAILABLE: LIMIT_EXCEEDED,
    rc.MQRC_HANDLE_NOT_AVAILABLE: LIMIT_EXCEEDED,
    rc.MQRC_MSG_TOO_BIG_FOR_Q: LIMIT_EXCEEDED,
    rc.MQRC_MSG_TOO_BIG_FOR_Q_MGR: LIMIT_EXCEEDED,
    rc.MQRC_PROPERTIES_TOO_BIG: LIMIT_EXCEEDED,
    rc.MQRC_OBJECT_IN_USE: LOCKED,
    rc.MQRC_SUBSCRIPTION_IN_USE: LOCKED,
    rc.MQRC_SUB_ALREADY_EXISTS: LOCKED,
    rc.MQRC_Q_DELETED: DELETED,
    rc.MQRC_CONNECTION_BROKEN: FORCED,
    rc.MQRC_Q_MGR_STOPPING: FORCED,
    rc.MQRC_Q_MGR_QUIESCING: FORCED,
    rc.MQRC_UNEXPECTED_ERROR: INTERNAL_ERROR,
}


class AmqpError(Exception):
    """An AMQP error to send to the client."""

    def __init__(
        self, condition: str, description: str, info: Mapping[proton.symbol, Any] | None = None
    ) -> None:
        """Take the condition and its description; ``info`` is a map for client programs."""
        super().__init__(description)
        self.condition, self.description, self.info = condition, description, info

    def as_condition(self) -> Condition:
        """Return the error as proton's class ``Condition``."""
        return Condition(self.condition, self.description, self.info)


def wrong_field(reason: int, text: str) -> AmqpError:
    """Return AmqpError amqp:invalid-field, with an MQ reason code in the description."""
    return AmqpError(INVALID_FIELD, str(mq_error(reason, text)))


def amqp_error(error: MQError | AmqpError) -> AmqpError:
    """Return an MQError as an AmqpError, whose description begins with the reason code.

    The condition is in CONDITIONS, otherwise amqp:not-allowed. An AmqpError is returned unchanged.
    """
    if isinstance(error, AmqpError):
        return error
    condition = CONDITIONS.get(error.reason, NOT_ALLOWED)
    return AmqpError(condition, str(error))


HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
FOOTER: Final = 0x78
_ORDER = (
    HEADER,
    DELIVERY_ANNOTATIONS,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    APPLICATION_PROPERTIES,
    DATA,
    SEQUENCE,
    VALUE,
    FOOTER,
)
_PLACES: Final = {code: place for place, code in enumerate(_ORDER)}
_REPEATED = (DATA, SEQUENCE)
#: Sections that are the same in most messages of a client; their bytes are decoded once.
_SHARED_SECTIONS = (HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS)
_SHORT_BYTES, _MAX_KNOWN = 128, 256
#: Maps and lists within each other; a message with more is refused.
_DEEPEST = 32
_FIRST_BYTES = 1024
#: The front of a body is cached by the length of the body, up to this length.
LONGEST_KNOWN_BYTES: Final = 16 * 1024

Value: TypeAlias = "Scalar | list[Value] | Mapping[Value, Value] | Described | Array | None"


class Scalar(NamedTuple):
    """One value with its AMQP type, a ``Data`` constant such as ``Data.UINT``."""

    type: int
    value: Any


class Described(NamedTuple):
    """An AMQP described value: a value and its descriptor."""

    descriptor: Value
    value: Value


class Array(NamedTuple):
    """Values of one AMQP type, a ``Data`` constant, or of one described type.

    ``descriptor`` is a list with the descriptor, which may be None; it is empty for a plain type.
    """

    type: int
    descriptor: list[Value]
    values: list[Value]


class Section(NamedTuple):
    """One section of a message, such as the header, by its descriptor code.

    ``value`` is never changed.
    """

    code: int
    value: Value


_known: dict[bytes, Section] = {}
#: Data objects of proton that are not in use; making one takes longer than using it.
_spares: list[Data] = []


@contextmanager
def _spare_data() -> Iterator[Any]:
    """Yield a proton ``Data`` object, reused from a pool; its content is undefined.

    Any thread may call it.
    """
    try:
        data = _spares.pop()
    except IndexError:
        data = Data()
    try:
        yield data._data
    finally:
        _spares.append(data)


def _char(data: Any) -> str:
    """Return the current character of a Data object.

    Raises UnicodeEncodeError for a lone surrogate.
    """
    found = chr(p.pn_data_get_char(data))
    found.encode()
    return found


#: Types whose values proton takes and gives as Python has them.
_SAME_IN_PYTHON = (
    "bool ubyte byte ushort short uint int ulong long timestamp float double"
    " decimal32 decimal64 decimal128 uuid string symbol".split()
)
_GET: Final[Mapping[int, Callable[[Any], Any]]] = {
    **{getattr(Data, n.upper()): getattr(p, f"pn_data_get_{n}") for n in _SAME_IN_PYTHON},
    Data.CHAR: _char,
    Data.BINARY: lambda data: bytes(p.pn_data_get_binary(data)),
}
_PUT: Final[Mapping[int, Callable[[Any, Any], Any]]] = {
    **{getattr(Data, n.upper()): getattr(p, f"pn_data_put_{n}") for n in _SAME_IN_PYTHON},
    Data.CHAR: lambda data, value: p.pn_data_put_char(data, ord(value)),
    Data.BINARY: p.pn_data_put_binary,
}


def text(value: str) -> Scalar:
    """Return an AMQP string value."""
    return Scalar(Data.STRING, value)


def symbol(value: str) -> Scalar:
    """Return an AMQP symbol value."""
    return Scalar(Data.SYMBOL, value)


def symbols(values: Sequence[str]) -> Value:
    """Return an AMQP array of symbols."""
    return Array(Data.SYMBOL, [], [symbol(value) for value in values])


def decoded(raw: bytes) -> list[Section]:
    """Decode the bytes of a message to its sections.

    Raises AmqpError amqp:decode-error for malformed bytes, and for sections that are repeated or
    out of the order of the specification.
    """
    sections: list[Section] = []
    with _spare_data() as data:
        rest, last = memoryview(raw), -1
        while rest:
            p.pn_data_clear(data)
            used = p.pn_data_decode(data, rest)
            if used <= 0:
                raise AmqpError(DECODE_ERROR, "a section of the message is malformed")
            section = _section_of(data, rest[:used])
            rest = rest[used:]
            place = _PLACES[section.code]
            if place < last or (place == last and section.code not in _REPEATED):
                raise AmqpError(DECODE_ERROR, f"section {section.code:#x} stands in a wrong place")
            last = place
            sections.append(section)
    return sections


def encoded(sections: Sequence[Section], *, size_bytes: int = 0) -> bytes:
    """Encode sections to the bytes of a message.

    ``size_bytes`` is the expected length; a wrong value only costs time.
    """
    with _spare_data() as data:
        p.pn_data_clear(data)
        for code, value in sections:
            p.pn_data_put_described(data)
            p.pn_data_enter(data)
            p.pn_data_put_ulong(data, code)
            _put(data, value)
            p.pn_data_exit(data)
        return _encoded(data, size_bytes + _FIRST_BYTES)


@lru_cache(maxsize=1024)
def body_front(length_bytes: int, *, is_text: bool) -> bytes:
    """Return the encoded bytes before the data of a body with ``length_bytes`` of data.

    The body is one AMQP string if ``is_text``, otherwise one data section.
    """
    if is_text:
        section = Section(VALUE, text("x" * length_bytes))
    else:
        section = Section(DATA, Scalar(Data.BINARY, bytes(length_bytes)))
    message = encoded([section], size_bytes=length_bytes)
    return message[: len(message) - length_bytes]


def body_behind(raw: bytes, place: int, *, is_text: bool) -> bytes | None:
    """Return the data of a body that fills ``raw`` from index ``place`` to the end.

    With ``is_text`` the body must be one string, otherwise one data section. Returns None for
    another body, for one of more than 16 KiB, and for a string with wrong UTF-8.
    """
    rest_bytes = len(raw) - place
    if rest_bytes > LONGEST_KNOWN_BYTES:
        return None
    front = _front_of_section(rest_bytes, is_text=is_text)
    if front is None or not raw.startswith(front, place):
        return None
    body = raw[place + len(front) :]
    if is_text:
        try:
            body.decode()
        except UnicodeDecodeError:
            return None
    return body


@lru_cache(maxsize=1024)
def _front_of_section(section_bytes: int, *, is_text: bool) -> bytes | None:
    """Return the bytes before the data in a body section of ``section_bytes``.

    The data are text if ``is_text``, otherwise bytes. Returns None if no body has this length.
    """
    for length in (0, _SHORT_BYTES * 2):
        # AMQP has a short form and a long one.
        front_bytes = len(body_front(length, is_text=is_text))
        if section_bytes >= front_bytes:
            front = body_front(section_bytes - front_bytes, is_text=is_text)
            if len(front) == front_bytes:
                return front
    return None


def encoded_value(value: Value) -> bytes:
    """Encode one AMQP value to bytes."""
    with _spare_data() as data:
        p.pn_data_clear(data)
        _put(data, value)
        return _encoded(data, _FIRST_BYTES)


def _encoded(data: Any, size_bytes: int) -> bytes:
    """Return the encoded content of a Data object.

    ``size_bytes`` is the first size of the buffer; if it is too small, a larger one is tried.
    """
    while True:
        count, raw = p.pn_data_encode(data, size_bytes)
        if count >= 0:
            return bytes(raw)
        size_bytes *= 8


def decoded_value(raw: bytes) -> Value:
    """Decode bytes that hold exactly one AMQP value.

    Raises AmqpError amqp:decode-error for others.
    """
    with _spare_data() as data:
        p.pn_data_clear(data)
        if p.pn_data_decode(data, raw) != len(raw):
            raise AmqpError(DECODE_ERROR, "a value is malformed")
        p.pn_data_rewind(data)
        p.pn_data_next(data)
        return _checked_value(data)


def plain(value: Value) -> Any:
    """Convert a value to plain Python without AMQP types; ``Scalar(Data.UINT, 5)`` -> ``5``.

    Arrays become lists; a described value loses its descriptor; null becomes None.
    """
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, Described):
        return plain(value.value)
    if isinstance(value, Array):
        return [plain(part) for part in value.values]
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, Mapping):
        return {plain(key): plain(part) for key, part in value.items()}
    return None


def _section_of(data: Any, raw: memoryview) -> Section:
    """Return the section that a Data object holds; ``raw`` are the bytes from which it was decoded.

    Short sections that repeat come from a cache. Raises AmqpError amqp:decode-error for another
    value.
    """
    if len(raw) > _SHORT_BYTES:
        return _section(data)
    key = bytes(raw)
    known = _known.get(key)
    if known is None:
        known = _section(data)
        if known.code in _SHARED_SECTIONS:
            if len(_known) >= _MAX_KNOWN:
                _known.clear()
            _known[key] = known
    return known


def _section(data: Any) -> Section:
    """Return the section that a Data object holds.

    Raises AmqpError amqp:decode-error if it is none.
    """
    p.pn_data_rewind(data)
    p.pn_data_next(data)
    if p.pn_data_type(data) != Data.DESCRIBED:
        raise AmqpError(DECODE_ERROR, "a section of the message has no descriptor")
    p.pn_data_enter(data)
    p.pn_data_next(data)
    code = plain(_checked_value(data))
    if not isinstance(code, int) or code not in _PLACES:
        raise AmqpError(DECODE_ERROR, f"{code!r} is no section of a message")
    p.pn_data_next(data)
    return Section(code, _checked_value(data))


def _checked_value(data: Any) -> Value:
    """Return the current value of a Data object; raises AmqpError amqp:decode-error."""
    try:
        return _value(data, 0)
    except (UnicodeDecodeError, ValueError, OverflowError) as error:
        raise AmqpError(DECODE_ERROR, f"a value is malformed: {error}") from None


def _value(data: Any, depth: int) -> Value:
    """Return the current value of a Data object, which is nested ``depth`` levels deep.

    Raises AmqpError amqp:decode-error for more than 32 levels or an unknown type, and ValueError
    for a malformed scalar.
    """
    kind = p.pn_data_type(data)
    getter = _GET.get(kind)
    if getter is not None:
        return Scalar(kind, getter(data))
    if kind == Data.NULL:
        return None
    if depth >= _DEEPEST:
        raise AmqpError(DECODE_ERROR, f"values are nested more than {_DEEPEST} deep")
    if kind == Data.DESCRIBED:
        descriptor, value = _children(data, 2, depth)
        return Described(descriptor, value)
    if kind == Data.LIST:
        return _children(data, p.pn_data_get_list(data), depth)
    if kind == Data.MAP:
        found = _children(data, p.pn_data_get_map(data), depth)
        return dict(zip(map(_key, found[::2]), found[1::2], strict=True))
    if kind == Data.ARRAY:
        return _array(data, depth)
    raise AmqpError(DECODE_ERROR, f"values of AMQP type {kind} are not taken")


def _children(data: Any, count: int, depth: int) -> list[Value]:
    """Return the ``count`` values inside the current list, map, array or described value.

    ``depth`` is the number of levels around the current value.
    """
    p.pn_data_enter(data)
    found: list[Value] = []
    for _ in range(count):
        p.pn_data_next(data)
        found.append(_value(data, depth + 1))
    p.pn_data_exit(data)
    return found


def _array(data: Any, depth: int) -> Array:
    """Return the current array of a Data object, with its descriptor if it has one.

    ``depth`` is the number of levels around it.
    """
    count, kind = p.pn_data_get_array(data), p.pn_data_get_array_type(data)
    is_described = bool(p.pn_data_is_array_described(data))
    found = _children(data, count + is_described, depth)
    return Array(kind, found[:is_described], found[is_described:])


def _key(value: Value) -> Value:
    """Return a map key unchanged; raises AmqpError if it contains a list, map or array."""
    try:
        hash(value)
    except TypeError:
        raise AmqpError(DECODE_ERROR, "the key of a map is no scalar") from None
    return value


def _put(data: Any, value: Value) -> None:
    """Append a value to a Data object."""
    # Most values are scalars, absent fields and sections: this order takes a third less time.
    if isinstance(value, Scalar):
        _PUT[value[0]](data, value[1])
    elif value is None:
        p.pn_data_put_null(data)
    elif isinstance(value, list):
        p.pn_data_put_list(data)
        p.pn_data_enter(data)
        for part in value:
            # The fields of a section, most of them absent: a call less for each.
            if part is None:
                p.pn_data_put_null(data)
            else:
                _put(data, part)
        p.pn_data_exit(data)
    elif isinstance(value, Described):
        p.pn_data_put_described(data)
        p.pn_data_enter(data)
        _put(data, value.descriptor)
        _put(data, value.value)
        p.pn_data_exit(data)
    elif isinstance(value, Array):
        p.pn_data_put_array(data, bool(value.descriptor), value.type)
        p.pn_data_enter(data)
        for part in (*value.descriptor, *value.values):
            _put(data, part)
        p.pn_data_exit(data)
    else:
        p.pn_data_put_map(data)
        p.pn_data_enter(data)
        for key, part in value.items():
            _put(data, key)
            _put(data, part)
        p.pn_data_exit(data)
