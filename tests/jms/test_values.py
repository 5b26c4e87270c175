"""Types and conversions of properties and of map and stream bodies; what may be written when."""

from __future__ import annotations

import math
import queue
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mayfly import QueueManager, jms
from mayfly.mqi import reasons as rc
from tests.jms.scene import received, refused

KINDS = ("boolean", "byte", "short", "int", "long", "float", "double", "string")
VALUES: dict[str, object] = {
    "boolean": True,
    "byte": 1,
    "short": 2,
    "int": 3,
    "long": 4,
    "float": 0.5,
    "double": 0.25,
    "string": "5",
}
#: Written as -> may be read as: the table of JMS.
READABLE = {
    "boolean": "boolean string",
    "byte": "byte short int long string",
    "short": "short int long string",
    "int": "int long string",
    "long": "long string",
    "float": "float double string",
    "double": "double string",
    "string": "boolean byte short int long float double string",
}


def set_as(kind: str, message: jms.Message, name: str, value: object) -> None:
    getattr(message, f"set_{kind}_property")(name, value)


def get_as(kind: str, message: jms.Message, name: str) -> object:
    value: object = getattr(message, f"get_{kind}_property")(name)
    return value


@pytest.mark.parametrize("written", KINDS)
@pytest.mark.parametrize("read", KINDS)
def test_property_conversions(written: str, read: str) -> None:
    message = jms.Message()
    set_as(written, message, "p", VALUES[written])
    if read in READABLE[written].split():
        assert get_as(read, message, "p") is not None
    else:
        with refused(jms.MessageFormatException, 0):
            get_as(read, message, "p")


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("boolean", True, "true"),
        ("long", -7, "-7"),
        ("float", 1.1, "1.1"),
        ("double", math.inf, "Infinity"),
    ],
)
def test_values_as_text(kind: str, value: object, text: str) -> None:
    message = jms.Message()
    set_as(kind, message, "p", value)
    assert message.get_string_property("p") == text


def test_a_text_is_a_number_only_if_it_says_one() -> None:
    message = jms.Message().set_property("p", "300").set_property("q", "TRUE")
    assert message.get_int_property("p") == 300
    assert message.get_boolean_property("q") is True
    assert message.get_boolean_property("p") is False
    for read in ("byte", "int"):
        with refused(jms.NumberFormatException, 0):
            get_as(read, message, {"byte": "p", "int": "q"}[read])


def test_a_property_that_is_not_there() -> None:
    message = jms.Message()
    assert message.get_property("p") is None
    assert message.get_string_property("p") is None
    assert message.get_boolean_property("p") is False
    with pytest.raises(ValueError, match="null is not a int"):
        message.get_int_property("p")
    assert not message.property_exists("p")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", 1),
        ("byte", 128),
        ("byte", -129),
        ("short", 32_768),
        ("int", 2**31),
        ("int", True),
        ("int", 1.0),
        ("long", 2**63),
        ("float", 1e39),
        ("float", "1"),
        ("double", True),
        ("double", 10**400),
        ("string", b"x"),
        ("object", 2**63),
        ("object", b"x"),
        ("object", [1]),
        ("object", 1j),
    ],
)
def test_a_value_of_another_type_is_refused(kind: str, value: object) -> None:
    message = jms.Message()
    with refused(jms.MessageFormatException, 0):
        set_as(kind, message, "p", value)
    assert not message.property_exists("p")


def test_an_int_is_an_int_or_a_long_by_its_size() -> None:
    message = jms.Message().set_property("i", 2**31 - 1).set_property("l", 2**31)
    assert message.get_int_property("i") == 2**31 - 1
    with refused(jms.MessageFormatException, 0):
        message.get_int_property("l")


@pytest.mark.parametrize(
    "name",
    ["", "1a", "a-b", "a b", "a.b", "NULL", "true", "Between", "JMSPriority", "JMS_MY", "JMSXNew"],
)
def test_names_that_jms_does_not_allow(context: jms.JMSContext, name: str) -> None:
    with refused(jms.JMSException, rc.MQRC_PROPERTY_NAME_ERROR):
        jms.Message().set_property(name, 1)
    producer = context.create_producer()
    for set_it in (
        producer.set_string_property,
        producer.set_property,
        producer.set_object_property,
    ):
        with refused(jms.JMSRuntimeException, rc.MQRC_PROPERTY_NAME_ERROR):
            set_it(name, "1")


@pytest.mark.parametrize("name", ["a", "_x", "$y", "a$1", "größe", "likely", "jms_own"])
def test_names_that_jms_allows_come_back(context: jms.JMSContext, q1: jms.Queue, name: str) -> None:
    context.create_producer().set_property(name, 1).send(q1, "x")
    assert received(context.create_consumer(q1), jms.TextMessage).get_property(name) == 1


def test_received_properties_are_read_only_until_cleared(
    context: jms.JMSContext, q1: jms.Queue
) -> None:
    context.create_producer().set_property("p", 1).send(q1, "x")
    message = received(context.create_consumer(q1), jms.TextMessage)
    with refused(jms.MessageNotWriteableException, 0):
        message.set_property("q", 2)
    with refused(jms.MessageNotWriteableRuntimeException, 0):
        context.create_producer().set_property("q", 2).send(q1, message)
    message.clear_properties()
    assert message.property_names() == []
    message.set_property("q", 2)
    assert message.text == "x"


def test_a_received_body_is_read_only_until_cleared(context: jms.JMSContext, q1: jms.Queue) -> None:
    context.create_producer().set_property("p", 1).send(q1, "x")
    message = received(context.create_consumer(q1), jms.TextMessage)
    with refused(jms.MessageNotWriteableException, 0):
        message.set_text("y")
    message.clear_body()
    assert message.get_body(str) is None
    message.text = "y"
    context.create_producer().send(q1, message)
    again = received(context.create_consumer(q1), jms.TextMessage)
    assert (again.text, again.get_property("p")) == ("y", 1)


# Maps and streams


def simple() -> st.SearchStrategy[object]:
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
        st.text(max_size=10),
        st.binary(max_size=10),
    )


FEW = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FEW
@given(st.dictionaries(st.text(min_size=1, max_size=8), simple(), max_size=5))
def test_a_map_comes_back(context: jms.JMSContext, q1: jms.Queue, body: dict[str, object]) -> None:
    context.create_producer().send(q1, body)
    message = received(context.create_consumer(q1), jms.MapMessage)
    assert message.get_body(dict) == body
    assert message.map_names() == list(body)
    assert [type(v) for v in message.get_body(dict).values()] == [type(v) for v in body.values()]


@FEW
@given(st.lists(simple(), max_size=6))
def test_a_stream_comes_back(context: jms.JMSContext, q1: jms.Queue, values: list[object]) -> None:
    message = context.create_stream_message()
    for value in values:
        message.write_object(value)
    context.create_producer().send(q1, message)
    stream = received(context.create_consumer(q1), jms.StreamMessage)
    assert [stream.read_object() for _ in values] == values
    with refused(jms.MessageEOFException, 0):
        stream.read_object()
    stream.reset()
    assert len([stream.read_object() for _ in values]) == len(values)


Part = tuple[str, object]
PARTS: list[Part] = [
    ("boolean", True),
    ("byte", -128),
    ("short", 32_767),
    ("char", "ä"),
    ("int", -(2**31)),
    ("long", 2**63 - 1),
    ("float", 0.5),
    ("double", 1e300),
    ("bytes", b"\x00\xff"),
]


def test_typed_values_of_map_stream_and_bytes_come_back(
    context: jms.JMSContext, q1: jms.Queue
) -> None:
    values, stream, raw = (
        context.create_map_message(),
        context.create_stream_message(),
        context.create_bytes_message(),
    )
    for kind, value in [*PARTS, ("string", "text")]:
        getattr(values, f"set_{kind}")(f"{kind} name", value)
        getattr(stream, f"write_{kind}")(value)
    for kind, value in PARTS:
        getattr(raw, f"write_{kind}")(value)
    raw.write_utf("Gr\0üße €\U0001f600")
    producer, consumer = context.create_producer(), context.create_consumer(q1)
    for sent in (values, stream, raw):
        producer.send(q1, sent)
    values = received(consumer, jms.MapMessage)
    stream = received(consumer, jms.StreamMessage)
    raw = received(consumer, jms.BytesMessage)
    for kind, value in [*PARTS, ("string", "text")]:
        assert getattr(values, f"get_{kind}")(f"{kind} name") == value
        assert getattr(stream, f"read_{kind}")() == value
    for kind, value in PARTS:
        assert (raw.read_bytes(2) if kind == "bytes" else getattr(raw, f"read_{kind}")()) == value
    assert raw.read_utf() == "Gr\0üße €\U0001f600"
    assert raw.read_bytes() == b""


def test_a_map_converts_like_a_property() -> None:
    message = jms.MapMessage()
    message.set_char("c", "x")
    message.set_bytes("b", b"x")
    message.set_int("i", 5)
    assert (message.get_string("c"), message.get_long("i")) == ("x", 5)
    assert (message.get_string("none"), message.get_bytes("none")) == (None, None)
    assert message.item_exists("c")
    assert not message.item_exists("none")
    for read in (message.get_string, message.get_int):
        with refused(jms.MessageFormatException, 0):
            read("b")
    with refused(jms.MessageFormatException, 0):
        message.get_int("c")
    with refused(jms.MessageFormatException, 0):
        message.get_char("none")
    with pytest.raises(ValueError, match="needs a name"):
        message.set_int("", 1)


def test_a_value_that_cannot_be_converted_is_read_again() -> None:
    stream = jms.StreamMessage()
    stream.write_string("ten")
    stream.reset()
    with refused(jms.NumberFormatException, 0):
        stream.read_int()
    assert stream.read_string() == "ten"


@pytest.mark.parametrize("kind", [jms.StreamMessage, jms.BytesMessage])
def test_written_first_and_read_after_reset(
    kind: type[jms.StreamMessage | jms.BytesMessage],
) -> None:
    message = kind()
    message.write_int(7)
    with refused(jms.MessageNotReadableException, 0):
        message.read_int()
    message.reset()
    with refused(jms.MessageNotWriteableException, 0):
        message.write_int(8)
    assert message.read_int() == 7
    with refused(jms.MessageEOFException, 0):
        message.read_int()
    message.clear_body()
    message.write_int(9)
    message.reset()
    assert message.read_int() == 9


def test_bytes_are_big_endian_and_read_to_the_end() -> None:
    message = jms.BytesMessage()
    message.write_short(-2)
    message.write_bytes(b"abcdef", 1, 3)
    message.reset()
    assert message.body_length == 5
    assert message.get_body(bytes) == b"\xff\xfebcd"
    assert message.read_unsigned_byte() == 255
    with refused(jms.MessageEOFException, 0):
        message.read_long()
    assert message.read_bytes(2) == b"\xfeb"
    assert message.read_unsigned_short() == 0x6364
    message.reset()
    with refused(jms.MessageEOFException, 0):
        message.read_utf()
    assert message.read_short() == -2


def test_bodies_of_another_kind(context: jms.JMSContext, q1: jms.Queue) -> None:
    text = jms.TextMessage("x")
    assert text.get_body(str) == "x"
    with refused(jms.MessageFormatException, 0):
        text.get_body(bytes)
    with refused(jms.MessageFormatException, 0):
        jms.StreamMessage().get_body(list)
    assert jms.Message().get_body(str) is None
    for body in (object(), 5, ["x"]):
        with refused(jms.MessageFormatRuntimeException, 0):
            context.create_producer().send(q1, body)
    with refused(jms.MessageFormatRuntimeException, 0):
        context.create_producer().send(q1, "\ud800")


def test_there_are_no_object_messages(context: jms.JMSContext, session: jms.Session) -> None:
    makers: list[tuple[Callable[[], object], type[Exception]]] = [
        (lambda: context.create_object_message({"a": 1}), jms.JMSRuntimeException),
        (session.create_object_message, jms.JMSException),
    ]
    for make, kind in makers:
        with refused(kind, rc.MQRC_FUNCTION_NOT_SUPPORTED):
            make()


@pytest.mark.parametrize("control", ["NONE", "ALL", "FORCE", "COMPAT", "V6COMPAT"])
def test_a_message_keeps_its_properties_whatever_the_queue_does_for_others(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager, control: str
) -> None:
    """PROPCTL is for programs that ask for nothing; JMS reads the MQRFH2 itself."""
    assert manager.mqsc(f"ALTER QLOCAL(Q1) PROPCTL({control})").ok
    producer = context.create_producer().set_property("colour", "red")
    for _ in range(2):
        producer.send(q1, "text")
    shown = next(iter(context.create_browser(q1)))
    received = context.create_consumer(q1).receive_no_wait()
    assert received is not None
    heard: queue.Queue[jms.Message] = queue.Queue()
    context.create_consumer(q1).set_message_listener(heard.put)
    for message in (shown, received, heard.get(timeout=60)):
        assert message.get_property("colour") == "red"
