"""Messages, properties and results of puts and gets as they travel, and back."""

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
from mayfly.properties.folders import Description, Property
from mayfly.verbs.contracts.wire import (
    AT_MAX,
    Text,
    Whole,
    WrongFrame,
    decoded,
    descriptor_of,
    packed,
    packed_descriptor,
    shown,
)
from mayfly.verbs.messages import Delivery, GetResult, Handed, Message, PutResult, row_of

#: A number, a text, a flag, bytes or nil, as :func:`packed_scalar` makes it.
PackedScalar: TypeAlias = msgspec.Raw


@lru_cache(maxsize=1_024)
def _travelling(stored_descriptor: bytes) -> bytes:
    return packed_descriptor(unpack_descriptor(stored_descriptor))


def packed_scalar(value: object, text: str, reason: int) -> PackedScalar:
    """Return a scalar as it travels; raises the reason code for what cannot, called ``text``."""
    try:
        return msgspec.Raw(packed(value))
    except (ValueError, TypeError) as error:
        raise mq_error(reason, f"{text}: {error}") from None


def scalar_of(value: PackedScalar, field: str) -> Any:
    """Return a scalar that has travelled; raises WrongFrame for an array or anything else.

    ``field`` is the field that has it.
    """
    data = bytes(value)
    # Arrays, maps and extensions; a whole of them need not be decoded to be refused.
    if 0x80 <= data[0] <= 0x9F or data[0] in _NO_SCALARS:
        raise WrongFrame(
            f"{field}: an array or a map is no number, text, flag, bytes or nil", field
        )
    found = decoded(Any, data, field)
    if type(found) is int and found >= 2**63:
        raise WrongFrame(f"{field}: {shown(found)} is no whole number of 8 bytes", field)
    return found


_NO_SCALARS: Final = frozenset((0xC1, 0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8)) | frozenset(
    range(0xDC, 0xE0)
)


class PropertyRow(NamedTuple):
    """A property of a message."""

    name: Text
    dt: Text
    value: PackedScalar
    support: Whole
    context: Whole
    copy_options: Whole


#: The properties of a message.
Properties: TypeAlias = Annotated[list[PropertyRow], AT_MAX]


class MessageRow(NamedTuple):
    """A message as a get saw it."""

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


class _GotRow(NamedTuple):
    """A row of a message that has travelled."""

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


class HandedRow(NamedTuple):
    """The content of a message handle."""

    properties: list[PropertyRow]
    original: MessageRow


class GetRow(NamedTuple):
    """The result of a get or a browse."""

    message: MessageRow
    warning: int
    data_length: int
    handed: HandedRow | None
    failure: Failure | None


class DeliveryRow(NamedTuple):
    """A message that is held."""

    number: int
    result: GetRow
    handle: int


class WindowRow(NamedTuple):
    """The window of a message that was put."""

    put_ms: int
    deliver_at_ms: int
    expire_at_ms: int | None


class PutRow(NamedTuple):
    """The result of a put."""

    msg_id: bytes
    correl_id: bytes
    descriptor: bytes
    window: WindowRow
    warning: int
    queue: str
    manager: str


class FailedPut(NamedTuple):
    """One of several puts that has failed: its place among them, and why."""

    place: int
    failure: Failure


class PutsRow(NamedTuple):
    """Results of several puts in their order, none where nobody asks, and those that failed."""

    results: list[PutRow | None]
    failed: list[FailedPut]


def row_of_message(message: Message) -> MessageRow:
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
        _travelling(row.descriptor),
        row.topic,
        message.body,
    )


def message_of(row: MessageRow) -> Message:
    """Return the message that has travelled so."""
    got = _GotRow(
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
    """Return properties as they travel; raises MQRC_PROPERTY_TYPE_ERROR for what cannot."""
    wrong = "put.properties", rc.MQRC_PROPERTY_TYPE_ERROR
    return [
        PropertyRow(name, typed.dt, packed_scalar(typed.value, *wrong), *description)
        for name, typed, description in properties
    ]


def properties_of(rows: Sequence[PropertyRow]) -> list[Property]:
    """Return the properties that have travelled so; raises WrongFrame."""
    return [
        Property(
            row.name,
            Typed(row.dt, scalar_of(row.value, "properties")),
            Description(row.support, row.context, row.copy_options),
        )
        for row in rows
    ]


def row_of_result(result: GetResult) -> GetRow:
    handed, failure = result.handed, result.failure
    return GetRow(
        row_of_message(result.message),
        result.warning,
        result.data_length,
        None
        if handed is None
        else HandedRow(rows_of_properties(handed.properties), row_of_message(handed.original)),
        None if failure is None else failure_of(failure),
    )


def result_of(row: GetRow) -> GetResult:
    handed, failure = row.handed, row.failure
    return GetResult(
        message_of(row.message),
        row.warning,
        row.data_length,
        None
        if handed is None
        else Handed(properties_of(handed.properties), message_of(handed.original)),
        None if failure is None else error_of(failure),
    )


def row_of_delivery(delivery: Delivery) -> DeliveryRow:
    return DeliveryRow(delivery.number, row_of_result(delivery.result), delivery.handle)


def delivery_of(row: DeliveryRow) -> Delivery:
    return Delivery(row.number, result_of(row.result), row.handle)


def row_of_put(result: PutResult | None) -> PutRow | None:
    if result is None:
        return None
    msg_id, correl_id, descriptor, window, warning, queue, manager = result
    window_row = WindowRow(window.put_ms, window.deliver_at_ms, window.expire_at_ms)
    return PutRow(
        msg_id, correl_id, packed_descriptor(descriptor), window_row, warning, queue, manager
    )


def put_of(row: PutRow | None) -> PutResult | None:
    if row is None:
        return None
    msg_id, correl_id, descriptor, window, warning, queue, manager = row
    return PutResult(
        msg_id, correl_id, descriptor_of(descriptor), Window(*window), warning, queue, manager
    )


class Form(NamedTuple):
    """An answer as it travels: the type of its row, and what makes it and reads it."""

    row: Any
    of_answer: Callable[[Any], Any]
    answer_of: Callable[[Any], Any]


def _each(form: Form, rows: Any) -> Form:
    """Return the form of a list of answers of a form; ``rows`` is the type of its rows."""
    return Form(
        rows,
        lambda answers: [form.of_answer(answer) for answer in answers],
        lambda found: [form.answer_of(row) for row in found],
    )


_DELIVERY: Final = Form(DeliveryRow, row_of_delivery, delivery_of)
#: The forms of answers that do not travel as they are, by the type of the answer.
FORMS: Final[dict[Any, Form]] = {
    PutResult: Form(PutRow, row_of_put, put_of),
    PutResult | None: Form(PutRow | None, row_of_put, put_of),
    GetResult: Form(GetRow, row_of_result, result_of),
    Delivery: _DELIVERY,
    list[Delivery]: _each(_DELIVERY, list[DeliveryRow]),
    list[Message]: _each(Form(MessageRow, row_of_message, message_of), list[MessageRow]),
}
