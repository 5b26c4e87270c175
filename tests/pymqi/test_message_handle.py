"""MessageHandle: properties set, put, got and inquired, as pymqi programs do it."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable

import pytest

from mayfly import QueueManager, jms, pymqi
from mayfly.pymqi import CMQC
from mayfly.testing import VirtualClock

Fails = Callable[..., pymqi.MQMIError]

#: A type, the length MQSETMP wants, a value.
TYPED = [
    (CMQC.MQTYPE_BOOLEAN, 4, True),
    (CMQC.MQTYPE_BYTE_STRING, 3, b"\0\1\xff"),
    (CMQC.MQTYPE_INT8, 1, -127),
    (CMQC.MQTYPE_INT16, 2, -32768),
    (CMQC.MQTYPE_INT32, 4, -(2**31)),
    (CMQC.MQTYPE_INT64, 8, -(2**63)),
    (CMQC.MQTYPE_FLOAT32, 4, 1.1754943508222875e-38),
    (CMQC.MQTYPE_FLOAT64, 8, 2.2250738585072014e-308),
    (CMQC.MQTYPE_STRING, 7, "Größe"),
    (CMQC.MQTYPE_STRING, CMQC.MQVL_NULL_TERMINATED, "red"),
    (CMQC.MQTYPE_NULL, 0, None),
]
INT32 = CMQC.MQTYPE_INT32


@pytest.fixture
def handle(connection: pymqi.QueueManager) -> pymqi.MessageHandle:
    """A new message handle."""
    return pymqi.MessageHandle(connection)


def put_with(
    queue: pymqi.Queue, handle: pymqi.MessageHandle, body: str | bytes = b"", **more: int
) -> pymqi.MD:
    """Put with the properties of a handle; return the MD."""
    md = pymqi.MD()
    pmo = pymqi.PMO(Version=CMQC.MQPMO_VERSION_3, OriginalMsgHandle=handle.msg_handle, **more)
    queue.put(body, md, pmo)
    return md


def get_with(
    queue: pymqi.Queue, handle: pymqi.MessageHandle, options: int = 0
) -> tuple[bytes, pymqi.MD]:
    """Get with the properties in a handle; return body and MD."""
    md = pymqi.MD()
    gmo = pymqi.GMO(
        Version=CMQC.MQGMO_VERSION_4,
        Options=CMQC.MQGMO_PROPERTIES_IN_HANDLE | options,
        MsgHandle=handle.msg_handle,
    )
    return queue.get(None, md, gmo), md


@pytest.mark.parametrize(("property_type", "length", "value"), TYPED)
def test_a_value_of_each_type_comes_back(
    connection: pymqi.QueueManager,
    queue: pymqi.Queue,
    property_type: int,
    length: int,
    value: object,
) -> None:
    sent, received = pymqi.MessageHandle(connection), pymqi.MessageHandle(connection, pymqi.CMHO())
    sent.properties.set(b"test_name", value, property_type, length)
    put_with(queue, sent)
    get_with(queue, received)
    found = received.properties.get("test_name")
    assert (type(found), found) == (type(value), value)


def test_the_body_comes_without_header_and_the_MD_tells_of_it(
    connection: pymqi.QueueManager, queue: pymqi.Queue, handle: pymqi.MessageHandle
) -> None:
    handle.properties["colour"] = "red"
    put = put_with(queue, handle, "hello")
    assert (put.Format, put.CodedCharSetId) == (b"MQSTR   ", 1208)
    body, md = get_with(queue, pymqi.MessageHandle(connection))
    assert body == b"hello"
    assert (md.Format, md.CodedCharSetId, md.Encoding) == (b"MQSTR   ", 1208, CMQC.MQENC_NATIVE)


def test_an_unmodified_program_finds_the_properties_in_an_RFH2(
    queue: pymqi.Queue, handle: pymqi.MessageHandle
) -> None:
    """PROPCTL(COMPAT), the default: usr is a folder that older programs read."""
    handle.properties["colour"] = "red"
    put_with(queue, handle, "hello")
    md, headers = pymqi.MD(), list[pymqi.RFH2]()
    assert queue.get_rfh2(None, md, pymqi.GMO(), headers) == b"hello"
    assert md.Format == CMQC.MQFMT_RF_HEADER_2
    assert headers[0]["usr"].rstrip() == b"<usr><colour>red</colour></usr>"
    assert headers[0]["Format"] == b"MQSTR   "


def test_get_no_jms_leaves_properties_out(queue: pymqi.Queue, handle: pymqi.MessageHandle) -> None:
    handle.properties["colour"] = "red"
    put_with(queue, handle, b"hello")
    assert queue.get_no_jms() == b"hello"


def test_a_handle_is_read_from_PMO_3_and_GMO_4_on(
    connection: pymqi.QueueManager,
    queue: pymqi.Queue,
    handle: pymqi.MessageHandle,
    fails: Fails,
) -> None:
    handle.properties["colour"] = "red"
    queue.put(b"x", pymqi.MD(), pymqi.PMO(Version=2, OriginalMsgHandle=handle.msg_handle))
    received = pymqi.MessageHandle(connection)
    gmo = pymqi.GMO(Version=3, MsgHandle=received.msg_handle)
    assert queue.get(None, pymqi.MD(), gmo) == b"x"
    gmo.Options = CMQC.MQGMO_PROPERTIES_IN_HANDLE
    assert fails(queue.get, None, pymqi.MD(), gmo).reason == CMQC.MQRC_HMSG_ERROR


@pytest.mark.parametrize(
    ("control", "in_handle"),
    [("COMPAT", True), ("NONE", True), ("ALL", True), ("V6COMPAT", True), ("FORCE", False)],
)
def test_PROPCTL_gives_properties_to_a_handle_unless_it_is_FORCE(
    queue_manager: QueueManager,
    connection: pymqi.QueueManager,
    queue: pymqi.Queue,
    handle: pymqi.MessageHandle,
    control: str,
    in_handle: bool,
) -> None:
    queue_manager.mqsc(f"ALTER QLOCAL(Q1) PROPCTL({control})")
    handle.properties["colour"] = "red"
    put_with(queue, handle, b"hello")
    received = pymqi.MessageHandle(connection)
    received.properties["old"] = "value"
    gmo = pymqi.GMO(Version=4, MsgHandle=received.msg_handle)
    body = queue.get(None, pymqi.MD(), gmo)
    assert body.startswith(b"RFH ") != in_handle
    assert received.properties.get("colour", "none") == ("red" if in_handle else "none")
    # A handle that is not used keeps what it had.
    assert received.properties.get("old", "none") == ("none" if in_handle else "value")


@pytest.mark.parametrize("option", ["NO_PROPERTIES", "PROPERTIES_FORCE_MQRFH2"])
def test_a_handle_is_not_looked_at_with_another_option(queue: pymqi.Queue, option: str) -> None:
    queue.put(b"hello")
    gmo = pymqi.GMO(Version=4, MsgHandle=77, Options=getattr(CMQC, f"MQGMO_{option}"))
    assert queue.get(None, pymqi.MD(), gmo) == b"hello"


def test_a_number_that_is_no_handle_is_refused_and_nothing_happens(
    queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    for number in (-1, 10**9):
        for field in ("OriginalMsgHandle", "NewMsgHandle"):
            pmo = pymqi.PMO(Version=3, **{field: number})
            assert fails(queue.put, b"x", pymqi.MD(), pmo).reason == CMQC.MQRC_HMSG_ERROR
    assert queue_manager.curdepth("Q1") == 0
    queue.put(b"x")
    for options in (0, CMQC.MQGMO_PROPERTIES_IN_HANDLE):
        gmo = pymqi.GMO(Version=4, MsgHandle=10**9, Options=options)
        assert fails(queue.get, None, pymqi.MD(), gmo).reason == CMQC.MQRC_HMSG_ERROR
    assert queue_manager.curdepth("Q1") == 1


def test_a_PMO_keeps_the_properties_of_a_handle_that_is_dropped(
    connection: pymqi.QueueManager, queue: pymqi.Queue
) -> None:
    dropped = pymqi.MessageHandle(connection)
    dropped.properties["colour"] = "red"
    pmo = pymqi.PMO(Version=3, OriginalMsgHandle=dropped.msg_handle)
    del dropped
    gc.collect()
    queue.put(b"", pymqi.MD(), pmo)
    received = pymqi.MessageHandle()
    get_with(queue, received)
    assert received.properties["colour"] == "red"


def test_put1_takes_properties(
    connection: pymqi.QueueManager, queue: pymqi.Queue, handle: pymqi.MessageHandle
) -> None:
    handle.properties["colour"] = "red"
    pmo = pymqi.PMO(Version=3, OriginalMsgHandle=handle.msg_handle)
    connection.put1("Q1", b"hello", pymqi.MD(), pmo)
    received = pymqi.MessageHandle(connection)
    assert get_with(queue, received)[0] == b"hello"
    assert received.properties["colour"] == "red"


def test_MAXPROPL_and_PROPCTL_are_inquired_and_obeyed(
    queue_manager: QueueManager,
    connection: pymqi.QueueManager,
    queue: pymqi.Queue,
    handle: pymqi.MessageHandle,
    fails: Fails,
) -> None:
    queue_manager.mqsc("ALTER QMGR MAXPROPL(9)\nALTER QLOCAL(Q1) PROPCTL(V6COMPAT)")
    assert connection.inquire(CMQC.MQIA_MAX_PROPERTIES_LENGTH) == 9
    inquired = pymqi.Queue(connection, "Q1", CMQC.MQOO_INQUIRE)
    assert inquired.inquire(CMQC.MQIA_PROPERTY_CONTROL) == CMQC.MQPROP_V6COMPAT
    handle.properties["colour"] = "red"
    put_with(queue, handle)
    handle.properties["colour"] = "blue"
    assert fails(put_with, queue, handle).reason == CMQC.MQRC_PROPERTIES_TOO_BIG
    assert queue_manager.curdepth("Q1") == 1


def test_browsing_fills_the_handle_each_time(
    connection: pymqi.QueueManager, queue: pymqi.Queue, handle: pymqi.MessageHandle
) -> None:
    received = pymqi.MessageHandle(connection)
    for colour in ("red", "blue"):
        handle.properties["colour"] = colour
        put_with(queue, handle)
    queue.put(b"plain")
    for colour in ("red", "blue"):
        get_with(queue, received, CMQC.MQGMO_BROWSE_NEXT)
        assert received.properties["colour"] == colour
    get_with(queue, received, CMQC.MQGMO_BROWSE_NEXT)
    assert received.properties.get("colour", "none") == "none"


def test_E4_the_MD_is_readable_as_properties_as_of_the_get(
    connection: pymqi.QueueManager,
    queue: pymqi.Queue,
    handle: pymqi.MessageHandle,
    clock: VirtualClock,
    fails: Fails,
) -> None:
    handle.properties["colour"] = "red"
    md = pymqi.MD(Expiry=600, Priority=7)
    pmo = pymqi.PMO(Version=3, OriginalMsgHandle=handle.msg_handle)
    queue.put("hello", md, pmo)
    clock.advance(59_901)
    received = pymqi.MessageHandle(connection)
    get_with(queue, received)
    clock.advance(1_000)
    properties = received.properties
    assert properties.get("Root.MQMD.Expiry") == 1
    assert properties.get("Root.MQMD.Priority") == properties.get("JMSPriority") == 7
    assert properties.get("Root.MQMD.Format") == "MQSTR"
    assert properties.get("Root.MQMD.MsgId") == md.MsgId
    assert properties.get("JMSMessageID") == f"ID:{md.MsgId.hex()}"
    for name in ("Root.MQMD.Version", "Root.MQMD.StrucId", "JMS_IBM_Format", "JMSDestination"):
        assert fails(properties.get, name).reason == CMQC.MQRC_PROPERTY_NOT_AVAILABLE
    assert fails(handle.properties.get, "Root.MQMD.Expiry").reason == (
        CMQC.MQRC_PROPERTY_NOT_AVAILABLE
    )


def test_a_JMS_message_gives_its_properties_and_headers_to_a_handle(
    queue_manager: QueueManager, queue: pymqi.Queue, handle: pymqi.MessageHandle
) -> None:
    with jms.ConnectionFactory(queue_manager).create_context() as context:
        producer = context.create_producer().set_property("colour", "red").set_time_to_live(600_000)
        producer.send(context.create_queue("Q1"), "hello")
    body, md = get_with(queue, handle)
    assert (body, md.Format, md.Expiry) == (b"hello", b"MQSTR   ", 6_000)
    properties = handle.properties
    assert properties["colour"] == properties["usr.colour"] == "red"
    assert properties["JMSDestination"] == properties["jms.Dst"] == "queue:///Q1"
    assert properties["mcd.Msd"] == "jms_text"
    assert properties["JMSExpiration"] == properties["jms.Exp"]


def test_names_of_JMS_are_set_with_their_types(
    connection: pymqi.QueueManager, queue: pymqi.Queue, handle: pymqi.MessageHandle, fails: Fails
) -> None:
    handle.properties.set("JMSXGroupSeq", 3, INT32, 4)
    handle.properties.set("JMSType", "car")
    error = fails(handle.properties.set, "JMSXGroupSeq", "3")
    assert error.reason == CMQC.MQRC_PROPERTY_TYPE_ERROR
    assert fails(handle.properties.set, "JMSPriority", 3, INT32, 4).reason == (
        CMQC.MQRC_PROPERTY_NAME_ERROR
    )
    put_with(queue, handle)
    received = pymqi.MessageHandle(connection)
    get_with(queue, received)
    assert received.properties["jms.Seq"] == received.properties["JMSXGroupSeq"] == 3
    assert received.properties["mcd.Type"] == received.properties["JMSType"] == "car"


def test_a_value_that_is_too_long_says_how_long_it_is(
    handle: pymqi.MessageHandle, fails: Fails
) -> None:
    """64 bytes are asked for where nothing is said."""
    handle.properties["exact"], handle.properties["long"] = "ä" * 32, "ä" * 32 + "x"
    handle.properties.set("raw", b"12345", CMQC.MQTYPE_BYTE_STRING, 5)
    handle.properties.set("size", 1, INT32, 4)
    properties = handle.properties
    assert properties["exact"] == "ä" * 32
    error = fails(properties.get, "long")
    assert (error.reason, error.value, error.dataLength) == (2469, "ä" * 32, 65)
    assert properties.get("long", max_value_length=65) == "ä" * 32 + "x"
    error = fails(properties.get, "raw", None, 4)
    assert (error.reason, error.value, error.dataLength) == (2469, b"1234", 5)
    assert error.data_length == 5
    assert fails(properties.get, "size", None, 3).reason == CMQC.MQRC_PROPERTY_VALUE_TOO_BIG
    assert properties.get("size", max_value_length=4) == 1


def test_a_property_that_is_not_there(handle: pymqi.MessageHandle, fails: Fails) -> None:
    error = fails(handle.properties.get, "colour")
    assert (error.comp, error.reason) == (2, CMQC.MQRC_PROPERTY_NOT_AVAILABLE)
    assert "'colour'" in str(error.__cause__)
    assert handle.properties.get("colour", "none") == "none"
    assert fails(handle.properties.get, "").reason == CMQC.MQRC_PROPERTY_NAME_LENGTH_ERR


@pytest.mark.parametrize(
    ("value", "property_type"),
    [(1, INT32), (2.5, CMQC.MQTYPE_FLOAT64), (True, CMQC.MQTYPE_BOOLEAN), (b"x\0", 8)],
)
def test_a_type_needs_no_length(
    handle: pymqi.MessageHandle, value: object, property_type: int
) -> None:
    handle.properties.set("a", value, property_type)
    assert handle.properties.get("a") == value
    assert handle.properties.get("%") == value


WRONG_SETS = [
    (("a b", "x"), CMQC.MQRC_PROPERTY_NAME_ERROR),
    (("", "x"), CMQC.MQRC_PROPERTY_NAME_LENGTH_ERR),
    (("a", "x", 3), CMQC.MQRC_PROPERTY_TYPE_ERROR),
    (("a", "x", INT32, 4), CMQC.MQRC_PROPERTY_TYPE_ERROR),
    (("a", 1), CMQC.MQRC_PROPERTY_TYPE_ERROR),
    (("a", 128, CMQC.MQTYPE_INT8, 1), CMQC.MQRC_PROP_NUMBER_FORMAT_ERROR),
    (("a", 1e39, CMQC.MQTYPE_FLOAT32, 4), CMQC.MQRC_PROP_NUMBER_FORMAT_ERROR),
    (("a", 10**400, CMQC.MQTYPE_FLOAT64, 8), CMQC.MQRC_PROP_NUMBER_FORMAT_ERROR),
    (("a", 1, INT32, 8), CMQC.MQRC_BUFFER_LENGTH_ERROR),
    (("a", b"x", CMQC.MQTYPE_BYTE_STRING, 2), CMQC.MQRC_BUFFER_LENGTH_ERROR),
    (("a", "x", CMQC.MQTYPE_STRING, 2), CMQC.MQRC_BUFFER_LENGTH_ERROR),
    (("a", "x", CMQC.MQTYPE_STRING, -2), CMQC.MQRC_BUFFER_LENGTH_ERROR),
    (("a", "x", 1024, -1, pymqi.PD(StrucId=b"SMPO")), CMQC.MQRC_PD_ERROR),
    (("a", "x", 1024, -1, pymqi.PD(Version=2)), CMQC.MQRC_PD_ERROR),
    (("a", "x", 1024, -1, pymqi.PD(Options=1)), CMQC.MQRC_PD_ERROR),
    (("a", "x", 1024, -1, pymqi.PD(Support=2)), CMQC.MQRC_PD_ERROR),
    (("a", "x", 1024, -1, pymqi.PD(Context=2)), CMQC.MQRC_PD_ERROR),
    (("a", "x", 1024, -1, pymqi.PD(CopyOptions=32)), CMQC.MQRC_PD_ERROR),
    (("a", "x", 1024, -1, None, pymqi.SMPO(Version=2)), CMQC.MQRC_SMPO_ERROR),
    (("a", "x", 1024, -1, None, pymqi.SMPO(StrucId=b"PD  ")), CMQC.MQRC_SMPO_ERROR),
    (("a", "x", 1024, -1, None, pymqi.SMPO(Options=3)), CMQC.MQRC_OPTIONS_ERROR),
    (("a", "x", 1024, -1, None, pymqi.SMPO(Options=1)), CMQC.MQRC_PROPERTY_NOT_AVAILABLE),
]


@pytest.mark.parametrize(("arguments", "reason"), WRONG_SETS)
def test_a_wrong_set_is_refused_and_sets_nothing(
    handle: pymqi.MessageHandle, fails: Fails, arguments: tuple[object, ...], reason: int
) -> None:
    assert fails(handle.properties.set, *arguments).reason == reason
    assert fails(handle.properties.get, "%").reason == CMQC.MQRC_PROPERTY_NOT_AVAILABLE


def test_a_length_cuts_text_and_bytes(handle: pymqi.MessageHandle) -> None:
    handle.properties.set("text", "red-green", CMQC.MQTYPE_STRING, 3)
    handle.properties.set("ended", "red\0green")
    handle.properties.set("empty", "red", CMQC.MQTYPE_STRING, CMQC.MQVL_EMPTY_STRING)
    handle.properties.set("raw", b"12345", CMQC.MQTYPE_BYTE_STRING, 2)
    found = [handle.properties[name] for name in ("text", "ended", "empty", "raw")]
    assert found == ["red", "red", "", b"12"]


def names_from(handle: pymqi.MessageHandle, name: str) -> list[object]:
    """Walk over the values of all properties that a name with % stands for."""
    found, options = [], CMQC.MQIMPO_INQ_FIRST
    while (value := handle.properties.get(name, "end", impo_options=options)) != "end":
        found.append(value)
        options = CMQC.MQIMPO_INQ_NEXT
    return found


def test_a_percent_sign_walks_over_properties(handle: pymqi.MessageHandle) -> None:
    for name in ("colour", "size", "flight.gate", "flight.seat", "coat"):
        handle.properties[name] = name
    assert names_from(handle, "%") == ["colour", "size", "flight.gate", "flight.seat", "coat"]
    assert names_from(handle, "usr.%") == ["colour", "size", "coat"]
    assert names_from(handle, "flight.%") == ["flight.gate", "flight.seat"]
    assert names_from(handle, "co%") == ["colour", "coat"]
    assert names_from(handle, "usr.co%") == ["colour", "coat"]
    assert names_from(handle, "us%") == names_from(handle, "x%") == []


def test_the_cursor_stays_when_a_value_is_too_long(
    handle: pymqi.MessageHandle, fails: Fails
) -> None:
    handle.properties["a"], handle.properties["b"] = "1", "22"
    get = handle.properties.get
    assert get("%") == "1"
    assert fails(get, "%", None, 1, CMQC.MQIMPO_INQ_NEXT).reason == 2469
    assert get("x", impo_options=CMQC.MQIMPO_INQ_PROP_UNDER_CURSOR) == "1"
    assert get("%", impo_options=CMQC.MQIMPO_INQ_NEXT) == "22"


def test_where_a_property_is_set(handle: pymqi.MessageHandle) -> None:
    properties = handle.properties
    for name in ("a", "b", "c"):
        properties[name] = name
    properties["b"] = "B"
    assert names_from(handle, "%") == ["a", "B", "c"]
    for value, option in (
        ("after", CMQC.MQSMPO_SET_PROP_AFTER_CURSOR),
        ("before", CMQC.MQSMPO_SET_PROP_BEFORE_CURSOR),
        ("under", CMQC.MQSMPO_SET_PROP_UNDER_CURSOR),
        ("again", CMQC.MQSMPO_APPEND_PROPERTY),
    ):
        assert properties["b"] is not None
        properties.set(
            "b" if value in ("under", "again") else value, value, smpo=pymqi.SMPO(Options=option)
        )
    assert names_from(handle, "%") == ["a", "before", "under", "after", "c", "again"]


def test_what_is_under_the_cursor_stays_there_when_another_is_set_before_it(
    handle: pymqi.MessageHandle,
) -> None:
    properties = handle.properties
    properties["a"], properties["b"] = "a", "b"
    assert properties["b"] == "b"
    properties.set("c", "c", smpo=pymqi.SMPO(Options=CMQC.MQSMPO_SET_PROP_BEFORE_CURSOR))
    assert properties.get("x", impo_options=CMQC.MQIMPO_INQ_PROP_UNDER_CURSOR) == "b"
    assert names_from(handle, "%") == ["a", "c", "b"]


def test_deleting_a_property(handle: pymqi.MessageHandle, fails: Fails) -> None:
    properties = handle.properties
    for name in ("a", "b", "c"):
        properties[name] = name
    properties.dlt("a")
    assert properties["b"] == "b"
    properties.dlt("x", pymqi.DMPO(Options=CMQC.MQDMPO_DEL_PROP_UNDER_CURSOR))
    assert properties.get("%", impo_options=CMQC.MQIMPO_INQ_NEXT) == "c"
    assert names_from(handle, "%") == ["c"]
    wrong = [
        (("a",), CMQC.MQRC_PROPERTY_NOT_AVAILABLE),
        (("%",), CMQC.MQRC_PROPERTY_NAME_ERROR),
        (("",), CMQC.MQRC_PROPERTY_NAME_LENGTH_ERR),
        (("c", pymqi.DMPO(Version=2)), CMQC.MQRC_DMPO_ERROR),
        (("c", pymqi.DMPO(Options=2)), CMQC.MQRC_OPTIONS_ERROR),
    ]
    for arguments, reason in wrong:
        assert fails(properties.dlt, *arguments).reason == reason
    assert names_from(handle, "%") == ["c"]


CONVERSIONS = [
    ((True, CMQC.MQTYPE_BOOLEAN, 4), CMQC.MQTYPE_STRING, "TRUE"),
    ((True, CMQC.MQTYPE_BOOLEAN, 4), CMQC.MQTYPE_INT8, 1),
    ((b"\x0a\xff", CMQC.MQTYPE_BYTE_STRING, 2), CMQC.MQTYPE_STRING, "0AFF"),
    ((b"\x0a\xff", CMQC.MQTYPE_BYTE_STRING, 2), CMQC.MQTYPE_INT32, 2470),
    ((300, CMQC.MQTYPE_INT16, 2), CMQC.MQTYPE_STRING, "300"),
    ((300, CMQC.MQTYPE_INT16, 2), CMQC.MQTYPE_INT64, 300),
    ((300, CMQC.MQTYPE_INT16, 2), CMQC.MQTYPE_INT8, 2472),
    ((300, CMQC.MQTYPE_INT16, 2), CMQC.MQTYPE_BOOLEAN, True),
    ((300, CMQC.MQTYPE_INT16, 2), CMQC.MQTYPE_FLOAT32, 2470),
    ((0.5, CMQC.MQTYPE_FLOAT64, 8), CMQC.MQTYPE_FLOAT32, 0.5),
    ((0.5, CMQC.MQTYPE_FLOAT64, 8), CMQC.MQTYPE_STRING, "0.5"),
    ((0.5, CMQC.MQTYPE_FLOAT64, 8), CMQC.MQTYPE_INT32, 2470),
    (("42", CMQC.MQTYPE_STRING, 2), CMQC.MQTYPE_INT8, 42),
    (("128", CMQC.MQTYPE_STRING, 3), CMQC.MQTYPE_INT8, 2472),
    (("x", CMQC.MQTYPE_STRING, 1), CMQC.MQTYPE_INT64, 2472),
    (("x", CMQC.MQTYPE_STRING, 1), CMQC.MQTYPE_BOOLEAN, 2472),
    (("true", CMQC.MQTYPE_STRING, 4), CMQC.MQTYPE_BOOLEAN, True),
    (("1e3", CMQC.MQTYPE_STRING, 3), CMQC.MQTYPE_FLOAT64, 1000.0),
    (("0aFF", CMQC.MQTYPE_STRING, 4), CMQC.MQTYPE_BYTE_STRING, b"\x0a\xff"),
    (("0a0", CMQC.MQTYPE_STRING, 3), CMQC.MQTYPE_BYTE_STRING, 2472),
    (("x", CMQC.MQTYPE_STRING, 1), 3, 2473),
]


@pytest.mark.parametrize(("given", "wanted", "found"), CONVERSIONS)
def test_a_value_is_converted_where_it_is_asked_for(
    handle: pymqi.MessageHandle, given: tuple[object, int, int], wanted: int, found: object
) -> None:
    handle.properties.set("a", *given)
    as_it_is = handle.properties.get("a", property_type=wanted)
    assert as_it_is == given[0]
    try:
        value = handle.properties.get(
            "a", property_type=wanted, impo_options=CMQC.MQIMPO_CONVERT_TYPE
        )
    except pymqi.MQMIError as error:
        value = error.reason
    assert (type(value), value) == (type(found), found)


@pytest.mark.parametrize("options", [1, CMQC.MQIMPO_QUERY_LENGTH, 8 | 16, 64])
def test_wrong_options_of_an_inquiry(
    handle: pymqi.MessageHandle, fails: Fails, options: int
) -> None:
    handle.properties["a"] = "x"
    error = fails(handle.properties.get, "a", None, None, options)
    assert error.reason == CMQC.MQRC_OPTIONS_ERROR
    assert fails(handle.properties.get, "a", None, None, 0, 1).reason == CMQC.MQRC_PD_ERROR


def test_infinity_and_nan_come_back(
    connection: pymqi.QueueManager, queue: pymqi.Queue, handle: pymqi.MessageHandle
) -> None:
    handle.properties.set("inf", -math.inf, CMQC.MQTYPE_FLOAT32, 4)
    handle.properties.set("nan", math.nan, CMQC.MQTYPE_FLOAT64, 8)
    put_with(queue, handle)
    received = pymqi.MessageHandle(connection)
    get_with(queue, received)
    assert received.properties["inf"] == -math.inf
    assert math.isnan(received.properties["nan"])


ACTIONS = [
    (CMQC.MQACTP_NEW, ["all", "default", "none", "reply", "report"]),
    (CMQC.MQACTP_FORWARD, ["all", "default"]),
    (CMQC.MQACTP_REPLY, ["all", "reply"]),
    (CMQC.MQACTP_REPORT, ["all", "default", "report"]),
]
COPIES = {
    "all": CMQC.MQCOPY_ALL,
    "default": CMQC.MQCOPY_DEFAULT,
    "none": CMQC.MQCOPY_NONE,
    "reply": CMQC.MQCOPY_REPLY,
    "report": CMQC.MQCOPY_REPORT,
}


@pytest.mark.parametrize(("action", "copied"), ACTIONS)
def test_an_action_passes_on_what_copy_options_say(
    connection: pymqi.QueueManager,
    queue: pymqi.Queue,
    handle: pymqi.MessageHandle,
    action: int,
    copied: list[str],
) -> None:
    for name, bits in COPIES.items():
        handle.properties.set(name, name, pd=pymqi.PD(CopyOptions=bits))
    put_with(queue, handle)
    original, new = pymqi.MessageHandle(connection), pymqi.MessageHandle(connection)
    get_with(queue, original)
    new.properties["all"], new.properties["own"] = "ALL", "OWN"
    put_with(queue, original, NewMsgHandle=new.msg_handle, Action=action)
    received = pymqi.MessageHandle(connection)
    get_with(queue, received)
    expected = sorted([*copied[1:], "ALL", "OWN"])
    assert sorted(map(str, names_from(received, "%"))) == expected
    # The new handle holds what was put.
    assert sorted(map(str, names_from(new, "%"))) == expected


def test_a_publication_has_the_properties_whose_copy_options_say_so(
    queue_manager: QueueManager, connection: pymqi.QueueManager, handle: pymqi.MessageHandle
) -> None:
    for name, bits in COPIES.items():
        handle.properties.set(name, name, pd=pymqi.PD(CopyOptions=bits))
    with queue_manager.session() as session:
        subscription = session.subscribe("news")
        pmo = pymqi.PMO(Version=3, OriginalMsgHandle=handle.msg_handle)
        pymqi.Topic(connection, topic_string="news").pub(b"hello", pymqi.MD(), pmo)
        message = subscription.get()
    assert message is not None
    assert sorted(message.properties) == ["all", "default"]
    assert message.data == b"hello"


def test_a_descriptor_travels_with_its_property(
    connection: pymqi.QueueManager, queue: pymqi.Queue, handle: pymqi.MessageHandle
) -> None:
    described = pymqi.PD(
        Support=CMQC.MQPD_SUPPORT_REQUIRED,
        Context=CMQC.MQPD_USER_CONTEXT,
        CopyOptions=CMQC.MQCOPY_REPLY | CMQC.MQCOPY_REPORT,
    )
    handle.properties.set("a", "x", pd=described)
    put_with(queue, handle)
    headers = list[pymqi.RFH2]()
    queue.get_rfh2(None, pymqi.MD(), pymqi.GMO(), headers)
    assert headers[0]["usr"].rstrip() == (
        b"<usr><a copy='reply,report' context='user' support='required'>x</a></usr>"
    )


def test_wrong_actions(
    queue_manager: QueueManager,
    queue: pymqi.Queue,
    handle: pymqi.MessageHandle,
    fails: Fails,
) -> None:
    number = handle.msg_handle
    for fields, reason in (
        ({"Action": 4, "OriginalMsgHandle": number}, CMQC.MQRC_ACTION_ERROR),
        ({"Action": CMQC.MQACTP_REPLY}, CMQC.MQRC_HMSG_ERROR),
        ({"Action": CMQC.MQACTP_FORWARD, "NewMsgHandle": number}, CMQC.MQRC_HMSG_ERROR),
    ):
        pmo = pymqi.PMO(Version=3, **fields)
        assert fails(queue.put, b"x", pymqi.MD(), pmo).reason == reason
    assert queue_manager.curdepth("Q1") == 0


def test_a_handle_replaces_what_an_RFH2_in_the_data_says(
    connection: pymqi.QueueManager, queue: pymqi.Queue, handle: pymqi.MessageHandle
) -> None:
    header = pymqi.RFH2(Format=CMQC.MQFMT_STRING, NameValueCCSID=1208, CodedCharSetId=1208)
    header.add_folder(b"<usr><colour>blue</colour><size dt='i4'>7</size></usr>")
    handle.properties["colour"] = "red"
    md = pymqi.MD(Format=CMQC.MQFMT_RF_HEADER_2)
    pmo = pymqi.PMO(Version=3, OriginalMsgHandle=handle.msg_handle)
    queue.put_rfh2(b"hello", md, pmo, [header])
    received = pymqi.MessageHandle(connection)
    body, md = get_with(queue, received)
    assert (body, md.Format) == (b"hello", b"MQSTR   ")
    assert (received.properties["colour"], received.properties["size"]) == ("red", 7)


def test_wrong_options_for_a_new_handle(connection: pymqi.QueueManager, fails: Fails) -> None:
    for cmho, reason in (
        (pymqi.CMHO(StrucId=b"DMHO"), CMQC.MQRC_CMHO_ERROR),
        (pymqi.CMHO(Version=2), CMQC.MQRC_CMHO_ERROR),
        (pymqi.CMHO(Options=3), CMQC.MQRC_OPTIONS_ERROR),
    ):
        assert fails(pymqi.MessageHandle, connection, cmho).reason == reason
    for option in (CMQC.MQCMHO_VALIDATE, CMQC.MQCMHO_NO_VALIDATION):
        pymqi.MessageHandle(connection, pymqi.CMHO(Options=option)).properties["a"] = "x"


def test_a_deleted_handle_and_a_closed_connection(
    connection: pymqi.QueueManager, queue: pymqi.Queue, handle: pymqi.MessageHandle, fails: Fails
) -> None:
    other, unassociated = pymqi.MessageHandle(connection), pymqi.MessageHandle()
    assert fails(handle.dlt, pymqi.DMHO(Version=2)).reason == CMQC.MQRC_DMHO_ERROR
    assert fails(handle.dlt, pymqi.DMHO(Options=1)).reason == CMQC.MQRC_OPTIONS_ERROR
    handle.dlt()
    assert fails(handle.dlt).reason == CMQC.MQRC_HMSG_ERROR
    assert fails(handle.properties.set, "a", "x").reason == CMQC.MQRC_HMSG_ERROR
    assert fails(put_with, queue, handle).reason == CMQC.MQRC_HMSG_ERROR
    queue.close()
    connection.disconnect()
    assert fails(other.properties.get, "a").reason == CMQC.MQRC_HCONN_ERROR
    unassociated.properties["a"] = "x"
    assert unassociated.properties["a"] == "x"


@pytest.mark.parametrize(
    ("structure", "length"),
    [
        (pymqi.CMHO, 12),
        (pymqi.DMHO, 12),
        (pymqi.DMPO, 12),
        (pymqi.PD, 24),
        (pymqi.SMPO, 20),
        (pymqi.IMPO, 64),
    ],
)
def test_the_structures_have_their_lengths_and_come_back(
    structure: type[pymqi.MQOpts], length: int
) -> None:
    packed = structure(Options=5).pack()
    assert len(packed) == length
    other = structure()
    other.unpack(packed)
    assert other.Options == 5
    assert packed[:4].decode().strip() == structure.__name__


def test_initial_values_are_those_of_pymqi() -> None:
    assert pymqi.PD().get() == {
        "StrucId": b"PD  ",
        "Version": 1,
        "Options": 0,
        "Support": CMQC.MQPD_SUPPORT_OPTIONAL,
        "Context": CMQC.MQPD_NO_CONTEXT,
        "CopyOptions": CMQC.MQCOPY_DEFAULT,
    }
    assert (pymqi.SMPO().ValueEncoding, pymqi.SMPO().ValueCCSID) == (546, -3)
    assert (pymqi.IMPO().RequestedCCSID, pymqi.IMPO().ReturnedNameVSCCSID) == (-3, 0)
    assert pymqi.MessageHandle.default_value_length == 64
