"""The MQRFH2: bytes as IBM MQ JMS writes them, properties there and back, damage told apart."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly import MQError, QueueManager, jms
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQENC_NATIVE, MQENC_NORMAL
from mayfly.mqi.properties import (
    Typed,
    escape,
    pack_folder,
    pack_header,
    parse,
    property_element,
    read_properties,
    single,
)
from tests.jms.scene import START_MS, on_queue


def header(*folders: bytes, data_format: bytes = b"MQSTR   ", order: str = ">") -> bytes:
    """Make a header by hand: each folder with its length, padded to a multiple of 4."""
    area = b""
    for folder in folders:
        padded = folder + b" " * (-len(folder) % 4)
        area += struct.pack(order + "i", len(padded)) + padded
    encoding = MQENC_NORMAL if order == ">" else MQENC_NATIVE
    fixed = struct.pack(
        order + "4siiii8sii", b"RFH ", 2, 36 + len(area), encoding, 1208, data_format, 0, 1208
    )
    return fixed + area


def read(body: bytes, encoding: int = MQENC_NORMAL) -> dict[str, object]:
    return read_properties("MQHRF2", encoding, 1208, body)


def test_a_text_message_is_byte_for_byte_as_ibm_mq_jms_sends_it(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    message = context.create_text_message("Grüße")
    message.set_property("colour", "red & <blue>")
    message.set_property("size", 42)
    context.create_producer().send(q1, message)
    stored = on_queue(manager)
    assert (
        stored.body
        == header(
            b"<mcd><Msd>jms_text</Msd></mcd>",
            b"<jms><Dst>queue:///Q1</Dst><Tms>1700000000000</Tms><Dlv>2</Dlv></jms>",
            b"<usr><colour>red &amp; &lt;blue&gt;</colour><size dt='i4'>42</size></usr>",
        )
        + "Grüße".encode()
    )
    descriptor = stored.descriptor
    assert (descriptor.format, descriptor.encoding, descriptor.coded_char_set_id) == (
        "MQHRF2",
        273,
        1208,
    )


def test_every_header_has_its_place_in_the_jms_folder(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    message = context.create_bytes_message(b"\x01")
    message.set_jms_correlation_id("order 7")
    message.set_jms_reply_to(context.create_queue("REPLIES"))
    message.set_jms_type("invoice")
    message.set_property("JMSXGroupID", "group")
    message.set_property("JMSXGroupSeq", 3)
    producer = context.create_producer().set_priority(9).set_time_to_live(60_000)
    producer.set_delivery_mode(jms.NON_PERSISTENT)
    producer.send(context.create_queue("queue:///Q1?priority=8"), message)
    assert (
        on_queue(manager).body
        == header(
            b"<mcd><Msd>jms_bytes</Msd><Type>invoice</Type></mcd>",
            b"<jms><Dst>queue:///Q1?priority=8</Dst><Rto>queue:///REPLIES</Rto>"
            b"<Tms>1700000000000</Tms><Exp>1700000060000</Exp><Cid>order 7</Cid><Pri>8</Pri>"
            b"<Dlv>1</Dlv><Gid>group</Gid><Seq>3</Seq></jms>",
            data_format=b"        ",
        )
        + b"\x01"
    )


def test_map_stream_plain_and_null_bodies(
    context: jms.JMSContext, manager: QueueManager, q1: jms.Queue
) -> None:
    jms_folder = f"<jms><Dst>queue:///Q1</Dst><Tms>{START_MS}</Tms><Dlv>2</Dlv></jms>".encode()
    values = context.create_map_message()
    values.set_boolean("a<b", True)
    values.set_bytes("c", b"\x0f\xa0")
    stream = context.create_stream_message()
    stream.write_long(-5)
    stream.write_string(None)
    nil = (
        b'<msgbody xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true"></msgbody>'
    )
    expected = [
        (
            values,
            header(b"<mcd><Msd>jms_map</Msd></mcd>", jms_folder)
            + b"<map><elt name=\"a&lt;b\" dt='boolean'>1</elt>"
            + b"<elt name=\"c\" dt='bin.hex'>0FA0</elt></map>",
        ),
        (
            stream,
            header(b"<mcd><Msd>jms_stream</Msd></mcd>", jms_folder)
            + b"<stream><elt dt='i8'>-5</elt><elt xsi:nil='true'></elt></stream>",
        ),
        (
            context.create_message(),
            header(b"<mcd><Msd>jms_none</Msd></mcd>", jms_folder, data_format=b" " * 8),
        ),
        (
            context.create_text_message(),
            header(b"<mcd><Msd>jms_text</Msd>" + nil + b"</mcd>", jms_folder),
        ),
    ]
    for message, body in expected:
        context.create_producer().send(q1, message)
        assert on_queue(manager).body == body
        assert context.create_consumer(q1).receive_no_wait() is not None


def test_a_destination_for_mq_programs_has_no_header(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    message = context.create_text_message("plain")
    message.set_jms_correlation_id_as_bytes(b"C" * 24)
    context.create_producer().send(context.create_queue("queue:///Q1?targetClient=1"), message)
    stored = on_queue(manager)
    assert (stored.body, stored.descriptor.format, stored.correl_id) == (
        b"plain",
        "MQSTR",
        b"C" * 24,
    )


def test_properties_are_read_in_both_byte_orders_and_from_groups() -> None:
    folder = b"<usr><a dt=\"i2\">7</a><g><h dt='boolean'>1</h><i/></g><n xsi:nil='true'/></usr>"
    expected = {"a": 7, "g.h": True, "g.i": "", "n": None}
    assert read(header(folder)) == expected
    assert read(header(folder, order="<"), MQENC_NATIVE) == expected


def test_properties_without_a_header_are_none() -> None:
    assert read_properties("MQSTR", MQENC_NORMAL, 1208, b"RFH ") == {}


def test_two_headers_in_a_row_are_read_as_one() -> None:
    first = header(b"<usr><a>1</a></usr>", data_format=b"MQHRF2  ")
    assert read(first + header(b"<usr><b>2</b></usr>") + b"data") == {"a": "1", "b": "2"}


def test_folders_of_publish_subscribe_are_passed_over() -> None:
    body = header(b"<mqps><Top>news</Top><Ret/></mqps>", b"<usr><a>1</a></usr>", b"<other/>")
    assert read(body) == {"a": "1"}


def test_utf_16_folders_are_read() -> None:
    text = "<usr><a>ü</a></usr> ".encode("utf-16-be")
    fixed = struct.pack(">4siiii8sii", b"RFH ", 2, 40 + len(text), 273, 1208, b"MQSTR   ", 0, 1200)
    assert read(fixed + struct.pack(">i", len(text)) + text) == {"a": "ü"}


GOOD = header(b"<usr><a>1</a></usr>")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", rc.MQRC_RFH_ERROR),
        (GOOD[:35], rc.MQRC_RFH_ERROR),
        (b"RFHX" + GOOD[4:], rc.MQRC_RFH_ERROR),
        (GOOD[:-1], rc.MQRC_RFH_ERROR),
        (GOOD[:8] + struct.pack(">i", 35) + GOOD[12:], rc.MQRC_RFH_ERROR),
        (GOOD[:8] + struct.pack(">i", -1) + GOOD[12:], rc.MQRC_RFH_ERROR),
        (GOOD[:32] + struct.pack(">i", 37) + GOOD[36:], rc.MQRC_RFH_ERROR),
        (GOOD[:36] + struct.pack(">i", 4096) + GOOD[40:], rc.MQRC_RFH_ERROR),
        (GOOD[:36] + struct.pack(">i", -4) + GOOD[40:], rc.MQRC_RFH_ERROR),
        (GOOD[:36] + struct.pack(">i", 19) + GOOD[40:], rc.MQRC_RFH_ERROR),
        (header(b"<usr><a>\xff\xff</a></usr>"), rc.MQRC_RFH_STRING_ERROR),
        (header(b"<usr><a>1</usr>"), rc.MQRC_RFH_FORMAT_ERROR),
        (header(b"<usr><a>1</a>"), rc.MQRC_RFH_FORMAT_ERROR),
        (header(b"<usr>&nothing;</usr>"), rc.MQRC_RFH_FORMAT_ERROR),
        (header(b"<usr><a>x & y</a></usr>"), rc.MQRC_RFH_FORMAT_ERROR),
        (header(b"<usr><a dt='i4'>one</a></usr>"), rc.MQRC_RFH_FORMAT_ERROR),
        (header(b"<usr><a dt='i1'>128</a></usr>"), rc.MQRC_RFH_FORMAT_ERROR),
        (header(b"<usr><a dt='boolean'>2</a></usr>"), rc.MQRC_RFH_FORMAT_ERROR),
        (header(b"<usr><a dt='bin.hex'>0</a></usr>"), rc.MQRC_RFH_FORMAT_ERROR),
        (header(b"<usr><a dt='r8'>1_0</a></usr>"), rc.MQRC_RFH_FORMAT_ERROR),
        (header(b"<usr><a dt='r4'>1e39</a></usr>"), rc.MQRC_RFH_FORMAT_ERROR),
        (header(b"text outside"), rc.MQRC_RFH_FORMAT_ERROR),
        (header(b"</usr>"), rc.MQRC_RFH_FORMAT_ERROR),
        (header(b"<!DOCTYPE x [<!ENTITY a 'b'>]><usr/>"), rc.MQRC_RFH_FORMAT_ERROR),
    ],
)
def test_a_damaged_header_is_told_by_its_reason(body: bytes, reason: int) -> None:
    with pytest.raises(MQError) as caught:
        read(body)
    assert caught.value.reason == reason


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_raise_mq_error(data: bytes) -> None:
    body = pack_header(pack_folder("<usr>") + data, "MQSTR") + data
    for candidate in (data, b"RFH \0\0\0\2" + data, body):
        reason = 0
        try:
            read(candidate)
        except MQError as error:
            reason = error.reason
        assert reason in (0, 2334, 2335, 2421)


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


TEXT = st.text(max_size=20)
TYPED: list[tuple[str, st.SearchStrategy[object]]] = [
    ("string", TEXT),
    ("boolean", st.booleans()),
    ("bin.hex", st.binary(max_size=20)),
    ("i1", integers(8)),
    ("i2", integers(16)),
    ("i4", integers(32)),
    ("i8", integers(64)),
    ("r4", st.floats(width=32)),
    ("r8", st.floats()),
]


def same(one: object, other: object) -> bool:
    """Equal, and of one type; no number is equal to itself here."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and one == other


@given(st.one_of([st.tuples(st.just(dt), values) for dt, values in TYPED]))
def test_every_value_comes_back_as_it_was_written(pair: tuple[str, object]) -> None:
    dt, value = pair
    assert value is None or isinstance(value, (bool, int, float, str, bytes))
    folder = pack_folder(f"<usr>{property_element('p', Typed(dt, value))}</usr>")
    found = read(pack_header(folder, "MQSTR"))
    assert found.keys() == {"p"}
    assert same(value, found["p"])


@given(TEXT)
def test_escaped_text_is_one_element(text: str) -> None:
    (element,) = parse(f"<a x='{escape(text)}'>{escape(text)}</a>")
    assert (element.text, element.attributes, element.children) == (text, {"x": text}, [])


def test_a_float_of_four_bytes_is_written_as_short_as_it_can_be() -> None:
    assert property_element("f", Typed("r4", single(1.1))) == "<f dt='r4'>1.1</f>"


def test_a_million_references_are_read_once() -> None:
    assert len(parse("<a>" + "&amp;" * 200_000 + "</a>")[0].text) == 200_000
