"""Administration without text: typed values in, records and typed errors out."""

from collections.abc import Iterator

import pytest

import mayfly
from mayfly import admin
from mayfly.admin import (
    AUTHINFO,
    CHANNEL,
    CHSTATUS,
    CLNTCONN,
    DEFINABLE,
    INQUIRABLE,
    POLICY,
    QALIAS,
    QLOCAL,
    QMGR,
    QSTATUS,
    QUEUE_KINDS,
    SUB,
    TOPIC,
    TPSTATUS,
    AdminError,
    Filter,
    Value,
)
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.command_constants import (
    MQRCCF_ATTR_VALUE_ERROR,
    MQRCCF_ATTR_VALUE_FIXED,
    MQRCCF_LIKE_OBJECT_WRONG_TYPE,
    MQRCCF_PARM_CONFLICT,
    MQRCCF_PARM_MISSING,
)
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock

#: What each kind of object needs beside a name.
NEEDED: dict[str, dict[str, Value]] = {
    TOPIC: {"TOPICSTR": "a/b"},
    SUB: {"TOPICSTR": "a", "DEST": "SYSTEM.DEFAULT.LOCAL.QUEUE"},
    CHANNEL: {"CHLTYPE": 1, "XMITQ": "XQ", "CONNAME": "QM2"},
    CLNTCONN: {"CONNAME": "mq.example(1414)"},
    AUTHINFO: {"AUTHTYPE": 3},
}


@pytest.fixture
def qm(clock: VirtualClock) -> Iterator[mayfly.QueueManager]:
    with mayfly.QueueManager("QM1", clock=clock) as manager:
        yield manager


def test_a_queue_manager_defines_a_local_queue_by_keywords(qm: mayfly.QueueManager) -> None:
    qm.define_queue("ORDERS", maxdepth=500, capexpry=600, defpsist="YES")
    qm.define_queue("RETURNS", like="ORDERS", descr="sent back")
    for name, descr in (("ORDERS", ""), ("RETURNS", "sent back")):
        [record] = admin.inquire(qm.engine, QUEUE_KINDS, name)
        told = {key: record.values[key] for key in ("MAXDEPTH", "CAPEXPRY", "DEFPSIST", "DESCR")}
        assert told == {"MAXDEPTH": 500, "CAPEXPRY": 600, "DEFPSIST": 1, "DESCR": descr}
    with pytest.raises(MQError) as there:
        qm.define_queue("ORDERS")
    assert there.value.reason == rc.MQRC_OBJECT_ALREADY_EXISTS
    with pytest.raises(AdminError) as wrong:
        qm.define_queue("ORDERS", replace=True, maxdepth=-1)
    assert (wrong.value.reason, wrong.value.attribute, wrong.value.value) == (
        MQRCCF_ATTR_VALUE_ERROR,
        "MAXDEPTH",
        -1,
    )
    with pytest.raises(AdminError) as unknown:
        qm.define_queue("MORE", maxdept=1)
    assert (unknown.value.reason, unknown.value.attribute) == (rc.MQRC_SELECTOR_ERROR, "MAXDEPT")
    qm.define_queue("ORDERS", replace=True, maxdepth=7)
    [record] = admin.inquire(qm.engine, QUEUE_KINDS, "ORDERS")
    assert (record.values["MAXDEPTH"], record.values["CAPEXPRY"]) == (7, -1)


@pytest.mark.parametrize("kind", DEFINABLE)
def test_each_kind_is_defined_altered_inquired_and_deleted_alike(
    qm: mayfly.QueueManager, kind: str
) -> None:
    changed, to = {SUB: ("USERDATA", "x"), POLICY: ("RECIP", "x")}.get(kind, ("DESCR", "new"))
    admin.define(qm.engine, kind, "ONE", NEEDED.get(kind, {}))
    with pytest.raises(MQError) as caught:
        admin.define(qm.engine, kind, "ONE", NEEDED.get(kind, {}))
    exists = rc.MQRC_SUB_ALREADY_EXISTS if kind == SUB else rc.MQRC_OBJECT_ALREADY_EXISTS
    assert caught.value.reason == exists
    admin.alter(qm.engine, kind, "ONE", {changed: to})
    [record] = admin.inquire(qm.engine, (kind,), "ONE")
    assert (record.kind, record.name, record.values[changed]) == (kind, "ONE", to)
    for keyword, value in record.values.items():
        row = admin.object_type(kind).row(keyword)
        assert row is None or isinstance(value, str) == row.is_text, keyword
    admin.delete(qm.engine, kind, "ONE")
    assert admin.inquire(qm.engine, (kind,), "ONE") == []
    with pytest.raises(MQError) as caught:
        admin.delete(qm.engine, kind, "ONE")
    unknown = rc.MQRC_NO_SUBSCRIPTION if kind == SUB else rc.MQRC_UNKNOWN_OBJECT_NAME
    assert caught.value.reason == unknown


@pytest.mark.parametrize("kind", DEFINABLE)
def test_an_unknown_attribute_is_named_with_its_value_and_nothing_is_defined(
    qm: mayfly.QueueManager, kind: str
) -> None:
    with pytest.raises(AdminError) as caught:
        admin.define(qm.engine, kind, "ONE", {**NEEDED.get(kind, {}), "MAXDETPH": 5})
    error = caught.value
    assert (error.reason, error.attribute, error.value) == (rc.MQRC_SELECTOR_ERROR, "MAXDETPH", 5)
    assert str(error) == f"MQRC_SELECTOR_ERROR (2067): MAXDETPH is no attribute of {kind}"
    assert admin.inquire(qm.engine, (kind,), "ONE") == []


@pytest.mark.parametrize(
    ("keyword", "value", "said"),
    [
        ("MAXDEPTH", -1, "MAXDEPTH(-1) is not right: it must be a number from 0 to 999999999"),
        ("PUT", 2, "PUT(2) is not right: it must be ENABLED or DISABLED"),
        ("MAXDEPTH", "5", "MAXDEPTH(5) takes a number"),
        ("DESCR", 5, "DESCR(5) takes text"),
        ("MAXDEPTH", True, "MAXDEPTH(True) takes a number"),
        ("DESCR", "é" * 33, f"DESCR({'é' * 33}) is 66 bytes long; it may have 64"),
        ("DESCR", "a\nb", "DESCR(a\nb) holds a character that cannot be printed"),
        ("CUSTOM", "CAPEXPRY(0)", "it must be '' or 'CAPEXPRY(n)'"),
        ("BOQNAME", "A B", "BOQNAME(A B): 'A B' is not 1 to 48 characters"),
    ],
)
def test_a_wrong_value_is_refused_whichever_codec_it_came_by(
    qm: mayfly.QueueManager, keyword: str, value: Value, said: str
) -> None:
    admin.define(qm.engine, QLOCAL, "Q", {"MAXDEPTH": 7, "DESCR": "was"})
    errors = []
    with pytest.raises(AdminError) as caught:
        admin.define(qm.engine, QLOCAL, "NEW", {keyword: value})
    errors.append(caught.value)
    with pytest.raises(AdminError) as caught:
        admin.alter(qm.engine, QLOCAL, "Q", {"GET": c.MQQA_GET_INHIBITED, keyword: value})
    errors.append(caught.value)
    for error in errors:
        assert (error.reason, error.attribute) == (MQRCCF_ATTR_VALUE_ERROR, keyword)
        assert error.value == value
        assert said in error.detail
    [record] = admin.inquire(qm.engine, QUEUE_KINDS, "Q")
    assert record.values["GET"] == c.MQQA_GET_ALLOWED
    assert admin.inquire(qm.engine, QUEUE_KINDS, "NEW") == []


def test_the_blanks_at_the_end_of_a_text_mean_nothing(qm: mayfly.QueueManager) -> None:
    admin.define(qm.engine, QLOCAL, "Q", {"DESCR": "  two  "})
    [record] = admin.inquire(qm.engine, (QLOCAL,), "Q")
    assert record.values["DESCR"] == "  two"


def test_the_object_of_like_gives_what_is_left_out_and_must_be_there(
    qm: mayfly.QueueManager,
) -> None:
    admin.define(qm.engine, QLOCAL, "A", {"MAXDEPTH": 7, "BOTHRESH": 3})
    admin.define(qm.engine, QLOCAL, "B", {"BOTHRESH": 4}, like="A")
    [record] = admin.inquire(qm.engine, (QLOCAL,), "B")
    assert (record.values["MAXDEPTH"], record.values["BOTHRESH"]) == (7, 4)
    with pytest.raises(admin.UnknownLikeObject) as caught:
        admin.define(qm.engine, QLOCAL, "C", {}, like="NONE")
    assert (caught.value.name, caught.value.reason) == ("NONE", rc.MQRC_UNKNOWN_OBJECT_NAME)
    with pytest.raises(admin.UnknownLikeObject):
        admin.define(qm.engine, QALIAS, "C", {}, like="A")


@pytest.mark.parametrize("kind", DEFINABLE)
def test_a_pattern_names_no_object(qm: mayfly.QueueManager, kind: str) -> None:
    needed = NEEDED.get(kind, {})
    admin.define(qm.engine, kind, "ONE", needed)
    with pytest.raises(admin.UnknownLikeObject) as unknown:
        admin.define(qm.engine, kind, "TWO", needed, like="O*")
    assert (unknown.value.reason, unknown.value.name) == (rc.MQRC_UNKNOWN_OBJECT_NAME, "O*")
    if kind != SUB:
        for replace in (False, True):
            with pytest.raises(MQError) as caught:
                admin.define(qm.engine, kind, "O*", needed, replace=replace)
            assert caught.value.reason == rc.MQRC_OBJECT_NAME_ERROR
    assert [record.name for record in admin.inquire(qm.engine, (kind,), "O*")] == ["ONE"]
    with pytest.raises(MQError):
        admin.delete(qm.engine, kind, "O*")


def names(qm: mayfly.QueueManager, keyword: str, sign: str, value: Value) -> list[str]:
    found = admin.inquire(qm.engine, QUEUE_KINDS, "Q*", Filter(keyword, sign, value))
    return [record.name for record in found]


def test_a_number_with_a_name_is_neither_less_nor_more_than_a_number(
    qm: mayfly.QueueManager,
) -> None:
    admin.define(qm.engine, QLOCAL, "Q5", {"CAPEXPRY": 5})
    admin.define(qm.engine, QLOCAL, "Q9", {"CAPEXPRY": 9})
    admin.define(qm.engine, QLOCAL, "QN", {"CAPEXPRY": c.MQCEX_NOLIMIT})
    assert names(qm, "CAPEXPRY", "GE", 6) == ["Q9"]
    assert names(qm, "CAPEXPRY", "LT", 9) == ["Q5"]
    assert names(qm, "CAPEXPRY", "NE", 5) == ["Q9", "QN"]
    assert names(qm, "CAPEXPRY", "EQ", "NOLIMIT") == ["QN"]
    assert names(qm, "CAPEXPRY", "EQ", c.MQCEX_NOLIMIT) == ["QN"]
    assert names(qm, "CAPEXPRY", "GE", c.MQCEX_NOLIMIT) == ["Q5", "Q9"]


def test_an_object_without_the_attribute_passes_no_filter(qm: mayfly.QueueManager) -> None:
    admin.define(qm.engine, QALIAS, "QA", {})
    admin.define(qm.engine, QLOCAL, "QL", {"MAXDEPTH": 1})
    for sign in ("EQ", "NE", "GE", "LE"):
        assert "QA" not in names(qm, "MAXDEPTH", sign, 1)
    assert names(qm, "DESCR", "LK", "*") == ["QA", "QL"]
    assert names(qm, "DESCR", "NL", "*") == []


def test_the_type_of_a_channel_decides_what_it_has(qm: mayfly.QueueManager) -> None:
    def refused(attributes: dict[str, Value], **options: str) -> tuple[int, str]:
        with pytest.raises(AdminError) as caught:
            admin.define(qm.engine, CHANNEL, "C", attributes, like=options.get("like"))
        return caught.value.reason, caught.value.attribute

    sender = NEEDED[CHANNEL]
    assert refused({}) == (MQRCCF_PARM_MISSING, "CHLTYPE")
    assert refused({**sender, "XMITQ": ""}) == (MQRCCF_PARM_MISSING, "XMITQ")
    assert refused({**sender, "MRRTY": 5}) == (MQRCCF_PARM_CONFLICT, "MRRTY")
    assert refused({**sender, "SSLCIPH": "X"}) == (MQRCCF_ATTR_VALUE_ERROR, "SSLCIPH")
    network = {**sender, "TRPTYPE": 2, "CONNAME": "h(x)"}
    assert refused(network) == (MQRCCF_ATTR_VALUE_ERROR, "CONNAME")
    admin.define(qm.engine, CHANNEL, "R", {"CHLTYPE": 3})
    assert refused(sender, like="R") == (MQRCCF_LIKE_OBJECT_WRONG_TYPE, "CHLTYPE")
    with pytest.raises(AdminError) as caught:
        admin.alter(qm.engine, CHANNEL, "R", {"CHLTYPE": 1})
    assert caught.value.reason == MQRCCF_ATTR_VALUE_FIXED
    assert "XMITQ" not in admin.inquire(qm.engine, (CHANNEL,), "R")[0].values


def test_what_a_topic_and_a_subscription_are_does_not_change(qm: mayfly.QueueManager) -> None:
    with pytest.raises(AdminError) as caught:
        admin.define(qm.engine, TOPIC, "T", {})
    assert (caught.value.reason, caught.value.attribute) == (MQRCCF_PARM_MISSING, "TOPICSTR")
    admin.define(qm.engine, TOPIC, "T", NEEDED[TOPIC])
    admin.define(qm.engine, SUB, "S", NEEDED[SUB])
    for kind, name, keyword in ((TOPIC, "T", "TOPICSTR"), (SUB, "S", "SELECTOR")):
        with pytest.raises(AdminError) as caught:
            admin.alter(qm.engine, kind, name, {keyword: "x"})
        assert (caught.value.reason, caught.value.attribute) == (MQRCCF_ATTR_VALUE_FIXED, keyword)


def test_status_is_typed_as_attributes_are(qm: mayfly.QueueManager, clock: VirtualClock) -> None:
    admin.define(qm.engine, QLOCAL, "Q", {})
    with qm.session() as session:
        session.put("Q", b"x")
    clock.advance(2_500)
    [status] = admin.inquire(qm.engine, (QSTATUS,), "Q")
    assert status.values == {
        "CURDEPTH": 1,
        "IPPROCS": 0,
        "OPPROCS": 0,
        "UNCOM": 0,
        "MSGAGE": 2,
        "MONQ": 0,
        "LPUTDATE": "",
        "LPUTTIME": "",
        "LGETDATE": "",
        "LGETTIME": "",
        "QTIME": "",
        "STAGED": 0,
        "LIVE": 1,
        "EXPIRED": 0,
    }
    [manager] = admin.inquire(qm.engine, (QMGR,), "")
    assert (manager.values["CMDLEVEL"], manager.values["PLATFORM"]) == (940, c.MQPL_UNIX)
    [topic] = admin.inquire(qm.engine, (TPSTATUS,), "a")
    assert (topic.values["DURSUB"], topic.values["RETAINED"]) == (c.MQSUB_DURABLE_ALLOWED, 0)
    admin.define(qm.engine, CHANNEL, "R", {"CHLTYPE": 3})
    admin.channels_of(qm.engine).stop("R")
    [channel] = admin.inquire(qm.engine, (CHSTATUS,), "*")
    assert (channel.name, channel.values["STATUS"]) == ("R", 6)


def test_each_attribute_of_MQ_has_the_number_by_which_commands_name_it() -> None:
    """Codecs with numbers instead of keywords find the attribute by them."""
    assert admin.object_type(QLOCAL).attributes["MAXDEPTH"].selector == c.MQIA_MAX_Q_DEPTH
    assert admin.object_type(QLOCAL).shown["CURDEPTH"].selector == c.MQIA_CURRENT_Q_DEPTH
    assert admin.object_type(QMGR).shown["PLATFORM"].selector == c.MQIA_PLATFORM
    without = set()
    for kind in INQUIRABLE:
        # Nothing obeys an attribute that is only kept, and no command names it by a number.
        kept = admin.object_type(kind).kept
        rows = [row for word, row in admin.displayed((kind,)).items() if word not in kept]
        numbers = [row.selector for row in rows if row.selector is not None]
        assert len(numbers) == len(set(numbers)), kind
        without |= {row.keyword for row in rows if row.selector is None}
        for row in rows:
            if row.selector is not None:
                # MQIA_ to 2000, MQIACF_, MQIACH_ below; MQCA_, MQCACF_, MQCACH_ from 2001 on. A
                # command has the two times of QTIME as numbers.
                is_number = row.selector <= 2_000
                assert row.is_text != is_number or row.keyword == "QTIME", row.keyword
    mayflys_own = {"AUTHCHK", "DDELAY", "EXPQ", "FAILURE", "QMNAME", "TOKENFILE", "TTLFROM"}
    mayflys_own |= {"BODELAY", "BODELMAX"}
    mayflys_own |= {"STAGED", "LIVE", "EXPIRED", "VALUE", "DEFAULT", "HANDLES", "UOWAGE", "DISK"}
    # A command names these by a byte string, not by a text of hexadecimal digits, and OPENOPTS by a
    # number.
    assert without == mayflys_own | {"ACTCONN", "CONN", "CONNTAG", "DESTCORL", "OPENOPTS", "SUBID"}


def test_times_sizes_and_shares_have_a_unit() -> None:
    found = {
        (kind, keyword): row.unit
        for kind in INQUIRABLE
        for keyword, row in admin.displayed((kind,)).items()
        if row.unit
    }
    assert found[CHANNEL, "BATCHINT"] == found[QMGR, "TRIGINT"] == "milliseconds"
    assert found[CHANNEL, "DISCINT"] == found[QMGR, "EXPRYINT"] == "seconds"
    assert found[QLOCAL, "CAPEXPRY"] == found[TOPIC, "CAPEXPRY"] == found[SUB, "EXPIRY"]
    assert found[QLOCAL, "CAPEXPRY"] == "tenths of a second"
    timed = {
        "INT",
        "TMR",
        "BODELAY",
        "BODELMAX",
        "FAILDLAY",
        "MSGAGE",
        "UOWAGE",
        "MSGL",
        "PROPL",
        "EXPRY",
        "EXPIRY",
        "DEPTHHI",
        "DEPTHLO",
        # Of attributes that are only kept.
        "AMQPKA",
        "BATCHHB",
        "BATCHLIM",
        "FSIZE",
        "INTVL",
        "LOGLN",
        "MSGHIST",
        "RCVTMIN",
        "RKEYC",
        "TRAXTBL",
        "TREELIFE",
    }
    for kind in INQUIRABLE:
        for keyword, row in admin.displayed((kind,)).items():
            is_timed = any(keyword.endswith(word) for word in timed) and not row.is_text
            assert is_timed == bool(row.unit), (kind, keyword)
