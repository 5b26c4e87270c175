"""Transmissions and pulls that come to nothing: what stays where, and nothing is left behind."""

from __future__ import annotations

import pytest

from mayfly.everyplace import (
    MSG_EXPIRE_TIME,
    EveryplaceQueueManager,
    Fault,
    Link,
    MessageFields,
    QueueEntry,
    QueueRule,
    RuleRefused,
    SkewedClock,
)
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.everyplace.scene import Remembering, refused, seen, take, text


def test_what_the_other_side_refuses_is_available_here_again(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    """No queue there: the message can be seen, deleted, and the definition with it."""
    a.create_remote_queue("Q", "B", asynchronous=True)
    uid = a.put_message("Q", text(clock))
    assert (a.transmit_put("Q"), seen(a)) == (0, ["x"])
    refused(rc.MQRC_Q_NOT_EMPTY, lambda: a.delete_queue("Q"))
    a.delete_message("Q", uid)
    a.delete_queue("Q")
    b.create_queue("Q")
    assert b.inquire_queue_size("Q") == 0


def test_M12_on_a_cut_link_nothing_begins(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    """It is known that nothing has left: the message can be seen, and deleted with its queue."""
    b.create_queue("Q")
    a.create_remote_queue("Q", "B", asynchronous=True)
    first, second = (a.put_message("Q", text(clock, said)) for said in ("1", "2"))
    link.cut()
    assert (a.transmit_put("Q"), seen(a)) == (0, ["1", "2"])
    a.delete_message("Q", first)
    link.restore()
    link.fail_next(Fault.DROP)
    assert (a.transmit_put("Q"), seen(a)) == (0, [])
    link.cut()
    assert a.transmit_put("Q") == 0
    refused(rc.MQRC_NO_MSG_AVAILABLE, lambda: a.delete_message("Q", second))
    link.restore()
    assert (a.transmit_put("Q"), a.transmit_confirm("Q")) == (1, 1)
    assert (take(b), take(b)) == ("2", "-")


def test_M6_a_pull_on_a_cut_link_asks_nothing(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link
) -> None:
    """Nothing is held back for it, so that its definition may go."""
    a.create_home_server_queue("Q", "B")
    link.cut()
    assert a.pull("Q") == 0
    a.delete_queue("Q")


def test_what_may_be_under_way_stays_out_of_reach_though_it_is_refused(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    """The first try arrives late, after the second one was refused: still it comes once."""
    b.create_queue("Q", max_depth=1)
    b.put_message("Q", text(clock, "old"))
    a.create_remote_queue("Q", "B", asynchronous=True)
    uid = a.put_message("Q", text(clock, "new"))
    link.fail_next(Fault.DELAY)
    assert (a.transmit_put("Q"), a.transmit_put("Q")) == (0, 0)
    refused(rc.MQRC_NO_MSG_AVAILABLE, lambda: a.delete_message("Q", uid))
    assert take(b) == "old"
    assert link.deliver_delayed() == 1
    assert (a.transmit_put("Q"), a.transmit_confirm("Q")) == (1, 1)
    assert (take(b), take(b), a.inquire_queue_size("Q")) == ("new", "-", 0)


def test_a_refused_transmission_is_forgotten_by_both_sides(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    """One that waits for ever would keep all later numbers in mind."""
    a.create_remote_queue("Q", "B", asynchronous=True)
    a.put_message("Q", text(clock))
    b.create_queue("R")
    for _ in range(50):
        assert a.transmit_put("Q") == 0
        a.inquire_queue_size("R", "B")
    assert len(b.peers.finished["A"].numbers) == 1


class NoEnd(QueueRule):
    """Takes the end of each message away when it is put."""

    def put_message(self, entry: QueueEntry, message: MessageFields) -> None:
        message.delete(MSG_EXPIRE_TIME)


@pytest.mark.parametrize("is_late", [False, True])
def test_M13_a_copy_whose_end_the_other_side_took_away_is_withdrawn(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    rule: Remembering,
    is_late: bool,
) -> None:
    """Nobody will confirm it, and it would never expire."""
    b.create_queue("Q", rule=NoEnd())
    a.create_remote_queue("Q", "B", asynchronous=True, rule=rule)
    a.put_message("Q", text(clock, relative_ms=10))
    if is_late:
        link.fail_next(Fault.DELAY)
    a.transmit_put("Q")
    clock.advance(10)
    assert a.transmit_confirm("Q") == 0
    link.deliver_delayed()
    assert (rule.expired, b.inquire_queue_size("Q")) == (["x"], 1)
    assert a.transmit_put("Q") == 0
    assert b.inquire_queue_size("Q") == 0
    a.delete_queue("Q")
    b.delete_queue("Q")


def test_M13_a_late_first_stage_brings_the_message_as_it_was_sent(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    """The sender's rule has taken its end away since, for a copy of its own."""

    class TakeEndAway(QueueRule):
        def message_expired(self, entry: QueueEntry, message: MessageFields) -> None:
            message.delete(MSG_EXPIRE_TIME)
            message.put_ascii("MsgData", "expired")

    at_b = Remembering()
    b.create_queue("Q", rule=at_b)
    a.create_remote_queue("Q", "B", asynchronous=True, rule=TakeEndAway())
    a.put_message("Q", text(clock, relative_ms=10))
    link.fail_next(Fault.DELAY)
    assert a.transmit_put("Q") == 0
    clock.advance(10)
    assert a.inquire_queue_size("Q") == 0
    assert link.deliver_delayed() == 1
    assert (at_b.expired, b.inquire_queue_size("Q")) == (["x"], 0)


def test_what_is_gone_with_its_queue_holds_nobody_up(clock: VirtualClock) -> None:
    """The clock of the destination is ahead: its copies expire, and it deletes the queue."""
    a = EveryplaceQueueManager("A", clock=clock)
    b = EveryplaceQueueManager("B", clock=SkewedClock(clock, 50))
    a.connect(b)
    b.create_queue("Q")
    a.create_remote_queue("Q", "B", asynchronous=True)
    for said in ("1", "2"):
        a.put_message("Q", text(clock, said, relative_ms=100))
    assert a.transmit_put("Q") == 2
    clock.advance(60)
    b.delete_queue("Q")
    assert a.transmit_confirm("Q") == 2
    a.delete_queue("Q")


def test_a_withdrawal_that_finds_no_queue_is_done(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    """There never was one; only the first stage might have told, and it was lost."""
    a.create_remote_queue("Q", "B", asynchronous=True)
    a.put_message("Q", text(clock, relative_ms=10))
    link.fail_next(Fault.DROP)
    a.transmit_put("Q")
    clock.advance(10)
    a.delete_queue("Q")
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.transmit_put("Q"))


def test_a_home_server_queue_whose_server_knows_none_can_be_deleted(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    a.create_home_server_queue("Q", "B")
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.pull("Q"))
    a.delete_queue("Q")
    b.create_queue("Q")
    b.put_message("Q", text(clock))
    assert seen(b) == ["x"]


def test_a_question_that_may_be_under_way_is_not_given_up_though_it_is_refused(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    """It arrives when the server has such a queue, and locks a message: the next pull brings it."""
    a.create_home_server_queue("Q", "B")
    link.fail_next(Fault.DELAY)
    assert a.pull("Q") == 0
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.pull("Q"))
    b.create_queue("Q")
    b.put_message("Q", text(clock))
    assert link.deliver_delayed() == 1
    assert (take(b), b.inquire_queue_size("Q")) == ("-", 1)
    refused(rc.MQRC_OBJECT_IN_USE, lambda: a.delete_queue("Q"))
    assert (a.pull("Q"), take(a), b.inquire_queue_size("Q")) == (1, "x", 0)


def test_the_rule_of_the_server_may_refuse_a_pull(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    class NotToday(QueueRule):
        def get_message(self, entry: QueueEntry, message: MessageFields) -> None:
            raise RuleRefused("not today")

    b.create_queue("Q", rule=NotToday())
    a.create_home_server_queue("Q", "B")
    b.put_message("Q", text(clock))
    assert "not today" in refused(rc.MQRC_NONE, lambda: a.pull("Q"))
    assert (seen(b), a.inquire_queue_size("Q")) == (["x"], 0)
    a.delete_queue("Q")


def test_word_of_what_was_stored_is_done_when_the_server_has_no_queue_any_more(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    b.create_queue("Q")
    a.create_home_server_queue("Q", "B")
    b.put_message("Q", text(clock, relative_ms=10))
    link.fail_next(Fault.DUPLICATE, Fault.DROP)
    assert (a.pull("Q"), take(a)) == (1, "x")
    clock.advance(10)
    b.delete_queue("Q")
    a.delete_queue("Q")
    assert not b.peers.finished["A"].numbers - {1}


def test_M6_a_pull_leaves_the_servers_own_messages_alone(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    """Where the server has a queue for A and one of its own of the same name."""
    b.create_queue("Q")
    b.create_remote_queue("Q", "A", asynchronous=True)
    a.create_home_server_queue("Q", "B")
    b.put_message("Q", text(clock, "B's own"))
    b.put_message("Q", text(clock, "for A"), "A")
    assert (a.pull("Q"), seen(a), seen(b)) == (1, ["for A"], ["B's own"])


def test_M7_a_pull_that_is_unfinished_ends_on_the_queue_where_it_began(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    """A queue for A is defined only after the question has locked a message of the local one."""
    b.create_queue("Q")
    a.create_home_server_queue("Q", "B")
    b.put_message("Q", text(clock))
    link.fail_next(Fault.DROP_ANSWER)
    assert a.pull("Q") == 0
    b.create_remote_queue("Q", "A", asynchronous=True)
    assert (a.pull("Q"), take(a), b.inquire_queue_size("Q")) == (1, "x", 0)


def test_M8_a_pull_that_wakes_its_queue_takes_no_other_message_for_the_one_that_expired(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    """Locked under a number that is over, it would stay at the server for ever."""
    b.create_queue("Q")
    a.create_home_server_queue("Q", "B")
    b.put_message("Q", text(clock, "1", relative_ms=10))
    b.put_message("Q", text(clock, "2"))
    link.fail_next(Fault.DROP_ANSWER)
    assert a.pull("Q") == 0
    b.deactivate_queue("Q")
    clock.advance(10)
    assert (a.pull("Q"), seen(a), b.inquire_queue_size("Q")) == (1, ["2"], 0)


def test_a_deleted_home_server_queue_may_be_defined_anew(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    b.create_queue("Q")
    b.put_message("Q", text(clock))
    a.create_home_server_queue("Q", "C")
    a.delete_queue("Q")
    a.create_queue("Q")
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.pull("Q"))
    a.create_home_server_queue("Q", "B")
    assert (a.pull("Q"), take(a)) == (1, "x")


def test_a_refused_pull_is_forgotten_by_both_sides(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link
) -> None:
    a.create_home_server_queue("Q", "B")
    b.create_queue("R")
    for _ in range(50):
        refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.pull("Q"))
        a.inquire_queue_size("R", "B")
    assert len(b.peers.finished["A"].numbers) == 1
