"""Every type of AMQP in bodies, keys, annotations and properties: accepted as it is, or rejected.

Names of tests begin with the section of AMQP 1.0 that has the type, and say the outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from proton import Data, Delivery

from mayfly import QueueManager, jms
from mayfly.servers.amqp import codec
from mayfly.servers.amqp.codec import Array, Described, Scalar, Section, Value, symbol, text
from tests.servers.amqp.client import Client

New = Callable[..., Client]
CHAR = Scalar(Data.CHAR, "x")
NUMBERS: list[Value] = [Scalar(Data.INT, number) for number in range(3)]
KIND = "x-opt-jms-msg-type"
#: Values whose types the server has to give back: section of AMQP -> value.
VALUES: dict[str, Value] = {
    "1.6.13": Scalar(Data.DECIMAL32, 0x22500001),
    "1.6.14": Scalar(Data.DECIMAL64, 0x2238000000000001),
    "1.6.15": Scalar(Data.DECIMAL128, bytes(range(16))),
    "1.6.16": CHAR,
    "1.6.16 beyond the first plane": Scalar(Data.CHAR, "\U0001f600"),
    "1.6.22": [CHAR, [None]],
    "1.6.23": {CHAR: Scalar(Data.INT, 1)},
    "1.6.24": Array(Data.INT, [], NUMBERS),
    "1.6.24 empty": Array(Data.STRING, [], []),
    "1.6.24 of arrays": Array(Data.ARRAY, [], [Array(Data.CHAR, [], [CHAR])]),
    "1.6.24 of a described type": Array(Data.INT, [symbol("n")], NUMBERS),
    "1.3.1 described": Described(symbol("point"), [CHAR, Array(Data.INT, [], NUMBERS)]),
}


def of_value(value: Value, *front: Section) -> bytes:
    """Return a message with a value as body."""
    return codec.encoded([*front, Section(codec.VALUE, value)])


def annotated(kind: int, value: Value) -> bytes:
    """Return a message of JMS."""
    annotations: Value = {symbol(KIND): Scalar(Data.BYTE, kind)}
    return of_value(value, Section(codec.MESSAGE_ANNOTATIONS, annotations))


def put(one: Client, raw: bytes) -> Delivery:
    return one.send(one.sender("Q1"), raw)


def sections(one: Client) -> dict[int, Value]:
    """Return the sections of the next message, by their codes."""
    receiver = one.receiver("Q1", credit=1)
    one.until(lambda: (found := receiver.current) is not None and found.readable)
    raw = receiver.recv(100_000)
    assert raw is not None
    return {section.code: section.value for section in codec.decoded(bytes(raw))}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_1_6_a_body_of_any_type_is_accepted_and_comes_back(client: New, value: Value) -> None:
    one = client()
    assert put(one, of_value(value)).remote_state == Delivery.ACCEPTED
    assert sections(one)[codec.VALUE] == value


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_3_2_3_an_annotation_of_any_type_is_accepted_and_comes_back(
    client: New, value: Value
) -> None:
    one = client()
    front = Section(codec.MESSAGE_ANNOTATIONS, {symbol("x-opt-mine"): value})
    assert put(one, of_value(text("x"), front)).remote_state == Delivery.ACCEPTED
    found = sections(one)[codec.MESSAGE_ANNOTATIONS]
    assert isinstance(found, dict)
    assert found[symbol("x-opt-mine")] == value


@pytest.mark.parametrize("name", ["letter", "x-letter"])
def test_3_2_5_an_application_property_of_type_char_is_accepted_and_comes_back(
    client: New, name: str
) -> None:
    one = client()
    front = Section(codec.APPLICATION_PROPERTIES, {text(name): CHAR})
    assert put(one, of_value(text("x"), front)).remote_state == Delivery.ACCEPTED
    assert sections(one)[codec.APPLICATION_PROPERTIES] == {text(name): CHAR}


KEYS: dict[str, Value] = {
    "list": [CHAR],
    "map": {CHAR: CHAR},
    "array": Array(Data.INT, [], NUMBERS),
    "described-list": Described(symbol("point"), [CHAR]),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("place", ["body", "annotations", "properties", "key of a key"])
def test_1_6_23_a_key_that_is_no_scalar_is_rejected_with_decode_error(
    client: New, key: Value, place: str
) -> None:
    one = client()
    raw = of_map(key, place)
    outcome = put(one, raw)
    assert outcome.remote_state == Delivery.REJECTED
    assert outcome.remote.condition is not None
    assert outcome.remote.condition.name == "amqp:decode-error"
    assert put(one, of_value(CHAR)).remote_state == Delivery.ACCEPTED


def of_map(key: Value, place: str) -> bytes:
    """Return a message with a map of one key, which the codec itself would not read."""
    entry = b"".join((codec.encoded_value(key), codec.encoded_value(CHAR)))
    if place == "key of a key":
        entry = b"\x00" + codec.encoded_value(CHAR) + entry_map(entry) + codec.encoded_value(CHAR)
    described = {"annotations": b"\x00\x53\x72", "properties": b"\x00\x53\x74"}
    body = of_value(text("x"))
    if place in described:
        return described[place] + entry_map(entry) + body
    return b"\x00\x53\x77" + entry_map(entry)


def entry_map(entry: bytes) -> bytes:
    """Return a map of one entry."""
    return b"\xd1" + (len(entry) + 4).to_bytes(4, "big") + (2).to_bytes(4, "big") + entry


def test_1_6_16_half_of_a_surrogate_pair_is_rejected_with_decode_error(client: New) -> None:
    outcome = put(client(), b"\x00\x53\x77\x73\x00\x00\xd8\x00")
    assert outcome.remote.condition is not None
    assert outcome.remote.condition.name == "amqp:decode-error"


REFUSED: dict[str, Section] = {
    "3.2.3-annotation-name": Section(
        codec.MESSAGE_ANNOTATIONS, {text("x-opt-\u00fc"): Scalar(Data.INT, 1)}
    ),
    "3.2.4-content-type": Section(codec.PROPERTIES, [*[None] * 6, text("t\u00fc/x")]),
    "3.2.4-content-encoding": Section(codec.PROPERTIES, [*[None] * 7, text("\u00fc")]),
    "3.2.4-group-sequence": Section(
        codec.PROPERTIES, [*[None] * 11, Scalar(Data.ULONG, 2**64 - 1)]
    ),
    "report": Section(
        codec.MESSAGE_ANNOTATIONS, {symbol("x-opt-mq-report"): Scalar(Data.ULONG, 2**40)}
    ),
}


@pytest.mark.parametrize("front", REFUSED.values(), ids=REFUSED)
def test_3_2_a_field_that_cannot_go_out_again_is_rejected_with_invalid_field(
    client: New, front: Section
) -> None:
    outcome = put(client(), of_value(text("x"), front))
    assert outcome.remote_state == Delivery.REJECTED
    assert outcome.remote.condition is not None
    assert outcome.remote.condition.name == "amqp:invalid-field"


def test_3_2_3_a_kind_of_reply_address_that_is_none_is_accepted(client: New) -> None:
    front = [
        Section(codec.MESSAGE_ANNOTATIONS, {symbol("x-opt-jms-reply-to"): [CHAR]}),
        Section(codec.PROPERTIES, [*[None] * 4, text("Q1")]),
    ]
    one = client()
    assert put(one, of_value(text("x"), *front)).remote_state == Delivery.ACCEPTED
    fields: Any = sections(one)[codec.PROPERTIES]
    assert fields[4] == text("Q1")


def received(qm: QueueManager) -> jms.Message:
    with jms.ConnectionFactory(qm).create_connection() as connection:
        connection.start()
        session = connection.create_session()
        message = session.create_consumer(session.create_queue("Q1")).receive_no_wait()
        assert message is not None
        return message


def test_a_char_of_a_map_message_stays_a_char(qm: QueueManager, client: New) -> None:
    one = client()
    body: Value = {text("letter"): CHAR, text("word"): text("x")}
    for _ in range(2):
        assert put(one, annotated(2, body)).remote_state == Delivery.ACCEPTED
    assert sections(one)[codec.VALUE] == body
    one.close()
    message = received(qm)
    assert isinstance(message, jms.MapMessage)
    assert message.get_char("letter") == "x"
    with pytest.raises(jms.MessageFormatException):
        message.get_char("word")


def test_a_char_of_a_stream_message_stays_a_char(client: New) -> None:
    one = client()
    put(one, annotated(4, [CHAR, text("x")]))
    assert sections(one)[codec.VALUE] == [CHAR, text("x")]


@pytest.mark.parametrize("sent", [None, text("")], ids=["null", "empty"])
def test_a_text_message_without_text_is_null_and_an_empty_one_is_empty(
    qm: QueueManager, client: New, sent: Value
) -> None:
    one = client()
    for _ in range(2):
        put(one, annotated(5, sent))
    found = sections(one)
    assert codec.VALUE in found
    assert found[codec.VALUE] == sent
    one.close()
    message = received(qm)
    assert isinstance(message, jms.TextMessage)
    assert message.text == (None if sent is None else "")


@pytest.mark.parametrize("sent", [None, ""], ids=["null", "empty"])
def test_a_text_message_of_JMS_without_text_leaves_as_null(
    qm: QueueManager, client: New, sent: str | None
) -> None:
    with jms.ConnectionFactory(qm).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(session.create_queue("Q1"))
        producer.send(session.create_text_message(sent))
    assert sections(client())[codec.VALUE] == (None if sent is None else text(sent))
