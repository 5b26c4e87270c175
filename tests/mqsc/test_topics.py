"""MQSC about topics and subscriptions: what it changes, what it shows, what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

import mayfly
from mayfly.mqi.errors import MQError

SCENE = """
DEFINE QLOCAL(Q1)
DEFINE TOPIC(NEWS) TOPICSTR('News') DEFPRTY(7) CAPEXPRY(100) PMSGDLV(ALLAVAIL)
DEFINE SUB('s.1') TOPICOBJ(NEWS) TOPICSTR('sport/+') DEST(Q1) EXPIRY(50) SELECTOR('a = ''x''')
"""


@pytest.fixture
def scene(qm: mayfly.QueueManager) -> mayfly.QueueManager:
    """A queue, a topic and a subscription."""
    result = qm.mqsc(SCENE)
    assert result.codes == ["AMQ8006I", "AMQ8690I", "AMQ8094I"]
    return qm


def test_define_and_display_a_topic(scene: mayfly.QueueManager) -> None:
    [row] = scene.mqsc("DISPLAY TOPIC(NEWS)").rows
    assert row == {
        "TOPIC": "NEWS",
        "TYPE": "LOCAL",
        "TOPICSTR": "News",
        "DESCR": "",
        "DEFPRTY": 7,
        "DEFPSIST": "ASPARENT",
        "PMSGDLV": "ALLAVAIL",
        "NPMSGDLV": "ASPARENT",
        "PUB": "ASPARENT",
        "SUB": "ASPARENT",
        "DURSUB": "ASPARENT",
        "CAPEXPRY": 100,
        "USEDLQ": "ASPARENT",
        "MDURMDL": "",
        "MNDURMDL": "",
        "CUSTOM": "",
    }
    assert scene.mqsc("DIS TOPIC(N*) CAPEXPRY").text.count("AMQ8633I: Display topic details.") == 1


def test_the_root_as_documented(qm: mayfly.QueueManager) -> None:
    [row] = qm.mqsc("DISPLAY TOPIC(SYSTEM.BASE.TOPIC) PMSGDLV NPMSGDLV CAPEXPRY TOPICSTR").rows
    assert row == {
        "TOPIC": "SYSTEM.BASE.TOPIC",
        "TYPE": "LOCAL",
        "TOPICSTR": "",
        "PMSGDLV": "ALLDUR",
        "NPMSGDLV": "ALLAVAIL",
        "CAPEXPRY": "NOLIMIT",
    }


def test_TPSTATUS_shows_what_applies(scene: mayfly.QueueManager) -> None:
    with scene.session() as session:
        session.publish("News/sport/x", b"x", retain=True)
    [row] = scene.mqsc("DISPLAY TPSTATUS('News/sport/x')").rows
    assert (row["ADMIN"], row["DEFPRTY"], row["CAPEXPRY"]) == ("", 7, 100)
    assert (row["PMSGDLV"], row["NPMSGDLV"], row["PUB"]) == ("ALLAVAIL", "ALLAVAIL", "ENABLED")
    assert (row["RETAINED"], row["SUBCOUNT"]) == ("YES", 1)
    assert scene.mqsc("CLEAR TOPICSTR('News/sport/x') CLRTYPE(RETAINED)").ok
    rows = scene.mqsc("DIS TPS('News/sport/x') RETAINED\nDIS TPS('News') ADMIN SUBCOUNT").rows
    assert rows == [
        {"TPSTATUS": "News/sport/x", "RETAINED": "NO"},
        {"TPSTATUS": "News", "ADMIN": "NEWS", "SUBCOUNT": 0},
    ]


def test_alter_like_replace_and_delete_a_topic(scene: mayfly.QueueManager) -> None:
    script = """
    ALTER TOPIC(NEWS) DEFPRTY(ASPARENT) DURSUB(NO)
    DEFINE TOPIC(MORE) TOPICSTR('more') LIKE(NEWS) DEFPSIST(YES)
    DEFINE TOPIC(MORE) REPLACE PUB(DISABLED)
    DISPLAY TOPIC(MORE) DEFPRTY DURSUB DEFPSIST CAPEXPRY PUB TOPICSTR
    DELETE TOPIC(MORE)
    DISPLAY TOPIC(MORE)
    """
    result = scene.mqsc(script)
    codes = ["AMQ8691I", "AMQ8690I", "AMQ8690I", "AMQ8633I", "AMQ8692I", "AMQ8147E"]
    assert result.codes == codes
    # As for queues, what REPLACE does not give is the default.
    assert result.rows == [
        {
            "TOPIC": "MORE",
            "TYPE": "LOCAL",
            "TOPICSTR": "more",
            "DEFPRTY": "ASPARENT",
            "DEFPSIST": "ASPARENT",
            "PUB": "DISABLED",
            "DURSUB": "ASPARENT",
            "CAPEXPRY": "ASPARENT",
        }
    ]


def test_display_a_subscription(scene: mayfly.QueueManager) -> None:
    [row] = scene.mqsc("DISPLAY SUB('s.1')").rows
    assert len(str(row.pop("SUBID"))) == 48
    assert row == {
        "SUB": "s.1",
        "TOPICSTR": "News/sport/+",
        "TOPICOBJ": "NEWS",
        "DEST": "Q1",
        "DESTQMGR": "",
        "DESTCLAS": "PROVIDED",
        "DESTCORL": "",
        "EXPIRY": 50,
        "PUBPRTY": "ASPUB",
        "REQONLY": "NO",
        "SELECTOR": "a = 'x'",
        "SUBUSER": "",
        "USERDATA": "",
        "VARUSER": "ANY",
        "SUBTYPE": "ADMIN",
        "DURABLE": "YES",
    }
    with scene.session("anna") as session:
        session.subscribe("a", name="mine")
        names = [r["SUB"] for r in scene.mqsc("DISPLAY SUB(*)").rows]
        assert names == ["mine", "s.1"]
        [mine] = scene.mqsc("DIS SUB(*) SUBUSER DESTCLAS WHERE(DURABLE EQ NO)").rows
        assert (mine["SUB"], mine["SUBUSER"], mine["DESTCLAS"]) == ("mine", "anna", "MANAGED")
        in_use = scene.mqsc("DELETE SUB('mine')")
        assert in_use.codes == ["AMQ8148E"]
    assert len(scene.mqsc("DISPLAY SUB(*) WHERE(SUBTYPE EQ ADMIN)").rows) == 1


def test_define_alter_and_delete_a_subscription(scene: mayfly.QueueManager) -> None:
    script = """
    DEFINE SUB('m') TOPICSTR('a/#') DESTCLAS(MANAGED) PUBPRTY(ASQDEF)
    DEFINE SUB('like') TOPICSTR('b') DEST(Q1) LIKE('m')
    DEFINE SUB('m') TOPICSTR('b') DESTCLAS(MANAGED)
    ALTER SUB('like') USERDATA('u') EXPIRY(UNLIMITED) PUBPRTY(3)
    DISPLAY SUB('like') PUBPRTY USERDATA
    DELETE SUB('m')
    DELETE SUB('m')
    """
    result = scene.mqsc(script)
    assert result.codes == [
        "AMQ8094I",
        "AMQ8094I",
        "AMQ8150E",
        "AMQ8095I",
        "AMQ8096I",
        "AMQ8091I",
        "AMQ8147E",
    ]
    [row] = result.rows
    assert (row["PUBPRTY"], row["USERDATA"]) == (3, "u")
    assert not scene.mqsc("DISPLAY QUEUE(SYSTEM.MANAGED.*)").ok


def test_definitions_survive_a_restart(tmp_path: Path) -> None:
    with mayfly.QueueManager("QM1", tmp_path / "QM1") as qm:
        assert qm.mqsc(SCENE.replace("EXPIRY(50)", "")).ok
        shown = qm.mqsc("DISPLAY TOPIC(*) ALL\nDISPLAY SUB(*) ALL").rows
    with mayfly.QueueManager("QM1", tmp_path / "QM1") as qm:
        assert qm.mqsc("DISPLAY TOPIC(*) ALL\nDISPLAY SUB(*) ALL").rows == shown
        assert len(shown) == 4


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("DEFINE TOPIC(NEWS) TOPICSTR('other')", "AMQ8150E"),
        ("DEFINE TOPIC(OTHER) TOPICSTR('News')", "AMQ8150E"),
        ("DEFINE TOPIC(OTHER) TOPICSTR('a/#')", "AMQ8101S"),
        ("DEFINE TOPIC(OTHER) TOPICSTR('')", "AMQ8101S"),
        ("DEFINE TOPIC(OTHER)", "AMQ8405E"),
        ("DEFINE TOPIC(OTHER) TOPICSTR('o') LIKE(NONE)", "AMQ8147E"),
        ("DEFINE TOPIC(OTHER) TOPICSTR('o') MAXDEPTH(5)", "AMQ8405E"),
        ("DEFINE TOPIC(OTHER) TOPICSTR('o') CAPEXPRY(0)", "AMQ8405E"),
        ("DEFINE TOPIC(OTHER) TOPICSTR('o') PMSGDLV(SOME)", "AMQ8405E"),
        ("ALTER TOPIC(NEWS) TOPICSTR('other')", "AMQ8405E"),
        ("ALTER TOPIC(NONE) PUB(ENABLED)", "AMQ8147E"),
        ("DELETE TOPIC(NONE)", "AMQ8147E"),
        ("DELETE TOPIC(NEWS) PURGE", "AMQ8405E"),
        ("DISPLAY TOPIC(NONE*)", "AMQ8147E"),
        ("DISPLAY TOPIC(*) QUEUE", "AMQ8405E"),
        ("DISPLAY QUEUE(*) TOPIC", "AMQ8405E"),
        ("DISPLAY TPSTATUS('a/+/none')", "AMQ8147E"),
        ("CLEAR TOPICSTR('a')", "AMQ8405E"),
        ("CLEAR TOPICSTR('a') CLRTYPE(ALL)", "AMQ8405E"),
        ("DEFINE SUB('s.1') TOPICSTR('a') DEST(Q1)", "AMQ8150E"),
        ("DEFINE SUB('s.2') TOPICSTR('a') DEST(NONE)", "AMQ8147E"),
        ("DEFINE SUB('s.2') TOPICSTR('a')", "AMQ8101S"),
        ("DEFINE SUB('s.2') DEST(Q1)", "AMQ8101S"),
        ("DEFINE SUB('s.2') TOPICOBJ(NONE) DEST(Q1)", "AMQ8147E"),
        ("DEFINE SUB('s.2') TOPICSTR('a') DEST(Q1) DESTCLAS(MANAGED)", "AMQ8101S"),
        ("DEFINE SUB('s.2') TOPICSTR('a') DEST(Q1) SELECTOR('a =')", "AMQ8101S"),
        ("DEFINE SUB('s.2') TOPICSTR('a') DEST(Q1) EXPIRY(0)", "AMQ8405E"),
        ("DEFINE SUB('s.2') TOPICSTR('a') DEST(Q1) PUBPRTY(10)", "AMQ8405E"),
        ("DEFINE SUB('s.2') TOPICSTR('a') DEST(Q1) SUBTYPE(API)", "AMQ8405E"),
        ("DEFINE SUB('s.2') TOPICSTR('a') DEST(Q1) LIKE('none')", "AMQ8147E"),
        ("ALTER SUB('s.1') SELECTOR('b')", "AMQ8405E"),
        ("ALTER SUB('s.1') DEST(NONE)", "AMQ8147E"),
        ("ALTER SUB('none') PUBPRTY(1)", "AMQ8147E"),
        ("DISPLAY SUB('none')", "AMQ8147E"),
    ],
)
def test_a_wrong_command_changes_nothing(
    scene: mayfly.QueueManager, command: str, code: str
) -> None:
    everything = "DISPLAY TOPIC(*) ALL\nDISPLAY SUB(*) ALL\nDISPLAY QUEUE(*) ALL"
    before = scene.mqsc(everything).rows
    assert scene.mqsc(command).codes == [code]
    assert scene.mqsc(everything).rows == before


def test_REQONLY_subscriptions_get_nothing_that_they_do_not_ask_for(
    scene: mayfly.QueueManager,
) -> None:
    with scene.session() as session:
        session.publish("r", b"kept", retain=True)
        assert scene.mqsc("DEFINE SUB('r') TOPICSTR('r') DEST(Q1) REQONLY(YES)").ok
        assert session.publish("r", b"1").matched_count == 0
        assert scene.mqsc("ALTER SUB('r') REQONLY(NO)").ok
        assert session.publish("r", b"2").matched_count == 1
        assert [m.body for m in session.browse("Q1")] == [b"2"]
        subscription = session.resume("r")
        assert subscription.request_retained() == 1
        assert [m.body for m in session.browse("Q1")] == [b"2", b"kept"]


def test_VARUSER_FIXED_keeps_others_from_resuming(scene: mayfly.QueueManager) -> None:
    assert scene.mqsc("ALTER SUB('s.1') SUBUSER('ann') VARUSER(FIXED)").ok
    with scene.session("bob") as bob, pytest.raises(MQError, match="2434"):
        bob.resume("s.1")
    with scene.session("ann") as ann:
        ann.resume("s.1").close()
    assert scene.mqsc("ALTER SUB('s.1') VARUSER(ANY)").ok
    with scene.session("bob") as bob:
        bob.resume("s.1").close()
