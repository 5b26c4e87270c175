"""What a link remembers of its messages changes nothing about the next one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import pytest
from proton import Data, Message, symbol

from mayfly.servers.amqp import codec
from mayfly.servers.amqp.codec import DECODE_ERROR, AmqpError, Scalar, Section
from mayfly.servers.amqp.incoming import Incoming, MessageReader

NOW_MS = 1_700_000_000_000
LONG = codec.LONGEST_KNOWN_BYTES


def raw(body: object = b"x", **fields: Any) -> bytes:
    return bytes(Message(body=body, inferred=isinstance(body, bytes), **fields).encode())


def alone(message: bytes, now_ms: int = NOW_MS) -> Incoming:
    """Return what a link reads that has seen no other message."""
    return MessageReader().read(message, now_ms)


def data(value: bytes) -> bytes:
    return codec.encoded([Section(codec.DATA, Scalar(Data.BINARY, value))])


KINDS: list[Callable[[object], bytes]] = [
    lambda body: raw(body, durable=True),
    lambda body: raw(body, durable=True, ttl=60),
    lambda body: raw(body, durable=True, id="m1", properties={"colour": "red"}),
    lambda body: raw(body, annotations={symbol("x-opt-delivery-delay"): 5}, subject="s"),
    lambda body: raw(body, annotations={symbol("x-opt-jms-msg-type"): 5}),
]


@pytest.mark.parametrize("bodies", list(product([b"data", "täxt"], repeat=2)))
def test_messages_of_two_kinds_in_turn_are_read_as_each_alone(bodies: tuple[object, ...]) -> None:
    for kinds in permutations(KINDS, 2):
        reader = MessageReader()
        for number in range(3):
            for kind, body in zip(kinds, bodies, strict=True):
                more = str(number) if isinstance(body, str) else b"%d" % number
                message = kind(body + more)  # type: ignore[operator]  # both are text, or both bytes
                assert reader.read(message, NOW_MS) == alone(message)


@pytest.mark.parametrize("body", [b"", ""])
def test_bodies_of_all_lengths_about_the_ends_of_a_form_are_read(body: bytes | str) -> None:
    reader = MessageReader()
    mark = "x" if isinstance(body, str) else b"x"
    lengths = [0, 1, 250, *range(253, 260), 5_000, *range(LONG - 9, LONG + 2), 3, 300]
    for length in lengths:
        long = mark * length
        found = reader.read(raw(long, durable=True), NOW_MS)
        assert found.body == (long.encode() if isinstance(long, str) else long)
        assert (found.descriptor.persistence, found.descriptor.format) == (
            1,
            "MQSTR" if isinstance(long, str) else "",
        )


def test_a_time_in_relation_to_now_is_reckoned_anew_for_each_message() -> None:
    later_ms = NOW_MS + 1_000
    at = raw(annotations={symbol("x-opt-delivery-time"): NOW_MS + 5_000})
    reader = MessageReader()
    assert [reader.read(at, now).delay_ms for now in (NOW_MS, later_ms)] == [5_000, 4_000]
    until = raw(expiry_time=(NOW_MS + 9_000) / 1_000)
    lives = [reader.read(until, now).time_to_live_ms for now in (NOW_MS, later_ms)]
    assert lives == [9_000, 8_000]
    # In relation to the client's clock they are the same at any moment.
    created = raw(
        expiry_time=(NOW_MS + 9_000) / 1_000,
        creation_time=NOW_MS / 1_000,
        annotations={symbol("x-opt-delivery-time"): NOW_MS + 5_000},
    )
    for now_ms in (NOW_MS, later_ms):
        found = reader.read(created, now_ms)
        assert (found.delay_ms, found.time_to_live_ms) == (5_000, 9_000)


@pytest.mark.parametrize(
    "end",
    [
        data(b"more"),
        codec.encoded([Section(codec.FOOTER, {codec.symbol("a"): codec.text("b")})]),
        codec.encoded([Section(codec.SEQUENCE, [codec.text("a")])]),
        b"\x00",
        b"\x00\x53\x75\xa0\x05abc",
    ],
    ids=["second data", "footer", "another kind", "half a section", "too short"],
)
def test_another_end_behind_the_same_front_is_seen(end: bytes) -> None:
    plain = raw(b"data", durable=True)
    reader = MessageReader()
    assert reader.read(plain, NOW_MS).body == b"data"
    try:
        wanted: object = alone(plain + end)
    except AmqpError as error:
        wanted = error.condition
    try:
        found: object = reader.read(plain + end, NOW_MS)
    except AmqpError as error:
        found = error.condition
    assert found == wanted
    assert reader.read(plain, NOW_MS).body == b"data"


def test_text_that_is_none_is_refused_behind_a_front_that_is_known() -> None:
    front = raw("abc", durable=True).removesuffix(b"abc")
    reader = MessageReader()
    assert reader.read(front + b"abc", NOW_MS).body == b"abc"
    with pytest.raises(AmqpError) as caught:
        reader.read(front + b"a\xe9c", NOW_MS)
    assert caught.value.condition == DECODE_ERROR
    assert reader.read(front + b"def", NOW_MS).body == b"def"


def numbered(number: int, **fields: Any) -> bytes:
    """A message as Qpid JMS sends it: an id, and times by its own clock, that grow."""
    created_ms = NOW_MS + number
    fields.setdefault("id", f"ID:client:{number:04}")
    return raw(
        b"%d" % number,
        durable=True,
        creation_time=created_ms / 1_000,
        expiry_time=(created_ms + 9_000) / 1_000,
        ttl=9 + number % 5,
        annotations={
            symbol("x-opt-jms-msg-type"): 3,
            symbol("x-opt-delivery-time"): created_ms + 5_000 * (number % 3),
        },
        **fields,
    )


def test_ids_and_times_are_those_of_each_message() -> None:
    reader = MessageReader()
    for number in range(1, 40):
        message = numbered(number, correlation_id=f"{number:048x}")
        assert reader.read(message, NOW_MS + 7 * number) == alone(message, NOW_MS + 7 * number)


@pytest.mark.parametrize(
    "fields",
    [
        # The same bytes stand in two places, or a value is too short to be found.
        {"id": "ID:twice", "subject": "ID:twice"},
        {"id": "a"},
        {"id": ""},
        {"id": 7},
        {"id": "ID:client", "correlation_id": "ID:cl"},
        {"id": "é" * 20},
    ],
)
def test_values_that_cannot_be_told_apart_are_read_with_their_message(
    fields: dict[str, Any],
) -> None:
    reader = MessageReader()
    for number in (1, 1, 2, 2, 4):
        for given in (fields, {}):
            message = numbered(number, **given)
            assert reader.read(message, NOW_MS) == alone(message)


def test_lives_of_every_length_are_read_whatever_came_before() -> None:
    lives_ms = [1, 255, 256, 65_535, 65_536, 2**31, 2**32 - 2, 2**32 - 1, 300, 7]
    for first, second in permutations(lives_ms, 2):
        reader = MessageReader()
        for life_ms in (first, second, first, second + 1 if second < 2**31 else second):
            message = raw(b"x", durable=True, ttl=life_ms / 1_000)
            assert reader.read(message, NOW_MS) == alone(message)


def test_an_id_that_is_no_text_is_refused_behind_a_front_that_is_known() -> None:
    reader = MessageReader()
    first = numbered(1, id="ID:abcdefgh")
    reader.read(first, NOW_MS)
    with pytest.raises(AmqpError) as caught:
        reader.read(first.replace(b"abcdefgh", b"abcd\xe9fgh"), NOW_MS)
    assert caught.value.condition == DECODE_ERROR
