"""A CONNAME is one queue manager: two of one name are not taken for each other."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.channel.network_scene import TOKEN, lead_to, served
from tests.channel.scene import CHANNEL, XMITQ, bodies, done, put, receiving, sending, standing


def test_two_queue_managers_of_the_name_that_CONNAME_says_are_not_reached(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    with receiving(clock) as other:
        put(one, b"x")
        one.channels.start(CHANNEL)
        assert standing(one).status == "RETRYING"
        assert standing(one).failure == "2 queue managers named 'QM2' are open in this process"
        assert not one.mqsc(f"PING CHANNEL({CHANNEL})").ok
        assert (bodies(other), bodies(two), one.curdepth(XMITQ)) == ([], [], 1)
    clock.advance(60_000)
    assert (standing(one).status, bodies(two)) == ("RUNNING", [b"x"])


def test_a_channel_that_runs_keeps_its_partner_when_another_of_the_name_is_opened(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    one.channels.start(CHANNEL)
    with receiving(clock) as other:
        put(one, b"x")
        assert (bodies(two), bodies(other)) == ([b"x"], [])


def test_two_senders_of_one_name_do_not_take_each_others_batches_for_their_own(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    """The receiver knows a sender by its name, and by the last batch that one has committed."""
    with sending(clock) as other:
        put(other, b"theirs")
        put(one, b"mine")
        for manager in (one, other):
            manager.channels.start(CHANNEL)
            assert standing(manager).status == "RETRYING"
            assert "2 queue managers named 'QM1'" in standing(manager).failure
        assert bodies(two) == []
    clock.advance(60_000)
    assert (standing(one).status, bodies(two)) == ("RUNNING", [b"mine"])


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["LOCAL", "TCP"])
def test_another_queue_manager_of_the_name_is_refused_once_one_has_sent(
    two: QueueManager,
    clock: VirtualClock,
    tmp_path: Path,
    transport: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would be told of the other's last batch, and take its own for lost, or for there."""
    monkeypatch.setenv("MAYFLY_TOKEN", TOKEN)
    with ExitStack() as stack:
        ports = [stack.enter_context(served(two)).port] if transport == "TCP" else []

        def opened(folder: str) -> QueueManager:
            manager = sending(clock, tmp_path / folder)
            if ports:
                lead_to(manager, *ports)
            return manager

        with opened("a") as first:
            put(first, b"of the first")
            first.channels.start(CHANNEL)
        done(two, f"RESET CHANNEL({CHANNEL})")
        with opened("b") as other:
            put(other, b"of the other")
            other.channels.start(CHANNEL)
            # Their sequence numbers agree.
            assert (standing(other).status, standing(other).sequence) == ("RETRYING", 0)
            [row] = other.mqsc(f"DISPLAY CHSTATUS({CHANNEL}) FAILURE").rows
            assert "MQRC_CHANNEL_CONFIG_ERROR" in str(row["FAILURE"])
            assert "another queue manager named QM1 sends on QM1.TO.QM2" in str(row["FAILURE"])
            assert (bodies(two), other.curdepth(XMITQ)) == ([b"of the first"], 1)
            # Who means to replace the first says so.
            done(other, f"RESET CHANNEL({CHANNEL})\nSTART CHANNEL({CHANNEL})")
            assert bodies(two) == [b"of the first", b"of the other"]
            other.channels.stop(CHANNEL)
            other.channels.start(CHANNEL)
            assert standing(other).status == "RUNNING"
        with opened("a") as first:
            first.channels.start(CHANNEL)
            assert "another queue manager named QM1" in standing(first).failure


def test_a_queue_manager_that_is_opened_again_is_the_same(
    two: QueueManager, clock: VirtualClock, tmp_path: Path
) -> None:
    for body in (b"1", b"2"):
        with sending(clock, tmp_path) as one:
            put(one, body)
            one.channels.start(CHANNEL)
            assert standing(one).status == "RUNNING"
    assert bodies(two) == [b"1", b"2"]


def test_one_that_was_left_open_and_that_nobody_has_any_more_is_in_nobodys_way(
    one: QueueManager, two: QueueManager
) -> None:
    """As in a program that makes its queue managers anew, cell by cell."""
    gc.disable()
    try:
        receiving(VirtualClock())
        put(one, b"x")
        one.channels.start(CHANNEL)
    finally:
        gc.enable()
    assert (standing(one).status, bodies(two)) == ("RUNNING", [b"x"])
