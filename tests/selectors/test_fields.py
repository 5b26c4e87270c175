"""The names of a selector for real messages: the same values as a JMS client receives."""

from __future__ import annotations

import sys
from types import FrameType
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly import QueueManager, jms
from mayfly.jms.mapping import incoming
from mayfly.jms.messages import Message as JMSMessage
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.properties import (
    FORMAT,
    INTEGER_BITS,
    Typed,
    Value,
    pack_folder,
    pack_header,
    property_element,
    read_properties,
)
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message as QueueMessage
from mayfly.verbs.properties.selectors.fields import SelectorFields
from mayfly.verbs.properties.selectors.selector import compile_selector

PUT_MS = 1_700_000_000_123
MSG_ID, CORREL_ID = bytes(range(24)), b"order-7".ljust(24, b"\0")
GROUP_ID = b"g".ljust(24, b"\0")


class Row(NamedTuple):
    """A message as the store has it, as far as it is read."""

    msg_id: bytes = MSG_ID
    correl_id: bytes = CORREL_ID
    put_ms: int = PUT_MS
    expire_at_ms: int | None = None
    backout_count: int = 0
    body: bytes = b""
    topic: str | None = None


def with_header(*folders: str, data_format: str = "MQSTR") -> bytes:
    return pack_header(b"".join(map(pack_folder, folders)), data_format) + b"data"


def in_utf_16(folder: str) -> bytes:
    """Return a header of one folder with NameValueCCSID 1200."""
    raw = folder.encode("utf-16-be")
    raw += b"\0 " * (len(raw) % 4 // 2)
    header = pack_header(len(raw).to_bytes(4, "big") + raw, "MQSTR")
    return header[:32] + (1200).to_bytes(4, "big") + header[36:]


def fields_of(
    *folders: str, descriptor: Descriptor | None = None, row: Row | None = None
) -> SelectorFields:
    """Return the fields of a message with these folders in its MQRFH2."""
    descriptor = Descriptor() if descriptor is None else descriptor
    headed = descriptor._replace(format=FORMAT, encoding=c.MQENC_NORMAL, coded_char_set_id=1208)
    row = Row() if row is None else row
    return SelectorFields(row._replace(body=with_header(*folders)), headed, PUT_MS)


@pytest.mark.parametrize("name", ["MQTopicString", "mqps.Top"])
def test_the_topic_string_stands_beside_the_message(name: str) -> None:
    assert SelectorFields(Row(topic="a/b"), Descriptor(), PUT_MS).value(name) == "a/b"
    assert fields_of("<mqps><Top>forged</Top></mqps>").value(name) is None
    for condition in ("LIKE 'a/%'", "= 'a/b'"):
        selector = compile_selector(f"{name} {condition}")
        assert selector.selects(SelectorFields(Row(topic="a/b"), Descriptor(), PUT_MS))
        assert not selector.selects(SelectorFields(Row(topic="b"), Descriptor(), PUT_MS))
        assert not selector.selects(SelectorFields(Row(), Descriptor(), PUT_MS))


FULL = Descriptor(
    report=c.MQRO_EXCEPTION,
    msg_type=c.MQMT_REQUEST,
    feedback=7,
    encoding=273,
    coded_char_set_id=1208,
    priority=6,
    persistence=c.MQPER_PERSISTENT,
    put_appl_type=28,
    msg_seq_number=3,
    offset=4,
    msg_flags=c.MQMF_LAST_MSG_IN_GROUP,
    original_length=9,
    format="MQSTR",
    reply_to_q="REPLIES",
    reply_to_q_mgr="QM1",
    user_identifier="mayfly",
    appl_identity_data="identity",
    put_appl_name="app",
    appl_origin_data="or",
    accounting_token=b"\1\2",
    group_id=GROUP_ID,
)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("Report", c.MQRO_EXCEPTION),
        ("MsgType", c.MQMT_REQUEST),
        ("Expiry", 601),
        ("Feedback", 7),
        ("Encoding", 273),
        ("CodedCharSetId", 1208),
        ("Format", "MQSTR"),
        ("Priority", 6),
        ("Persistence", 1),
        ("MsgId", MSG_ID),
        ("CorrelId", CORREL_ID),
        ("BackoutCount", 2),
        ("ReplyToQ", "REPLIES"),
        ("ReplyToQMgr", "QM1"),
        ("UserIdentifier", "mayfly"),
        ("AccountingToken", b"\1\2".ljust(32, b"\0")),
        ("ApplIdentityData", "identity"),
        ("PutApplType", 28),
        ("PutApplName", "app"),
        ("PutDate", "20231114"),
        ("PutTime", "22132012"),
        ("ApplOriginData", "or"),
        ("GroupId", GROUP_ID),
        ("MsgSeqNumber", 3),
        ("Offset", 4),
        ("MsgFlags", c.MQMF_LAST_MSG_IN_GROUP),
        ("OriginalLength", 9),
    ],
)
def test_fields_of_the_mqmd(field: str, value: Value) -> None:
    # Remaining expiry rounds up (E4): 60 s and a millisecond are 601 tenths.
    row = Row(expire_at_ms=PUT_MS + 60_001, backout_count=2)
    assert SelectorFields(row, FULL, PUT_MS).value(f"Root.MQMD.{field}") == value


def test_an_unlimited_expiry_and_a_missing_correl_id() -> None:
    fields = SelectorFields(Row(correl_id=b""), Descriptor(), PUT_MS)
    assert fields.value("Root.MQMD.Expiry") == c.MQEI_UNLIMITED
    assert fields.value("Root.MQMD.CorrelId") == bytes(24)
    assert fields.value("JMSCorrelationID") is None


def test_a_date_the_putter_gave_wins() -> None:
    descriptor = Descriptor(put_date="19990101", put_time="00000001")
    fields = SelectorFields(Row(), descriptor, PUT_MS)
    assert fields.value("Root.MQMD.PutDate") == "19990101"
    assert fields.value("JMS_IBM_PutTime") == "00000001"


@pytest.mark.parametrize(("persistence", "mode"), [(0, "NON_PERSISTENT"), (1, "PERSISTENT")])
def test_the_delivery_mode_is_a_text(persistence: int, mode: str) -> None:
    fields = SelectorFields(Row(), Descriptor(persistence=persistence), PUT_MS)
    assert fields.value("JMSDeliveryMode") == mode


USR = (
    "<usr><colour>red</colour><colour2>blue</colour2><size dt='i4'>42</size><long dt='i8'>"
    "-9223372036854775808</long><ratio dt='r8'>2.5</ratio><single dt='r4'>0.1</single>"
    "<yes dt='boolean'>1</yes><no dt='boolean'>false</no><raw dt='bin.hex'>0AFF</raw>"
    "<nothing xsi:nil='true'></nothing><empty></empty><umlaut>größe</umlaut><amp>a&amp;b</amp>"
    "<quoted dt=\"i2\">7</quoted><spaced >x</spaced ><char dt='char'>c</char>"
    "<group><colour>green</colour><only>inside</only></group></usr>"
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("colour", "red"),
        ("colour2", "blue"),
        ("size", 42),
        ("long", -(2**63)),
        ("ratio", 2.5),
        ("single", 0.10000000149011612),
        ("yes", True),
        ("no", False),
        ("raw", b"\x0a\xff"),
        ("nothing", None),
        ("empty", ""),
        ("umlaut", "größe"),
        ("amp", "a&b"),
        ("quoted", 7),
        ("spaced", "x"),
        ("char", "c"),
        ("usr.colour", "red"),
        ("usr.group.colour", "green"),
        ("usr.group.only", "inside"),
        ("only", None),
        ("group", None),
        ("colou", None),
        ("missing", None),
        ("mine.a.b", "deep"),
        ("mine.c", 3),
        ("mine.b", None),
        ("other.c", None),
        ("mcd.Msd", "jms_text"),
    ],
)
def test_properties_are_found_by_name_and_folder(name: str, value: Value) -> None:
    mine = "<mine><a><b>deep</b></a><c dt='i4'>3</c></mine>"
    found = fields_of("<mcd><Msd>jms_text</Msd></mcd>", USR, mine).value(name)
    assert (type(found), found) == (type(value), value)


def test_the_last_of_two_properties_of_a_name_counts() -> None:
    fields = fields_of("<usr><colour>red</colour><size>1</size><colour>blue</colour></usr>")
    assert fields.value("colour") == "blue"
    assert not compile_selector("colour = 'red'").selects(fields)


def test_a_message_without_an_mqrfh2_has_no_properties() -> None:
    body = with_header("<usr><colour>red</colour></usr>")
    fields = SelectorFields(Row(body=body), Descriptor(format="MQSTR"), PUT_MS)
    assert fields.value("colour") is None
    assert fields.value("usr.colour") is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"RFH ",
        b"XXXX" + with_header("<usr><colour>red</colour></usr>")[4:],
        with_header("<usr><colour>red</usr>"),
        with_header("<usr><colour dt='i4'>red</colour></usr>"),
        with_header("<usr><colour>red</colour></usr>")[:60],
        with_header("<usr><colour>x</colour></usr>").replace(b">x<", b">\xff<"),
    ],
)
def test_a_malformed_header_has_no_properties(body: bytes) -> None:
    descriptor = Descriptor(format=FORMAT, encoding=c.MQENC_NORMAL)
    assert SelectorFields(Row(body=body), descriptor, PUT_MS).value("colour") is None


def test_headers_that_are_not_the_usual_ones_are_read_too() -> None:
    folder = "<usr><colour>red</colour></usr>"
    descriptor = Descriptor(format=FORMAT, encoding=c.MQENC_NORMAL, coded_char_set_id=1208)
    chained = pack_header(pack_folder("<a><b>c</b></a>"), FORMAT) + with_header(folder)
    wide = in_utf_16(folder)
    twice = with_header(folder, "<usr><size dt='i4'>1</size></usr>")
    together = with_header("<x><y>z</y></x><usr><colour>red</colour></usr>")
    for body in (chained, wide, twice, together):
        assert SelectorFields(Row(body=body), descriptor, PUT_MS).value("colour") == "red"
    both = SelectorFields(Row(body=twice), descriptor, PUT_MS)
    assert both.value("size") == 1
    little = with_header(folder)
    numbers = range(4, 20, 4), (28,), (32,), (36,)
    for at in (at for group in numbers for at in group):
        little = little[:at] + little[at : at + 4][::-1] + little[at + 4 :]
    reverse = descriptor._replace(encoding=c.MQENC_REVERSED)
    assert SelectorFields(Row(body=little), reverse, PUT_MS).value("colour") == "red"


def test_a_header_whose_texts_are_in_EBCDIC_is_read_by_its_coded_char_set_id() -> None:
    """As z/OS writes it: StrucId and Format; the folders are in NameValueCCSID."""
    body = with_header("<usr><colour>rot</colour></usr>")
    ebcdic = "RFH ".encode("cp500") + body[4:20] + "MQSTR   ".encode("cp500") + body[28:]
    descriptor = Descriptor(format=FORMAT, encoding=c.MQENC_NORMAL, coded_char_set_id=500)
    fields = SelectorFields(Row(body=ebcdic), descriptor, PUT_MS)
    assert fields.value("colour") == "rot"
    assert fields.value("JMS_IBM_Format") == "MQSTR"
    unknown = SelectorFields(Row(body=ebcdic), descriptor._replace(coded_char_set_id=1389), PUT_MS)
    assert unknown.value("colour") is None


def test_a_property_that_looks_like_a_folder_is_none() -> None:
    assert fields_of("<x><usr><colour>red</colour></usr></x>").value("colour") is None
    found = fields_of("<x><usr><colour>red</colour></usr></x>", "<usr><colour>blue</colour></usr>")
    assert found.value("colour") == "blue"


def integers(dt: str, bits: int) -> st.SearchStrategy[Typed]:
    limit = 2 ** (bits - 1)
    return st.integers(-limit, limit - 1).map(lambda value: Typed(dt, value))


XML_NAMES = st.from_regex(r"[a-c][a-c1]{0,2}", fullmatch=True)
PROPERTIES = st.dictionaries(
    XML_NAMES,
    st.one_of(
        st.text(alphabet="ab <&'\"\n€", max_size=5).map(lambda text: Typed("string", text)),
        st.booleans().map(lambda value: Typed("boolean", value)),
        st.binary(max_size=3).map(lambda value: Typed("bin.hex", value)),
        st.floats(allow_nan=False).map(lambda value: Typed("r8", value)),
        st.just(Typed("string", None)),
        *(integers(dt, bits) for dt, bits in INTEGER_BITS.items()),
    ),
    max_size=5,
)


@pytest.mark.slow
@given(properties=PROPERTIES, group=st.one_of(st.none(), XML_NAMES), name=XML_NAMES)
def test_a_property_is_what_reading_all_of_them_says(
    properties: dict[str, Typed], group: str | None, name: str
) -> None:
    elements = "".join(property_element(key, typed) for key, typed in properties.items())
    if group is not None:
        elements = f"<{group}>{elements}</{group}>{elements}"
    fields = fields_of(f"<usr>{elements}</usr>")
    d = fields.descriptor
    every = read_properties(d.format, d.encoding, d.coded_char_set_id, fields.row.body)
    for asked in {name, *properties}:
        assert fields.value(asked) == every.get(asked)
    for asked in every:
        assert fields.value(f"usr.{asked}") == every[asked]


@pytest.mark.slow
@given(properties=PROPERTIES, name=XML_NAMES, text=st.text(alphabet="ab <&>'€", max_size=2))
def test_what_is_passed_over_at_sight_would_not_have_matched(
    properties: dict[str, Typed], name: str, text: str
) -> None:
    elements = "".join(property_element(key, typed) for key, typed in properties.items())
    wanted = {key: typed.value for key, typed in properties.items()} | {"z": text, name: text}
    for key, value in wanted.items():
        if isinstance(value, str):
            quoted = value.replace("'", "''")
            for condition in (f"{key} = '{quoted}'", f"z IS NULL AND {key} IN ('{quoted}')"):
                selector = compile_selector(condition)
                fields = fields_of(f"<usr>{elements}</usr>")
                assert selector.selects(fields) is selector.matches(fields.value)
                is_there = key in properties and properties[key].value == value
                assert selector.selects(fields) is is_there


@pytest.mark.parametrize(
    ("text", "text_end"),
    [
        ("colour = 'red' AND size > 3", b">red</colour"),
        ("size > 3 AND 'größe' = colour", ">größe</colour".encode()),
        ("colour = 'red' OR size > 3", None),
        ("NOT colour = 'red'", None),
        ("colour <> 'red'", None),
        ("colour = ''", None),
        ("size = 3", None),
        ("JMSType = 'red'", None),
        ("Root.MQMD.Format = 'MQSTR'", None),
        ("mine.colour = 'red'", None),
    ],
)
def test_only_a_text_that_must_be_there_is_looked_for(text: str, text_end: bytes | None) -> None:
    assert compile_selector(text).text_end == text_end


def test_a_message_is_not_passed_over_for_how_its_header_is_written() -> None:
    selector = compile_selector("colour = 'red'")
    for usr in (
        "<usr><colour>red</colour></usr>",
        "<usr><colour >red</colour ></usr>",
        "<usr><colour>r&#101;d</colour></usr>",
        "<usr><colour dt='string'>red</colour></usr>",
    ):
        assert selector.selects(fields_of(usr)), usr
    assert not selector.selects(fields_of("<usr><colour>blue</colour></usr>"))
    assert not selector.selects(fields_of("<mcd><colour>red</colour></mcd>"))
    assert not selector.selects(SelectorFields(Row(), Descriptor(), PUT_MS))
    descriptor = Descriptor(format=FORMAT, encoding=c.MQENC_NORMAL)
    wide = Row(body=in_utf_16("<usr><colour>red</colour></usr>"))
    assert selector.selects(SelectorFields(wide, descriptor, PUT_MS))


# Against what a JMS client receives.

SHARED = (
    "JMSPriority JMSMessageID JMSTimestamp JMSCorrelationID JMSType JMSXGroupID JMSXGroupSeq"
    " JMSXDeliveryCount JMSXUserID JMSXAppID JMS_IBM_MsgType JMS_IBM_Feedback JMS_IBM_PutApplType"
    " JMS_IBM_PutDate JMS_IBM_PutTime JMS_IBM_Encoding JMS_IBM_Format JMS_IBM_Last_Msg_In_Group"
    " JMS_IBM_Report_Exception JMS_IBM_Report_Expiration JMS_IBM_Report_COA JMS_IBM_Report_COD"
    " JMS_IBM_Report_PAN JMS_IBM_Report_NAN JMS_IBM_Report_Pass_Msg_ID"
    " JMS_IBM_Report_Pass_Correl_ID JMS_IBM_Report_Discard_Msg colour size missing"
).split()


def seen_by_jms(message: JMSMessage, name: str) -> Value:
    headers: dict[str, Value] = {
        "JMSPriority": message.jms_priority,
        "JMSMessageID": message.jms_message_id,
        "JMSTimestamp": message.jms_timestamp,
        "JMSCorrelationID": message.jms_correlation_id,
        "JMSType": message.jms_type,
    }
    if name in headers:
        return headers[name]
    typed = message.typed_properties.get(name)
    if typed is None:
        return None
    return typed.value.rstrip() if isinstance(typed.value, str) else typed.value


def send_all(manager: QueueManager) -> None:
    """Put messages of many kinds on Q1."""
    factory = jms.ConnectionFactory(manager)
    with factory.create_context() as context:
        q1 = context.create_queue("Q1")
        producer = context.create_producer()
        producer.send(q1, "plain")
        producer.set_disable_message_timestamp(True).send(q1, "no timestamp")
        producer = context.create_producer().set_priority(9)
        for correlation_id in ("order-7", f"ID:{MSG_ID.hex()}", "ID:01", "ID:xy", "", "€" * 20):
            message = context.create_text_message("x")
            message.set_jms_correlation_id(correlation_id)
            message.set_jms_type("invoice <&>")
            producer.set_property("colour", "red").set_property("size", 42).send(q1, message)
        grouped = context.create_message()
        grouped.set_string_property("JMSXGroupID", "group").set_int_property("JMSXGroupSeq", 2)
        grouped.set_boolean_property("JMS_IBM_Last_Msg_In_Group", True)
        grouped.set_int_property("JMS_IBM_Report_COA", c.MQRO_COA_WITH_DATA)
        grouped.set_int_property("JMS_IBM_MsgType", c.MQMT_REPORT)
        grouped.set_jms_reply_to(context.create_queue("REPLIES"))
        producer.send(q1, grouped)
        native = context.create_queue("queue:///Q1?targetClient=1")
        producer.send(native, "without a header")


def test_a_selector_sees_what_a_jms_client_receives(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    send_all(queue_manager)
    with queue_manager.session() as session:
        messages: list[QueueMessage] = list(session.browse("Q1"))
    assert len(messages) == 10
    different = []
    for message in messages:
        fields = SelectorFields(row_of(message), message.descriptor, clock.now_ms())
        received = incoming(message, "QM1", None)
        different += [
            (name, fields.value(name), seen_by_jms(received, name))
            for name in SHARED
            if fields.value(name) != seen_by_jms(received, name)
        ]
    assert different == []


def row_of(message: QueueMessage) -> Row:
    return Row(
        message.msg_id,
        message.correl_id,
        message.put_ms,
        message.expire_at_ms,
        message.backout_count,
        message.body,
    )


def test_messages_selected_by_a_correlation_id_have_the_correl_id_it_says(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    send_all(queue_manager)
    with queue_manager.session() as session:
        messages = list(session.browse("Q1"))
    found = []
    for text in ("order-7", f"ID:{MSG_ID.hex()}", "ID:01", "ID:xy", "€" * 20):
        selector = compile_selector(f"JMSCorrelationID = '{text}' AND size = 42")
        for message in messages:
            fields = SelectorFields(row_of(message), message.descriptor, clock.now_ms())
            if selector.matches(fields.value):
                found.append(text)
                assert message.correl_id == selector.correl_id
    assert found == ["order-7", f"ID:{MSG_ID.hex()}", "ID:01", "ID:xy", "€" * 20]


def test_a_text_that_does_not_stand_for_the_correl_id_is_not_the_correlation_id() -> None:
    header = "<jms><Dst>queue:///Q1</Dst><Cid>order-7</Cid></jms>"
    assert fields_of(header).value("JMSCorrelationID") == "order-7"
    as_id = fields_of("<jms><Cid>ID:6F</Cid></jms>", row=Row(correl_id=b"o".ljust(24, b"\0")))
    assert as_id.value("JMSCorrelationID") == "ID:6f" + 46 * "0"
    changed = fields_of(header, row=Row(correl_id=MSG_ID))
    assert changed.value("JMSCorrelationID") == f"ID:{MSG_ID.hex()}"
    assert fields_of(header, row=Row(correl_id=b"")).value("JMSCorrelationID") is None


def test_headers_in_a_report_are_those_of_its_original() -> None:
    header = "<jms><Dst>queue:///Q1</Dst><Cid>order-7</Cid><Tms>5</Tms></jms>"
    report = fields_of(header, descriptor=Descriptor(msg_type=c.MQMT_REPORT))
    assert report.value("JMSTimestamp") == PUT_MS
    assert report.value("JMSCorrelationID") == f"ID:{CORREL_ID.hex()}"
    assert fields_of(header).value("JMSTimestamp") == 5


def test_a_type_with_a_set_and_a_format_is_a_uri() -> None:
    mcd = "<mcd><Msd>mrm</Msd><Set>S</Set><Type>T</Type><Fmt>F</Fmt></mcd>"
    assert fields_of(mcd).value("JMSType") == "mcd://mrm/S/T?format=F"
    assert fields_of("<mcd><Msd>jms_text</Msd><Type>T</Type></mcd>").value("JMSType") == "T"
    assert fields_of("<mcd><Msd>jms_text</Msd></mcd>").value("JMSType") is None


# Selectors that read many names.

_tags = st.sampled_from(["a", "b", "ab", "é", "g"])
_texts = st.sampled_from(["x", "", "&lt;", "<b>y</b>", "<g><a>z</a></g>", "<b/>", "12"])
_types = st.sampled_from(["", " dt='i4'", " dt='boolean'", " other='1'"])
_elements = st.builds(lambda tag, dt, text: f"<{tag}{dt}>{text}</{tag}>", _tags, _types, _texts)
_folders = st.builds(
    lambda name, elements: f"<{name}>{''.join(elements)}</{name}>",
    st.sampled_from(["usr", "usr2", "jms", "f", "fg"]),
    st.lists(_elements, max_size=5),
)


@given(
    folders=st.lists(_folders, max_size=4),
    names=st.permutations(
        [f"{folder}{name}" for folder in ("", "usr2.", "f.", "fg.", "f.g.") for name in "ab"]
        + ["ab", "é", "g", "g.a", "JMSType", "JMSCorrelationID", "JMS_IBM_Format", "JMSPriority"]
    ),
    is_wide=st.booleans(),
)
def test_many_names_have_the_values_that_each_has_alone(
    folders: list[str], names: list[str], is_wide: bool
) -> None:
    """They are read from the header as a whole after the first few, whatever is written there."""
    fields = fields_of(*folders)
    if is_wide and folders:
        fields.row = Row(body=in_utf_16(folders[0]))
    alone = [SelectorFields(fields.row, fields.descriptor, PUT_MS).value(name) for name in names]
    assert [fields.remembered(name) for name in names] == alone
    assert [fields.remembered(name) for name in names] == alone


def test_a_folder_is_not_one_whose_name_begins_alike() -> None:
    fields = fields_of("<usr2><a>x</a></usr2>", "<fg><a>y</a></fg>")
    assert fields.value("a") is None
    assert fields.value("f.a") is None
    assert fields.value("usr2.a") == "x"
    assert fields.value("fg.a") == "y"


@pytest.mark.parametrize("folder_count", [1, 600])
def test_a_header_is_looked_through_a_few_times_however_many_names_are_read(
    folder_count: int,
) -> None:
    """Each of the first few names is searched, then all are found in one pass."""
    names = [f"p{number}" for number in range(600)]
    folders = [f"<usr>{''.join(f'<{name}>x</{name}>' for name in names)}</usr>"]
    if folder_count > 1:
        folders = [f"<{name}><q>x</q></{name}>" for name in names]
        names = [f"{name}.q" for name in names]
    fields = fields_of(*folders)
    selector = compile_selector(" AND ".join(f"{name}='x'" for name in names))
    searches = 0

    def note(_frame: FrameType, event: str, function: object) -> None:
        nonlocal searches
        is_search = getattr(function, "__name__", "") in ("search", "find")
        searches += event == "c_call" and is_search

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        assert selector.selects(fields)
    finally:
        sys.setprofile(before)
    # The compiler of regular expressions searches as well.
    assert searches < 200
