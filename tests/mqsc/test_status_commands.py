"""Commands about status, statistics and refreshing, as operators type them."""

from __future__ import annotations

import pytest

import mayfly
from mayfly.mqi import constants as c
from mayfly.testing import VirtualClock


@pytest.fixture
def scene(qm: mayfly.QueueManager) -> mayfly.QueueManager:
    """A queue with a subscription, topics, and messages of which two expire after a second."""
    assert qm.mqsc(
        "DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)\nDEFINE TOPIC(T1) TOPICSTR('a/b')\n"
        "DEFINE SUB('s1') TOPICSTR('a/#') DEST(Q1)\nDEFINE SUB('s2') TOPICSTR('a/b') DEST(Q2)"
    ).ok
    with qm.session() as session:
        session.put("Q1", b"1", time_to_live_ms=1_000)
        session.put("Q1", b"2", correl_id="AB")
        session.put("Q2", b"3", time_to_live_ms=1_000)
    return qm


def test_refresh_of_expiry_discards_now_what_has_expired_on_the_queues_that_are_named(
    scene: mayfly.QueueManager, clock: VirtualClock
) -> None:
    clock.advance(1_001)
    assert scene.mqsc("REFRESH QMGR TYPE(EXPIRY) NAME(Q1)").codes == ["MFY1005I"]
    assert (scene.curdepth("Q1"), scene.curdepth("Q2")) == (1, 1)
    assert scene.mqsc("REFRESH QMGR TYPE(EXPIRY) NAME(Q*)").ok
    assert (scene.curdepth("Q1"), scene.curdepth("Q2")) == (1, 0)
    assert scene.mqsc("REFRESH QMGR").codes == ["AMQ8405E"]


def test_topics_are_found_by_wildcards_with_their_subscribers_and_publishers(
    scene: mayfly.QueueManager,
) -> None:
    found = scene.mqsc("DISPLAY TPSTATUS('a/#') ADMIN SUBCOUNT").rows
    assert found == [
        {"TPSTATUS": "a", "ADMIN": "", "SUBCOUNT": 1},
        {"TPSTATUS": "a/b", "ADMIN": "T1", "SUBCOUNT": 2},
    ]
    subscribers = scene.mqsc("DISPLAY TPSTATUS('a/+') TYPE(SUB) ALL").rows
    assert [(row["TPSTATUS"], row["TYPE"], row["SUB"]) for row in subscribers] == [
        ("a/b", "SUB", "s1"),
        ("a/b", "SUB", "s2"),
    ]
    with scene.session("anna") as session:
        session.open_topic("a/b", c.MQOO_OUTPUT)
        [publisher] = scene.mqsc("DISPLAY TPSTATUS('#') TYPE(PUB)").rows
        assert (publisher["TPSTATUS"], publisher["USERID"]) == ("a/b", "anna")
        assert scene.mqsc(f"DISPLAY CONN({publisher['ACTCONN']})").ok
    assert scene.mqsc("DISPLAY TPSTATUS('#') TYPE(PUB)").codes == ["AMQ8147E"]


def test_status_of_subscriptions(scene: mayfly.QueueManager) -> None:
    rows = scene.mqsc("DISPLAY SBSTATUS(*) ALL").rows
    assert [(row["SUB"], row["SUBTYPE"], row["DURABLE"]) for row in rows] == [
        ("s1", "ADMIN", "YES"),
        ("s2", "ADMIN", "YES"),
    ]
    assert scene.mqsc("DISPLAY SBSTATUS('s2') TOPICSTR").rows[0]["TOPICSTR"] == "a/b"


def test_status_of_a_subscription_names_the_connection_that_has_it_open(
    scene: mayfly.QueueManager,
) -> None:
    with scene.session("anna") as session:
        subscription = session.subscribe("c", name="mine", durable=True)
        [row] = scene.mqsc("DISPLAY SBSTATUS('mine') ACTCONN").rows
        [connection] = scene.mqsc(f"DISPLAY CONN({row['ACTCONN']})").rows
        assert connection["USERID"] == "anna"
        [subscriber] = scene.mqsc("DISPLAY TPSTATUS('c') TYPE(SUB)").rows
        assert subscriber["ACTCONN"] == row["ACTCONN"]
        subscription.close()
        assert scene.mqsc("DISPLAY SBSTATUS('mine') ACTCONN").rows[0]["ACTCONN"] == ""


def test_the_interval_of_a_refresh_is_a_number_of_minutes(scene: mayfly.QueueManager) -> None:
    assert scene.mqsc("REFRESH QMGR TYPE(CONFIGEV) INCLINT(60)").codes == ["MFY1006I"]
    for wrong in ("INCLINT(soon)", "INCLINT(-1)", "INCLINT", "INCLINT(1,2)"):
        assert scene.mqsc(f"REFRESH QMGR TYPE(CONFIGEV) {wrong}").codes == ["AMQ8405E"]


def test_status_of_a_queue_names_who_has_it_open(scene: mayfly.QueueManager) -> None:
    with scene.session("anna", program="billing") as session:
        session.open("Q1", c.MQOO_INPUT_EXCLUSIVE | c.MQOO_INQUIRE)
        [row] = scene.mqsc("DISPLAY QSTATUS(*) TYPE(HANDLE) ALL").rows
        assert {k: row[k] for k in ("QUEUE", "TYPE", "APPLTAG", "USERID", "INPUT", "INQUIRE")} == {
            "QUEUE": "Q1",
            "TYPE": "HANDLE",
            "APPLTAG": "billing",
            "USERID": "anna",
            "INPUT": "EXCL",
            "INQUIRE": "YES",
        }
        assert (row["BROWSE"], row["OUTPUT"], row["SET"]) == ("NO", "NO", "NO")


def test_monitoring_keeps_the_times_of_the_last_put_and_get_and_the_time_on_the_queue(
    scene: mayfly.QueueManager, clock: VirtualClock
) -> None:
    shown = "DISPLAY QSTATUS(Q2) MONQ LPUTTIME LGETTIME LGETDATE QTIME"
    [off] = scene.mqsc(shown).rows
    assert (off["MONQ"], off["LPUTTIME"], off["QTIME"]) == ("OFF", "", "")
    assert scene.mqsc("ALTER QMGR MONQ(MEDIUM)").ok
    with scene.session() as session:
        session.put("Q2", b"x")
        clock.advance(2_000)
        for _ in range(2):
            session.get("Q2")
    [on] = scene.mqsc(shown).rows
    assert on["MONQ"] == "MEDIUM"
    assert on["LPUTTIME"] != on["LGETTIME"]
    assert on["LGETDATE"]
    assert on["QTIME"] == "2000000,2000000"
    assert scene.mqsc("ALTER QLOCAL(Q2) MONQ(OFF)").ok
    assert scene.mqsc(shown).rows[0]["LPUTTIME"] == ""


def test_move_takes_messages_along_with_their_ids_and_lives(
    scene: mayfly.QueueManager, clock: VirtualClock
) -> None:
    assert scene.mqsc("MOVE QLOCAL(Q1) TOQLOCAL(Q2)").codes == ["AMQ8143E"]
    assert scene.mqsc("MOVE QLOCAL(Q1) TOQLOCAL(Q2) TYPE(ADD)").messages[0].text == (
        "2 messages moved."
    )
    assert (scene.curdepth("Q1"), scene.curdepth("Q2")) == (0, 3)
    clock.advance(1_001)
    with scene.session() as session:
        message = session.get("Q2")
        assert message is not None
        assert (message.body, message.correl_id[:1]) == (b"2", b"\xab")
        assert session.get("Q2") is None
    for command, code in (
        ("MOVE QLOCAL(Q1) TOQLOCAL(NONE)", "AMQ8147E"),
        ("MOVE QLOCAL(Q1) TOQLOCAL(Q1)", "AMQ8147E"),
        ("MOVE QLOCAL(Q1)", "AMQ8405E"),
    ):
        assert scene.mqsc(command).codes == [code]


def test_a_queue_that_is_open_is_not_moved(scene: mayfly.QueueManager) -> None:
    with scene.session() as session:
        session.open("Q1", c.MQOO_INPUT_SHARED)
        assert scene.mqsc("MOVE QLOCAL(Q1) TOQLOCAL(Q2) TYPE(ADD)").codes == ["AMQ8148E"]
    assert scene.curdepth("Q1") == 2


def test_programs_are_counted_by_name(scene: mayfly.QueueManager) -> None:
    with scene.session(program="billing"), scene.session(program="billing"):
        [row] = scene.mqsc("DISPLAY APSTATUS('bill*') TYPE(APPL)").rows
        assert (row["APPLNAME"], row["COUNT"], row["BALANCED"]) == ("billing", 2, "NOTAPPLIC")
        [here] = scene.mqsc("DIS APS('bill*') TYPE(QMGR) WHERE(COUNT GT 1)").rows
        assert (here["APPLNAME"], here["TYPE"], here["COUNT"]) == ("billing", "QMGR", 2)
        assert (here["ACTIVE"], here["QMNAME"], str(here["QMID"])[:4]) == ("YES", "QM1", "QM1_")
        each = scene.mqsc("DISPLAY APSTATUS('bill*') TYPE(LOCAL) ALL").rows
        assert [(row["TYPE"], row["CONNS"], row["IMMREASN"]) for row in each] == (
            [("LOCAL", 1, "NOTCLIENT")] * 2
        )
        connections = {row["CONN"] for row in scene.mqsc("DISPLAY CONN(*)").rows}
        assert {str(row["CONNTAG"])[4:20] for row in each} <= connections
        assert scene.mqsc("DISPLAY APSTATUS(*) TYPE(OTHER)").codes == ["AMQ8405E"]


@pytest.mark.parametrize("kind", ["LSSTATUS", "SVSTATUS", "CLUSQMGR"])
def test_what_never_runs_here_is_not_found(scene: mayfly.QueueManager, kind: str) -> None:
    assert scene.mqsc(f"DISPLAY {kind}(*) ALL").codes == ["AMQ8147E"]


def test_security_and_the_hierarchy_are_displayed_with_all(scene: mayfly.QueueManager) -> None:
    [security] = scene.mqsc("DISPLAY SECURITY ALL").rows
    assert security == {
        "QMNAME": "QM1",
        "CHLAUTH": "ENABLED",
        "CONNAUTH": "SYSTEM.DEFAULT.AUTHINFO.IDPWOS",
        "REVDNS": "ENABLED",
    }
    assert scene.mqsc("DISPLAY AUTHSERV ALL").rows == [{"UIDSUPP": "YES"}]
    assert scene.mqsc("DIS AUTHSERV IFVER").rows == [{"IFVER": ""}]
    [local] = scene.mqsc("DISPLAY PUBSUB ALL").rows
    assert (local["QMNAME"], local["TYPE"], local["STATUS"]) == ("QM1", "LOCAL", "COMPAT")
    assert scene.mqsc("DISPLAY PUBSUB TYPE(CHILD)").codes == ["AMQ8147E"]


def test_all_means_the_attributes_of_IBM_MQ_and_names_add_our_own(
    scene: mayfly.QueueManager,
) -> None:
    [everything] = scene.mqsc("DISPLAY QLOCAL(Q1) ALL").rows
    assert not {"EXPQ", "TTLFROM", "BODELAY", "BODELMAX"} & everything.keys()
    assert {"MAXDEPTH", "NPMCLASS"} <= everything.keys()
    [obeyed] = scene.mqsc("DISPLAY QLOCAL(Q1)").rows
    assert {"EXPQ", "TTLFROM"} <= obeyed.keys()
    [both] = scene.mqsc("DISPLAY QLOCAL(Q1) ALL EXPQ").rows
    assert both.keys() - everything.keys() == {"EXPQ"}
    [status] = scene.mqsc("DISPLAY QSTATUS(Q1) ALL").rows
    assert not {"STAGED", "LIVE", "EXPIRED"} & status.keys()
    [manager] = scene.mqsc("DISPLAY QMGR ALL").rows
    assert not {"DDELAY", "AUTHCHK"} & manager.keys()


def test_a_failing_command_names_the_object_that_is_missing(scene: mayfly.QueueManager) -> None:
    [failure] = scene.mqsc("\nDEFINE SUB('s3') TOPICSTR('x') DEST(NONE)").commands
    [message] = failure.messages
    assert (message.text, message.line, message.reason) == (
        "IBM MQ object NONE not found.",
        2,
        2085,
    )


def test_what_ibm_mq_shows_and_mayfly_has_not_is_blank_where_it_is_named(
    scene: mayfly.QueueManager,
) -> None:
    [queue] = scene.mqsc("DISPLAY QLOCAL(Q1) CRDATE MAXDEPTH").rows
    assert queue == {"QUEUE": "Q1", "TYPE": "QLOCAL", "MAXDEPTH": 5_000, "CRDATE": ""}
    with scene.session(program="billing"):
        [row] = scene.mqsc("DIS CONN(*) APPLTAG PID TID WHERE(APPLTAG EQ 'billing')").rows
        assert (row["APPLTAG"], row["PID"], row["TID"]) == ("billing", "", "")
    [manager] = scene.mqsc("DISPLAY QMSTATUS STATUS STARTDA").rows
    assert manager == {"QMNAME": "QM1", "STATUS": "RUNNING", "STARTDA": ""}
    assert "PID" not in scene.mqsc("DISPLAY CONN(*) ALL").text
    [failure] = scene.mqsc("DISPLAY CHANNEL(*) CURDEPTH").commands[0].messages
    assert "CURDEPTH is not a keyword of CHANNEL" in failure.body


def test_one_keyword_shows_a_group_of_attributes(scene: mayfly.QueueManager) -> None:
    [events] = scene.mqsc("DISPLAY QMGR EVENT").rows
    assert {key[-2:] for key in events if key != "QMNAME"} == {"EV"}
    everything = scene.mqsc("DISPLAY QMGR ALL").rows[0].keys()
    shown = {"QMID", "OTELPCTL", "OTELTRAC"}
    for group in ("SYSTEM", "CHINIT", "EVENT", "PUBSUB", "CLUSTER"):
        [row] = scene.mqsc(f"DISPLAY QMGR {group}").rows
        assert row.keys() <= everything
        shown |= row.keys()
    assert everything <= shown
    [status] = scene.mqsc("DISPLAY QSTATUS(Q1) MONITOR").rows
    assert {"LPUTTIME", "MSGAGE"} < status.keys()
    assert "CURDEPTH" not in status
    assert scene.mqsc("DISPLAY SUB(*) SUMMARY").ok


def test_the_queue_manager_shows_what_nobody_sets(scene: mayfly.QueueManager) -> None:
    [row] = scene.mqsc("DISPLAY QMGR QMID VERSION COMMANDQ MAXPRTY SYNCPT DISTL").rows
    assert str(row.pop("QMID")).startswith("QM1_")
    assert row == {
        "QMNAME": "QM1",
        "VERSION": "09040000",
        "COMMANDQ": "SYSTEM.ADMIN.COMMAND.QUEUE",
        "MAXPRTY": 9,
        "SYNCPT": "AVAILABLE",
        "DISTL": "NO",
    }


def test_a_value_behind_a_type_chooses_subscriptions_topics_and_handles(
    scene: mayfly.QueueManager,
) -> None:
    def subscriptions(command: str) -> list[object]:
        return [row["SUB"] for row in scene.mqsc(command).rows]

    with scene.session(program="billing") as session:
        session.subscribe("a/b", name="api", durable=True)
        session.subscribe("a/b")
        session.open("Q1", c.MQOO_INPUT_SHARED)
        session.open("Q2", c.MQOO_OUTPUT)
        assert subscriptions("DISPLAY SUB(*) SUBTYPE(ADMIN)") == ["s1", "s2"]
        assert subscriptions("DISPLAY SBSTATUS(*) SUBTYPE(API) DURABLE(YES)") == ["api"]
        assert subscriptions("DISPLAY TPSTATUS('a/b') TYPE(SUB) DURABLE(NO)") == [""]
        assert len(subscriptions("DISPLAY SUB(*) SUBTYPE(USER)")) == 4
        inputs = scene.mqsc("DISPLAY QSTATUS(Q*) TYPE(HANDLE) OPENTYPE(INPUT) APPLTAG PID").rows
        assert inputs == [{"QUEUE": "Q1", "TYPE": "HANDLE", "APPLTAG": "billing", "PID": ""}]
        [writer] = scene.mqsc("DIS QS(*) TYPE(HANDLE) WHERE(OUTPUT EQ YES)").rows
        assert (writer["QUEUE"], writer["INPUT"]) == ("Q2", "NO")
    assert scene.mqsc("DISPLAY TOPIC(T*) TYPE(LOCAL)").rows[0]["TOPIC"] == "T1"
    assert scene.mqsc("DISPLAY TOPIC(*) TYPE(CLUSTER)").codes == ["AMQ8147E"]
    assert scene.mqsc("DISPLAY SUB(*) SUBTYPE(OTHER)").codes == ["AMQ8405E"]
    assert scene.mqsc("REFRESH SECURITY(*)").codes == ["AMQ8560I"]


def test_a_subscription_is_named_by_its_id(scene: mayfly.QueueManager) -> None:
    [row] = scene.mqsc("DISPLAY SUB('s2') SUBID").rows
    identifier = row["SUBID"]
    assert scene.mqsc(f"DISPLAY SUB SUBID({identifier}) TOPICSTR").rows == [
        {"SUBID": identifier, "SUB": "s2", "TOPICSTR": "a/b"}
    ]
    assert scene.mqsc(f"DISPLAY SBSTATUS SUBID('{identifier}')").rows[0]["SUB"] == "s2"
    assert scene.mqsc(f"ALTER SUB SUBID({identifier}) USERDATA('x')").codes == ["AMQ8095I"]
    assert scene.mqsc(f"DELETE SUB SUBID({identifier})").codes == ["AMQ8091I"]
    assert scene.mqsc(f"DELETE SUB SUBID({identifier})").codes == ["AMQ8147E"]
    assert scene.mqsc("DISPLAY SUB SUBID(A B)").codes == ["AMQ8405E"]
    assert scene.mqsc("DISPLAY SUB SUBID").codes == ["AMQ8405E"]
