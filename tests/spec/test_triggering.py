"""Triggering: when a queue makes a trigger message (T1-T6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.api.administration import PROCESS, define_named, delete_named
from mayfly.engine.api.bulk import ClaimLimit as Limit
from mayfly.engine.api.programs import set_attributes
from mayfly.mqi import constants as c
from mayfly.testing import VirtualClock
from mayfly.verbs.facts import Value
from tests.over import NewSession
from tests.spec.scene import (
    BROWSE,
    DEAD,
    INPUT,
    OUTPUT,
    REPLIES,
    START_MS,
    alter,
    alter_manager,
    body,
    local,
    refused,
    take,
)
from tests.spec.stage_scene import plain, write
from tests.spec.trigger_scene import (
    DEPTH,
    EVERY,
    FIRST,
    INITQ,
    OFF,
    ON,
    PROGRAM,
    Monitor,
    control,
    serving,
    triggering,
)

INTERVAL_MS = 10_000


@pytest.fixture
def monitor(queue_manager: QueueManager, session: Session) -> Monitor:
    """A monitor on the initiation queue of a queue manager where no queue triggers yet."""
    local(queue_manager, INITQ)
    define_named(queue_manager.engine, PROCESS, PROGRAM, {})
    return Monitor(session)


# T1


@pytest.mark.parametrize("trigger_type", [FIRST, EVERY, DEPTH])
def test_T1_all_conditions_together(
    queue_manager: QueueManager, session: Session, monitor: Monitor, trigger_type: int
) -> None:
    triggering(queue_manager, TRIGTYPE=trigger_type)
    session.put("Q1", b"x")
    assert monitor.read() == ["Q1"]


@pytest.mark.parametrize(
    "attributes",
    [
        {"TRIGGER": OFF},
        {"TRIGTYPE": c.MQTT_NONE},
        {"INITQ": ""},
        {"INITQ": "NOWHERE"},
        {"INITQ": "Q1"},
        {"PROCESS": ""},
        {"PROCESS": "NOBODY"},
        {"TRIGMPRI": 5},
    ],
    ids=lambda given: "".join(f"{k}={v}" for k, v in given.items()),
)
@pytest.mark.parametrize("trigger_type", [FIRST, EVERY, DEPTH])
def test_T1_nothing_when_a_condition_is_missing(
    queue_manager: QueueManager,
    session: Session,
    monitor: Monitor,
    trigger_type: int,
    attributes: dict[str, Value],
) -> None:
    triggering(queue_manager, "Q1", **{"TRIGTYPE": trigger_type, **attributes})
    session.put("Q1", b"x", priority=4)
    assert monitor.read() == []
    assert queue_manager.curdepth("Q1") == 1


def test_T1_nothing_while_puts_to_the_initiation_queue_are_disabled(
    queue_manager: QueueManager, session: Session, monitor: Monitor
) -> None:
    triggering(queue_manager)
    alter(queue_manager, INITQ, PUT=c.MQQA_PUT_INHIBITED)
    alter_manager(queue_manager, DEADQ=DEAD)
    session.put("Q1", b"x")
    assert (monitor.read(), queue_manager.curdepth(DEAD)) == ([], 0)
    alter(queue_manager, INITQ, PUT=c.MQQA_PUT_ALLOWED)
    assert monitor.read() == ["Q1"]


@pytest.mark.parametrize("trigger_type", [FIRST, EVERY, DEPTH])
@pytest.mark.parametrize(
    ("keyword", "bad", "good"),
    [
        ("GET", c.MQQA_GET_INHIBITED, c.MQQA_GET_ALLOWED),
        ("USAGE", c.MQUS_TRANSMISSION, c.MQUS_NORMAL),
    ],
)
def test_T1_nothing_while_no_monitor_could_get_from_the_initiation_queue(
    queue_manager: QueueManager,
    session: Session,
    monitor: Monitor,
    trigger_type: int,
    keyword: str,
    bad: int,
    good: int,
) -> None:
    """Also when a monitor opens it; once the condition holds, each queue triggers once."""
    triggering(queue_manager, TRIGTYPE=trigger_type)
    alter(queue_manager, INITQ, **{keyword: bad})
    session.put("Q1", b"x")
    Monitor(session)
    assert (queue_manager.curdepth(INITQ), control(queue_manager)) == (0, ON)
    alter(queue_manager, INITQ, **{keyword: good})
    assert monitor.read() == ["Q1"]
    alter(queue_manager, INITQ, DESCR="no condition")
    assert monitor.read() == []


def test_T1_a_transmission_queue_that_is_disabled_for_gets_triggers_when_it_is_enabled(
    queue_manager: QueueManager, session: Session, monitor: Monitor
) -> None:
    """On a queue that is none the attribute counts for nothing: its program gets 2016."""
    inhibited = {"GET": c.MQQA_GET_INHIBITED}
    triggering(queue_manager, "QM2", USAGE=c.MQUS_TRANSMISSION, PROCESS="", **inhibited)
    triggering(queue_manager, "Q1", **inhibited)
    session.put("SOME.QUEUE@QM2", b"x")
    session.put("Q1", b"x")
    assert monitor.read() == ["Q1"]
    for name, expected in (("Q1", []), ("QM2", ["QM2"])):
        alter(queue_manager, name, GET=c.MQQA_GET_ALLOWED)
        assert monitor.read() == expected


def test_T1_only_a_handle_for_input_is_a_monitor(
    queue_manager: QueueManager, session: Session
) -> None:
    triggering(queue_manager)
    session.open(INITQ, BROWSE | OUTPUT)
    session.put("Q1", b"x")
    assert queue_manager.curdepth(INITQ) == 0


def test_T1_a_transmission_queue_needs_no_process(
    queue_manager: QueueManager, session: Session, monitor: Monitor
) -> None:
    triggering(queue_manager, "QM2", USAGE=c.MQUS_TRANSMISSION, PROCESS="", TRIGDATA="TO.QM2")
    session.put("SOME.QUEUE@QM2", b"x")
    assert monitor.read() == ["QM2"]


@pytest.mark.parametrize("trigger_type", [FIRST, EVERY])
def test_T1_a_process_that_comes_later(
    queue_manager: QueueManager, session: Session, monitor: Monitor, trigger_type: int
) -> None:
    triggering(queue_manager, PROCESS="LATER", TRIGTYPE=trigger_type)
    session.put("Q1", b"x")
    define_named(queue_manager.engine, PROCESS, "LATER", {})
    assert monitor.read() == ["Q1"]
    define_named(queue_manager.engine, PROCESS, "LATER", {"USERDATA": "u"}, replace=True)
    assert monitor.read() == []
    delete_named(queue_manager.engine, PROCESS, "LATER")
    session.get("Q1")
    session.put("Q1", b"y")
    assert monitor.read() == []


@pytest.mark.parametrize("sequence", [c.MQMDS_PRIORITY, c.MQMDS_FIFO])
def test_T1_messages_of_low_priority_count_for_nothing(
    queue_manager: QueueManager, session: Session, monitor: Monitor, sequence: int
) -> None:
    triggering(queue_manager, "F", TRIGMPRI=5, MSGDLVSQ=sequence)
    triggering(queue_manager, "D", TRIGMPRI=5, MSGDLVSQ=sequence, TRIGTYPE=DEPTH, TRIGDPTH=2)
    triggering(queue_manager, "E", TRIGMPRI=5, MSGDLVSQ=sequence, TRIGTYPE=EVERY)
    for name in "FDE":
        session.put(name, b"low", priority=4)
        session.put(name, b"low", priority=0)
    assert monitor.read() == []
    for name in "FDE":
        session.put(name, b"enough", priority=5)
    assert monitor.read() == ["F", "E"]
    for name in "FDE":
        session.put(name, b"more", priority=9)
    assert monitor.read() == ["D", "E"]


# T2


@pytest.mark.in_process
def test_T2_first_triggers_from_0_to_1(
    queue_manager: QueueManager, session: Session, monitor: Monitor
) -> None:
    triggering(queue_manager)
    session.put("Q1", b"1")
    session.put("Q1", b"2")
    assert monitor.read() == ["Q1"]
    session.get("Q1")
    session.put("Q1", b"3")
    assert monitor.read() == []
    session.get("Q1")
    session.get("Q1")
    session.put("Q1", b"4")
    assert monitor.read() == ["Q1"]


def test_T2_not_while_somebody_serves_the_queue(
    queue_manager: QueueManager, session: Session, monitor: Monitor
) -> None:
    triggering(queue_manager)
    with serving(session) as program, serving(session):
        session.put("Q1", b"1")
        assert take(program).message.body == b"1"
        assert monitor.read() == []
    assert monitor.read() == []
    session.put("Q1", b"2")
    assert monitor.read() == ["Q1"]


def test_T2_the_last_close_with_messages_left_triggers(
    queue_manager: QueueManager, session: Session, monitor: Monitor
) -> None:
    triggering(queue_manager)
    one, other = session.open("Q1", c.MQOO_INPUT_SHARED), session.open("Q1", c.MQOO_INPUT_SHARED)
    session.put("Q1", b"1")
    one.close()
    assert monitor.read() == []
    other.close()
    assert monitor.read() == ["Q1"]


def test_T2_a_session_that_is_dropped_closes_its_handles(
    queue_manager: QueueManager, session: Session, monitor: Monitor, new_session: NewSession
) -> None:
    triggering(queue_manager)
    program = new_session(queue_manager, transacted=True)
    handle = program.open("Q1", c.MQOO_INPUT_SHARED)
    session.put("Q1", b"1")
    assert take(handle, c.MQGMO_SYNCPOINT).message.body == b"1"
    assert monitor.read() == []
    program.close(commit=False)
    assert monitor.read() == ["Q1"]


def test_T2_the_trigger_interval(
    queue_manager: QueueManager, session: Session, monitor: Monitor, clock: VirtualClock
) -> None:
    """A message that comes later than TRIGINT after the last trigger message makes another."""
    triggering(queue_manager)
    alter_manager(queue_manager, TRIGINT=INTERVAL_MS)
    session.put("Q1", b"1")
    assert monitor.read() == ["Q1"]
    clock.advance(INTERVAL_MS)
    assert monitor.read() == []
    session.put("Q1", b"2")
    assert monitor.read() == ["Q1"]


@pytest.mark.parametrize("put_after_ms", [0, 1, INTERVAL_MS - 1])
def test_T2_what_came_within_the_interval_triggers_at_its_end(
    queue_manager: QueueManager,
    session: Session,
    monitor: Monitor,
    clock: VirtualClock,
    put_after_ms: int,
) -> None:
    triggering(queue_manager)
    alter_manager(queue_manager, TRIGINT=INTERVAL_MS)
    session.put("Q1", b"1")
    assert monitor.read() == ["Q1"]
    clock.advance(put_after_ms)
    session.put("Q1", b"2")
    clock.advance(INTERVAL_MS - 1 - put_after_ms)
    assert monitor.read() == []
    clock.advance(1)
    assert monitor.read() == ["Q1"]
    clock.advance(10 * INTERVAL_MS)
    assert monitor.read() == []


def test_T2_who_has_closed_the_queue_begins_the_interval_anew(
    queue_manager: QueueManager, session: Session, monitor: Monitor, clock: VirtualClock
) -> None:
    triggering(queue_manager)
    alter_manager(queue_manager, TRIGINT=INTERVAL_MS)
    session.put("Q1", b"1")
    session.put("Q1", b"2")
    clock.advance(1)
    with serving(session):
        assert monitor.read() == ["Q1"]
    assert monitor.read() == ["Q1"]
    clock.advance(10 * INTERVAL_MS)
    assert monitor.read() == []


def test_T2_a_definition_that_changes_does_not_end_the_interval(
    queue_manager: QueueManager, session: Session, monitor: Monitor
) -> None:
    triggering(queue_manager)
    session.put("Q1", b"1")
    assert monitor.read() == ["Q1"]
    alter(queue_manager, "Q1", DESCR="new", TRIGDATA="new")
    session.put("Q1", b"2")
    assert monitor.read() == []


@pytest.mark.in_process
@pytest.mark.parametrize("what", ["got", "served", "switched off", "deleted"])
def test_T2_the_interval_ends_with_nothing_to_do(
    queue_manager: QueueManager,
    session: Session,
    monitor: Monitor,
    clock: VirtualClock,
    what: str,
) -> None:
    triggering(queue_manager)
    alter_manager(queue_manager, TRIGINT=INTERVAL_MS)
    session.put("Q1", b"1")
    session.put("Q1", b"2")
    assert monitor.read() == ["Q1"]
    if what != "served":
        session.get("Q1")
        session.get("Q1")
    if what == "served":
        session.open("Q1", c.MQOO_INPUT_SHARED)
    elif what == "switched off":
        alter(queue_manager, "Q1", TRIGGER=OFF)
    elif what == "deleted":
        assert queue_manager.mqsc("DELETE QLOCAL(Q1)").ok
    clock.advance(2 * INTERVAL_MS)
    assert monitor.read() == []
    next_ms = queue_manager.engine.due_work.next_due_ms()
    assert next_ms is None or next_ms > clock.now_ms()


def test_T2_the_default_interval_is_11_days(
    queue_manager: QueueManager, session: Session, monitor: Monitor, clock: VirtualClock
) -> None:
    triggering(queue_manager)
    session.put("Q1", b"1")
    session.put("Q1", b"2")
    clock.advance(999_999_998)
    assert monitor.read() == ["Q1"]
    clock.advance(1)
    assert monitor.read() == ["Q1"]
    assert monitor.messages[-1].put_ms == START_MS + 999_999_999


def test_T2_an_interval_of_0_lets_each_message_trigger(
    queue_manager: QueueManager, session: Session, monitor: Monitor
) -> None:
    triggering(queue_manager)
    alter_manager(queue_manager, TRIGINT=0)
    for _ in range(3):
        session.put("Q1", b"x")
    assert monitor.read() == ["Q1"] * 3


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"TRIGTYPE": FIRST}, 1),
        ({"TRIGTYPE": EVERY}, 1),
        ({"TRIGTYPE": DEPTH, "TRIGDPTH": 2}, 1),
        ({"TRIGTYPE": DEPTH, "TRIGDPTH": 3}, 0),
    ],
)
def test_T2_a_monitor_that_opens_the_initiation_queue(
    queue_manager: QueueManager, session: Session, attributes: dict[str, Value], expected: int
) -> None:
    """One trigger message for each queue that has what it takes."""
    triggering(queue_manager, "Q1", **attributes)
    triggering(queue_manager, "Q2", INITQ="OTHER")
    for _ in range(2):
        session.put("Q1", b"x")
        session.put("Q2", b"x")
    monitor = Monitor(session)
    assert monitor.read() == ["Q1"] * expected
    assert Monitor(session).read() == []


@pytest.mark.parametrize(
    "before",
    [
        {"TRIGGER": OFF},
        {"TRIGTYPE": c.MQTT_NONE},
        {"TRIGTYPE": DEPTH, "TRIGDPTH": 3},
        {"TRIGMPRI": 5},
        {"INITQ": ""},
        {"PROCESS": ""},
    ],
    ids=lambda given: next(iter(given)),
)
def test_T2_a_definition_that_lets_it_trigger(
    queue_manager: QueueManager, session: Session, monitor: Monitor, before: dict[str, Value]
) -> None:
    triggering(queue_manager, "Q1", **before)
    session.put("Q1", b"x", priority=4)
    assert monitor.read() == []
    after: dict[str, Value] = {"TRIGGER": ON, "TRIGTYPE": FIRST, "TRIGMPRI": 4, "INITQ": INITQ}
    alter(queue_manager, "Q1", PROCESS=PROGRAM, **after)
    assert monitor.read() == ["Q1"]
    alter(queue_manager, "Q1", PROCESS=PROGRAM, DESCR="no condition", **after)
    assert monitor.read() == []


# T3


def test_T3_every_message_triggers_whoever_serves(
    queue_manager: QueueManager, session: Session, unit: Session, monitor: Monitor
) -> None:
    triggering(queue_manager, TRIGTYPE=EVERY)
    session.put("Q1", b"1")
    with serving(session):
        session.put("Q1", b"2")
        assert monitor.read() == ["Q1"] * 2
        for _ in range(3):
            unit.put("Q1", b"x")
        assert monitor.read() == []
        unit.commit()
        assert monitor.read() == ["Q1"] * 3
    assert monitor.read() == []


# T4


@pytest.mark.in_process
def test_T4_depth_triggers_once_and_switches_itself_off(
    queue_manager: QueueManager, session: Session, monitor: Monitor
) -> None:
    triggering(queue_manager, TRIGTYPE=DEPTH, TRIGDPTH=3)
    session.put("Q1", b"1")
    session.put("Q1", b"2")
    assert monitor.read() == []
    assert control(queue_manager) == ON
    session.put("Q1", b"3")
    assert monitor.read() == ["Q1"]
    assert control(queue_manager) == OFF
    assert queue_manager.mqsc("DISPLAY QLOCAL(Q1) TRIGGER").text.count("NOTRIGGER") == 1
    session.put("Q1", b"4")
    assert monitor.read() == []
    session.get("Q1")
    session.get("Q1")
    alter(queue_manager, "Q1", TRIGGER=ON)
    assert monitor.read() == []
    session.put("Q1", b"5")
    assert monitor.read() == ["Q1"]


def test_T4_depth_that_is_there_when_it_is_switched_on(
    queue_manager: QueueManager, session: Session, monitor: Monitor
) -> None:
    triggering(queue_manager, TRIGTYPE=DEPTH, TRIGDPTH=2)
    for _ in range(4):
        session.put("Q1", b"x")
    assert monitor.read() == ["Q1"]
    alter(queue_manager, "Q1", TRIGGER=ON)
    assert monitor.read() == ["Q1"]
    assert control(queue_manager) == OFF


@pytest.mark.in_process
def test_T4_the_program_itself_switches_it_on_again(
    queue_manager: QueueManager, session: Session, monitor: Monitor
) -> None:
    """By MQSET, and then it closes the queue."""
    triggering(queue_manager, TRIGTYPE=DEPTH, TRIGDPTH=2)
    session.put("Q1", b"x")
    session.put("Q1", b"x")
    assert monitor.read() == ["Q1"]
    program = session.open("Q1", INPUT | c.MQOO_SET)
    for _ in range(3):
        session.put("Q1", b"x")
        take(program)
    set_attributes(queue_manager.engine, program, {c.MQIA_TRIGGER_CONTROL: ON})
    assert (monitor.read(), control(queue_manager)) == ([], ON)
    program.close()
    assert (monitor.read(), control(queue_manager)) == (["Q1"], OFF)


def test_T4_one_commit_may_go_beyond_the_depth(
    queue_manager: QueueManager, unit: Session, monitor: Monitor
) -> None:
    triggering(queue_manager, TRIGTYPE=DEPTH, TRIGDPTH=2)
    for _ in range(5):
        unit.put("Q1", b"x")
    unit.commit()
    assert monitor.read() == ["Q1"]


def test_T4_not_while_somebody_serves_the_queue(
    queue_manager: QueueManager, session: Session, monitor: Monitor
) -> None:
    triggering(queue_manager, TRIGTYPE=DEPTH, TRIGDPTH=2)
    with serving(session):
        session.put("Q1", b"1")
        session.put("Q1", b"2")
        assert monitor.read() == []
    assert monitor.read() == ["Q1"]


@pytest.mark.parametrize("is_on_again", [False, True])
def test_T4_switched_off_on_the_disk(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession, *, is_on_again: bool
) -> None:
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as manager:
        triggering(manager, TRIGTYPE=DEPTH)
        with new_session(manager) as session:
            monitor = Monitor(session)
            session.put("Q1", b"x", persistent=True)
            assert monitor.read() == ["Q1"]
            session.get("Q1")
            alter(manager, "Q1", DESCR="something else")
            if is_on_again:
                alter(manager, "Q1", TRIGGER=ON)
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as manager:
        assert control(manager) == (ON if is_on_again else OFF)


@pytest.mark.parametrize("keyword", ["", "DESCR", "TRIGGER"])
def test_T4_after_a_close_that_loses_the_trigger_message_the_queue_triggers_again(
    tmp_path: Path, clock: VirtualClock, keyword: str, new_session: NewSession
) -> None:
    """As FIRST and EVERY do; what an operator has switched off stays so."""
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as manager:
        triggering(manager, TRIGTYPE=DEPTH)
        with new_session(manager) as session:
            Monitor(session)
            session.put("Q1", b"x", persistent=True)
            assert control(manager) == OFF
            if keyword:
                alter(manager, "Q1", **{keyword: OFF if keyword == "TRIGGER" else "new"})
    is_by_hand = keyword == "TRIGGER"
    for _ in range(2):
        with QueueManager("QM1", tmp_path / "QM1", clock=clock) as manager:
            assert control(manager) == (OFF if is_by_hand else ON)
            with new_session(manager) as session:
                assert manager.curdepth("INITQ") == 0
                handle = Monitor(session).handle
                assert manager.curdepth("INITQ") == (not is_by_hand)
                assert control(manager) == OFF
                handle.close()


def test_T4_a_trigger_message_that_goes_back_at_the_close_is_lost_like_one_nobody_read(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    manager = QueueManager("QM1", tmp_path / "QM1", clock=clock)
    triggering(manager, TRIGTYPE=DEPTH)
    unit = new_session(manager, transacted=True)
    monitor = Monitor(unit)
    with new_session(manager) as session:
        session.put("Q1", b"x", persistent=True)
    assert take(monitor.handle, c.MQGMO_SYNCPOINT).message is not None
    manager.close()
    with (
        QueueManager("QM1", tmp_path / "QM1", clock=clock) as manager,
        new_session(manager) as again,
    ):
        assert Monitor(again).read() == ["Q1"]


# T5


@pytest.mark.parametrize("trigger_type", [FIRST, EVERY, DEPTH])
def test_T5_what_is_not_committed_does_not_count(
    queue_manager: QueueManager, unit: Session, monitor: Monitor, trigger_type: int
) -> None:
    triggering(queue_manager, TRIGTYPE=trigger_type)
    unit.put("Q1", b"x")
    assert queue_manager.curdepth("Q1") == 1
    assert monitor.read() == []
    unit.backout()
    assert monitor.read() == []
    unit.put("Q1", b"x")
    unit.commit()
    assert monitor.read() == ["Q1"]


@pytest.mark.in_process
@pytest.mark.parametrize("least_priority", [0, 1])
@pytest.mark.parametrize("sequence", [c.MQMDS_PRIORITY, c.MQMDS_FIFO])
def test_T5_others_that_are_not_committed_are_as_if_not_there(
    queue_manager: QueueManager,
    session: Session,
    unit: Session,
    monitor: Monitor,
    sequence: int,
    least_priority: int,
) -> None:
    """Nor is what an open unit of work has got; what a browse has locked is."""
    common = {"DEFPRTY": 1, "TRIGMPRI": least_priority, "MSGDLVSQ": sequence}
    triggering(queue_manager, "F", **common)
    triggering(queue_manager, "D", TRIGTYPE=DEPTH, TRIGDPTH=2, **common)
    session.put("F", b"x")
    assert monitor.read() == ["F"]
    browsing = session.open("F", BROWSE)
    take(browsing, c.MQGMO_BROWSE_NEXT | c.MQGMO_LOCK)
    session.put("F", b"y")
    assert monitor.read() == []
    assert body(session.get("F")) == b"y"
    browsing.close()
    assert unit.get("F") is not None
    unit.put("F", b"x")
    unit.put("D", b"x")
    session.put("F", b"x")
    session.put("D", b"x")
    assert monitor.read() == ["F"]
    unit.commit()
    assert monitor.read() == ["D"]


def test_E12_T5_expired_messages_count_for_depth(
    queue_manager: QueueManager, session: Session, monitor: Monitor, clock: VirtualClock
) -> None:
    """The program that is started gets 2033."""
    triggering(queue_manager, TRIGTYPE=DEPTH, TRIGDPTH=3)
    session.put("Q1", b"1", time_to_live_ms=1_000)
    session.put("Q1", b"2", time_to_live_ms=1_000)
    clock.advance(1_000)
    assert monitor.read() == []
    session.put("Q1", b"3", time_to_live_ms=0 + 1_000)
    assert monitor.read() == ["Q1"]
    clock.advance(1_000)
    with serving(session) as program, refused(2033):
        take(program)
    assert monitor.read() == []


def test_E12_T5_an_expired_message_is_the_first(
    queue_manager: QueueManager, session: Session, monitor: Monitor, clock: VirtualClock
) -> None:
    triggering(queue_manager)
    session.put("Q1", b"1", time_to_live_ms=1_000)
    assert monitor.read() == ["Q1"]
    clock.advance(1_000)
    session.put("Q1", b"2")
    assert monitor.read() == []


# T6


def test_E13_T6_a_discard_makes_no_event(
    queue_manager: QueueManager, session: Session, monitor: Monitor, clock: VirtualClock
) -> None:
    """Neither the discard, nor that one is left of two; its report triggers where it goes."""
    triggering(queue_manager)
    triggering(queue_manager, REPLIES)
    report = c.MQRO_EXPIRATION
    session.put("Q1", b"1", time_to_live_ms=1_000, report=report, reply_to_q=REPLIES)
    session.put("Q1", b"2")
    assert monitor.read() == ["Q1"]
    clock.advance(1_000)
    assert monitor.read() == []
    assert [m.body for m in session.browse("Q1")] == [b"2"]
    assert monitor.read() == [REPLIES]
    assert queue_manager.curdepth("Q1") == 1


# What arrives otherwise


@pytest.mark.parametrize("trigger_type", [FIRST, EVERY, DEPTH])
def test_D12_T3_a_delayed_message_arrives_when_it_is_released(
    queue_manager: QueueManager,
    session: Session,
    monitor: Monitor,
    clock: VirtualClock,
    trigger_type: int,
    persistent: bool,
) -> None:
    triggering(queue_manager, TRIGTYPE=trigger_type)
    alter(queue_manager, "SYSTEM.DDELAY.LOCAL.QUEUE", TRIGGER=ON, INITQ=INITQ, PROCESS=PROGRAM)
    for _ in range(3):
        session.put("Q1", b"x", delay_ms=5_000, persistent=persistent)
    clock.advance(4_999)
    assert monitor.read() == []
    clock.advance(1)
    assert monitor.read() == ["Q1"] * (3 if trigger_type == EVERY else 1)
    assert monitor.messages[0].put_ms == START_MS + 5_000


@pytest.mark.parametrize("sequence", [c.MQMDS_PRIORITY, c.MQMDS_FIFO])
def test_T3_released_in_bulk_by_priority(
    queue_manager: QueueManager,
    session: Session,
    monitor: Monitor,
    clock: VirtualClock,
    sequence: int,
) -> None:
    triggering(queue_manager, TRIGTYPE=EVERY, TRIGMPRI=5, MSGDLVSQ=sequence)
    for priority in (4, 5, 6, 0):
        session.put("Q1", b"x", delay_ms=5_000, persistent=True, priority=priority)
    clock.advance(5_000)
    assert monitor.read() == ["Q1"] * 2


@pytest.mark.in_process
@pytest.mark.parametrize("trigger_type", [FIRST, EVERY, DEPTH])
def test_G8_T3_a_message_that_is_backed_out_arrives_again(
    queue_manager: QueueManager, unit: Session, monitor: Monitor, trigger_type: int
) -> None:
    triggering(queue_manager, TRIGTYPE=trigger_type)
    unit.put("Q1", b"x")
    unit.commit()
    assert body(unit.get("Q1")) == b"x"
    assert monitor.read() == ["Q1"]
    if trigger_type == DEPTH:
        alter(queue_manager, "Q1", TRIGGER=ON)
    assert monitor.read() == []
    unit.backout()
    assert monitor.read() == ["Q1"]


@pytest.mark.parametrize("sequence", [c.MQMDS_PRIORITY, c.MQMDS_FIFO])
def test_T3_messages_that_a_consumer_gives_back_arrive_again(
    queue_manager: QueueManager, session: Session, monitor: Monitor, sequence: int
) -> None:
    triggering(queue_manager, TRIGTYPE=EVERY, TRIGMPRI=1, MSGDLVSQ=sequence)
    for number in range(4):
        session.put("Q1", b"x", priority=number % 3, persistent=bool(number % 2))
    assert monitor.read() == ["Q1"] * 2
    queue_manager.claims.attach("billing", "Q1")
    queue_manager.claims.claim("billing", 1, 0, Limit(10, 2**40))
    assert monitor.read() == []
    assert queue_manager.curdepth("Q1") == 0
    queue_manager.claims.release("billing")
    assert monitor.read() == ["Q1"] * 2


def test_T3_rows_of_a_stage_arrive(queue_manager: QueueManager, monitor: Monitor) -> None:
    triggering(queue_manager, TRIGTYPE=EVERY)
    triggering(queue_manager, "Q2")
    write(queue_manager, plain(5, persistence=c.MQPER_PERSISTENT))
    write(queue_manager, plain(5, queue="Q2", persistence=c.MQPER_PERSISTENT), "q2")
    assert monitor.read() == ["Q1"] * 5 + ["Q2"]


def test_T3_what_triggers_may_trigger_in_turn(
    queue_manager: QueueManager, session: Session, monitor: Monitor
) -> None:
    """An initiation queue may itself trigger; a ring of them comes to an end."""
    triggering(queue_manager, "A", TRIGTYPE=EVERY, INITQ="B")
    triggering(queue_manager, "B", TRIGTYPE=EVERY, INITQ="A")
    session.open("A", c.MQOO_INPUT_SHARED)
    session.open("B", c.MQOO_INPUT_SHARED)
    session.put("A", b"x")
    depths = queue_manager.curdepth("A"), queue_manager.curdepth("B")
    assert depths == (2, 2)
    assert queue_manager.verify().ok


def test_T2_a_dynamic_queue_triggers_like_its_model(
    queue_manager: QueueManager, session: Session, monitor: Monitor
) -> None:
    model = f"DEFINE QMODEL(M) DEFTYPE(PERMDYN) TRIGGER INITQ({INITQ}) PROCESS({PROGRAM})"
    assert queue_manager.mqsc(model).ok
    handle = session.open("M", OUTPUT, dynamic_name="D")
    handle.close()
    session.put("D", b"x")
    assert monitor.read() == ["D"]


def test_T4_a_queue_that_is_deleted_is_forgotten_whether_or_not_it_still_triggers(
    queue_manager: QueueManager, session: Session, monitor: Monitor
) -> None:
    """Programs that open a dynamic queue each would fill the memory of a monitor that stays."""
    model = "DEFINE QMODEL(M) TRIGGER TRIGTYPE(DEPTH) TRIGDPTH(1)"
    assert queue_manager.mqsc(f"{model} INITQ({INITQ}) PROCESS({PROGRAM})").ok
    for changes in ({}, {"INITQ": "ANOTHER"}, {"TRIGGER": OFF}):
        handle = session.open("M", OUTPUT, dynamic_name="D")
        if changes:
            alter(queue_manager, "D", **changes)
        else:
            session.put("D", b"x")
            session.get("D")
        handle.close()
    assert monitor.read() == ["D"]
    assert not any(queue_manager.engine.triggering._by_initiation_queue.values())
