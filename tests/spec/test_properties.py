"""Message properties in the MQRFH2: put, seen by selectors and getters, PROPCTL, lifetimes."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly import QueueManager, jms
from mayfly.engine import Handle, Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.properties import pack_folder, pack_header
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import GetResult, Message
from mayfly.verbs.properties.folders import joined, parts_of, properties_of_mapping
from tests.over import NewSession
from tests.pages import part
from tests.spec.pubsub_scene import available_only
from tests.spec.scene import (
    BROWSE,
    INPUT,
    REPLIES,
    alias,
    bodies,
    ends,
    local,
    put_md,
    refused,
    take,
)

DOCS = part("MESSAGES.md", "Message properties")
VALUES = {
    "colour": "red & <green>",
    "size": 42,
    "far": 2**40,
    "share": 0.25,
    "raw": b"\x00\xff",
    "nothing": None,
    "isLate": True,
    "flight.gate.number": 7,
}
USER = {"colour": "red"}
#: Only in a folder that older programs do not know.
OTHER = {"flight.gate": "B42"}
PSC = "<psc><Command>RegSub</Command></psc>"
RFH2_FORMAT = "MQHRF2"
NAMES = [
    ("", rc.MQRC_PROPERTY_NAME_LENGTH_ERR),
    ("n" * 4096, rc.MQRC_PROPERTY_NAME_LENGTH_ERR),
    ("a b", rc.MQRC_PROPERTY_NAME_ERROR),
    ("a<b", rc.MQRC_PROPERTY_NAME_ERROR),
    ("1st", rc.MQRC_PROPERTY_NAME_ERROR),
    (".a", rc.MQRC_PROPERTY_NAME_ERROR),
    ("a.", rc.MQRC_PROPERTY_NAME_ERROR),
    ("a..b", rc.MQRC_PROPERTY_NAME_ERROR),
    ("\U00010400", rc.MQRC_PROPERTY_NAME_ERROR),
    ("Like", rc.MQRC_PROPERTY_NAME_ERROR),
    ("usr.true", rc.MQRC_PROPERTY_NAME_ERROR),
    ("usr.a.b", rc.MQRC_PROPERTY_NAME_ERROR),
    ("mq.a.b", rc.MQRC_PROPERTY_NAME_ERROR),
    ("MQx.a.b", rc.MQRC_PROPERTY_NAME_ERROR),
    ("JMSPriority", rc.MQRC_PROPERTY_NAME_ERROR),
    ("usr.JMSx", rc.MQRC_PROPERTY_NAME_ERROR),
    ("Body.a", rc.MQRC_PROPERTY_NAME_ERROR),
    ("Root.MQMD.Expiry", rc.MQRC_PROPERTY_NAME_ERROR),
]
WRONG_VALUES = [
    (2**63, rc.MQRC_PROP_NUMBER_FORMAT_ERROR),
    (-(2**63) - 1, rc.MQRC_PROP_NUMBER_FORMAT_ERROR),
    (["red"], rc.MQRC_PROPERTY_TYPE_ERROR),
    ("\ud800", rc.MQRC_PROPERTY_TYPE_ERROR),
]


def got(message: Message | None) -> Message:
    assert message is not None
    return message


def with_header(*folders: str, data: bytes = b"data") -> tuple[Descriptor, bytes]:
    """Return a message that an older program has put, with these folders in its MQRFH2."""
    header = pack_header(b"".join(map(pack_folder, folders)), "MQSTR", 273, 1208)
    described = Descriptor(format=RFH2_FORMAT, encoding=c.MQENC_NORMAL, coded_char_set_id=1208)
    return described, header + data


def seen(handle: Handle, options: int = 0, *, has_handle: bool = False, **more: int) -> GetResult:
    """Get or browse as a facade of the MQI does: MQGMO options and PROPCTL say how."""
    return take(handle, options, view=handle.view(options, has_handle=has_handle), **more)


@pytest.fixture
def browser(session: Session, manager: QueueManager) -> Handle:
    """``Q1``, open for browse and input."""
    return session.open("Q1", BROWSE | INPUT)


def test_properties_come_back_with_their_types_and_the_data_as_they_were_put(
    manager: QueueManager, session: Session
) -> None:
    session.put("Q1", b"hello", properties=VALUES, format_name="MQSTR")
    message = got(session.get("Q1"))
    assert message.properties == VALUES
    assert {n: type(v) for n, v in message.properties.items()} == {
        n: type(v) for n, v in VALUES.items()
    }
    assert message.data == b"hello"
    assert message.body.endswith(b"hello")
    assert message.body[:4] == b"RFH "
    assert message.descriptor.format == RFH2_FORMAT


@pytest.mark.in_process
def test_the_header_says_what_the_data_are(
    manager: QueueManager, session: Session, browser: Handle
) -> None:
    """MQCCSI_Q_MGR, 0, means nothing in a header."""
    session.put("Q1", b"hello", properties=USER, format_name="MQSTR")
    message = got(next(session.browse("Q1")))
    fixed = struct.unpack(">4siiii8sii", message.body[:36])
    assert fixed == (b"RFH ", 2, 72, c.MQENC_NATIVE, 1208, b"MQSTR   ", 0, 1208)
    plain = seen(browser, c.MQGMO_NO_PROPERTIES).message.descriptor
    assert (plain.encoding, plain.coded_char_set_id) == (c.MQENC_NATIVE, 1208)


def test_a_message_without_properties_is_stored_as_it_is(
    manager: QueueManager, session: Session
) -> None:
    session.put("Q1", b"hello", properties={})
    message = got(session.get("Q1"))
    assert (message.body, message.data, message.properties) == (b"hello", b"hello", {})
    assert message.descriptor.format == ""


def test_selectors_see_properties_put_by_name(manager: QueueManager, session: Session) -> None:
    session.put("Q1", b"1", properties={"colour": "red", "size": 1})
    session.put("Q1", b"2", properties={"colour": "blue", "flight.gate.number": 7})
    assert session.get("Q1", selector="colour = 'red' AND size = 2") is None
    assert got(session.get("Q1", selector="flight.gate.number BETWEEN 6 AND 8")).data == b"2"
    assert got(session.get("Q1", selector="colour = 'red' AND size = 1")).data == b"1"


def test_names_of_JMS_stand_where_JMS_keeps_them(manager: QueueManager, session: Session) -> None:
    session.put("Q1", b"", properties={"JMSType": "car", "JMSCorrelationID": "c1"})
    assert got(session.get("Q1", selector="JMSType = 'car'")).properties == {
        "mcd.Type": "car",
        "jms.Cid": "c1",
    }


def test_usr_in_front_of_a_name_says_nothing(manager: QueueManager, session: Session) -> None:
    session.put("Q1", b"", properties={"usr.colour": "red"})
    assert got(session.get("Q1")).properties == {"colour": "red"}


@pytest.mark.parametrize(("name", "reason"), NAMES, ids=[n[:20] for n, _ in NAMES])
def test_a_wrong_name_is_refused_and_nothing_is_put(
    manager: QueueManager, session: Session, name: str, reason: int
) -> None:
    with refused(reason):
        session.put("Q1", b"x", properties={"colour": "red", name: 1})
    assert manager.curdepth("Q1") == 0


def test_a_name_of_4095_characters_is_taken(manager: QueueManager, session: Session) -> None:
    session.put("Q1", b"x", properties={"n" * 4095: 1})
    assert list(got(session.get("Q1")).properties) == ["n" * 4095]


def test_a_name_of_2000_groups_is_taken(manager: QueueManager, session: Session) -> None:
    deep = ".".join("g" * 2_000)
    session.put("Q1", b"x", properties={deep: 1, f"{deep}h": 2, "g.h": 3})
    assert got(session.get("Q1")).properties == {deep: 1, f"{deep}h": 2, "g.h": 3}


def test_groups_that_are_too_deep_are_no_name(manager: QueueManager, session: Session) -> None:
    described, body = with_header(f"<jms>{'<a>' * 3_000}{'</a>' * 3_000}</jms>")
    put_md(session, "Q1", body, described)
    with refused(rc.MQRC_RFH_FORMAT_ERROR):
        _ = got(session.get("Q1")).properties


@pytest.mark.parametrize(("value", "reason"), WRONG_VALUES, ids=["big", "small", "list", "half"])
def test_a_wrong_value_is_refused_and_nothing_is_put(
    manager: QueueManager, session: Session, value: object, reason: int
) -> None:
    with refused(reason):
        session.put("Q1", b"x", properties={"colour": value})
    assert manager.curdepth("Q1") == 0


def test_a_name_is_no_property_and_group_at_once(manager: QueueManager, session: Session) -> None:
    for names in (("a.b", "a.b.c"), ("a.b.c", "a.b")):
        with refused(rc.MQRC_MIXED_CONTENT_NOT_ALLOWED):
            session.put("Q1", b"x", properties=dict.fromkeys(names, 1))
    session.put("Q1", b"x", properties={"a": 1, "a.b": 2, "a.bc": 3})
    assert got(session.get("Q1")).properties == {"a": 1, "a.b": 2, "a.bc": 3}


def test_the_integers_at_the_bounds_of_4_and_8_bytes(
    manager: QueueManager, session: Session
) -> None:
    values = {"a": 2**31 - 1, "b": 2**31, "c": -(2**31), "d": -(2**31) - 1, "e": 2**63 - 1}
    session.put("Q1", b"", properties=values)
    message = got(session.get("Q1"))
    assert message.properties == values
    types = [message.body.count(b"dt='%b'" % dt) for dt in (b"i4", b"i8")]
    assert types == [2, 3]


def test_properties_join_those_in_the_data_and_other_folders_stay(
    manager: QueueManager, session: Session
) -> None:
    _, body = with_header("<usr><colour>blue</colour><size dt='i4'>1</size></usr>", PSC)
    descriptor = Descriptor(format=RFH2_FORMAT, encoding=c.MQENC_NORMAL, coded_char_set_id=1208)
    described, whole = joined(descriptor, body, properties_of_mapping({"colour": "red"}))
    parts = parts_of(described, whole)
    assert [(p.name, p.typed.value) for p in parts.properties] == [("size", 1), ("colour", "red")]
    assert [text.strip() for text in parts.others] == [PSC]
    assert (parts.data, parts.data_format, parts.data_encoding) == (b"data", "MQSTR", 273)


def test_a_damaged_header_in_the_data_refuses_more_properties(
    manager: QueueManager, session: Session
) -> None:
    with refused(rc.MQRC_RFH_ERROR):
        session.put("Q1", b"RFH", properties=USER, format_name=RFH2_FORMAT)
    assert manager.curdepth("Q1") == 0


def test_two_headers_in_a_row_and_utf_16_are_read(manager: QueueManager, session: Session) -> None:
    text = "<usr><name>Ä</name></usr>".encode("utf-16-le") + b" \0"
    fixed = struct.pack("<4siiii8sii", b"RFH ", 2, 40 + len(text), 273, 1208, b"MQHRF2  ", 0, 1200)
    second = pack_header(pack_folder("<usr><size dt='i2'>2</size></usr>"), "MQSTR")
    body = fixed + len(text).to_bytes(4, "little") + text + second + b"data"
    put_md(session, "Q1", body, Descriptor(format=RFH2_FORMAT, encoding=546))
    message = got(session.get("Q1"))
    assert message.properties == {"name": "Ä", "size": 2}
    assert message.data == b"data"


DAMAGED = [
    (b"RFH ", rc.MQRC_RFH_ERROR),
    (with_header("<usr><a></usr>")[1], rc.MQRC_RFH_FORMAT_ERROR),
    (with_header("<usr><a dt='i4'>x</a></usr>")[1], rc.MQRC_RFH_FORMAT_ERROR),
    (with_header("<usr><a>&#xD800;</a></usr>")[1], rc.MQRC_RFH_FORMAT_ERROR),
]


@pytest.mark.parametrize(("body", "reason"), DAMAGED, ids=["short", "open", "value", "character"])
def test_a_damaged_header_is_got_all_the_same_and_says_what_is_wrong(
    manager: QueueManager, session: Session, body: bytes, reason: int
) -> None:
    put_md(session, "Q1", body, with_header()[0])
    message = got(session.get("Q1"))
    assert message.body == body
    with refused(reason):
        _ = message.properties
    with refused(reason):
        _ = message.data


@pytest.mark.in_process
@pytest.mark.parametrize(("body", "reason"), DAMAGED, ids=["short", "open", "value", "character"])
def test_who_asks_for_properties_of_a_damaged_header_is_refused_and_it_stays(
    manager: QueueManager, browser: Handle, session: Session, body: bytes, reason: int
) -> None:
    put_md(session, "Q1", body, with_header()[0])
    for option in (c.MQGMO_NO_PROPERTIES, c.MQGMO_PROPERTIES_IN_HANDLE):
        for more in (0, c.MQGMO_BROWSE_FIRST, c.MQGMO_SYNCPOINT):
            with refused(reason):
                seen(browser, option | more)
    assert manager.curdepth("Q1") == 1
    for queue_control in ("COMPAT", "NONE", "ALL", "FORCE", "V6COMPAT"):
        manager.mqsc(f"ALTER QLOCAL(Q1) PROPCTL({queue_control})")
        assert seen(browser, c.MQGMO_BROWSE_FIRST).message.body == body
    assert bodies(session, "Q1") == [body]


@pytest.mark.in_process
def test_the_browse_cursor_stays_before_a_message_that_is_refused(
    manager: QueueManager, browser: Handle, session: Session
) -> None:
    put_md(session, "Q1", DAMAGED[0][0], with_header()[0])
    session.put("Q1", b"next")
    for _ in range(2):
        with refused(rc.MQRC_RFH_ERROR):
            seen(browser, c.MQGMO_BROWSE_NEXT | c.MQGMO_NO_PROPERTIES)
    assert seen(browser, c.MQGMO_BROWSE_NEXT).message.body == DAMAGED[0][0]
    for under_cursor in (c.MQGMO_BROWSE_MSG_UNDER_CURSOR, c.MQGMO_MSG_UNDER_CURSOR):
        with refused(rc.MQRC_RFH_ERROR):
            seen(browser, under_cursor | c.MQGMO_NO_PROPERTIES)
    assert seen(browser, c.MQGMO_BROWSE_NEXT | c.MQGMO_NO_PROPERTIES).message.body == b"next"
    assert manager.curdepth("Q1") == 2


CONTROLS = [
    ("COMPAT", True, False),
    ("NONE", False, False),
    ("ALL", True, True),
    ("FORCE", True, True),
    ("V6COMPAT", True, True),
]


@pytest.mark.in_process
@pytest.mark.parametrize(("control", "keeps_user", "keeps_other"), CONTROLS)
def test_PROPCTL_says_what_a_get_without_option_returns(
    manager: QueueManager,
    session: Session,
    browser: Handle,
    control: str,
    keeps_user: bool,
    keeps_other: bool,
) -> None:
    """COMPAT returns properties if one of them is in mcd, jms, usr or mqext."""
    assert manager.mqsc(f"ALTER QLOCAL(Q1) PROPCTL({control})").ok
    kept = {"user": keeps_user, "other": keeps_other, "both": keeps_user}
    for kind, properties in (("user", USER), ("other", OTHER), ("both", {**OTHER, **USER})):
        session.put("Q1", b"hello", properties=properties, format_name="MQSTR")
        message = seen(browser).message
        assert message.properties == (properties if kept[kind] else {})
        assert message.data == b"hello"
        assert message.descriptor.format == (RFH2_FORMAT if kept[kind] else "MQSTR")


def test_PROPCTL_is_shown_inquired_and_kept(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm:
        qm.mqsc("DEFINE QLOCAL(Q1) PROPCTL(ALL)\nDEFINE QLOCAL(Q2)")
        with new_session(qm) as session:
            session.put("Q1", b"x", properties=USER, persistent=True)
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        shown = qm.mqsc("DISPLAY QLOCAL(Q*) PROPCTL").rows
        assert {row["QUEUE"]: row["PROPCTL"] for row in shown} == {"Q1": "ALL", "Q2": "COMPAT"}
        assert not qm.mqsc("ALTER QLOCAL(Q1) PROPCTL(SOME)").ok
        assert got(session.get("Q1")).properties == USER


@pytest.mark.in_process
def test_the_PROPCTL_of_the_alias_that_is_opened_counts(
    manager: QueueManager, session: Session
) -> None:
    manager.mqsc("ALTER QLOCAL(Q1) PROPCTL(ALL)")
    alias(manager, "A1", "Q1", PROPCTL=c.MQPROP_NONE)
    session.put("A1", b"hello", properties=USER)
    through_alias, direct = session.open("A1", BROWSE), session.open("Q1", BROWSE)
    assert seen(through_alias, c.MQGMO_BROWSE_FIRST).message.body == b"hello"
    assert seen(direct, c.MQGMO_BROWSE_FIRST).message.properties == USER


OPTIONS = [
    (c.MQGMO_NO_PROPERTIES, False, False),
    (c.MQGMO_PROPERTIES_IN_HANDLE, False, False),
    (c.MQGMO_PROPERTIES_FORCE_MQRFH2, True, True),
    (c.MQGMO_PROPERTIES_COMPATIBILITY, True, False),
]


@pytest.mark.in_process
@pytest.mark.parametrize(("option", "keeps_user", "keeps_other"), OPTIONS)
@pytest.mark.parametrize("control", ["COMPAT", "NONE", "FORCE"])
def test_an_option_of_the_get_wins_over_PROPCTL(
    manager: QueueManager,
    session: Session,
    browser: Handle,
    option: int,
    keeps_user: bool,
    keeps_other: bool,
    control: str,
) -> None:
    manager.mqsc(f"ALTER QLOCAL(Q1) PROPCTL({control})")
    for properties, is_kept in ((USER, keeps_user), (OTHER, keeps_other)):
        session.put("Q1", b"hello", properties=properties)
        for more in (c.MQGMO_BROWSE_FIRST, 0):
            result = seen(browser, option | more)
            assert result.message.properties == (properties if is_kept else {})
            in_handle = option == c.MQGMO_PROPERTIES_IN_HANDLE
            assert (result.content is not None) == in_handle


def test_two_property_options_rule_each_other_out(browser: Handle) -> None:
    for pair in (
        c.MQGMO_NO_PROPERTIES | c.MQGMO_PROPERTIES_FORCE_MQRFH2,
        c.MQGMO_PROPERTIES_IN_HANDLE | c.MQGMO_PROPERTIES_COMPATIBILITY,
    ):
        with refused(rc.MQRC_OPTIONS_ERROR):
            take(browser, pair)


@pytest.mark.in_process
def test_folders_without_properties_stay_when_properties_go(
    manager: QueueManager, session: Session, browser: Handle
) -> None:
    described, body = with_header("<usr><colour>red</colour></usr>", PSC)
    put_md(session, "Q1", body, described)
    message = seen(browser, c.MQGMO_NO_PROPERTIES).message
    assert message.body == with_header(PSC)[1]
    assert message.descriptor.format == RFH2_FORMAT


@pytest.mark.in_process
def test_a_header_without_properties_is_not_touched(
    manager: QueueManager, session: Session, browser: Handle
) -> None:
    body = with_header(PSC)[1].replace(b"MQSTR   ", b"        ")
    for folders in (body, with_header()[1]):
        put_md(session, "Q1", folders, with_header()[0])
        assert seen(browser, c.MQGMO_NO_PROPERTIES).message.body == folders


def test_a_folder_is_of_properties_when_it_says_so(manager: QueueManager, session: Session) -> None:
    described, body = with_header("<a content='properties'><b>1</b></a>", "<c><d>2</d></c>")
    put_md(session, "Q1", body, described)
    assert got(session.get("Q1")).properties == {"a.b": "1"}


@pytest.mark.in_process
@pytest.mark.parametrize("option", [c.MQGMO_NO_PROPERTIES, c.MQGMO_PROPERTIES_IN_HANDLE])
def test_G5_the_buffer_is_for_what_is_returned(
    manager: QueueManager, session: Session, browser: Handle, option: int
) -> None:
    session.put("Q1", b"hello", properties=USER)
    short = seen(browser, option, max_length=4)
    assert (short.warning, short.message.body) == (rc.MQRC_TRUNCATED_MSG_FAILED, b"hell")
    assert short.data_length == 5
    exact = seen(browser, option | c.MQGMO_BROWSE_FIRST, max_length=5)
    assert (exact.warning, exact.message.body) == (rc.MQRC_NONE, b"hello")
    cut = seen(browser, option | c.MQGMO_ACCEPT_TRUNCATED_MSG, max_length=4)
    assert (cut.warning, cut.message.body) == (rc.MQRC_TRUNCATED_MSG_ACCEPTED, b"hell")
    assert manager.curdepth("Q1") == 0


def test_E4_properties_do_not_change_a_life(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    for name in ("Q1", local(manager, "Q2")):
        session.put(name, b"x", properties=VALUES, time_to_live_ms=1_000)
    clock.advance(999)
    assert got(session.get("Q1")).remaining_ms == 1
    clock.advance(1)
    assert session.get("Q2") is None
    assert [end.outcome for end in ends(manager, "Q2")] == ["expired"]


@pytest.mark.in_process
@pytest.mark.parametrize("selector", ["colour = 'red'", "colour = 'blue'"])
def test_a_waiting_get_sees_properties_as_it_asked_for(
    manager: QueueManager, session: Session, selector: str
) -> None:
    handle = session.open("Q1", INPUT, selector=selector)
    session.put("Q1", b"hello", properties=USER)
    if "red" in selector:
        assert seen(handle, c.MQGMO_NO_PROPERTIES | c.MQGMO_WAIT, wait_ms=10).message.body == (
            b"hello"
        )
    else:
        with refused(rc.MQRC_NO_MSG_AVAILABLE):
            seen(handle, c.MQGMO_NO_PROPERTIES)


def test_R1_a_report_with_data_has_the_properties_beside_its_100_bytes(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    session.put(
        "Q1",
        bytes(250),
        properties=VALUES,
        time_to_live_ms=10,
        report=c.MQRO_EXPIRATION_WITH_DATA,
        reply_to_q=REPLIES,
    )
    clock.advance(10)
    assert session.get("Q1") is None
    report = got(session.get(REPLIES))
    assert report.descriptor.feedback == c.MQFB_EXPIRATION
    assert report.properties == VALUES
    assert report.data == bytes(100)


def test_a_delayed_message_keeps_its_properties(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    session.put("Q1", b"later", properties=VALUES, delay_ms=5_000, persistent=True)
    clock.advance(4_999)
    assert session.get("Q1") is None
    clock.advance(1)
    message = got(session.get("Q1", selector="size = 42"))
    assert (message.properties, message.data) == (VALUES, b"later")


@pytest.mark.in_process
def test_a_publication_has_its_properties_and_subscriptions_select_by_them(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    available_only(manager)
    red = session.subscribe("paint", selector="colour = 'red'")
    blue = session.subscribe("paint", selector="colour = 'blue'")
    assert session.publish("paint", b"now", properties=USER).matched_count == 1
    session.publish("paint", b"later", properties={"colour": "blue"}, delay_ms=1_000)
    assert got(red.get()).properties == USER
    assert blue.get() is None
    clock.advance(1_000)
    assert got(blue.get()).data == b"later"
    with refused(rc.MQRC_PROPERTY_NAME_ERROR):
        session.publish("paint", b"x", properties={"a b": 1})


@pytest.mark.in_process
def test_an_uncommitted_put_of_ones_own_is_seen_without_properties(
    manager: QueueManager, unit: Session
) -> None:
    unit.put("Q1", b"hello", properties=USER)
    handle = unit.open("Q1", INPUT)
    options = c.MQGMO_SYNCPOINT | c.MQGMO_NO_PROPERTIES
    assert seen(handle, options).message.body == b"hello"


@pytest.mark.in_process
def test_the_staging_queue_shows_its_header_first_whatever_PROPCTL_says(
    manager: QueueManager, session: Session
) -> None:
    session.put("Q1", b"later", properties=USER, delay_ms=5_000)
    handle = session.open("SYSTEM.DDELAY.LOCAL.QUEUE", BROWSE)
    result = seen(handle, c.MQGMO_BROWSE_FIRST | c.MQGMO_NO_PROPERTIES)
    assert result.message.body[:4] == b"DDH "
    assert result.message.body[208:212] == b"RFH "


WORDS = st.from_regex(r"[A-Za-z_$][A-Za-z0-9_$]{0,8}", fullmatch=True).filter(
    lambda word: (
        word.upper() not in "NULL TRUE FALSE NOT AND OR BETWEEN LIKE IN IS ESCAPE".split()
        and not word.startswith("JMS")
    )
)
GROUPED = st.builds("{}.{}".format, WORDS.map(lambda word: f"x_{word}"), WORDS)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ANY_VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    TEXTS,
    st.binary(max_size=20),
)


@given(st.dictionaries(st.one_of(WORDS, GROUPED), ANY_VALUE, max_size=6), st.binary(max_size=40))
def test_all_names_and_values_come_back_and_the_data_behind_them(
    values: dict[str, object], data: bytes
) -> None:
    plain = Descriptor(format="MQSTR", encoding=546, coded_char_set_id=850)
    described, body = joined(plain, data, properties_of_mapping(values))
    parts = parts_of(described, body)
    assert {p.name: p.typed.value for p in parts.properties} == values
    assert (parts.data, parts.data_format) == (data, "MQSTR")
    assert (parts.data_encoding, parts.data_coded_char_set_id) == (546, 850)


def test_a_message_put_natively_is_read_by_JMS(manager: QueueManager, session: Session) -> None:
    session.put("Q1", b"hello", properties={"colour": "red", "size": 42}, format_name="MQSTR")
    with jms.ConnectionFactory(manager).create_context() as context:
        received = context.create_consumer(context.create_queue("Q1")).receive_no_wait()
        assert isinstance(received, jms.TextMessage)
        assert received.text == "hello"
        assert received.get_property("colour") == "red"
        assert received.get_property("size") == 42


def test_MAXPROPL_limits_the_properties_of_a_put(manager: QueueManager, session: Session) -> None:
    """Names and values count: 6 + 3 bytes, 4 + 4 bytes."""
    available_only(manager)
    properties = {"colour": "red", "size": 42}
    for limit, fits in (("17", True), ("16", False), ("0", False), ("NOLIMIT", True)):
        assert manager.mqsc(f"ALTER QMGR MAXPROPL({limit})").ok
        for put in (session.put, session.publish):
            if fits:
                put("Q1", b"x", properties=properties)
            else:
                with refused(rc.MQRC_PROPERTIES_TOO_BIG):
                    put("Q1", b"x", properties=properties)
    session.put("Q1", b"x")
    assert manager.curdepth("Q1") == 3
    assert not manager.mqsc("ALTER QMGR MAXPROPL(-1)").ok


def test_the_examples_in_the_docs_run(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(
        r"^```python\n(.*?)^```\n```text\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL
    )
    names: dict[str, object] = {}
    for code, output in blocks:
        exec(compile(code, "docs/MESSAGES.md", "exec"), names)
        assert capsys.readouterr().out == output
    assert len(blocks) == 2
