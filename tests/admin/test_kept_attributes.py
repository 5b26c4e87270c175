"""Attributes and objects that are kept without effect: accepted, stored, shown, noted, refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mayfly
from mayfly import admin
from mayfly.admin import AUTHINFO, CHANNEL, CLNTCONN, KEPT_KINDS, QMGR, SUB, TOPIC, Attribute, Value
from mayfly.admin.mqsc.export import exported
from mayfly.engine.api.administration import SECRETS, attributes_of, kept_attributes_of
from mayfly.mqi import reasons as rc
from mayfly.mqi.command_constants import MQRCCF_ATTR_VALUE_ERROR
from mayfly.testing import VirtualClock

KINDS = tuple(kind for kind in (*admin.DEFINABLE, QMGR) if kept_attributes_of(kind))
CHANNEL_TYPES = ("SDR", "RCVR", "SVRCONN", "SVR", "RQSTR", "CLUSSDR", "CLUSRCVR", "AMQP")
AUTHENTICATION_TYPES = ("IDPWOS", "IDPWLDAP", "CRLLDAP", "OCSP")
#: What an object of a kind or type needs in DEFINE.
NEEDED = {
    TOPIC: "TOPICSTR('a/b')",
    SUB: "TOPICSTR('a') DEST(SYSTEM.DEFAULT.LOCAL.QUEUE)",
    CLNTCONN: "CHLTYPE(CLNTCONN) CONNAME(h)",
    "SDR": "CHLTYPE(SDR) CONNAME(h) XMITQ(X)",
    **{word: f"CHLTYPE({word})" for word in CHANNEL_TYPES if word != "SDR"},
    **{word: f"AUTHTYPE({word})" for word in AUTHENTICATION_TYPES},
}
TYPES = {CHANNEL: CHANNEL_TYPES, AUTHINFO: AUTHENTICATION_TYPES}
CASES = [(kind, word) for kind in KINDS for word in TYPES.get(kind, (kind,))]


@pytest.fixture
def qm(clock: VirtualClock) -> Iterator[mayfly.QueueManager]:
    with mayfly.QueueManager("QM1", clock=clock) as manager:
        yield manager


def rows_of(kind: str, word: str) -> dict[str, Attribute]:
    """Return the kept attributes of a kind, or of one of its types."""
    rows = kept_attributes_of(kind)
    return {k: row for k, row in rows.items() if kind == word or word in row.objects}


def other_value(row: Attribute) -> str:
    """Return a value, as MQSC writes it, that is not the default."""
    if row.choices:
        return next(word for word in row.choices if word != row.default)
    if row.is_text:
        return "X2" if row.default != "X2" else "X3"
    words = [word for word, number in row.words if number != row.default]
    return words[0] if words else str(row.high if row.default != row.high else row.low)


def defined(kind: str, word: str, attributes: str) -> str:
    """Return the command that gives an object of a kind, or of a type, some attributes."""
    if kind == QMGR:
        return f"ALTER QMGR {attributes}"
    shown = CHANNEL if kind == CLNTCONN else kind
    return f"DEFINE {shown}(ONE) {NEEDED.get(word, '')} {attributes}"


def displayed(kind: str, keywords: str) -> str:
    name = "" if kind == QMGR else "(ONE)"
    return f"DISPLAY {CHANNEL if kind == CLNTCONN else kind}{name} {keywords}"


@pytest.mark.parametrize(("kind", "word"), CASES)
def test_every_kept_attribute_is_accepted_noted_kept_over_a_restart_shown_and_exported(
    clock: VirtualClock, tmp_path: Path, kind: str, word: str
) -> None:
    rows = {k: row for k, row in rows_of(kind, word).items() if len(row.words) != 1 or row.low}
    rows = {k: row for k, row in rows.items() if k not in SECRETS and k != "CUSTOM"}
    values = {keyword: other_value(row) for keyword, row in rows.items()}
    given = " ".join(f"{keyword}({value})" for keyword, value in values.items())
    with mayfly.QueueManager("QM1", tmp_path, clock=clock) as manager:
        result = manager.mqsc(defined(kind, word, given))
        assert [each.messages for each in result.commands if not each.ok] == []
        # A type without attributes of this sort has nothing to say.
        assert ("MFY1003I" in result.codes) == bool(values)
    with mayfly.QueueManager("QM1", tmp_path, clock=clock) as manager:
        for keyword, value in values.items():
            [row] = manager.mqsc(displayed(kind, keyword)).rows
            assert (keyword, str(row[keyword])) == (keyword, value)
        [whole] = manager.mqsc(displayed(kind, "ALL")).rows
        assert {k: str(whole[k]) for k in values} == values
        text = exported(manager.mqsc)
        for keyword, value in values.items():
            assert f"   {keyword}({value})" in text


@pytest.mark.parametrize(("kind", "word"), CASES)
def test_kept_attributes_at_their_defaults_say_nothing_and_are_not_stored(
    clock: VirtualClock, tmp_path: Path, kind: str, word: str
) -> None:
    rows = rows_of(kind, word)
    if not rows:
        return
    given = " ".join(
        f"{k}({value})" if (value := admin.named(row, row.default)) != "" else f"{k}(' ')"
        for k, row in rows.items()
    )
    with mayfly.QueueManager("QM1", tmp_path, clock=clock) as manager:
        result = manager.mqsc(defined(kind, word, given))
        assert result.ok, result.text
        is_whole = kind in KEPT_KINDS or word in (*CHANNEL_TYPES[3:], *AUTHENTICATION_TYPES[1:])
        assert ("MFY1003I" in result.codes) == is_whole
        stored = stored_of(tmp_path, kind, "QM1" if kind == QMGR else "ONE")
    assert not rows.keys() & stored.keys()


def stored_of(folder: Path, kind: str, name: str) -> dict[str, object]:
    connection = apsw.Connection(str(folder / "mayfly.db"))
    sql = "SELECT attributes FROM object WHERE kind = ? AND name = ?"
    ((text,),) = connection.execute(sql, (kind, name)).fetchall()
    connection.close()
    found: dict[str, object] = json.loads(str(text))
    return found


def test_a_kept_value_is_stored_by_keyword_as_an_attribute_with_an_effect_is(
    clock: VirtualClock, tmp_path: Path
) -> None:
    """So it can get an effect later, and an older Mayfly stores it again as it was."""
    with mayfly.QueueManager("QM1", tmp_path, clock=clock) as manager:
        manager.mqsc("DEFINE QLOCAL(ONE) NPMCLASS(HIGH) CLWLRANK(3) STREAMQ(COPY)")
        stored = stored_of(tmp_path, "QLOCAL", "ONE")
    assert (stored["NPMCLASS"], stored["CLWLRANK"], stored["STREAMQ"]) == (10, 3, "COPY")


@pytest.mark.parametrize("kind", KINDS)
def test_no_attribute_is_both_kept_and_obeyed(kind: str) -> None:
    assert not attributes_of(kind).keys() & kept_attributes_of(kind).keys()


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_of_a_kept_attribute_is_a_value_that_may_be_given(kind: str) -> None:
    for row in kept_attributes_of(kind).values():
        assert admin.checked(row, row.default) == row.default, row.keyword


@given(st.sampled_from(KINDS), st.data())
def test_any_number_is_a_kept_value_or_refused_with_its_reason(
    kind: str, data: st.DataObject
) -> None:
    rows = [row for row in kept_attributes_of(kind).values() if not row.is_text]
    if not rows:
        return
    row = data.draw(st.sampled_from(rows))
    number = data.draw(st.integers(-10, 10**10))
    is_allowed = row.low <= number <= row.high or number in dict(row.words).values()
    if is_allowed:
        assert admin.checked(row, number) == number
    else:
        with pytest.raises(admin.WrongValue) as caught:
            admin.checked(row, number)
        assert caught.value.reason == MQRCCF_ATTR_VALUE_ERROR
        assert admin.allowed(row) in caught.value.detail


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)))
def test_a_list_is_read_back_as_it_was_written(texts: list[str]) -> None:
    assert admin.entries_of(admin.list_text(texts)) == texts


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("DEF QL(Q) NPMCLASS(SOME)", "NPMCLASS(SOME) is not right: it must be NORMAL or HIGH"),
        ("DEF QL(Q) CLWLPRTY(10)", "it must be a number from 0 to 9"),
        ("DEF QL(Q) DISTLS(NO)", "DISTLS is not a keyword of QLOCAL; did you mean DISTL?"),
        ("DEF QL(Q) CLCHNAME(ABCDEFGHIJKLMNOPQRSTU)", "is 21 bytes long; it may have 20"),
        ("DEF QL(Q) STREAMQ('a b')", "STREAMQ: 'a b' is not 1 to 48 characters"),
        ("DEF QA(Q) NPMCLASS(HIGH)", "NPMCLASS is not a keyword of QALIAS, but of QLOCAL, QMODEL"),
        ("DEF CHL(Q) CHLTYPE(SVRCONN) CONVERT(YES)", "not a keyword of CHANNEL CHLTYPE(SVRCONN)"),
        ("DEF CHL(Q) CHLTYPE(RCVR) COMPMSG(ZIP)", "COMPMSG(ZIP) is not right: it must be NONE or"),
        ("DEF AUTHINFO(Q) AUTHTYPE(OCSP) CONNAME(h)", "not a keyword of AUTHINFO AUTHTYPE(OCSP)"),
        ("DEF LISTENER(Q) TRPTYPE(TCP) PORT(65536)", "it must be a number from 0 to 65535"),
        ("DEF NAMELIST(Q) NAMES(A,'b c')", "NAMES: 'b c' is not 1 to 48 characters"),
        ("DEF LISTENER(Q) PORTS(1)", "PORTS is not a keyword of LISTENER; did you mean PORT?"),
    ],
)
def test_a_value_or_keyword_that_IBM_MQ_does_not_have_is_refused(
    qm: mayfly.QueueManager, command: str, said: str
) -> None:
    result = qm.mqsc(command)
    assert result.codes == ["AMQ8405E"]
    assert said in result.text
    assert not qm.mqsc("DISPLAY QUEUE(Q)").ok


@pytest.mark.parametrize("kind", KEPT_KINDS)
def test_a_kept_object_is_defined_altered_displayed_and_deleted(
    clock: VirtualClock, tmp_path: Path, kind: str
) -> None:
    changed, value = ("DESCR", "new") if kind != "POLICY" else ("SIGNER", "CN=new")
    with mayfly.QueueManager("QM1", tmp_path, clock=clock) as manager:
        script = f"DEFINE {kind}(ONE)\nDEFINE {kind}(TWO) LIKE(ONE)\n"
        assert manager.mqsc(f"{script}ALTER {kind}(ONE) {changed}('{value}')").ok
        assert manager.mqsc(f"DEFINE {kind}(ONE)").codes == ["AMQ8150E"]
    with mayfly.QueueManager("QM1", tmp_path, clock=clock) as manager:
        shown = manager.mqsc(f"DISPLAY {kind}(*) {changed}").rows
        assert [(row[kind], row[changed]) for row in shown] == [("ONE", value), ("TWO", "")]
        assert manager.mqsc(f"DELETE {kind}(ONE)").ok
        assert manager.mqsc(f"DELETE {kind}(ONE)").codes == ["AMQ8147E"]
        assert manager.mqsc(f"DELETE {kind}(ONE) IGNSTATE(YES)").ok


def test_display_shows_kept_attributes_by_name_and_with_ALL_only(qm: mayfly.QueueManager) -> None:
    qm.mqsc("DEFINE QLOCAL(ONE) NPMCLASS(HIGH)")
    [plain] = qm.mqsc("DISPLAY QLOCAL(ONE)").rows
    [whole] = qm.mqsc("DISPLAY QLOCAL(ONE) ALL").rows
    assert whole.keys() - plain.keys() == kept_attributes_of("QLOCAL").keys()
    assert qm.mqsc("DISPLAY QLOCAL(*) WHERE(NPMCLASS EQ HIGH)").rows == [
        {"QUEUE": "ONE", "TYPE": "QLOCAL", "NPMCLASS": "HIGH"}
    ]


def test_one_note_names_what_has_no_effect_in_a_whole_script(qm: mayfly.QueueManager) -> None:
    script = "\n".join(f"DEFINE QLOCAL(Q{n}) NPMCLASS(HIGH) DISTL(NO)" for n in range(5))
    result = qm.mqsc(f"{script}\nDEFINE QLOCAL(Q9) CLWLPRTY(2)\nDISPLAY QLOCAL(Q1) PUT")
    assert result.ok
    assert result.codes.count("MFY1003I") == 1
    assert result.commands[-1].messages[-1].body == (
        "   QLOCAL CLWLPRTY(2): Q9\n   QLOCAL NPMCLASS(HIGH): Q0, Q1, Q2 and 2 more"
    )
    assert "MFY1003I: These are kept, and have no effect here:\n   QLOCAL CLWLPRTY" in result.text


def test_define_with_replace_gives_a_queue_the_defaults_of_kept_attributes_too(
    qm: mayfly.QueueManager,
) -> None:
    qm.mqsc("DEFINE QLOCAL(ONE) NPMCLASS(HIGH)\nDEFINE QLOCAL(ONE) REPLACE")
    assert qm.mqsc("DISPLAY QLOCAL(ONE) NPMCLASS").rows[0]["NPMCLASS"] == "NORMAL"


def test_administration_from_python_takes_kept_attributes_with_their_types(
    qm: mayfly.QueueManager,
) -> None:
    values: dict[str, Value] = {"NPMCLASS": 10, "CLWLRANK": 2}
    admin.define(qm.engine, "QLOCAL", "ONE", values)
    [record] = admin.inquire(qm.engine, ("QLOCAL",), "ONE")
    assert {k: record.values[k] for k in values} == values
    assert admin.without_effect(qm.engine, "QLOCAL", "ONE", values) == [
        "NPMCLASS(HIGH)",
        "CLWLRANK(2)",
    ]
    with pytest.raises(admin.WrongValue):
        admin.alter(qm.engine, "QLOCAL", "ONE", {"NPMCLASS": 3})


def test_objects_that_IBM_MQ_makes_are_there_when_a_script_alters_or_copies_them(
    qm: mayfly.QueueManager,
) -> None:
    result = qm.mqsc(
        "ALTER QLOCAL(SYSTEM.DEFAULT.LOCAL.QUEUE) MAXDEPTH(7)\n"
        "ALTER QLOCAL(SYSTEM.ADMIN.PERFM.EVENT) MAXDEPTH(9)\n"
        "ALTER CHANNEL(SYSTEM.DEF.SENDER) CHLTYPE(SDR) DISCINT(60)\n"
        "DEFINE CHANNEL(C) CHLTYPE(SDR) CONNAME('h(1414)') XMITQ(X)\n"
        "DEFINE CHANNEL(D) CHLTYPE(RCVR) LIKE(SYSTEM.AUTO.RECEIVER)\n"
        "ALTER PROCESS(SYSTEM.DEFAULT.PROCESS) USERDATA('x')\n"
        "DEFINE PROCESS(P)\n"
        "ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWLDAP) AUTHTYPE(IDPWLDAP) SHORTUSR('uid')\n"
        "DEFINE QLOCAL(SYSTEM.FTE) LIKE(SYSTEM.BROKER.DEFAULT.STREAM)\n"
        "ALTER NAMELIST(SYSTEM.QPUBSUB.QUEUE.NAMELIST) DESCR('x')\n"
        "DEFINE QMODEL(M) CLCHNAME(' ')\n"
        "DEFINE TOPIC(SYSTEM.BROKER.DEFAULT.STREAM) TOPICSTR('') WILDCARD(BLOCK) REPLACE\n"
    )
    assert [each.messages for each in result.commands if not each.ok] == []
    shown = qm.mqsc("DIS CHL(C) DISCINT TRPTYPE\nDIS PROCESS(P) USERDATA").rows
    assert (shown[0]["DISCINT"], shown[0]["TRPTYPE"]) == (60, "TCP")
    assert shown[1]["USERDATA"] == "x"
    [namelist] = qm.mqsc("DIS NAMELIST(SYSTEM.QPUBSUB.QUEUE.NAMELIST) NAMES").rows
    assert namelist["NAMES"] == "SYSTEM.BROKER.DEFAULT.STREAM,SYSTEM.BROKER.ADMIN.STREAM"


def test_a_wrong_command_makes_no_object_of_the_system(qm: mayfly.QueueManager) -> None:
    assert not qm.mqsc("ALTER QLOCAL(SYSTEM.ADMIN.PERFM.EVENT) MAXDEPTH(-1)").ok
    assert qm.mqsc("DISPLAY QLOCAL(SYSTEM.ADMIN.PERFM.EVENT)").codes == ["AMQ8147E"]


@pytest.mark.parametrize("word", CHANNEL_TYPES[3:])
def test_a_channel_of_a_type_that_is_kept_is_never_started(
    qm: mayfly.QueueManager, word: str
) -> None:
    assert qm.mqsc(f"DEFINE CHANNEL(C) CHLTYPE({word})").ok
    for command in ("START", "STOP", "PING", "RESOLVE"):
        more = "ACTION(COMMIT)" if command == "RESOLVE" else ""
        [message] = qm.mqsc(f"{command} CHANNEL(C) {more}").messages
        assert (message.code, message.reason) == ("AMQ8101S", rc.MQRC_CHANNEL_CONFIG_ERROR)
        assert "channel C is kept only" in message.text
    assert qm.mqsc("DISPLAY CHSTATUS(*)").codes == ["AMQ8420I"]
    assert qm.mqsc("DELETE CHANNEL(C)").ok


@pytest.mark.parametrize("kind", ["LISTENER", "SERVICE"])
def test_starting_what_is_kept_only_says_what_does_it_instead(
    qm: mayfly.QueueManager, kind: str
) -> None:
    qm.mqsc(f"DEFINE {kind}(ONE)")
    result = qm.mqsc(f"START {kind}(ONE)\nSTOP {kind}(ONE) IGNSTATE(YES)")
    assert result.codes == ["MFY1015I", "MFY1015I"]
    assert "Nothing was done" in result.text
    assert qm.mqsc(f"START {kind}(TWO)").codes == ["AMQ8147E"]
    assert qm.mqsc("START LISTENER TRPTYPE(TCP) PORT(1414)").codes == ["MFY1015I"]
    assert qm.mqsc("START SERVICE(SYSTEM.AMQP.SERVICE)").codes == ["MFY1015I"]


def test_a_policy_is_set_added_to_and_removed(qm: mayfly.QueueManager) -> None:
    qm.mqsc("SET POLICY(Q) SIGNALG(SHA256) SIGNER('CN=a,O=x') SIGNER('CN=b,O=x') TOLERATE")
    qm.mqsc("SET POLICY(Q) RECIP('CN=c,O=x') ACTION(ADD)")
    [row] = qm.mqsc("DISPLAY POLICY(Q)").rows
    assert row == {
        "POLICY": "Q",
        "SIGNALG": "SHA256",
        "ENCALG": "NONE",
        "SIGNER": "'CN=a,O=x','CN=b,O=x'",
        "RECIP": "'CN=c,O=x'",
        "KEYREUSE": "DISABLED",
        "TOLERATE": "YES",
    }
    qm.mqsc("SET POLICY(Q) SIGNALG(SHA512)")
    assert qm.mqsc("DISPLAY POLICY(Q) SIGNER TOLERATE").rows[0] == {
        "POLICY": "Q",
        "SIGNER": "",
        "TOLERATE": "NO",
    }
    assert qm.mqsc("SET POLICY(Q) ACTION(REMOVE)").ok
    assert qm.mqsc("SET POLICY(Q) ACTION(REMOVE)").codes == ["AMQ8147E"]


def test_CUSTOM_of_a_topic_caps_expiry_as_CAPEXPRY_does(
    qm: mayfly.QueueManager, clock: VirtualClock
) -> None:
    qm.mqsc(
        "DEFINE QLOCAL(Q)\nDEFINE TOPIC(T) TOPICSTR('t') CUSTOM('CAPEXPRY(50)')\n"
        "DEFINE SUB(S) TOPICSTR('t') DEST(Q) CUSTOM(' ')\nALTER QMGR CUSTOM(' ')"
    )
    assert qm.mqsc("DISPLAY TPSTATUS('t') CAPEXPRY").rows[0]["CAPEXPRY"] == 50
    assert not qm.mqsc("ALTER TOPIC(T) CUSTOM('COLOUR(RED)')").ok
    qm.mqsc("ALTER TOPIC(T) CUSTOM(' ')")
    assert qm.mqsc("DISPLAY TPSTATUS('t') CAPEXPRY").rows[0]["CAPEXPRY"] == "NOLIMIT"


def test_IGNSTATE_makes_a_missing_object_no_failure(qm: mayfly.QueueManager) -> None:
    script = "\n".join(
        f"{command} IGNSTATE(YES)"
        for command in (
            "DELETE QLOCAL(NONE)",
            "DELETE SUB(NONE)",
            "DELETE CHANNEL(NONE)",
            "START CHANNEL(NONE)",
            "STOP CHANNEL(NONE)",
            "STOP LISTENER(NONE)",
        )
    )
    assert qm.mqsc(script).codes == ["MFY1004I"] * 6
    assert qm.mqsc("DELETE QLOCAL(NONE) IGNSTATE(NO)").codes == ["AMQ8147E"]
    assert qm.mqsc("DELETE QLOCAL(NONE) IGNSTATE(MAYBE)").codes == ["AMQ8405E"]
    # It says nothing about other failures.
    qm.mqsc("DEFINE QLOCAL(Q)")
    with qm.session() as session:
        session.put("Q", b"x")
    assert qm.mqsc("DELETE QLOCAL(Q) IGNSTATE(YES)").codes == ["AMQ8143E"]


def test_the_authority_to_make_objects_is_kept_for_each_type(qm: mayfly.QueueManager) -> None:
    for kind in ("QUEUE", "QMGR", "CHANNEL", "TOPIC"):
        script = f"SET AUTHREC PROFILE('@class') OBJTYPE({kind}) GROUP('g') AUTHADD(CRT)"
        assert qm.mqsc(script).codes == ["AMQ8862I"]
    [row] = qm.mqsc("DISPLAY AUTHREC PROFILE('@class') OBJTYPE(QMGR) MATCH(EXACT)").rows
    assert (row["PROFILE"], row["AUTHLIST"]) == ("@class", "CRT")
    assert qm.mqsc("DELETE AUTHREC PROFILE('@class') OBJTYPE(QMGR) GROUP('g')").ok


def test_a_failure_about_another_object_names_that_object_and_its_place(
    qm: mayfly.QueueManager,
) -> None:
    [message] = qm.mqsc("* news\nDEFINE SUB(S) +\n  TOPICSTR('a') DEST(NOPE)").messages
    assert (message.code, message.reason) == ("AMQ8147E", rc.MQRC_UNKNOWN_OBJECT_NAME)
    assert (message.text, message.line, message.column) == (
        "IBM MQ object NOPE not found.",
        2,
        1,
    )
    assert message.body == "queue 'NOPE' is not defined"
