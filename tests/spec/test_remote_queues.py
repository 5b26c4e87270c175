"""Remote queues, rules C1-C3: which transmission queue a name leads to, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import PutRequest, Session
from mayfly.engine.descriptors import Prepared
from mayfly.engine.remote_queues import Remote, wrapped
from mayfly.lifetime.window import window_at_put
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.authority_scene import connect, grant
from tests.spec.remote_scene import embedded, network
from tests.spec.scene import BROWSE, INPUT, OUTPUT, lives, local, put_md, refused


@pytest.fixture
def manager(queue_manager: QueueManager) -> QueueManager:
    """A queue manager with a remote queue ORDERS and its transmission queue QM2."""
    network(queue_manager)
    return queue_manager


def test_C1_a_remote_definition_leads_to_the_queue_named_like_its_queue_manager(
    manager: QueueManager, session: Session
) -> None:
    msg_id = session.put("ORDERS", b"order")
    assert manager.curdepth("QM2") == 1
    inside = embedded(session.get("QM2"))
    assert inside.remote == ("Q.REMOTE", "QM2")
    assert inside.msg_id == msg_id
    assert inside.body == b"order"


def test_C1_an_alias_may_lead_to_a_remote_definition(
    manager: QueueManager, session: Session
) -> None:
    manager.mqsc("DEFINE QALIAS(A1) TARGET(ORDERS)")
    session.put("A1", b"x")
    assert embedded(session.get("QM2")).remote == ("Q.REMOTE", "QM2")


@pytest.mark.parametrize(
    "definition",
    ["RNAME('') RQMNAME(QM2)", "RNAME(Q) RQMNAME('')", "RNAME(Q) RQMNAME(QM1)"],
    ids=["no queue", "no queue manager", "this queue manager"],
)
def test_C1_a_remote_definition_must_name_a_queue_elsewhere(
    manager: QueueManager, session: Session, definition: str
) -> None:
    manager.mqsc(f"DEFINE QREMOTE(R1) {definition}")
    with refused(rc.MQRC_REMOTE_Q_NAME_ERROR):
        session.put("R1", b"x")
    assert manager.curdepth("QM2") == 0


def test_C2_a_name_may_say_its_queue_manager(manager: QueueManager, session: Session) -> None:
    session.put("ANY@QM2", b"x")
    assert embedded(session.get("QM2")).remote == ("ANY", "QM2")
    local(manager, "HERE")
    session.put("HERE@QM1", b"x")
    assert session.get("HERE") is not None


def test_C2_no_way_to_a_queue_manager_is_told_at_open(session: Session) -> None:
    with refused(rc.MQRC_UNKNOWN_REMOTE_Q_MGR):
        session.open("ANY@QM2", OUTPUT)


def test_C2_put_says_where_it_leads(manager: QueueManager, session: Session) -> None:
    result = put_md(session, "ORDERS", b"x", Descriptor())
    assert (result.queue, result.manager) == ("Q.REMOTE", "QM2")
    result = put_md(session, "ANY@QM2", b"x", Descriptor())
    assert (result.queue, result.manager) == ("ANY", "QM2")


def test_C2_explicit_transmission_queue_comes_before_the_namesake(
    manager: QueueManager, session: Session
) -> None:
    manager.mqsc("DEFINE QLOCAL(XQ) USAGE(XMITQ)\nALTER QREMOTE(ORDERS) XMITQ(XQ)")
    session.put("ORDERS", b"x")
    assert (manager.curdepth("XQ"), manager.curdepth("QM2")) == (1, 0)


def test_C2_default_transmission_queue_is_the_last_resort(
    manager: QueueManager, session: Session
) -> None:
    with refused(rc.MQRC_UNKNOWN_REMOTE_Q_MGR):
        session.put("ANY@QM9", b"x")
    manager.mqsc("DEFINE QLOCAL(XQ) USAGE(XMITQ)\nALTER QMGR DEFXMITQ(XQ)")
    session.put("ANY@QM9", b"x")
    assert embedded(session.get("XQ")).remote == ("ANY", "QM9")


def test_C2_the_namesake_comes_before_the_default_transmission_queue(
    manager: QueueManager, session: Session
) -> None:
    manager.mqsc("DEFINE QLOCAL(XQ) USAGE(XMITQ)\nALTER QMGR DEFXMITQ(XQ)")
    session.put("ANY@QM2", b"x")
    assert (manager.curdepth("QM2"), manager.curdepth("XQ")) == (1, 0)


def test_C2_queue_manager_alias_gives_another_name_and_way(
    manager: QueueManager, session: Session
) -> None:
    manager.mqsc("DEFINE QREMOTE(FAR) RQMNAME(QM7) XMITQ(QM2)")
    session.put("ANY@FAR", b"x")
    assert embedded(session.get("QM2")).remote == ("ANY", "QM7")


def test_C2_queue_manager_alias_of_this_one_leads_here(
    manager: QueueManager, session: Session
) -> None:
    manager.mqsc("DEFINE QREMOTE(ME) RQMNAME(QM1)")
    local(manager, "HERE")
    session.put("HERE@ME", b"x")
    assert manager.curdepth("HERE") == 1


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("ALTER QREMOTE(ORDERS) XMITQ(NONE)", rc.MQRC_UNKNOWN_XMIT_Q),
        ("ALTER QREMOTE(ORDERS) XMITQ(SYSTEM.DEFAULT.MODEL.QUEUE)", rc.MQRC_XMIT_Q_TYPE_ERROR),
        (
            "DEFINE QLOCAL(PLAIN)\nALTER QREMOTE(ORDERS) XMITQ(PLAIN)",
            rc.MQRC_XMIT_Q_USAGE_ERROR,
        ),
        ("ALTER QLOCAL(QM2) USAGE(NORMAL)", rc.MQRC_XMIT_Q_USAGE_ERROR),
        (
            "ALTER QREMOTE(ORDERS) RQMNAME(QM9)\nALTER QMGR DEFXMITQ(NONE)",
            rc.MQRC_UNKNOWN_DEF_XMIT_Q,
        ),
        (
            "ALTER QREMOTE(ORDERS) RQMNAME(QM9)\nALTER QMGR DEFXMITQ(SYSTEM.DEFAULT.ALIAS.QUEUE)",
            rc.MQRC_DEF_XMIT_Q_TYPE_ERROR,
        ),
        (
            "ALTER QREMOTE(ORDERS) RQMNAME(QM9)\nALTER QMGR DEFXMITQ(SYSTEM.DEAD.LETTER.QUEUE)",
            rc.MQRC_DEF_XMIT_Q_USAGE_ERROR,
        ),
    ],
)
def test_C2_a_way_that_cannot_be_one_is_named(
    manager: QueueManager, session: Session, definition: str, reason: int
) -> None:
    assert manager.mqsc(definition).ok
    with refused(reason):
        session.put("ORDERS", b"x")
    assert manager.curdepth("QM2") == 0


@pytest.mark.parametrize("name", ["ORDERS", "ANY@QM2"])
@pytest.mark.parametrize("options", [INPUT, BROWSE, INPUT | OUTPUT], ids=["get", "browse", "both"])
def test_C3_a_queue_elsewhere_cannot_be_read(
    manager: QueueManager, session: Session, name: str, options: int
) -> None:
    with refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
        session.open(name, options)
    with refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
        session.get(name)
    with refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
        next(session.browse(name))


def test_C3_attributes_are_those_of_the_definition_here(
    manager: QueueManager, session: Session
) -> None:
    assert session.open("ORDERS", c.MQOO_INQUIRE).is_open
    with refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
        session.open("ANY@QM2", c.MQOO_INQUIRE)


@pytest.mark.parametrize(
    "definition",
    ["ALTER QREMOTE(ORDERS) PUT(DISABLED)", "ALTER QLOCAL(QM2) PUT(DISABLED)"],
    ids=["definition", "transmission queue"],
)
def test_C5_an_inhibit_anywhere_on_the_way_counts(
    manager: QueueManager, session: Session, definition: str
) -> None:
    handle = session.open("ORDERS", OUTPUT)
    manager.mqsc(definition)
    with refused(rc.MQRC_PUT_INHIBITED):
        session.put("ORDERS", b"x")
    assert handle.is_open


def test_C2_an_open_handle_follows_a_changed_way(manager: QueueManager, session: Session) -> None:
    handle = session.open("ORDERS", OUTPUT)
    manager.mqsc("DEFINE QLOCAL(XQ) USAGE(XMITQ)\nALTER QREMOTE(ORDERS) XMITQ(XQ)")
    handle.put(b"x", PutRequest(Descriptor()))
    assert manager.curdepth("XQ") == 1


def test_P7_priority_and_persistence_are_those_of_the_first_object(
    manager: QueueManager, session: Session
) -> None:
    manager.mqsc("ALTER QREMOTE(ORDERS) DEFPRTY(7) DEFPSIST(YES)")
    session.put("ORDERS", b"x")
    message = session.get("QM2")
    inside = embedded(message)
    assert message is not None
    assert (message.priority, message.persistent) == (7, True)
    assert (inside.descriptor.priority, inside.descriptor.persistence) == (7, 1)


@pytest.mark.parametrize(("length_bytes", "fits"), [(572, True), (573, False)])
def test_P8_the_header_counts_on_the_transmission_queue(
    manager: QueueManager, session: Session, length_bytes: int, fits: bool
) -> None:
    manager.mqsc("ALTER QLOCAL(QM2) MAXMSGL(1000)")
    if fits:
        session.put("ORDERS", bytes(length_bytes))
    else:
        with refused(rc.MQRC_MSG_TOO_BIG_FOR_Q):
            session.put("ORDERS", bytes(length_bytes))
    assert manager.curdepth("QM2") == int(fits)


def test_P9_it_is_part_of_the_unit_of_work(manager: QueueManager, unit: Session) -> None:
    unit.put("ORDERS", b"x")
    assert manager.curdepth("QM2") == 1
    unit.backout()
    assert manager.curdepth("QM2") == 0
    unit.put("ORDERS", b"x")
    unit.commit()
    assert manager.curdepth("QM2") == 1


def test_P2_what_only_the_last_queue_manager_must_know_may_travel(
    manager: QueueManager, session: Session
) -> None:
    unknown = 0x00010000
    assert unknown & c.MQRO_ACCEPT_UNSUP_IF_XMIT_MASK
    put_md(session, "ORDERS", b"x", Descriptor(report=unknown))
    assert embedded(session.get("QM2")).descriptor.report == unknown
    local(manager, "HERE")
    with refused(rc.MQRC_REPORT_OPTIONS_ERROR):
        put_md(session, "HERE", b"x", Descriptor(report=unknown))


def test_P4_reply_queue_alias_is_replaced_by_its_target(
    manager: QueueManager, session: Session
) -> None:
    manager.mqsc("DEFINE QREMOTE(ANSWERS) RNAME(REAL.ANSWERS) RQMNAME(QM5)")
    asked = Descriptor(msg_type=c.MQMT_REQUEST, reply_to_q="ANSWERS")
    result = put_md(session, "ORDERS", b"x", asked)
    assert result.descriptor.reply_to_q == "REAL.ANSWERS"
    assert result.descriptor.reply_to_q_mgr == "QM5"
    result = put_md(session, "ORDERS", b"x", asked._replace(reply_to_q="PLAIN"))
    assert (result.descriptor.reply_to_q, result.descriptor.reply_to_q_mgr) == ("PLAIN", "QM1")


def test_C7_authority_is_that_of_the_definition_or_of_the_transmission_queue(
    manager: QueueManager,
) -> None:
    grant(manager, "PUT", "ORDERS")
    with connect(manager) as anna:
        anna.put("ORDERS", b"x")
        with refused(rc.MQRC_NOT_AUTHORIZED):
            anna.put("ANY@QM2", b"x")
        with refused(rc.MQRC_NOT_AUTHORIZED):
            anna.open("ANY@QM2", OUTPUT)
        grant(manager, "PUT", "QM2")
        anna.put("ANY@QM2", b"x")
    assert manager.curdepth("QM2") == 2


def test_Q1_dead_letter_queue_may_be_elsewhere(manager: QueueManager, session: Session) -> None:
    """What cannot be delivered after its delay travels there."""
    local(manager)
    manager.mqsc("DEFINE QREMOTE(DEAD) RNAME(DEAD.THERE) RQMNAME(QM2)\nALTER QMGR DEADQ(DEAD)")
    session.put("Q1", b"late", delay_ms=1_000)
    manager.mqsc("ALTER QLOCAL(Q1) PUT(DISABLED)")
    manager.clock.advance(1_000)  # type: ignore[attr-defined]  # a VirtualClock
    inside = embedded(session.get("QM2"))
    assert inside.remote == ("DEAD.THERE", "QM2")
    assert inside.descriptor.format == "MQDEAD"
    assert inside.body.endswith(b"late")


def test_remote_definitions_survive_a_restart(tmp_path: Path, new_session: NewSession) -> None:
    with QueueManager("QM1", tmp_path / "QM1") as manager:
        network(manager)
        with new_session(manager) as session:
            session.put("ORDERS", b"x", persistent=True)
    with QueueManager("QM1", tmp_path / "QM1") as manager:
        with new_session(manager) as session:
            session.put("ORDERS", b"y", persistent=True)
            assert embedded(session.get("QM2")).body == b"x"
            assert embedded(session.get("QM2")).body == b"y"
        assert [life.outcome for life in lives(manager, "QM2")] == ["got", "got"]


@pytest.mark.parametrize("delay_ms", [0, 1_000])
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("@QM2", rc.MQRC_OBJECT_NAME_ERROR),
        ("A" * 49 + "@QM2", rc.MQRC_OBJECT_NAME_ERROR),
        ("Ä@QM2", rc.MQRC_OBJECT_NAME_ERROR),
        ("A\0@QM2", rc.MQRC_OBJECT_NAME_ERROR),
        ("Q@" + "M" * 49, rc.MQRC_OBJECT_Q_MGR_NAME_ERROR),
        ("Q@QM3@QM2", rc.MQRC_OBJECT_Q_MGR_NAME_ERROR),
        ("Q@\ud800", rc.MQRC_OBJECT_Q_MGR_NAME_ERROR),
    ],
)
def test_C2_a_name_that_fits_no_header_is_refused(
    manager: QueueManager,
    clock: VirtualClock,
    session: Session,
    name: str,
    reason: int,
    delay_ms: int,
) -> None:
    """Found out only when its delay is over it would have stopped the queue manager."""
    manager.mqsc("ALTER QMGR DEFXMITQ(QM2)")
    with refused(reason):
        session.put(name, b"x", delay_ms=delay_ms)
    clock.advance(1_000)
    assert not manager.is_stopped
    assert manager.curdepth("QM2") == manager.curdepth("SYSTEM.DDELAY.LOCAL.QUEUE") == 0


def test_E23_a_descriptor_that_fits_no_header_cannot_travel() -> None:
    """No put takes it; a store may hold one from before that was so."""
    stored = Prepared(Descriptor(reply_to_q="A" * 49), b"", 0, False, 0, False)
    with refused(rc.MQRC_MD_ERROR):
        wrapped("QM1", Remote("Q", "QM2"), stored, window_at_put(0, None), b"m" * 24, b"", b"x")
