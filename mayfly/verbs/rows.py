"""Rows: the wire forms of messages, properties and results, with conversions to and from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec

from mayfly.lifetime.window import Window
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import pack_descriptor, unpack_descriptor
from mayfly.mqi.errors import Failure, error_of, failure_of, mq_error
from mayfly.mqi.properties import Typed
from mayfly.verbs.contracts.wire import (
    BOUNDED,
    Int64,
    Text,
    WrongFrame,
    decoded,
    descriptor_of,
    packed,
    packed_descriptor,
    quoted,
)
from mayfly.verbs.messages import Delivery, GetResult, HandleContent, Message, PutResult, row_of
from mayfly.verbs.properties.folders import Description, Property

#: A number, a text, a flag, bytes or nil, as :func:`packed_scalar` makes it.
PackedScalar: TypeAlias = msgspec.Raw


@lru_cache(maxsize=1_024)
def _wire_descriptor(stored_descriptor: bytes) -> bytes:
    """Return a descriptor packed for the store as msgpack for the wire."""
    return packed_descriptor(unpack_descriptor(stored_descriptor))


def packed_scalar(value: object, name: str, reason: int) -> PackedScalar:
    """Return a number, text, flag, bytes or None as msgpack.

    Raises MQError with code ``reason`` for a value that msgpack cannot hold; ``name`` is its name
    in the error text.
    """
    try:
        return msgspec.Raw(packed(value))
    except (ValueError, TypeError) as error:
        raise mq_error(reason, f"{name}: {error}") from None


def scalar_of(value: PackedScalar, field: str) -> Any:
    """Return the number, text, flag, bytes or None in a received msgpack value.

    Raises WrongFrame for an array, a map or an extension, and for a number of more than 63 bits;
    ``field`` is the name of the wrong field in it.
    """
    data = bytes(value)
    # Arrays, maps and extensions are refused by their first byte.
    if 0x80 <= data[0] <= 0x9F or data[0] in _NO_SCALARS:
        raise WrongFrame(
            f"{field}: an array or a map is no number, text, flag, bytes or nil", field
        )
    found = decoded(Any, data, field)
    if type(found) is int and found >= 2**63:
        raise WrongFrame(f"{field}: {quoted(found)} is no whole number of 8 bytes", field)
    return found


_NO_SCALARS: Final = frozenset((0xC1, 0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8)) | frozenset(
    range(0xDC, 0xE0)
)


class PropertyRow(NamedTuple):
    """The wire form of a message property."""

    name: Text
    dt: Text
    value: PackedScalar
    support: Int64
    context: Int64
    copy_options: Int64


#: The properties of a message.
Properties: TypeAlias = Annotated[list[PropertyRow], BOUNDED]


class MessageRow(NamedTuple):
    """The wire form of a message; ``seen_ms`` is the time of its get, ms since 1970."""

    queue: str
    seen_ms: int
    position: int
    put_ms: int
    deliver_at_ms: int | None
    expire_at_ms: int | None
    backout_count: int
    msg_id: bytes
    correl_id: bytes
    descriptor: bytes
    topic: str | None
    body: bytes


class _ReceivedRow(NamedTuple):
    """The stored row (StoredRow) of a message that was received over the wire."""

    k: int
    put_ms: int
    deliver_at_ms: int | None
    expire_at_ms: int | None
    backout_count: int
    msg_id: bytes
    correl_id: bytes
    descriptor: bytes
    topic: str | None
    capped_by: str | None = None


class HandleContentRow(NamedTuple):
    """The wire form of the content of a message handle."""

    properties: list[PropertyRow]
    original: MessageRow


class GetRow(NamedTuple):
    """The wire form of the result of a get or a browse."""

    message: MessageRow
    warning: int
    data_length: int
    content: HandleContentRow | None
    failure: Failure | None


class DeliveryRow(NamedTuple):
    """The wire form of a delivery, a message that is held for a program."""

    number: int
    result: GetRow
    handle: int


class WindowRow(NamedTuple):
    """The wire form of the put, delivery and expiry time of a message: ms since 1970."""

    put_ms: int
    deliver_at_ms: int
    expire_at_ms: int | None


class PutRow(NamedTuple):
    """The wire form of the result of a put."""

    msg_id: bytes
    correl_id: bytes
    descriptor: bytes
    window: WindowRow
    warning: int
    queue: str
    manager: str


class FailedPut(NamedTuple):
    """A failed put among several: its index (from 0) in the request, and the error."""

    place: int
    failure: Failure


class PutsRow(NamedTuple):
    """The results of several puts in their order, and the failed ones.

    ``results`` is empty for puts whose sender does not want results.
    """

    results: list[PutRow | None]
    failed: list[FailedPut]


def row_of_message(message: Message) -> MessageRow:
    """Return the wire form of a message."""
    row = row_of(message)
    return MessageRow(
        message.queue,
        message.seen_ms,
        row.k,
        row.put_ms,
        row.deliver_at_ms,
        row.expire_at_ms,
        row.backout_count,
        row.msg_id,
        row.correl_id,
        _wire_descriptor(row.descriptor),
        row.topic,
        message.body,
    )


def message_of(row: MessageRow) -> Message:
    """Return the message of a received row; raises WrongFrame for a malformed descriptor."""
    got = _ReceivedRow(
        row.position,
        row.put_ms,
        row.deliver_at_ms,
        row.expire_at_ms,
        row.backout_count,
        row.msg_id,
        row.correl_id,
        pack_descriptor(descriptor_of(row.descriptor)),
        row.topic,
    )
    return Message(row.queue, got, row.seen_ms, row.body)


def rows_of_properties(properties: Iterable[Property]) -> list[PropertyRow]:
    """Return the wire forms of properties; raises MQRC_PROPERTY_TYPE_ERROR for a wrong value."""
    wrong = "put.properties", rc.MQRC_PROPERTY_TYPE_ERROR
    return [
        PropertyRow(name, typed.dt, packed_scalar(typed.value, *wrong), *description)
        for name, typed, description in properties
    ]


def properties_of(rows: Sequence[PropertyRow]) -> list[Property]:
    """Return the properties of received rows; raises WrongFrame for a value that is no scalar."""
    return [
        Property(
            row.name,
            Typed(row.dt, scalar_of(row.value, "properties")),
            Description(row.support, row.context, row.copy_options),
        )
        for row in rows
    ]


def row_of_result(result: GetResult) -> GetRow:
    """Return the wire form of the result of a get."""
    content, failure = result.content, result.failure
    return GetRow(
        row_of_message(result.message),
        result.warning,
        result.data_length,
        None
        if content is None
        else HandleContentRow(
            rows_of_properties(content.properties), row_of_message(content.original)
        ),
        None if failure is None else failure_of(failure),
    )


def result_of(row: GetRow) -> GetResult:
    """Return the result of a get from its row; raises WrongFrame for a malformed row."""
    content, failure = row.content, row.failure
    return GetResult(
        message_of(row.message),
        row.warning,
        row.data_length,
        None
        if content is None
        else HandleContent(properties_of(content.properties), message_of(content.original)),
        None if failure is None else error_of(failure),
    )


def row_of_delivery(delivery: Delivery) -> DeliveryRow:
    """Return the wire form of a delivery."""
    return DeliveryRow(delivery.number, row_of_result(delivery.result), delivery.handle)


def delivery_of(row: DeliveryRow) -> Delivery:
    """Return the delivery of a row; raises WrongFrame for a malformed descriptor or property."""
    return Delivery(row.number, result_of(row.result), row.handle)


def row_of_put(result: PutResult | None) -> PutRow | None:
    """Return the wire form of the result of a put; None for None."""
    if result is None:
        return None
    msg_id, correl_id, descriptor, window, warning, queue, manager = result
    window_row = WindowRow(window.put_ms, window.deliver_at_ms, window.expire_at_ms)
    return PutRow(
        msg_id, correl_id, packed_descriptor(descriptor), window_row, warning, queue, manager
    )


def put_of(row: PutRow | None) -> PutResult | None:
    """Return the result of a put from its row, None for None; raises WrongFrame if malformed."""
    if row is None:
        return None
    msg_id, correl_id, descriptor, window, warning, queue, manager = row
    return PutResult(
        msg_id, correl_id, descriptor_of(descriptor), Window(*window), warning, queue, manager
    )


class WireForm(NamedTuple):
    """The wire form of an answer type: the type of its row, and conversions to the row and back."""

    row: Any
    of_answer: Callable[[Any], Any]
    answer_of: Callable[[Any], Any]


def _each(form: WireForm, rows: Any) -> WireForm:
    """Return the wire form for lists of answers, from ``form``, the wire form of one answer.

    ``rows`` is the type of a list of their rows.
    """
    return WireForm(
        rows,
        lambda answers: [form.of_answer(answer) for answer in answers],
        lambda found: [form.answer_of(row) for row in found],
    )


_DELIVERY: Final = WireForm(DeliveryRow, row_of_delivery, delivery_of)
#: The forms of answers that are converted to rows, by the type of the answer.
WIRE_FORMS: Final[dict[Any, WireForm]] = {
    PutResult: WireForm(PutRow, row_of_put, put_of),
    PutResult | None: WireForm(PutRow | None, row_of_put, put_of),
    GetResult: WireForm(GetRow, row_of_result, result_of),
    Delivery: _DELIVERY,
    list[Delivery]: _each(_DELIVERY, list[DeliveryRow]),
    list[Message]: _each(WireForm(MessageRow, row_of_message, message_of), list[MessageRow]),
}
