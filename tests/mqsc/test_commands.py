"""What the commands do to a real queue manager with messages, open queues and units of work."""

from pathlib import Path

import pytest

import mayfly
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc


def life_ms(qm: mayfly.QueueManager, queue: str) -> int | None:
    """Put without an expiry, get, and return how long the message was given."""
    with qm.session() as session:
        session.put(queue, b"x")
        message = session.get(queue)
    assert message is not None
    return None if message.expire_at_ms is None else message.expire_at_ms - message.put_ms


def test_X02_alter_moves_the_cap_from_custom_to_the_attribute_in_one_step(
    qm: mayfly.QueueManager,
) -> None:
    assert qm.mqsc("DEFINE QLOCAL(Q1) CAPEXPRY(70) CUSTOM('CAPEXPRY(50)')").ok
    assert life_ms(qm, "Q1") == 5_000
    with qm.session() as session:
        session.put("Q1", b"before")
    result = qm.mqsc("ALTER QLOCAL(Q1) CAPEXPRY(1000) CUSTOM('')\nDIS QL(Q1) CAPEXPRY CUSTOM")
    assert result.codes == ["AMQ8008I", "AMQ8409I"]
    assert result.rows == [{"QUEUE": "Q1", "TYPE": "QLOCAL", "CAPEXPRY": 1000, "CUSTOM": ""}]
    with qm.session() as session:
        before = session.get("Q1")
    assert before is not None
    assert before.expire_at_ms == before.put_ms + 5_000
    assert life_ms(qm, "Q1") == 100_000


@pytest.mark.parametrize("custom", ["", " ", "CAPEXPRY(1)", "capexpry(NOLIMIT)", " CAPEXPRY(9) "])
def test_X02_custom_takes_one_capexpry(qm: mayfly.QueueManager, custom: str) -> None:
    assert qm.mqsc(f"DEFINE QLOCAL(Q1) CUSTOM('{custom}')\nDEFINE QALIAS(A1) CUSTOM('{custom}')").ok


@pytest.mark.parametrize(
    "custom",
    [
        "CAPEXPRY",
        "CAPEXPRY()",
        "CAPEXPRY(0)",
        "CAPEXPRY(1000000000)",
        "CAPEXPRY(x)",
        "CAPEXPRY (5)",
        "CAPEXPRY( 5 )",
        "CAPEXPRY(5)CAPEXPRY(6)",
        "CAPEXPRY(5) CAPEXPRY(6)",
        "CAPEXPIRY(5)",
        "hello",
    ],
)
def test_X02_a_wrong_custom_is_a_syntax_error_that_changes_nothing(
    qm: mayfly.QueueManager, custom: str
) -> None:
    result = qm.mqsc(f"DEFINE QLOCAL(Q1) CUSTOM('{custom}')\nDISPLAY QLOCAL(Q1)")
    assert result.codes == ["AMQ8405E", "AMQ8147E"]


def test_X03_an_alias_lowers_the_cap_of_its_target(qm: mayfly.QueueManager) -> None:
    assert qm.mqsc("DEF QL(Q1) CAPEXPRY(70)\nDEF QA(A1) TARGET(Q1) CAPEXPRY(20)").ok
    assert life_ms(qm, "A1") == 2_000
    assert life_ms(qm, "Q1") == 7_000
    assert qm.mqsc("ALT QA(A1) CAPEXPRY(NOLIMIT)\nALT QL(Q1) CAPEXPRY(NOLIMIT)").ok
    assert life_ms(qm, "A1") is None


@pytest.mark.parametrize("platform", ["distributed", "zos"])
def test_X09_expryint_is_off_and_accepted_on_every_platform(platform: str) -> None:
    with mayfly.QueueManager("QM1", platform=platform) as qm:
        result = qm.mqsc("DIS QMGR EXPRYINT\nALT QMGR EXPRYINT(99999999)\nDIS QMGR PLATFORM")
        assert result.ok
        assert result.rows[0]["EXPRYINT"] == "OFF"
        assert result.rows[1]["PLATFORM"] == {"distributed": "UNIX", "zos": "MVS"}[platform]
        assert qm.mqsc("DIS QMGR EXPRYINT").rows[0]["EXPRYINT"] == 99_999_999


def test_clear_and_delete_fail_while_the_queue_is_open(qm: mayfly.QueueManager) -> None:
    assert qm.mqsc("DEFINE QLOCAL(Q1)").ok
    with qm.session() as session:
        handle = session.open("Q1", c.MQOO_OUTPUT)
        assert qm.mqsc("CLEAR QLOCAL(Q1)\nDELETE QLOCAL(Q1)").codes == ["AMQ8148E"] * 2
        row = qm.mqsc("DIS QL(Q1) IPPROCS OPPROCS").rows[0]
        assert (row["IPPROCS"], row["OPPROCS"]) == (0, 1)
        handle.close()
    result = qm.mqsc("CLEAR QLOCAL(Q1)\nDELETE QLOCAL(Q1)")
    assert result.codes == ["AMQ8022I", "AMQ8007I"]


def test_clear_and_delete_fail_with_uncommitted_work(qm: mayfly.QueueManager) -> None:
    assert qm.mqsc("DEFINE QLOCAL(Q1)").ok
    with qm.session(transacted=True) as session:
        session.put("Q1", b"x")
        result = qm.mqsc("CLEAR QLOCAL(Q1)\nDELETE QLOCAL(Q1) PURGE\nDIS QS(Q1)")
        assert result.codes == ["AMQ8148E", "AMQ8148E", "AMQ8450I"]
        assert [m.reason for m in result.messages] == [rc.MQRC_OBJECT_IN_USE] * 2 + [0]
        assert (result.rows[0]["UNCOM"], result.rows[0]["CURDEPTH"]) == ("YES", 1)
        session.backout()
    assert qm.mqsc("DIS QS(Q1) UNCOM CURDEPTH").rows == [
        {"QUEUE": "Q1", "TYPE": "QUEUE", "CURDEPTH": 0, "UNCOM": "NO"}
    ]


def test_delete_needs_an_empty_queue_or_purge(qm: mayfly.QueueManager) -> None:
    assert qm.mqsc("DEFINE QLOCAL(Q1)").ok
    with qm.session() as session:
        session.put("Q1", b"x")
    result = qm.mqsc("DELETE QLOCAL(Q1)\nDELETE QLOCAL(Q1) NOPURGE\nDIS QL(Q1) CURDEPTH")
    assert result.codes == ["AMQ8143E", "AMQ8143E", "AMQ8409I"]
    assert result.rows == [{"QUEUE": "Q1", "TYPE": "QLOCAL", "CURDEPTH": 1}]
    assert qm.mqsc("DELETE QLOCAL(Q1) PURGE\nDIS QL(Q1)").codes == ["AMQ8007I", "AMQ8147E"]
    assert qm.verify().ok


def test_clear_empties_the_queue(qm: mayfly.QueueManager) -> None:
    assert qm.mqsc("DEFINE QLOCAL(Q1)").ok
    with qm.session() as session:
        for body in (b"1", b"2", b"3"):
            session.put("Q1", body)
    assert qm.mqsc("DIS QL(*) WHERE(CURDEPTH GE 3)").rows == [
        {"QUEUE": "Q1", "TYPE": "QLOCAL", "CURDEPTH": 3}
    ]
    assert qm.mqsc("CLEAR QL(Q1)").codes == ["AMQ8022I"]
    assert qm.curdepth("Q1") == 0
    assert qm.verify().ok


def test_replace_sets_every_attribute_and_keeps_the_messages(qm: mayfly.QueueManager) -> None:
    assert qm.mqsc("DEFINE QLOCAL(Q1) DESCR('old') MAXDEPTH(7)").ok
    with qm.session() as session:
        session.put("Q1", b"x")
    assert qm.mqsc("DEFINE QLOCAL(Q1) REPLACE MAXDEPTH(8)").codes == ["AMQ8006I"]
    row = qm.mqsc("DIS QL(Q1)").rows[0]
    assert (row["DESCR"], row["MAXDEPTH"], row["CURDEPTH"]) == ("", 8, 1)


def test_defaults_come_from_the_default_object_like_from_any_other(
    qm: mayfly.QueueManager,
) -> None:
    assert qm.mqsc("ALTER QLOCAL(SYSTEM.DEFAULT.LOCAL.QUEUE) MAXDEPTH(77) DEFPSIST(YES)").ok
    assert qm.mqsc("DEF QL(Q1) DEFPSIST(NO)\nDEF QL(Q2) LIKE(Q1) MAXDEPTH(78)").ok
    rows = qm.mqsc("DIS QL(Q*) MAXDEPTH DEFPSIST").rows
    assert [(r["MAXDEPTH"], r["DEFPSIST"]) for r in rows] == [(77, "NO"), (78, "NO")]


def test_like_needs_an_object_of_the_same_kind(qm: mayfly.QueueManager) -> None:
    assert qm.mqsc("DEF QL(Q1)").ok
    [message] = qm.mqsc("DEF QA(A1) LIKE(Q1)").messages
    assert (message.code, message.reason) == ("AMQ8147E", rc.MQRC_UNKNOWN_OBJECT_NAME)
    assert message.text == "IBM MQ object Q1 not found."


@pytest.mark.parametrize(
    "definition",
    [
        "QLOCAL(NEW)",
        "TOPIC(NEW) TOPICSTR('new')",
        "SUB(NEW) TOPICSTR('new') DEST(Q1)",
        "PROCESS(NEW)",
        "AUTHINFO(NEW) AUTHTYPE(IDPWOS)",
        "AUTHINFO(NEW) AUTHTYPE(IDPWOS) REPLACE",
        "CHANNEL(NEW) CHLTYPE(RCVR)",
        "CHANNEL(NEW) CHLTYPE(SVRCONN) REPLACE",
        "CHANNEL(NEW) CHLTYPE(CLNTCONN) CONNAME('h(1414)')",
    ],
)
def test_the_message_names_the_unknown_object_of_LIKE_not_the_new_one(
    qm: mayfly.QueueManager, definition: str
) -> None:
    [message] = qm.mqsc(f"DEFINE {definition} LIKE(OLD)").messages
    assert (message.code, message.reason, message.text) == (
        "AMQ8147E",
        rc.MQRC_UNKNOWN_OBJECT_NAME,
        "IBM MQ object OLD not found.",
    )


def test_a_dynamic_queue_shows_how_it_came_to_be(qm: mayfly.QueueManager) -> None:
    assert qm.mqsc("DEF QM(REPLY) DEFTYPE(TEMPDYN)").ok
    with qm.session() as session:
        session.open("REPLY", c.MQOO_INPUT_SHARED, dynamic_name="REPLY.*")
        [row] = qm.mqsc("DIS QUEUE(REPLY.*) DEFTYPE WHERE(DEFTYPE EQ TEMPDYN)").rows
        assert (row["TYPE"], row["DEFTYPE"]) == ("QLOCAL", "TEMPDYN")
    assert qm.mqsc("DIS QUEUE(REPLY.*)").codes == ["AMQ8147E"]


def test_definitions_made_by_mqsc_outlive_the_queue_manager(tmp_path: Path) -> None:
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        script = "DEF QL(Q1) NOSHARE CAPEXPRY(5)\nALT QMGR EXPRYINT(9)\nDEF QL(Q2)\nDELETE QL(Q2)"
        assert qm.mqsc(script).ok
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        result = qm.mqsc("DIS QL(Q*) SHARE CAPEXPRY\nDIS QMGR EXPRYINT")
        assert result.rows == [
            {"QUEUE": "Q1", "TYPE": "QLOCAL", "SHARE": "NOSHARE", "CAPEXPRY": 5},
            {"QMNAME": "QM1", "EXPRYINT": 9},
        ]


def test_a_stopped_queue_manager_is_said_and_not_raised() -> None:
    qm = mayfly.QueueManager("QM1")
    qm.close()
    assert qm.mqsc("PING QMGR\nDEFINE QLOCAL(Q1)").codes == ["AMQ8146E", "AMQ8146E"]


def test_blanks_at_the_end_of_a_text_mean_nothing(qm: mayfly.QueueManager) -> None:
    script = "DEF QL(Q1) DESCR(' x  ') BOQNAME('BACK ')\nDIS QL(Q1) DESCR BOQNAME"
    [row] = qm.mqsc(script).rows
    assert (row["DESCR"], row["BOQNAME"]) == (" x", "BACK")


def test_E12_events_of_a_full_queue_are_attributes_of_local_and_model_queues(
    qm: mayfly.QueueManager,
) -> None:
    """Percent of MAXDEPTH, 0 to 100, and switches; what counts are all messages, expired or not."""
    assert qm.mqsc("DEFINE QLOCAL(Q1) QDEPTHHI(100) QDEPTHLO(0) QDPMAXEV(DISABLED)").ok
    assert qm.mqsc("ALTER QLOCAL(Q1) QDPHIEV(ENABLED) QDPLOEV(ENABLED)").ok
    assert qm.mqsc("DEFINE QMODEL(M1) LIKE(SYSTEM.DEFAULT.MODEL.QUEUE) QDEPTHHI(90)").ok
    shown = "QDEPTHHI QDEPTHLO QDPMAXEV QDPHIEV QDPLOEV"
    (row,) = qm.mqsc(f"DISPLAY QLOCAL(Q1) {shown}").rows
    assert [row[name] for name in shown.split()] == [100, 0, "DISABLED", "ENABLED", "ENABLED"]
    (row,) = qm.mqsc(f"DISPLAY QMODEL(M1) {shown}").rows
    assert [row[name] for name in shown.split()] == [90, 20, "ENABLED", "DISABLED", "DISABLED"]
    for wrong in ("QDEPTHHI(101)", "QDEPTHLO(-1)", "QDPMAXEV(ON)"):
        assert not qm.mqsc(f"ALTER QLOCAL(Q1) {wrong}").ok
    assert not qm.mqsc("DEFINE QALIAS(A1) TARGET(Q1) QDEPTHHI(80)").ok
