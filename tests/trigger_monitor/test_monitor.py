"""The trigger monitor: callables by name, bad trigger messages, the end of it."""

from __future__ import annotations

import logging
import sys
import threading
from collections import Counter

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.api.administration import PROCESS, alter_named, define_named
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.structures import DLH, TM, TMC2
from mayfly.services.trigger_monitor import TriggerMessage, TriggerMonitor, TriggerOutcome
from tests.connection.serving import serving as over_network
from tests.facts import wait_until
from tests.spec.scene import (
    DEAD,
    JOIN_SECONDS,
    Running,
    alter,
    alter_manager,
    local,
    put_md,
    refused,
)
from tests.spec.trigger_scene import EVERY, INITQ, PROGRAM, serving, triggering

TRIGGER = Descriptor(format="MQTRIG", put_appl_type=c.MQAT_QMGR, put_appl_name="QM1")
FIELDS: dict[str, int | str] = {"QName": "Q1", "ApplId": "serve it", "ApplType": c.MQAT_UNIX}


def done(**counts: int) -> Counter[TriggerOutcome]:
    """Return what a pass has done, by name."""
    return Counter({TriggerOutcome(name): count for name, count in counts.items()})


def letter(session: Session) -> tuple[int, str]:
    """Return reason and queue of the next dead letter."""
    message = session.get(DEAD)
    assert message is not None
    header = DLH.unpack(message.body)
    assert isinstance(header["Reason"], int)
    return header["Reason"], str(header["DestQName"])


def test_T8_a_callable_gets_the_fields_of_the_trigger_message(
    manager: QueueManager, session: Session
) -> None:
    alter(manager, "Q1", TRIGDATA="data of the queue")
    alter_named(manager.engine, PROCESS, PROGRAM, {"ENVRDATA": "env", "USERDATA": "user"})
    found: list[TriggerMessage] = []
    with TriggerMonitor(manager, INITQ, {"serve it": found.append}) as monitor:
        assert monitor.run_once() == done()
        session.put("Q1", b"x")
        assert monitor.run_once() == done(started=1)
    assert found == [
        TriggerMessage(
            "Q1", PROGRAM, "data of the queue", c.MQAT_UNIX, "serve it", "env", "user"
        )
    ]  # fmt: skip
    assert manager.curdepth(INITQ) == 0


def test_T8_the_character_form_for_a_program() -> None:
    trigger = TriggerMessage("Q1", "P", "data", c.MQAT_UNIX, "serve it", "env", "user")
    data = trigger.tmc2("QM1")
    assert len(data) == 732
    assert data[:8] == b"TMC    2"
    assert b"\0" not in data
    assert TMC2.unpack(data) == {
        "StrucId": "TMC",
        "Version": "   2",
        "QName": "Q1",
        "ProcessName": "P",
        "TriggerData": "data",
        "ApplType": "",
        "ApplId": "serve it",
        "EnvData": "env",
        "UserData": "user",
        "QMgrName": "QM1",
    }


def test_T2_the_program_that_is_started_serves_the_queue(
    manager: QueueManager, session: Session
) -> None:
    """What comes while it does makes no trigger message; what it leaves behind does."""
    got: list[bytes] = []

    def serve(trigger: TriggerMessage) -> None:
        with manager.session() as program, serving(program, trigger.queue):
            for _ in range(2):
                message = program.get(trigger.queue)
                got.append(b"" if message is None else message.body)
            session.put("Q1", b"late")

    with TriggerMonitor(manager, INITQ, {"serve it": serve}) as monitor:
        session.put("Q1", b"1")
        session.put("Q1", b"2")
        session.put("Q1", b"3")
        monitor._process(monitor._next(0))  # type: ignore[arg-type]  # there is one
        assert got == [b"1", b"2"]
        assert manager.curdepth(INITQ) == 1


def test_T2_a_monitor_that_comes_late_finds_what_is_there(
    manager: QueueManager, session: Session
) -> None:
    session.put("Q1", b"x")
    found: list[TriggerMessage] = []
    with TriggerMonitor(manager, INITQ, {"serve it": found.append}) as monitor:
        assert monitor.run_once() == done(started=1)
        assert monitor.queue == INITQ


def test_T8_a_channel_is_started_by_a_program_without_a_name(
    manager: QueueManager, session: Session
) -> None:
    """A transmission queue has no process; what is to be started is in the trigger data."""
    triggering(manager, "QM2", USAGE=c.MQUS_TRANSMISSION, PROCESS="", TRIGDATA="TO.QM2")
    channels: list[str] = []
    programs = {"": lambda trigger: channels.append(trigger.trigger_data)}
    with TriggerMonitor(manager, INITQ, programs) as monitor:
        session.put("Q@QM2", b"x")
        assert monitor.run_once() == done(started=1)
    assert channels == ["TO.QM2"]


def test_a_callable_that_fails_stops_nobody(
    manager: QueueManager, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    alter(manager, "Q1", TRIGTYPE=EVERY)
    calls: list[str] = []

    def fail_once(trigger: TriggerMessage) -> None:
        calls.append(trigger.queue)
        if len(calls) == 1:
            raise ValueError("not today")

    with (
        TriggerMonitor(manager, INITQ, {"serve it": fail_once}) as monitor,
        caplog.at_level(logging.WARNING, "mayfly.trigger_monitor"),
    ):
        session.put("Q1", b"1")
        session.put("Q1", b"2")
        assert monitor.run_once() == done(started=2, failed=1)
    assert [r.getMessage() for r in caplog.records] == [
        "'serve it' for 'Q1' raised ValueError('not today')"
    ]
    assert manager.curdepth(DEAD) == 0


@pytest.mark.parametrize(("code", "failed"), [(0, 0), (None, 0), (3, 1), ("no paper", 1)])
def test_a_callable_that_ends_itself_ends_no_monitor(
    manager: QueueManager, session: Session, code: int | str | None, failed: int
) -> None:
    """As a command does, by its exit code."""
    alter(manager, "Q1", TRIGTYPE=EVERY)

    def leave(_trigger: TriggerMessage) -> None:
        sys.exit(code)

    with TriggerMonitor(manager, INITQ, {"serve it": leave}) as monitor:
        session.put("Q1", b"1")
        session.put("Q1", b"2")
        assert monitor.run_once() == done(started=2, failed=2 * failed)


@pytest.mark.parametrize(
    ("descriptor", "data"),
    [
        (TRIGGER._replace(format="MQSTR"), TM.pack(FIELDS)),
        (TRIGGER, TM.pack(FIELDS)[:683]),
        (TRIGGER, b"TMC " + TM.pack(FIELDS)[4:]),
        (TRIGGER, TM.pack(FIELDS)[:4] + bytes(4) + TM.pack(FIELDS)[8:]),
        (TRIGGER, b""),
    ],
    ids=["format", "short", "StrucId", "Version", "empty"],
)
def test_T9_what_is_no_trigger_message_is_dead_lettered(
    manager: QueueManager, session: Session, descriptor: Descriptor, data: bytes
) -> None:
    with TriggerMonitor(manager, INITQ, {"serve it": print}) as monitor:
        put_md(session, INITQ, data, descriptor)
        assert monitor.run_once() == done(dead_lettered=1)
    assert letter(session) == (c.MQFB_TM_ERROR, INITQ)


def test_T8_numbers_of_the_other_byte_order_are_read(
    manager: QueueManager, session: Session
) -> None:
    found: list[TriggerMessage] = []
    with TriggerMonitor(manager, INITQ, {"serve it": found.append}) as monitor:
        data = TM.pack(FIELDS, big_endian=True)
        put_md(session, INITQ, data, TRIGGER._replace(encoding=0x111))
        assert monitor.run_once() == done(started=1)
    assert found[0].appl_type == c.MQAT_UNIX


@pytest.mark.parametrize(
    ("runs_commands", "program", "feedback"),
    [
        (False, {}, c.MQFB_APPL_CANNOT_BE_STARTED),
        (False, {"APPLTYPE": c.MQAT_ZOS}, c.MQFB_APPL_CANNOT_BE_STARTED),
        (True, {"APPLTYPE": c.MQAT_ZOS}, c.MQFB_APPL_TYPE_ERROR),
        (True, {"APPLICID": "/nowhere/at/all"}, c.MQFB_APPL_CANNOT_BE_STARTED),
        (True, {"APPLICID": "/"}, c.MQFB_APPL_CANNOT_BE_STARTED),
        (True, {"APPLICID": "'not closed"}, c.MQFB_APPL_CANNOT_BE_STARTED),
        (True, {"APPLICID": ""}, c.MQFB_APPL_CANNOT_BE_STARTED),
    ],
)
def test_T9_what_cannot_be_started_is_dead_lettered(
    manager: QueueManager,
    session: Session,
    runs_commands: bool,
    program: dict[str, int | str],
    feedback: int,
) -> None:
    define_named(manager.engine, PROCESS, PROGRAM, {"APPLICID": "another", **program}, replace=True)
    with TriggerMonitor(
        manager, INITQ, {"serve it": print}, runs_commands=runs_commands
    ) as monitor:
        session.put("Q1", b"x")
        assert monitor.run_once() == done(dead_lettered=1)
    assert letter(session) == (feedback, INITQ)


def test_T9_without_a_dead_letter_queue_it_is_lost(manager: QueueManager, session: Session) -> None:
    alter_manager(manager, DEADQ="")
    with TriggerMonitor(manager, INITQ) as monitor:
        session.put("Q1", b"x")
        assert monitor.run_once() == done(lost=1)
    assert manager.curdepth(INITQ) == 0
    assert manager.verify().ok


# Threads


def test_a_thread_starts_programs_as_messages_come(manager: QueueManager, session: Session) -> None:
    called = threading.Event()
    with TriggerMonitor(manager, INITQ, {"serve it": lambda _trigger: called.set()}) as monitor:
        monitor.start()
        session.put("Q1", b"x")
        assert called.wait(JOIN_SECONDS)
        with pytest.raises(RuntimeError, match="started before"):
            monitor.start()
    assert monitor.counts[TriggerOutcome.STARTED] == 1
    session.get("Q1")
    session.put("Q1", b"y")
    assert manager.curdepth(INITQ) == 0


def test_stop_waits_for_the_callable_in_work(manager: QueueManager, session: Session) -> None:
    begun, go_on, ended = (threading.Event() for _ in range(3))

    def slow(_trigger: TriggerMessage) -> None:
        begun.set()
        assert go_on.wait(JOIN_SECONDS)
        ended.set()

    monitor = TriggerMonitor(manager, INITQ, {"serve it": slow})
    monitor.start()
    session.put("Q1", b"x")
    assert begun.wait(JOIN_SECONDS)
    closing = Running(monitor.close)
    closing.thread.join(0.05)
    assert closing.is_under_way
    go_on.set()
    closing.finish()
    assert ended.is_set()


def test_a_callable_may_stop_its_monitor(manager: QueueManager, session: Session) -> None:
    alter(manager, "Q1", TRIGTYPE=EVERY)
    monitors: list[TriggerMonitor] = []
    with TriggerMonitor(manager, INITQ, {"serve it": lambda _t: monitors[0].stop()}) as monitor:
        monitors.append(monitor)
        session.put("Q1", b"1")
        session.put("Q1", b"2")
        monitor.run()
        assert monitor.counts[TriggerOutcome.STARTED] == 1
    assert manager.curdepth(INITQ) == 1


def test_it_ends_with_its_queue_manager() -> None:
    with QueueManager("QM2") as manager:
        triggering(manager)
        monitor = TriggerMonitor(manager, INITQ)
        running = Running(monitor.run)
        while not manager.engine.waits.is_waited_on(manager.engine.registry.queue(INITQ).number):
            assert running.is_under_way
    running.finish()
    assert running.error is not None
    assert running.error.reason == rc.MQRC_Q_MGR_STOPPING


def test_the_initiation_queue_must_be_one(manager: QueueManager) -> None:
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        TriggerMonitor(manager, "NOWHERE")
    with refused(rc.MQRC_OBJECT_IN_USE):
        local(manager, "ALONE", SHARE=c.MQQA_NOT_SHAREABLE)
        with TriggerMonitor(manager, "ALONE"):
            TriggerMonitor(manager, "ALONE")


def test_T9_a_monitor_works_over_a_network(manager: QueueManager, session: Session) -> None:
    found: list[TriggerMessage] = []
    with over_network(manager) as served:
        connection = served.connect("operator")
        with TriggerMonitor(connection, INITQ, {"serve it": found.append}) as monitor:
            monitor.start()
            session.put("Q1", b"x")
            put_md(session, INITQ, b"no trigger message", Descriptor())
            wait_until(lambda: monitor.counts == done(started=1, dead_lettered=1))
        assert not connection.is_open
    assert [trigger.queue for trigger in found] == ["Q1"]
    assert letter(session) == (c.MQFB_TM_ERROR, INITQ)
    assert manager.curdepth(INITQ) == 0
