"""A CONNAME is one queue manager: two of one name are not taken for each other."""

from __future__ import annotations

import gc

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.channel.scene import CHANNEL, XMITQ, bodies, put, receiving, sending, standing


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
