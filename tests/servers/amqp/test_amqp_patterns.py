"""Messages that are sent by a pattern say of themselves what every other message says."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Message as AmqpMessage
from proton import symbol

from mayfly import QueueManager
from mayfly.client.connection import connect
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.properties import Typed
from mayfly.servers.amqp.outgoing import outgoing
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Message
from mayfly.verbs.properties.folders import Property

DELIVERY_TIME, JMS_TYPE = symbol("x-opt-delivery-time"), symbol("x-opt-jms-msg-type")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def got(clock: VirtualClock) -> Any:
    """Put a message on a queue, and get it when it is due."""
    with QueueManager("QM1", clock=clock) as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(R1)").ok
        connection = connect("QM1", "anna")
        handle = connection.call(ask.Open("Q1", c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT)).handle

        def put_and_get(
            body: bytes, descriptor: Descriptor | None = None, **options: Any
        ) -> Message:
            connection.put(handle, body, descriptor or Descriptor(persistence=1), **options)
            clock.advance(options.get("delay_ms", 0))
            return connection.get(handle).message

        yield put_and_get
        connection.close()


def sent(message: Message, destination: str = "Q1") -> AmqpMessage:
    """Return a message as a client reads it."""
    raw = outgoing(message, destination=destination, manager="QM1")
    found = AmqpMessage()
    found.decode(raw)
    return found


def told(message: AmqpMessage) -> tuple[Any, ...]:
    """Return all that a message says of itself."""
    return (
        message.id,
        message.address,
        message.reply_to,
        message.correlation_id,
        message.durable,
        message.priority,
        round(message.ttl * 1_000),
        message.first_acquirer,
        message.delivery_count,
        round(message.creation_time * 1_000),
        round(message.expiry_time * 1_000),
        dict(message.annotations or {}),
        message.body,
    )


@pytest.mark.parametrize("destination", ["Q1", "100%b", "ID:" + bytes(range(0xA0, 0xB8)).hex()])
@pytest.mark.parametrize("life_ms", [None, 1, 255, 30_000])
@pytest.mark.parametrize("delay_ms", [0, 20_000])
def test_a_message_of_a_pattern_has_its_own_ids_times_and_data(
    got: Any, destination: str, life_ms: int | None, delay_ms: int
) -> None:
    for number in range(3):
        # The first one makes the pattern, the others have their own values in it.
        life = None if life_ms is None else life_ms + delay_ms + number
        body = b"%b" * number
        message = got(body, time_to_live_ms=life, delay_ms=delay_ms)
        annotations: dict[str, int] = {JMS_TYPE: 3, symbol("x-opt-jms-dest"): 0}
        if delay_ms:
            annotations[DELIVERY_TIME] = message.put_ms + delay_ms
        assert told(sent(message, destination)) == (
            "ID:" + message.msg_id.hex(),
            destination,
            None,
            None,
            True,
            message.priority,
            0 if life is None else life - delay_ms,
            True,
            0,
            message.put_ms,
            0 if life is None else message.put_ms + life,
            annotations,
            body,
        )


@pytest.mark.parametrize("length", [0, 1, 255, 256, 16 * 1024, 16 * 1024 + 1, 100_000])
@pytest.mark.parametrize("data_format", ["", "MQSTR"])
def test_data_and_text_of_any_length_arrive(got: Any, length: int, data_format: str) -> None:
    text = ("é" + "x" * length)[:length]
    body = text.encode()
    descriptor = Descriptor(format=data_format, coded_char_set_id=1208)
    assert sent(got(body, descriptor)).body == (text if data_format else body)


def test_text_that_is_none_is_sent_as_data(got: Any) -> None:
    descriptor = Descriptor(format="MQSTR", coded_char_set_id=1208)
    assert sent(got("né".encode(), descriptor)).body == "né"
    assert sent(got(b"n\xe9", descriptor)).body == b"n\xe9"
    # ISO 8859-1 says so itself.
    assert sent(got(b"n\xe9", descriptor._replace(coded_char_set_id=819))).body == "né"


def test_messages_that_differ_in_more_are_of_different_patterns(got: Any) -> None:
    plain = Descriptor(persistence=1, priority=3)
    request = plain._replace(msg_type=c.MQMT_REQUEST, reply_to_q="R1", reply_to_q_mgr="QM2")
    found = [
        told(sent(got(b"x", descriptor)))[2:6]
        for descriptor in (
            plain,
            plain._replace(persistence=0),
            plain._replace(priority=9),
            request,
            request._replace(reply_to_q="R2"),
            request._replace(reply_to_q_mgr="QM1"),
        )
    ]
    assert found == [
        (None, None, True, 3),
        (None, None, False, 3),
        (None, None, True, 9),
        ("queue://QM2/R1", None, True, 3),
        ("queue://QM2/R2", None, True, 3),
        ("R1", None, True, 3),
    ]


def test_a_message_with_a_correlation_id_or_properties_has_them(got: Any) -> None:
    correlated = got(b"x", correl_id=b"c" * 24)
    assert sent(correlated).correlation_id == "ID:" + (b"c" * 24).hex()
    told_more = sent(got(b"x", properties=[Property("Colour", Typed("string", "red"))]))
    assert told_more.properties == {"Colour": "red"}
    assert told_more.body == b"x"


@pytest.mark.parametrize(
    ("ccsid", "encoding", "raw", "expected"),
    [
        (1208, c.MQENC_NATIVE, "Grüße".encode(), "Grüße"),
        (1209, c.MQENC_NATIVE, "Grüße".encode(), "Grüße"),
        (273, c.MQENC_NATIVE, b"\xc7\x99\xd0\xa1\x85", "Grüße"),
        (1200, c.MQENC_NATIVE, "Grüße".encode("utf-16-le"), "Grüße"),
        (1200, c.MQENC_NORMAL, "Grüße".encode("utf-16-be"), "Grüße"),
        (1389, c.MQENC_NATIVE, b"A", b"A"),
        (1208, c.MQENC_NATIVE, b"\xff", b"\xff"),
    ],
)
def test_a_text_is_read_in_its_character_set_and_in_one_not_known_it_goes_as_data(
    got: Any, ccsid: int, encoding: int, raw: bytes, expected: str | bytes
) -> None:
    """The sections are amqp-value and data (AMQP 3.2)."""
    descriptor = Descriptor(
        persistence=1, format="MQSTR", coded_char_set_id=ccsid, encoding=encoding
    )
    assert sent(got(raw, descriptor)).body == expected
