"""Trigger messages, field by field, and what becomes of those that cannot be delivered (T7-T9)."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mayfly import QueueManager, QueueSharingGroup
from mayfly.engine import Session
from mayfly.engine.api.administration import PROCESS, alter_named, define_named
from mayfly.lifetime.life import State
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.structures import DLH, TM
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.scene import (
    DEAD,
    INPUT,
    START_MS,
    alter,
    alter_manager,
    lives,
    local,
    refused,
    waiting,
)
from tests.spec.trigger_scene import (
    DEPTH,
    EVERY,
    INITQ,
    OFF,
    ON,
    PROGRAM,
    Monitor,
    control,
    serving,
    triggering,
)


def test_T7_the_descriptor(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager, INITQ, DEFPRTY=6, DEFPSIST=c.MQPER_PERSISTENT)
    define_named(queue_manager.engine, PROCESS, PROGRAM, {})
    triggering(queue_manager)
    monitor = Monitor(session)
    msg_id = session.put("Q1", b"x", priority=3, persistent=True, correl_id=b"c", report=c.MQRO_COA,
                         reply_to_q=DEAD)  # fmt: skip
    monitor.read()
    [message] = monitor.messages
    assert message.descriptor == Descriptor(
        msg_type=c.MQMT_DATAGRAM,
        format="MQTRIG",
        priority=6,
        persistence=c.MQPER_NOT_PERSISTENT,
        reply_to_q_mgr="QM1",
        put_appl_type=c.MQAT_QMGR,
        put_appl_name="QM1",
    )
    assert message.correl_id == bytes(24)
    assert message.msg_id not in (msg_id, bytes(24))
    assert (message.put_ms, message.expire_at_ms) == (START_MS, None)


def test_E22_T7_unlimited_whatever_lives_how_long(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """Neither the life of the message nor a cap of the initiation queue counts."""
    local(queue_manager, INITQ, CAPEXPRY=10)
    define_named(queue_manager.engine, PROCESS, PROGRAM, {})
    triggering(queue_manager)
    monitor = Monitor(session)
    session.put("Q1", b"x", time_to_live_ms=500)
    clock.advance(1_000_000)
    assert monitor.read() == ["Q1"]
    assert monitor.messages[0].remaining_ms is None


def test_T8_the_data(queue_manager: QueueManager, session: Session) -> None:
    triggering(queue_manager, TRIGDATA="what the queue says")
    alter_named(queue_manager.engine, PROCESS, PROGRAM, {"ENVRDATA": "env", "USERDATA": "user"})
    monitor = Monitor(session)
    session.put("Q1", b"x")
    monitor.read()
    data = monitor.messages[0].body
    assert len(data) == 684
    assert TM.unpack(data) == {
        "StrucId": "TM",
        "Version": 1,
        "QName": "Q1",
        "ProcessName": PROGRAM,
        "TriggerData": "what the queue says",
        "ApplType": c.MQAT_UNIX,
        "ApplId": "serve it",
        "EnvData": "env",
        "UserData": "user",
    }


def test_T8_a_channel_in_the_trigger_data_of_a_transmission_queue(
    queue_manager: QueueManager, session: Session
) -> None:
    triggering(queue_manager, "QM2", USAGE=c.MQUS_TRANSMISSION, PROCESS="", TRIGDATA="QM1.TO.QM2")
    monitor = Monitor(session)
    session.put("A.QUEUE@QM2", b"x")
    assert monitor.read() == ["QM2"]
    found = TM.unpack(monitor.messages[0].body)
    assert found["TriggerData"] == "QM1.TO.QM2"
    names = ("ProcessName", "ApplId", "EnvData", "UserData", "ApplType")
    assert [found[name] for name in names] == ["", "", "", "", 0]


def test_T8_texts_that_are_longer_in_bytes_are_cut(
    queue_manager: QueueManager, session: Session
) -> None:
    triggering(queue_manager, TRIGDATA="\u30a4" * 64)
    alter_named(queue_manager.engine, PROCESS, PROGRAM, {"USERDATA": "\u30a4" * 128})
    monitor = Monitor(session)
    session.put("Q1", b"x")
    assert monitor.read() == ["Q1"]
    found = TM.unpack(monitor.messages[0].body)
    assert (found["TriggerData"], found["UserData"]) == ("\u30a4" * 21, "\u30a4" * 42)


def test_T7_at_the_commit_and_not_part_of_it(
    queue_manager: QueueManager, unit: Session, new_session: NewSession
) -> None:
    """A monitor has it as soon as the application has committed, and only then."""
    triggering(queue_manager)
    with (
        new_session(queue_manager) as other,
        new_session(queue_manager, transacted=True) as another,
    ):
        monitor = Monitor(other)
        unit.put("Q1", b"x")
        assert monitor.read() == []
        unit.commit()
        unit.backout()
        assert another.get(INITQ) is not None
        another.backout()
        assert monitor.read() == ["Q1"]


@pytest.mark.parametrize(("late_ms", "triggers"), [(-1, ["Q1"]), (0, [])])
def test_T5_E17_what_expired_before_its_commit_was_never_there_to_trigger(
    queue_manager: QueueManager,
    session: Session,
    unit: Session,
    clock: VirtualClock,
    late_ms: int,
    triggers: list[str],
) -> None:
    triggering(queue_manager)
    monitor = Monitor(session)
    unit.put("Q1", b"x", time_to_live_ms=1_000)
    clock.advance(1_000 + late_ms)
    unit.commit()
    assert monitor.read() == triggers


def test_T7_a_monitor_that_waits_is_woken(
    queue_manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    triggering(queue_manager)
    monitor = new_session(queue_manager)
    handle = monitor.open(INITQ, INPUT)
    waits = waiting(queue_manager, INITQ, lambda: monitor.get(INITQ, wait_ms=-1))
    session.put("Q1", b"x")
    assert waits.finish() is not None
    handle.close()


def test_T7_lost_at_a_restart(tmp_path: Path, clock: VirtualClock, new_session: NewSession) -> None:
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as manager:
        triggering(manager)
        with new_session(manager) as session:
            Monitor(session)
            session.put("Q1", b"x", persistent=True)
            assert manager.curdepth(INITQ) == 1
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as manager:
        assert [life.outcome for life in lives(manager, INITQ)] == [State.LOST_AT_RESTART.value]
        assert manager.curdepth(INITQ) == 0
        with new_session(manager) as session:
            assert Monitor(session).read() == ["Q1"]


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [({"MAXDEPTH": 0}, rc.MQRC_Q_FULL), ({"MAXMSGL": 683}, rc.MQRC_MSG_TOO_BIG_FOR_Q)],
)
def test_T9_undeliverable_is_dead_lettered(
    queue_manager: QueueManager, session: Session, attributes: dict[str, int], reason: int
) -> None:
    alter_manager(queue_manager, DEADQ=DEAD)
    triggering(queue_manager, TRIGTYPE=DEPTH)
    alter(queue_manager, INITQ, **attributes)
    monitor = Monitor(session)
    session.put("Q1", b"x")
    assert monitor.read() == []
    letter = session.get(DEAD)
    assert letter is not None
    header = DLH.unpack(letter.body)
    assert (header["Reason"], header["DestQName"], header["Format"]) == (reason, INITQ, "MQTRIG")
    assert TM.unpack(letter.body[172:])["QName"] == "Q1"
    assert (letter.persistent, letter.remaining_ms) == (False, None)
    # There is a trigger message, though somebody must see to it.
    assert control(queue_manager) == OFF


def test_T9_without_a_dead_letter_queue_it_is_lost_and_the_next_message_tries_again(
    queue_manager: QueueManager, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    triggering(queue_manager)
    triggering(queue_manager, "D", TRIGTYPE=DEPTH)
    alter(queue_manager, INITQ, MAXDEPTH=0)
    monitor = Monitor(session)
    with caplog.at_level(logging.WARNING, "mayfly.trigger"):
        session.put("Q1", b"1")
        session.put("D", b"1")
    assert [r.getMessage().partition(":")[0] for r in caplog.records] == [
        "trigger message for Q1 is lost",
        "trigger message for D is lost",
    ]
    alter(queue_manager, INITQ, MAXDEPTH=5)
    assert monitor.read() == []
    assert control(queue_manager, "D") == ON
    session.put("Q1", b"2")
    session.put("D", b"2")
    assert monitor.read() == ["Q1", "D"]
    session.put("Q1", b"3")
    assert monitor.read() == []


def test_T9_as_many_as_there_is_room_for(
    queue_manager: QueueManager, unit: Session, new_session: NewSession
) -> None:
    alter_manager(queue_manager, DEADQ=DEAD)
    triggering(queue_manager, TRIGTYPE=EVERY)
    alter(queue_manager, INITQ, MAXDEPTH=2)
    with new_session(queue_manager) as session:
        monitor = Monitor(session)
        for _ in range(5):
            unit.put("Q1", b"x")
        unit.commit()
        assert monitor.read() == ["Q1"] * 2
    assert queue_manager.curdepth(DEAD) == 3


def test_T9_a_dead_letter_may_trigger_who_sees_to_it(
    queue_manager: QueueManager, session: Session
) -> None:
    alter_manager(queue_manager, DEADQ=DEAD)
    triggering(queue_manager)
    local(queue_manager, "DEAD.INITQ")
    alter(queue_manager, DEAD, TRIGGER=ON, INITQ="DEAD.INITQ", PROCESS=PROGRAM)
    alter(queue_manager, INITQ, MAXDEPTH=0)
    Monitor(session)
    undertaker = Monitor(session, "DEAD.INITQ")
    session.put("Q1", b"x")
    assert undertaker.read() == [DEAD]


def test_T9_shared_queues_hold_dead_letters_and_no_trigger_messages(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    with (
        QueueSharingGroup("GROUP", tmp_path / "group", clock=clock) as group,
        QueueManager("QM1", tmp_path / "QM1", clock=clock, sharing_group=group) as manager,
        new_session(manager) as session,
    ):
        for name in ("SHARED.DEAD", "SHARED.INITQ"):
            assert manager.mqsc(f"DEFINE QLOCAL({name}) QSGDISP(SHARED)").ok
        alter_manager(manager, DEADQ="SHARED.DEAD")
        triggering(manager, "A", INITQ="SHARED.INITQ")
        triggering(manager, "B")
        alter(manager, INITQ, MAXDEPTH=0)
        monitors = Monitor(session), Monitor(session, "SHARED.INITQ")
        for name in "AB":
            session.put(name, b"x")
        assert [monitor.read() for monitor in monitors] == [[], []]
        assert manager.curdepth("SHARED.DEAD") == 1
        found = manager.verify()
        assert found.ok, found.problems


def test_T7_no_trigger_message_in_a_put_that_fails(
    queue_manager: QueueManager, session: Session
) -> None:
    triggering(queue_manager, MAXDEPTH=0)
    monitor = Monitor(session)
    with refused(rc.MQRC_Q_FULL):
        session.put("Q1", b"x")
    assert monitor.read() == []
    assert queue_manager.verify().ok


def test_T8_the_processes_of_two_queues(queue_manager: QueueManager, session: Session) -> None:
    triggering(queue_manager)
    define_named(queue_manager.engine, PROCESS, "OTHER", {"APPLICID": "another"})
    triggering(queue_manager, "Q2", PROCESS="OTHER")
    monitor = Monitor(session)
    with serving(session, "Q2"):
        session.put("Q1", b"x")
        session.put("Q2", b"x")
    assert monitor.read() == ["Q1", "Q2"]
    assert [TM.unpack(m.body)["ApplId"] for m in monitor.messages] == ["serve it", "another"]
