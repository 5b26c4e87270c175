"""A channel that is stopped stays so, whatever becomes of its queue manager, until START."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.mqi import command_constants as k
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.services.trigger_monitor import TriggerMonitor, TriggerOutcome
from mayfly.testing import VirtualClock
from tests.channel.scene import (
    CHANNEL,
    XMITQ,
    bodies,
    done,
    put,
    receiving,
    sending,
    standing,
    through,
)
from tests.facts import PATIENCE_SECONDS


def test_a_stopped_receiver_is_stopped_when_its_queue_manager_is_open_again(
    clock: VirtualClock, tmp_path: Path
) -> None:
    with receiving(clock, tmp_path) as two:
        # No sender has ever come: the channel itself is stopped.
        done(two, f"STOP CHANNEL({CHANNEL})")
        assert (standing(two).status, standing(two).partner) == ("STOPPED", "")
    with QueueManager("QM2", tmp_path, clock) as two, sending(clock) as one:
        [row] = two.mqsc(f"DISPLAY CHSTATUS({CHANNEL}) STATUS CONNAME").rows
        assert (row["STATUS"], row["CONNAME"]) == ("STOPPED", "")
        put(one, b"x")
        one.channels.start(CHANNEL)
        assert standing(one).status == "RETRYING"
        assert "is stopped at QM2" in standing(one).failure
        done(two, f"START CHANNEL({CHANNEL})")
        assert two.channels.status(CHANNEL) == []
        clock.advance(60_000)
        assert (standing(one).status, bodies(two)) == ("RUNNING", [b"x"])
        done(two, f"STOP CHANNEL({CHANNEL})")
        assert (standing(two).status, standing(two).partner) == ("STOPPED", "QM1")
    with QueueManager("QM2", tmp_path, clock) as two:
        assert (standing(two).status, standing(two).sequence) == ("STOPPED", 1)
        done(two, f"START CHANNEL({CHANNEL})")
    with QueueManager("QM2", tmp_path, clock) as two:
        assert standing(two).status == "INACTIVE"


@pytest.mark.parametrize("how", ["STATUS(INACTIVE)", "QMNAME(QM2)", "CONNAME('QM2') MODE(FORCE)"])
def test_a_sender_that_becomes_inactive_is_not_started_by_its_queue_manager(
    clock: VirtualClock, two: QueueManager, tmp_path: Path, how: str
) -> None:
    with sending(clock, tmp_path) as one:
        one.channels.start(CHANNEL)
        done(one, f"STOP CHANNEL({CHANNEL}) {how}")
        put(one, b"x")
        assert (standing(one).status, bodies(two)) == ("INACTIVE", [])
    with QueueManager("QM1", tmp_path, clock) as one:
        assert (standing(one).status, bodies(two)) == ("INACTIVE", [])
        # A stopped channel would refuse: this is what a trigger message does.
        one.channels.start_triggered(CHANNEL)
        assert (standing(one).status, bodies(two)) == ("RUNNING", [b"x"])


def test_a_receiver_ends_for_one_partner_who_comes_again(
    clock: VirtualClock, one: QueueManager, two: QueueManager
) -> None:
    one.channels.start(CHANNEL)
    put(one, b"x")
    [message] = two.mqsc(f"STOP CHANNEL({CHANNEL}) QMNAME(QM9)").messages
    assert (message.code, message.reason) == ("AMQ9533W", k.MQRCCF_CHANNEL_NOT_ACTIVE)
    assert standing(two).status == "RUNNING"
    done(two, f"STOP CHANNEL({CHANNEL}) QMNAME(QM1)")
    assert standing(two).status == "INACTIVE"
    put(one, b"y")
    assert standing(one).status == "RETRYING"
    clock.advance(60_000)
    assert (standing(two).status, bodies(two)) == ("RUNNING", [b"x", b"y"])


@pytest.mark.parametrize("is_running", [True, False])
def test_a_stopped_sender_is_stopped_when_its_queue_manager_is_open_again(
    clock: VirtualClock, two: QueueManager, tmp_path: Path, is_running: bool
) -> None:
    with sending(clock, tmp_path) as one:
        if is_running:
            one.channels.start(CHANNEL)
        one.channels.stop(CHANNEL)
    with QueueManager("QM1", tmp_path, clock) as one:
        put(one, b"x")
        assert (standing(one).status, bodies(two)) == ("STOPPED", [])
        one.channels.start(CHANNEL)
        assert (standing(one).status, bodies(two)) == ("RUNNING", [b"x"])


def test_a_sender_that_has_ended_by_DISCINT_is_not_stopped_by_a_restart(
    clock: VirtualClock, two: QueueManager, tmp_path: Path
) -> None:
    with sending(clock, tmp_path, DISCINT=10) as one:
        one.channels.start(CHANNEL)
        clock.advance(10_000)
    with QueueManager("QM1", tmp_path, clock) as one:
        assert standing(one).status == "INACTIVE"


def test_a_sender_that_a_mistake_has_stopped_stays_so(
    clock: VirtualClock, two: QueueManager, tmp_path: Path
) -> None:
    def at(where: str) -> None:
        if where == "before send":
            raise ValueError(where)

    with sending(clock, tmp_path) as one:
        through(one, at)
        put(one, b"x")
        one.channels.start(CHANNEL)
        assert standing(one).status == "STOPPED"
    with QueueManager("QM1", tmp_path, clock) as one:
        assert (standing(one).status, one.curdepth(XMITQ)) == ("STOPPED", 1)


def test_a_STOP_while_DISCINT_ends_the_channel_counts(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    done(one, f"ALTER CHANNEL({CHANNEL}) DISCINT(10)")
    one.channels.start(CHANNEL)
    link = one.channels._senders[CHANNEL]._link
    assert link is not None
    closed = link.close

    def close() -> None:
        operator = threading.Thread(target=one.channels.stop, args=(CHANNEL,))
        operator.start()
        # It does not wait for the end that is under way.
        operator.join(PATIENCE_SECONDS)
        assert not operator.is_alive()
        closed()

    link.close = close  # type: ignore[method-assign]  # a real one, late
    clock.advance(10_000)
    assert standing(one).status == "STOPPED"


def test_T2_what_a_STOP_leaves_on_the_transmission_queue_does_not_start_the_channel_again(
    one: QueueManager, two: QueueManager
) -> None:
    done(
        one,
        "DEFINE QLOCAL(INITQ)\n"
        f"ALTER QLOCAL({XMITQ}) TRIGGER TRIGTYPE(FIRST) INITQ(INITQ) TRIGDATA('{CHANNEL}')",
    )
    done(two, "ALTER QLOCAL(IN) PUT(DISABLED)")
    programs = {"": lambda trigger: one.channels.start_triggered(trigger.trigger_data)}
    with TriggerMonitor(one, "INITQ", programs) as monitor:
        put(one, b"x")
        assert monitor.run_once()[TriggerOutcome.STARTED] == 1
        assert standing(one).status == "PAUSED"
        one.channels.stop(CHANNEL)
        assert monitor.run_once()[TriggerOutcome.STARTED] == 1
        assert (standing(one).status, one.curdepth(XMITQ)) == ("STOPPED", 1)
        done(two, "ALTER QLOCAL(IN) PUT(ENABLED)")
        one.channels.start(CHANNEL)
        assert (standing(one).status, bodies(two)) == ("RUNNING", [b"x"])


def test_a_receiver_is_not_triggered(two: QueueManager) -> None:
    with pytest.raises(MQError) as found:
        two.channels.start_triggered(CHANNEL)
    assert found.value.reason == rc.MQRC_CHANNEL_CONFIG_ERROR
