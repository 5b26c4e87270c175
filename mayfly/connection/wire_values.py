"""Results of verbs as rows of the wire, and back: both ends of a remote connection use it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from mayfly.connection.interface import Opened
from mayfly.connection.topics import Subscribed
from mayfly.connection.values import (
    Delivery,
    GetResult,
    Message,
    Property,
    PropertyDescription,
    PutResult,
    SubscriptionFacts,
    Whereabouts,
)
from mayfly.contracts.wire_rows import packed_descriptor
from mayfly.engine import Stay, Step, StoriesFound
from mayfly.engine.face.programs import Handed, row_of
from mayfly.lifetime.window import Window
from mayfly.mqi.descriptor import pack_descriptor, unpack_descriptor
from mayfly.mqi.errors import Failure, MQError, error_of, failure_of
from mayfly.mqi.properties import Typed
from mayfly.mqsc.result import CommandResult, MqscResult
from mayfly.mqsc.result import Message as Reply
from mayfly.store.units import StoredMessage


@lru_cache(maxsize=1_024)
def _travelling(stored_descriptor: bytes) -> bytes:
    return packed_descriptor(unpack_descriptor(stored_descriptor))


def row_of_message(message: Message) -> list[Any]:
    """Return a message as it travels."""
    row = row_of(message)
    return [
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
    ]


def message_of_row(values: list[Any]) -> Message:
    """Return the message that has travelled so."""
    queue, seen_ms, position, put_ms, deliver_at_ms, expire_at_ms, backout_count = values[:7]
    msg_id, correl_id, descriptor, topic, body = values[7:]
    stored = StoredMessage(
        position,
        put_ms,
        deliver_at_ms,
        expire_at_ms,
        None,
        None,
        backout_count,
        msg_id,
        correl_id,
        None,
        pack_descriptor(descriptor),
        b"",
        topic,
    )
    return Message(queue, stored, seen_ms, body)


def rows_of_properties(properties: Iterable[Property]) -> list[list[Any]]:
    """Return properties as they travel."""
    return [[name, typed.dt, typed.value, *description] for name, typed, description in properties]


def properties_of_rows(rows: Iterable[Sequence[Any]]) -> list[Property]:
    """Return the properties that have travelled so."""
    return [
        Property(name, Typed(dt, value), PropertyDescription(*described))
        for name, dt, value, *described in rows
    ]


def row_of_result(result: GetResult) -> list[Any]:
    """Return the result of a get as it travels."""
    handed, failure = result.handed, result.failure
    return [
        row_of_message(result.message),
        result.warning,
        result.data_length,
        None
        if handed is None
        else [rows_of_properties(handed.properties), row_of_message(handed.original)],
        None if failure is None else failure_of(failure),
    ]


def result_of_row(values: list[Any]) -> GetResult:
    """Return what has travelled so."""
    message, warning, data_length, handed, failure = values
    return GetResult(
        message_of_row(message),
        warning,
        data_length,
        None
        if handed is None
        else Handed(properties_of_rows(handed[0]), message_of_row(handed[1])),
        None if failure is None else error_of_row(failure),
    )


def error_of_row(values: list[Any]) -> MQError:
    """Return the error that has travelled as a failure."""
    return error_of(Failure(*values))


def row_of_delivery(delivery: Delivery) -> list[Any]:
    """Return a delivery as it travels."""
    return [delivery.number, row_of_result(delivery.result), delivery.handle]


def delivery_of_row(values: list[Any]) -> Delivery:
    """Return the delivery that has travelled so."""
    number, result, handle = values
    return Delivery(number, result_of_row(result), handle)


def row_of_put(result: PutResult | None) -> list[Any] | None:
    """Return the result of a put as it travels."""
    if result is None:
        return None
    msg_id, correl_id, descriptor, window, warning, queue, manager = result
    travelling = packed_descriptor(descriptor)
    return [msg_id, correl_id, travelling, window[:3], warning, queue, manager]


def put_of_row(values: list[Any] | None) -> PutResult | None:
    """Return what has travelled so."""
    if values is None:
        return None
    msg_id, correl_id, descriptor, window, warning, queue, manager = values
    return PutResult(msg_id, correl_id, descriptor, Window(*window), warning, queue, manager)


def opened_of_row(values: list[Any]) -> Opened:
    """Return the object that was opened."""
    return Opened(*values)


def subscribed_of_row(values: list[Any]) -> Subscribed:
    """Return the subscription that was made or resumed."""
    number, handle, facts = values
    return Subscribed(number, handle, SubscriptionFacts(*facts))


def whereabouts_of_row(values: list[Any]) -> Whereabouts:
    """Return the answer of WHY."""
    found = Whereabouts._make(values)
    return found._replace(
        steps=tuple(Step(*step) for step in found.steps),
        stays=tuple(Stay(*stay) for stay in found.stays),
        notes=tuple(found.notes),
    )


def stories_of_row(values: list[Any]) -> StoriesFound:
    """Return the answer of STORIES."""
    stories, is_cut, notes = values
    return StoriesFound(tuple(map(whereabouts_of_row, stories)), is_cut, tuple(notes))


def row_of_script(result: MqscResult) -> list[Any]:
    """Return the result of MQSC commands as it travels."""
    return [
        result.text,
        [
            [
                command.number,
                command.command,
                [[m.code, m.text, m.body, m.reason, m.line, m.column] for m in command.messages],
                [[[keyword, value] for keyword, value in row.items()] for row in command.rows],
            ]
            for command in result.commands
        ],
    ]


def script_of_row(values: list[Any]) -> MqscResult:
    """Return the result that has travelled so."""
    text, commands = values
    return MqscResult(
        text,
        tuple(
            CommandResult(
                number,
                command,
                tuple(Reply(*reply) for reply in replies),
                tuple(dict(row) for row in rows),
            )
            for number, command, replies, rows in commands
        ),
    )
