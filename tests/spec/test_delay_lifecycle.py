"""Who may delay and when it goes on, rules D5, D6, D9, D14, D28, D30: levels, clusters, stops."""

from pathlib import Path
from typing import Literal

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.api.administration import QLOCAL
from mayfly.engine.objects import administration
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.properties import pack_folder, pack_header
from mayfly.mqi.structures import DDH
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt
from tests.over import NewSession
from tests.spec.scene import (
    REPLIES,
    STAGING,
    V2,
    WORKING,
    End,
    alter,
    bodies,
    ends,
    local,
    put_md,
    refused,
)

DISABLED = {"PUT": c.MQQA_PUT_INHIBITED, "GET": c.MQQA_GET_INHIBITED}
ENABLED = {"PUT": c.MQQA_PUT_ALLOWED, "GET": c.MQQA_GET_ALLOWED}
FIFO = {"INDXTYPE": c.MQIT_NONE, "MSGDLVSQ": c.MQMDS_FIFO}


def staged(qm: QueueManager) -> tuple[int, int]:
    """Return the depths of the staging queue and of Q1."""
    return qm.curdepth(STAGING), qm.curdepth("Q1")


@pytest.mark.parametrize(("level", "is_taken"), [(750, False), (799, False), (800, True)])
def test_D5_queue_managers_before_8_0_know_no_delay(
    clock: VirtualClock, level: int, is_taken: bool, persistent: bool, new_session: NewSession
) -> None:
    with QueueManager("QM1", clock=clock, command_level=level) as qm, new_session(qm) as session:
        local(qm)
        if is_taken:
            session.put("Q1", b"x", delay_ms=1, persistent=persistent)
        else:
            with refused(rc.MQRC_FUNCTION_NOT_SUPPORTED):
                session.put("Q1", b"x", delay_ms=1, persistent=persistent)
        session.put("Q1", b"now", delay_ms=0, persistent=persistent)
        assert staged(qm) == (int(is_taken), 1)
        assert qm.verify().ok


def test_D5_refused_in_a_unit_of_work_leaves_the_rest_of_it(
    clock: VirtualClock, new_session: NewSession
) -> None:
    with QueueManager("QM1", clock=clock, command_level=750) as qm:
        local(qm)
        with new_session(qm, transacted=True) as unit:
            unit.put("Q1", b"kept")
            with refused(rc.MQRC_FUNCTION_NOT_SUPPORTED):
                unit.put("Q1", b"x", delay_ms=1)
        assert staged(qm) == (0, 1)


def test_D30_staged_messages_are_stranded_at_an_older_level_and_released_back_at_the_newer(
    clock: VirtualClock, tmp_path: Path, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path, clock=clock) as qm, new_session(qm) as session:
        local(qm)
        sent = session.put("Q1", b"x", delay_ms=1_000, persistent=True)
        by_hand = session.put("Q1", b"by hand", delay_ms=1_000, persistent=True)
    clock.advance(5_000)
    with QueueManager("QM1", tmp_path, clock=clock, command_level=750) as qm:
        assert qm.delay_processor_status() == "stopped: command level 750 knows no delivery delay"
        with new_session(qm) as session:
            clock.advance(3_600_000)
            assert staged(qm) == (2, 0)
            assert session.get(STAGING, correl_id=by_hand) is not None
            assert qm.verify().ok
    with (
        QueueManager("QM1", tmp_path, clock=clock, command_level=940) as qm,
        new_session(qm) as session,
    ):
        assert qm.delay_processor_status() in WORKING
        assert staged(qm) == (0, 1)
        message = session.get("Q1")
        assert message is not None
        assert (message.body, message.msg_id) == (b"x", sent)
        assert session.schedule.cancel(by_hand) is Receipt.CANCELLED
        assert qm.verify().ok


def zos(clock: VirtualClock, **attributes: int) -> QueueManager:
    """Return a z/OS queue manager with Q1 and, given attributes, a staging queue."""
    qm = QueueManager("ZQM", clock=clock, platform="zos")
    local(qm)
    if attributes:
        local(qm, STAGING, **attributes)
    return qm


def test_D14_zos_without_the_staging_queue(clock: VirtualClock, new_session: NewSession) -> None:
    with zos(clock) as qm, new_session(qm) as session:
        assert qm.delay_processor_status() == f"stopped: {STAGING} is not defined"
        with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
            session.put("Q1", b"x", delay_ms=1)
        session.put("Q1", b"now")
        assert session.schedule.list() == []
        assert session.schedule.count() == 0
        assert session.schedule.cancel(b"M" * 24) is Receipt.UNKNOWN
        local(qm, STAGING, **FIFO)
        assert qm.delay_processor_status() in WORKING
        session.put("Q1", b"x", delay_ms=1)
        clock.advance(1)
        assert bodies(session, "Q1") == [b"now", b"x"]


@pytest.mark.parametrize(
    ("wrong", "needed"),
    [
        ({"INDXTYPE": c.MQIT_MSG_ID}, "INDXTYPE(NONE)"),
        ({"INDXTYPE": c.MQIT_CORREL_ID}, "INDXTYPE(NONE)"),
        ({"MSGDLVSQ": c.MQMDS_PRIORITY}, "MSGDLVSQ(FIFO)"),
    ],
)
def test_D14_D28_zos_wrong_definition_refuses_puts_and_shuts_the_processor_down(
    clock: VirtualClock, wrong: dict[str, int], needed: str, new_session: NewSession
) -> None:
    """Defined right again it takes puts, but stays down until an operator restarts it."""
    with zos(clock, **FIFO) as qm, new_session(qm) as session:
        session.put("Q1", b"x", delay_ms=1_000)
        alter(qm, STAGING, **wrong)
        with refused(rc.MQRC_Q_INDEX_TYPE_ERROR):
            session.put("Q1", b"refused", delay_ms=1_000)
        why = f"stopped: {STAGING} must be defined with {needed}"
        assert qm.delay_processor_status() == why
        clock.advance(1_000)
        assert staged(qm) == (1, 0)
        alter(qm, STAGING, **FIFO)
        session.put("Q1", b"y", delay_ms=1_000)
        clock.advance(1_000)
        assert (qm.delay_processor_status(), staged(qm)) == (why, (2, 0))
        alter(qm, STAGING, PUT=DISABLED["PUT"])
        alter(qm, STAGING, PUT=ENABLED["PUT"])
        assert qm.delay_processor_status() in WORKING
        assert bodies(session, "Q1") == [b"x", b"y"]
        assert qm.verify().ok


def test_D14_distributed_does_not_care_for_index_and_sequence(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    alter(queue_manager, STAGING, INDXTYPE=c.MQIT_MSG_ID, MSGDLVSQ=c.MQMDS_PRIORITY)
    session.put("Q1", b"low", delay_ms=1_000, priority=0)
    session.put("Q1", b"high", delay_ms=2_000, priority=9)
    assert [m.body[208:] for m in session.browse(STAGING)] == [b"low", b"high"]
    clock.advance(1_000)
    assert bodies(session, "Q1") == [b"low"]
    assert queue_manager.delay_processor_status() in WORKING


@pytest.mark.parametrize("keyword", ["PUT", "GET"])
def test_D28_zos_disabled_stops_and_enabled_again_restarts(
    clock: VirtualClock, keyword: str, persistent: bool, new_session: NewSession
) -> None:
    with zos(clock, **FIFO) as qm, new_session(qm) as session:
        session.put("Q1", b"x", delay_ms=1_000, persistent=persistent)
        alter(qm, STAGING, **{keyword: DISABLED[keyword]})
        assert qm.delay_processor_status() == f"stopped: {keyword}(DISABLED) on {STAGING}"
        if keyword == "PUT":
            with refused(rc.MQRC_PUT_INHIBITED):
                session.put("Q1", b"y", delay_ms=1_000)
        clock.advance(60_000)
        assert staged(qm) == (1, 0)
        alter(qm, STAGING, **{keyword: ENABLED[keyword]})
        assert qm.delay_processor_status() in WORKING
        # At once: no time passes.
        assert bodies(session, "Q1") == [b"x"]
        assert ends(qm, STAGING) == [End("released", 60_000)]


def test_D28_zos_processor_that_shut_down_restarts_when_the_queue_is_defined_anew(
    clock: VirtualClock,
    new_session: NewSession,
) -> None:
    with (
        zos(clock, INDXTYPE=c.MQIT_MSG_ID, MSGDLVSQ=c.MQMDS_FIFO) as qm,
        new_session(qm) as session,
    ):
        assert "INDXTYPE(NONE)" in qm.delay_processor_status()
        administration.delete(qm.engine, QLOCAL, STAGING)
        assert qm.delay_processor_status() == f"stopped: {STAGING} is not defined"
        local(qm, STAGING, **FIFO)
        assert qm.delay_processor_status() in WORKING
        session.put("Q1", b"x", delay_ms=1)
        clock.advance(1)
        assert bodies(session, "Q1") == [b"x"]


def test_D28_zos_processor_starts_with_the_queue_manager(
    clock: VirtualClock, tmp_path: Path, new_session: NewSession
) -> None:
    """Its own shutting down is not remembered, what is wrong with the queue is found again."""
    with QueueManager("ZQM", tmp_path, clock=clock, platform="zos") as qm:
        local(qm)
        local(qm, STAGING, **FIFO)
        with new_session(qm) as session:
            session.put("Q1", b"x", delay_ms=1_000, persistent=True)
        alter(qm, STAGING, INDXTYPE=c.MQIT_MSG_ID)
        assert qm.delay_processor_status().startswith("stopped: ")
        alter(qm, STAGING, **FIFO)
        clock.advance(1_000)
        assert staged(qm) == (1, 0)
    with QueueManager("ZQM", tmp_path, clock=clock, platform="zos") as qm:
        assert qm.delay_processor_status() in WORKING
        assert staged(qm) == (0, 1)


def test_D28_distributed_goes_on_with_puts_disabled(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        session.put("Q1", b"x", delay_ms=1_000, persistent=persistent)
        alter(any_manager, STAGING, PUT=DISABLED["PUT"])
        assert any_manager.delay_processor_status() in WORKING
        with refused(rc.MQRC_PUT_INHIBITED):
            session.put("Q1", b"y", delay_ms=1_000)
        clock.advance(1_000)
        assert bodies(session, "Q1") == [b"x"]


def test_D28_distributed_stops_with_gets_disabled_and_goes_on_when_enabled(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """Puts are taken meanwhile; gets of applications are refused."""
    local(any_manager)
    with new_session(any_manager) as session:
        session.put("Q1", b"x", delay_ms=1_000, persistent=persistent)
        alter(any_manager, STAGING, GET=DISABLED["GET"])
        assert any_manager.delay_processor_status() == f"stopped: GET(DISABLED) on {STAGING}"
        session.put("Q1", b"y", delay_ms=1_000, persistent=persistent)
        with refused(rc.MQRC_GET_INHIBITED):
            session.get(STAGING)
        clock.advance(5_000)
        assert staged(any_manager) == (2, 0)
        alter(any_manager, STAGING, GET=ENABLED["GET"])
        assert any_manager.delay_processor_status() in WORKING
        assert bodies(session, "Q1") == [b"x", b"y"]
        assert ends(any_manager, STAGING) == [End("released", 5_000)] * 2


def test_D28_message_that_expires_while_the_processor_is_stopped_is_reported_on_when_it_goes_on(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    local(queue_manager, REPLIES)
    sent = session.put(
        "Q1",
        b"x",
        delay_ms=1_000,
        time_to_live_ms=2_000,
        report=c.MQRO_EXPIRATION,
        reply_to_q=REPLIES,
    )
    alter(queue_manager, STAGING, GET=DISABLED["GET"])
    clock.advance(3_000)
    assert (queue_manager.curdepth(STAGING), queue_manager.curdepth(REPLIES)) == (1, 0)
    assert session.schedule.cancel(sent) is Receipt.EXPIRED
    alter(queue_manager, STAGING, GET=ENABLED["GET"])
    report = session.get(REPLIES)
    assert report is not None
    assert (report.correl_id, report.descriptor.feedback) == (sent, c.MQFB_EXPIRATION)
    assert ends(queue_manager, STAGING) == [End("expired", 3_000)]


@pytest.mark.parametrize("status", ["working", "stopped"])
def test_D28_status_is_shown_by_mqsc(queue_manager: QueueManager, status: str) -> None:
    if status == "stopped":
        assert queue_manager.mqsc(f"ALTER QLOCAL({STAGING}) GET(DISABLED)").ok
    result = queue_manager.mqsc(f"DISPLAY QSTATUS({STAGING})")
    (row,) = result.rows
    shown = ("STOPPED",) if status == "stopped" else tuple(word.upper() for word in WORKING)
    assert row["DDELAY"] in shown
    assert f"DDELAY({row['DDELAY']})" in result.text


CLUSTERS = [
    ("", True),
    ("CLUSTER(C1)", False),
    ("CLUSTER(C1) DEFBIND(OPEN)", False),
    ("CLUSTER(C1) DEFBIND(GROUP)", False),
    ("CLUSTER(C1) DEFBIND(NOTFIXED)", True),
    ("DEFBIND(OPEN)", True),
    ("CLUSTER('') DEFBIND(GROUP)", True),
]


@pytest.mark.parametrize("kind", ["QLOCAL", "QALIAS"])
@pytest.mark.parametrize(("attributes", "is_taken"), CLUSTERS)
def test_D6_clustered_destination_must_not_be_bound(
    queue_manager: QueueManager,
    session: Session,
    clock: VirtualClock,
    kind: str,
    attributes: str,
    is_taken: bool,
) -> None:
    """Without a delay it is taken in any case."""
    if kind == "QLOCAL":
        script, name = f"DEFINE QLOCAL(Q1) {attributes}", "Q1"
    else:
        script, name = f"DEFINE QLOCAL(Q1)\nDEFINE QALIAS(A1) TARGET(Q1) {attributes}", "A1"
    assert queue_manager.mqsc(script).ok
    if is_taken:
        session.put(name, b"x", delay_ms=1_000)
    else:
        with refused(rc.MQRC_OPTIONS_ERROR):
            session.put(name, b"x", delay_ms=1_000)
    session.put(name, b"now")
    assert staged(queue_manager) == (int(is_taken), 1)
    clock.advance(1_000)
    assert queue_manager.curdepth("Q1") == 1 + is_taken


def test_D6_alias_of_a_clustered_queue_is_a_clustered_destination(
    queue_manager: QueueManager, session: Session
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1) CLUSTER(C1)\nDEFINE QALIAS(A1) TARGET(Q1)").ok
    with refused(rc.MQRC_OPTIONS_ERROR):
        session.put("A1", b"x", delay_ms=1_000)
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) DEFBIND(NOTFIXED)").ok
    session.put("A1", b"x", delay_ms=1_000)
    assert staged(queue_manager) == (1, 0)


def test_D6_is_checked_at_the_send_alone(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    session.put("Q1", b"x", delay_ms=1_000)
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) CLUSTER(C1)").ok
    clock.advance(1_000)
    assert bodies(session, "Q1") == [b"x"]


@pytest.mark.parametrize(
    "flags",
    [
        c.MQMF_MSG_IN_GROUP,
        c.MQMF_LAST_MSG_IN_GROUP,
        c.MQMF_SEGMENT,
        c.MQMF_LAST_SEGMENT,
        c.MQMF_MSG_IN_GROUP | c.MQMF_LAST_MSG_IN_GROUP,
    ],
)
def test_D9_messages_of_a_group_are_not_delayed(
    queue_manager: QueueManager, session: Session, flags: int
) -> None:
    local(queue_manager)
    with refused(rc.MQRC_OPTIONS_ERROR):
        put_md(session, "Q1", b"x", V2._replace(msg_flags=flags), delay_ms=1_000)
    put_md(session, "Q1", b"now", V2._replace(msg_flags=flags))
    put_md(session, "Q1", b"x", V2._replace(msg_flags=c.MQMF_SEGMENTATION_ALLOWED), delay_ms=1_000)
    assert staged(queue_manager) == (1, 1)


def _with_folder(text: str) -> bytes:
    """Return data behind an MQRFH2 as a program writes it."""
    return pack_header(pack_folder(text), "MQSTR") + b"x"


@pytest.mark.parametrize("name", ["JMSXGroupID", "jms.Gid"])
@pytest.mark.parametrize("value", ["G", "", "ID:" + "41" * 24])
def test_D9_a_message_with_the_property_JMSXGroupID_is_not_delayed(
    queue_manager: QueueManager, session: Session, name: str, value: str
) -> None:
    """The property makes a member of a group wherever it comes from."""
    local(queue_manager)
    with refused(rc.MQRC_OPTIONS_ERROR):
        session.put("Q1", b"x", delay_ms=1_000, properties={"colour": "red", name: value})
    session.put("Q1", b"now", properties={name: value})
    session.put("Q1", b"x", delay_ms=1_000, properties={"Gid": "G", "JMSXGroupSeq": 2})
    assert staged(queue_manager) == (1, 1)


@pytest.mark.parametrize(
    ("folders", "is_taken"),
    [
        ("<jms><Dst>queue:///Q1</Dst><Gid>G</Gid></jms>", False),
        ("<jms><Gid dt='string'>&lt;</Gid></jms>", False),
        ("<jms><Dst>queue:///Q1</Dst></jms><jms><Gid>G</Gid></jms>", False),
        ("<jms><Dst>queue:///Q1</Dst></jms>", True),
        ("<usr><Gid>G</Gid></usr>", True),
        ("<jms><Cid>&lt;Gid&gt;G</Cid></jms>", True),
        ("<jms>", True),
    ],
)
def test_D9_a_header_MQRFH2_with_a_group_id_is_not_delayed(
    queue_manager: QueueManager, session: Session, folders: str, is_taken: bool
) -> None:
    """As a program of the MQI, or a pipeline, writes it; one that cannot be read has no group."""
    local(queue_manager)
    descriptor = Descriptor(format="MQHRF2", coded_char_set_id=1208, encoding=c.MQENC_NORMAL)
    data = _with_folder(folders)
    if is_taken:
        put_md(session, "Q1", data, descriptor, delay_ms=1_000)
    else:
        with refused(rc.MQRC_OPTIONS_ERROR):
            put_md(session, "Q1", data, descriptor, delay_ms=1_000)
    assert staged(queue_manager) == (is_taken, 0)


@pytest.mark.parametrize("big_endian", [True, False])
def test_D9_a_group_id_in_UTF_16_is_found(
    queue_manager: QueueManager, session: Session, big_endian: bool
) -> None:
    local(queue_manager)
    order: Literal["big", "little"] = "big" if big_endian else "little"
    encoding = c.MQENC_NORMAL if big_endian else c.MQENC_NATIVE
    text = "<jms><Gid>G</Gid></jms>".encode("utf-16-be" if big_endian else "utf-16-le")
    text += b"\0" * (-len(text) % 4)
    folder = len(text).to_bytes(4, order) + text
    numbers = [2, 36 + len(folder), c.MQENC_NORMAL, 1208]
    head = b"RFH " + b"".join(each.to_bytes(4, order) for each in numbers)
    head += b"MQSTR   " + bytes(4) + (1200).to_bytes(4, order)
    descriptor = Descriptor(format="MQHRF2", coded_char_set_id=1208, encoding=encoding)
    with refused(rc.MQRC_OPTIONS_ERROR):
        put_md(session, "Q1", head + folder + b"x", descriptor, delay_ms=1_000)
    assert staged(queue_manager) == (0, 0)


def test_D9_a_delayed_publication_is_in_no_group(
    queue_manager: QueueManager, session: Session
) -> None:
    promise = "PMSGDLV(ALLAVAIL) NPMSGDLV(ALLAVAIL)"
    assert queue_manager.mqsc(f"DEFINE TOPIC(T) TOPICSTR('t') {promise}").ok
    subscription = session.subscribe("t")
    with refused(rc.MQRC_OPTIONS_ERROR):
        session.publish("t", b"x", delay_ms=1_000, properties={"JMSXGroupID": "G"})
    session.publish("t", b"x", properties={"JMSXGroupID": "G"})
    assert queue_manager.curdepth(STAGING) == 0
    subscription.close()


@pytest.mark.parametrize("is_by_flags", [False, True])
def test_D9_no_member_of_a_group_is_put_on_the_staging_queue_by_name(
    queue_manager: QueueManager, session: Session, is_by_flags: bool
) -> None:
    """With a header of its own, as it would be taken from there."""
    local(queue_manager)
    header = DDH.pack(
        {
            "TargetQName": "Q1",
            "TargetQMgrName": "QM1",
            "DueTime": queue_manager.now_ms() + 5_000,
            "Format": "MQSTR" if is_by_flags else "MQHRF2",
            "Encoding": c.MQENC_NORMAL,
            "CodedCharSetId": 1208,
        }
    )
    body = b"x" if is_by_flags else _with_folder("<jms><Gid>G</Gid></jms>")
    flags = c.MQMF_MSG_IN_GROUP if is_by_flags else c.MQMF_NONE
    descriptor = V2._replace(format="MQHDDLY", msg_flags=flags)
    with refused(rc.MQRC_OPTIONS_ERROR):
        put_md(session, STAGING, header + body, descriptor)
    assert staged(queue_manager) == (0, 0)
