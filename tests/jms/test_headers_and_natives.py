"""Headers, IBM's properties, and messages of programs that know no JMS."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mayfly import QueueManager, jms
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.properties import pack_folder, pack_header
from mayfly.testing import VirtualClock
from tests.examples import examples
from tests.jms.scene import START_MS, alter, on_queue, put_native, received, refused

FULL = c.MQRO_EXPIRATION_WITH_FULL_DATA


def test_headers_after_send_and_receive(
    context: jms.JMSContext, q1: jms.Queue, clock: VirtualClock
) -> None:
    replies = context.create_queue("REPLIES")
    sent = context.create_text_message("x")
    sent.set_jms_correlation_id("order 7")
    sent.set_jms_reply_to(replies)
    sent.set_jms_type("invoice & more")
    context.create_producer().set_priority(6).set_time_to_live(60_000).send(q1, sent)
    clock.advance(10)
    got = received(context.create_consumer(q1), jms.TextMessage)
    for message in (sent, got):
        assert message.jms_message_id is not None
        assert message.jms_message_id.startswith("ID:414d5120514d31")
        assert message.jms_message_id == sent.jms_message_id
        assert message.jms_timestamp == START_MS
        assert message.jms_correlation_id == "order 7"
        assert message.jms_reply_to == replies
        assert message.jms_destination == q1
        assert message.jms_delivery_mode == jms.PERSISTENT
        assert message.jms_type == "invoice & more"
        assert message.jms_expiration == START_MS + 60_000
        assert message.jms_priority == 6
        assert message.jms_redelivered is False


def test_no_life_is_expiration_zero(context: jms.JMSContext, q1: jms.Queue) -> None:
    context.create_producer().send(q1, "x")
    assert received(context.create_consumer(q1), jms.TextMessage).jms_expiration == 0


def test_expiration_is_that_of_the_capped_life(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    alter(manager, "ALTER QLOCAL(Q1) CAPEXPRY(10)")
    sent = context.create_text_message("x")
    context.create_producer().set_time_to_live(60_000).send(q1, sent)
    got = received(context.create_consumer(q1), jms.TextMessage)
    assert sent.jms_expiration == got.jms_expiration == START_MS + 1_000


def test_a_life_in_ms_is_kept_to_the_millisecond(
    context: jms.JMSContext, q1: jms.Queue, clock: VirtualClock
) -> None:
    consumer = context.create_consumer(q1)
    context.create_producer().set_time_to_live(1).send(q1, "1").set_time_to_live(2).send(q1, "2")
    clock.advance(1)
    assert received(consumer, jms.TextMessage).text == "2"
    assert consumer.receive_no_wait() is None


@pytest.mark.parametrize(
    ("given", "correl_id", "seen"),
    [
        ("ID:" + "ab" * 24, b"\xab" * 24, "ID:" + "ab" * 24),
        ("ID:AB", b"\xab".ljust(24, b"\0"), "ID:ab" + "00" * 23),
        ("ID:host-1:2", b"ID:host-1:2".ljust(24, b"\0"), "ID:host-1:2"),
        ("ü" * 20, ("ü" * 12).encode(), "ü" * 20),
        (None, bytes(24), None),
    ],
)
def test_correlation_ids(
    context: jms.JMSContext,
    q1: jms.Queue,
    manager: QueueManager,
    given: str | None,
    correl_id: bytes,
    seen: str | None,
) -> None:
    context.create_producer().set_jms_correlation_id(given).send(q1, "x")
    assert on_queue(manager).correl_id == correl_id
    got = received(context.create_consumer(q1), jms.TextMessage)
    assert got.jms_correlation_id == seen


def test_correlation_id_as_bytes() -> None:
    message = jms.Message()
    message.set_jms_correlation_id_as_bytes(b"\x01")
    assert str(message.jms_correlation_id) == "ID:01" + "00" * 23
    assert message.jms_correlation_id_as_bytes == b"\x01".ljust(24, b"\0")
    with refused(jms.MessageFormatException, 0):
        message.set_jms_correlation_id_as_bytes(bytes(25))
    message.set_jms_correlation_id_as_bytes(None)
    assert message.jms_correlation_id_as_bytes is None


def test_disabled_ids_and_timestamps(context: jms.JMSContext, q1: jms.Queue) -> None:
    sent = context.create_text_message("x")
    producer = context.create_producer().set_disable_message_id(True)
    producer.set_disable_message_timestamp(True).send(q1, sent)
    assert (sent.jms_message_id, sent.jms_timestamp) == (None, 0)
    got = received(context.create_consumer(q1), jms.TextMessage)
    assert got.jms_timestamp == 0
    assert got.jms_message_id is not None


def test_headers_and_properties_of_a_jms_producer_go_with_every_message(
    context: jms.JMSContext, q1: jms.Queue
) -> None:
    producer = (
        context.create_producer()
        .set_jms_type("t")
        .set_jms_correlation_id("c")
        .set_jms_reply_to(context.create_queue("REPLIES"))
        .set_property("p", 1)
        .set_byte_property("q", 2)
    )
    assert producer.property_names() == ["p", "q"]
    consumer = context.create_consumer(q1)
    for body in ("x", b"x", {"a": 1}, None):
        producer.send(q1, body)
        got = consumer.receive_no_wait()
        assert got is not None
        assert (got.jms_type, got.jms_correlation_id, str(got.jms_reply_to)) == (
            "t",
            "c",
            "queue:///REPLIES",
        )
        assert (got.get_property("p"), got.get_byte_property("q")) == (1, 2)
        assert got.get_body(type(body)) == body
    assert producer.clear_properties().property_names() == []


def test_what_the_queue_manager_says_of_a_message(
    factory: jms.ConnectionFactory, clock: VirtualClock
) -> None:
    with factory.create_context(user_name="anna", password="-") as context:
        q1 = context.create_queue("Q1")
        context.create_producer().send(q1, "x")
        got = received(context.create_consumer(q1), jms.TextMessage)
    assert {name: got.get_property(name) for name in sorted(got.property_names())} == {
        "JMSXAppID": "jms",
        "JMSXDeliveryCount": 1,
        "JMSXUserID": "anna",
        "JMS_IBM_Character_Set": "UTF-8",
        "JMS_IBM_Encoding": 273,
        "JMS_IBM_Format": "MQSTR   ",
        "JMS_IBM_MsgType": c.MQMT_DATAGRAM,
        "JMS_IBM_PutApplType": c.MQAT_UNIX,
        "JMS_IBM_PutDate": "20231114",
        "JMS_IBM_PutTime": "22132000",
    }


def test_report_properties_are_report_options(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager, clock: VirtualClock
) -> None:
    message = context.create_text_message("short-lived")
    message.set_jms_correlation_id("mine")
    message.set_jms_reply_to(context.create_queue("REPLIES"))
    for name, value in (
        ("JMS_IBM_Report_Expiration", FULL),
        ("JMS_IBM_Report_COD", c.MQRO_COD),
        ("JMS_IBM_Report_Pass_Msg_ID", c.MQRO_PASS_MSG_ID),
        ("JMS_IBM_Report_Discard_Msg", c.MQRO_DISCARD_MSG),
        ("JMS_IBM_Report_Exception", c.MQRO_EXCEPTION),
    ):
        message.set_property(name, value)
    context.create_producer().set_time_to_live(100).send(q1, message)
    stored = on_queue(manager)
    assert stored.descriptor.report == (
        FULL | c.MQRO_COD | c.MQRO_PASS_MSG_ID | c.MQRO_DISCARD_MSG | c.MQRO_EXCEPTION
    )
    assert stored.descriptor.msg_type == c.MQMT_REQUEST
    assert stored.descriptor.reply_to_q == "REPLIES"
    clock.advance(100)
    assert context.create_consumer(q1).receive_no_wait() is None
    report = received(context.create_consumer(context.create_queue("REPLIES")), jms.TextMessage)
    assert report.text == "short-lived"
    assert report.get_int_property("JMS_IBM_Feedback") == c.MQFB_EXPIRATION
    assert report.get_int_property("JMS_IBM_MsgType") == c.MQMT_REPORT
    assert report.jms_message_id == message.jms_message_id
    # The report's own CorrelId, not the text that the original carried.
    assert report.jms_correlation_id == message.jms_message_id
    assert report.jms_destination == context.create_queue("REPLIES")


def test_report_properties_are_seen_by_the_receiver(context: jms.JMSContext, q1: jms.Queue) -> None:
    message = context.create_message()
    message.set_jms_reply_to(context.create_queue("REPLIES"))
    message.set_property("JMS_IBM_Report_COA", c.MQRO_COA_WITH_DATA)
    message.set_property("JMS_IBM_MsgType", c.MQMT_APPL_FIRST)
    context.create_producer().send(q1, message)
    got = received(context.create_consumer(q1), jms.Message)
    assert got.get_property("JMS_IBM_Report_COA") == c.MQRO_COA_WITH_DATA
    assert got.get_property("JMS_IBM_MsgType") == c.MQMT_APPL_FIRST
    assert not got.property_exists("JMS_IBM_Report_COD")


def test_properties_that_mq_does_not_take(context: jms.JMSContext, q1: jms.Queue) -> None:
    producer = context.create_producer()
    for name, value, kind, reason in (
        ("JMS_IBM_Report_COA", c.MQRO_COD, jms.JMSRuntimeException, 2061),
        ("JMS_IBM_Report_COA", True, jms.MessageFormatRuntimeException, 0),
        ("JMS_IBM_MsgType", 0, jms.JMSRuntimeException, rc.MQRC_MSG_TYPE_ERROR),
        ("JMS_IBM_Character_Set", "none", jms.MessageFormatRuntimeException, 2115),
        ("JMS_IBM_Character_Set", "1389", jms.MessageFormatRuntimeException, 2115),
        ("JMS_IBM_Format", "TOO LONG IT IS", jms.MessageFormatRuntimeException, 0),
        ("JMSXGroupSeq", 0, jms.JMSRuntimeException, rc.MQRC_MSG_SEQ_NUMBER_ERROR),
    ):
        producer.clear_properties().set_property(name, value)
        with refused(kind, reason):
            producer.send(q1, "x")
    producer.clear_properties().set_property("JMS_IBM_Report_COA", c.MQRO_COA)
    with refused(jms.JMSRuntimeException, rc.MQRC_MISSING_REPLY_TO_Q):
        producer.send(q1, "x")


def test_format_and_character_set_of_the_data(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    producer = context.create_producer().set_property("JMS_IBM_Character_Set", "ISO-8859-1")
    producer.set_property("JMS_IBM_Format", "MYTEXT").send(q1, "Grüße")
    assert on_queue(manager).body.endswith("Grüße".encode("latin-1"))
    got = received(context.create_consumer(q1), jms.TextMessage)
    assert got.text == "Grüße"
    assert got.get_property("JMS_IBM_Format") == "MYTEXT  "
    assert got.get_property("JMS_IBM_Character_Set") == "iso8859-1"


def test_character_set_1209_is_utf_8_as_1208_is(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    put_native(manager, "Grüße".encode(), Descriptor(format="MQSTR", coded_char_set_id=1209))
    assert received(context.create_consumer(q1), jms.TextMessage).text == "Grüße"
    context.create_producer().set_property("JMS_IBM_Character_Set", "1209").send(q1, "ß")
    message = on_queue(manager)
    assert message.body.endswith("ß".encode())


def test_a_group_is_in_the_descriptor(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    producer = context.create_producer().set_property("JMSXGroupID", "orders")
    producer.set_property("JMSXGroupSeq", 2).set_property("JMS_IBM_Last_Msg_In_Group", True)
    producer.send(q1, "x")
    descriptor = on_queue(manager).descriptor
    assert descriptor.group_id == b"orders".ljust(24, b"\0")
    assert descriptor.msg_seq_number == 2
    assert descriptor.msg_flags == c.MQMF_MSG_IN_GROUP | c.MQMF_LAST_MSG_IN_GROUP
    got = received(context.create_consumer(q1), jms.TextMessage)
    assert got.get_property("JMSXGroupID") == "orders"
    assert got.get_property("JMSXGroupSeq") == 2
    assert got.get_property("JMS_IBM_Last_Msg_In_Group") is True


def test_properties_that_only_the_queue_manager_gives_are_passed_over(
    context: jms.JMSContext, q1: jms.Queue
) -> None:
    producer = context.create_producer().set_property("JMSXDeliveryCount", 9)
    producer.set_property("JMS_IBM_PutDate", "19700101").send(q1, "x")
    got = received(context.create_consumer(q1), jms.TextMessage)
    assert got.get_property("JMSXDeliveryCount") == 1
    assert got.get_property("JMS_IBM_PutDate") == "20231114"


# Programs of the MQI


def test_a_native_string_is_a_text_message(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    text = Descriptor(
        format="MQSTR", coded_char_set_id=819, reply_to_q="REPLIES", user_identifier="anna"
    )
    msg_id = put_native(manager, "Grüße".encode("latin-1"), text)
    got = received(context.create_consumer(q1), jms.TextMessage)
    assert got.text == "Grüße"
    assert got.jms_message_id == "ID:" + msg_id.hex()
    assert got.jms_timestamp == got.jms_delivery_time == START_MS
    assert got.get_property("JMSXUserID") == "anna"
    assert got.jms_destination == q1
    # Who asks without an MQRFH2 is answered without one.
    assert str(got.jms_reply_to) == "queue:///REPLIES?targetClient=1"
    assert isinstance(got.jms_reply_to, jms.Queue)
    context.create_producer().send(got.jms_reply_to, "ja")
    assert on_queue(manager, "REPLIES").body == b"ja"


@pytest.mark.parametrize("ccsid", [0, 1208])
def test_a_native_string_without_a_character_set_is_utf_8(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager, ccsid: int
) -> None:
    put_native(manager, "ü".encode(), Descriptor(format="MQSTR", coded_char_set_id=ccsid))
    assert received(context.create_consumer(q1), jms.TextMessage).text == "ü"


@pytest.mark.parametrize("ccsid", [1208, 1209, 1389, 99_999])
def test_text_that_cannot_be_read_is_an_error_of_its_reader(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager, ccsid: int
) -> None:
    put_native(manager, b"\xff\xfe", Descriptor(format="MQSTR", coded_char_set_id=ccsid))
    message = received(context.create_consumer(q1), jms.TextMessage)
    with refused(jms.MessageFormatException, 0):
        _ = message.text
    context.close()
    assert manager.curdepth("Q1") == 0


def test_other_native_messages_are_bytes_in_their_encoding(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    put_native(manager, b"\x01\x00\x00\x00\x00\x00\xc0\x3f", Descriptor(format="MYFORM"))
    got = received(context.create_consumer(q1), jms.BytesMessage)
    assert (got.read_int(), got.read_float()) == (1, 1.5)
    assert got.get_property("JMS_IBM_Format") == "MYFORM  "
    assert got.get_property("JMS_IBM_Encoding") == c.MQENC_NATIVE


@pytest.mark.parametrize("body", [b"RFH damaged", b"", b"RFH \0\0\0\2\0\0\0\x24" + b"\0" * 24])
def test_a_damaged_header_makes_it_a_bytes_message_with_all_of_it(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager, body: bytes
) -> None:
    put_native(manager, body, Descriptor(format="MQHRF2", encoding=273))
    got = received(context.create_consumer(q1), jms.BytesMessage)
    assert got.get_body(bytes) == body
    assert got.get_property("JMS_IBM_Format") == "MQHRF2  "


WHOLE = pack_header(
    pack_folder("<mcd><Msd>jms_map</Msd><Type>t</Type></mcd>")
    + pack_folder("<jms><Dst>queue:///Q1</Dst><Rto>queue:///R</Rto><Tms>1</Tms><Cid>c</Cid></jms>")
    + pack_folder("<usr><i dt='i4'>1</i><f dt='r4'>1.5</f><n xsi:nil='true'/></usr>"),
    "MQSTR",
)
BODY = b"<map><elt name=\"a\" dt='bin.hex'>00</elt></map>"


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_is_damaged_every_message_can_be_received(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager, data: st.DataObject
) -> None:
    raw = bytearray(WHOLE + BODY)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        assert raw
    put_native(manager, bytes(raw), Descriptor(format="MQHRF2", encoding=273))
    with context.create_context() as own:
        consumer = own.create_consumer(q1)
        message = consumer.receive_no_wait()
        assert message is not None
        try:
            message.get_body(dict if type(message) is jms.MapMessage else object)
        except jms.MessageFormatException:
            # It came as text, and what was damaged is a letter: that is said when it is read.
            assert type(message) is jms.TextMessage
        assert consumer.receive_no_wait() is None
        if type(message) is jms.BytesMessage and not message.jms_type:
            assert bytes(raw).endswith(message.get_body(bytes))


def test_what_is_sent_to_mq_programs_they_read(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    context.create_producer().send(context.create_queue("queue:///Q1?targetClient=1"), "plain")
    with manager.session() as native:
        message = native.get("Q1")
        assert message is not None
        assert (message.body, message.descriptor.format) == (b"plain", "MQSTR")


# Destinations


@pytest.mark.parametrize(
    ("given", "uri"),
    [
        ("Q1", "queue:///Q1"),
        ("queue:///Q1", "queue:///Q1"),
        ("queue://QM1/Q1?priority=-2", "queue://QM1/Q1"),
        (
            "queue:///Q1?persistence=-1&priority=3&expiry=0",
            "queue:///Q1?expiry=0&persistence=-1&priority=3",
        ),
    ],
)
def test_destinations_have_uris(context: jms.JMSContext, given: str, uri: str) -> None:
    queue = context.create_queue(given)
    assert (str(queue), queue) == (uri, context.create_queue(uri))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "A B",
        "x" * 49,
        "queue://Q1",
        "queue:///",
        "queue:///Q1?priority=10",
        "queue:///Q1?priority=high",
        "queue:///Q1?persistence=0",
        "queue:///Q1?expiry=-1",
        "queue:///Q1?expiry=1000000000000000000",
        "queue:///Q1?color=red",
        "topic://news",
    ],
)
def test_names_that_are_no_destination(context: jms.JMSContext, name: str) -> None:
    with refused(jms.InvalidDestinationRuntimeException, rc.MQRC_OBJECT_NAME_ERROR):
        context.create_queue(name)


def test_a_destination_wins_over_its_producer(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    queue = context.create_queue("queue:///Q1?priority=1&persistence=1&expiry=5000")
    sent = context.create_text_message("x")
    context.create_producer().set_priority(9).set_time_to_live(1).send(queue, sent)
    assert (sent.jms_priority, sent.jms_delivery_mode) == (1, jms.NON_PERSISTENT)
    assert sent.jms_expiration == START_MS + 5_000


def test_destinations_that_are_not_there(
    context: jms.JMSContext, session: jms.Session, q1: jms.Queue
) -> None:
    producer = context.create_producer()
    for name, reason in (("NONE", 2085), ("queue://QM9/Q1", rc.MQRC_UNKNOWN_REMOTE_Q_MGR)):
        queue = context.create_queue(name)
        with refused(jms.InvalidDestinationRuntimeException, reason):
            producer.send(queue, "x")
        with refused(jms.InvalidDestinationRuntimeException, reason):
            context.create_consumer(queue)
        with refused(jms.InvalidDestinationException, reason):
            session.create_producer(queue)
        with refused(jms.InvalidDestinationException, reason):
            session.create_browser(queue)
    for nothing in (None, "Q1"):
        with refused(jms.InvalidDestinationRuntimeException, 2085):
            producer.send(nothing, "x")  # type: ignore[arg-type]  # what is no destination
