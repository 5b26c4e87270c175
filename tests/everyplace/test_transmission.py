"""Messages between queue managers: rules M6, M7, M12, M13, M14, and once over a bad network."""

from __future__ import annotations

import pytest

from mayfly.everyplace import (
    EveryplaceQueueManager,
    Fault,
    Link,
    LinkDown,
    MessageFields,
    QueueEntry,
    QueueRule,
    RuleRefused,
    SkewedClock,
)
from mayfly.mqi import reasons as rc
from mayfly.services.everyplace.links import Exchange
from mayfly.testing import VirtualClock
from tests.everyplace.scene import START_MS, Remembering, refused, seen, take, text

MINUTE_MS = 60_000


def asynchronous(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    at_a: QueueRule | None = None,
    at_b: QueueRule | None = None,
) -> None:
    """Define queue Q at B, and the asynchronous way to it at A."""
    b.create_queue("Q", rule=at_b)
    a.create_remote_queue("Q", "B", asynchronous=True, rule=at_a)


def test_M12_two_stages_and_between_them_nobody_sees_it(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    asynchronous(a, b)
    a.put_message("Q", text(clock))
    assert (a.inquire_queue_size("Q"), b.inquire_queue_size("Q")) == (1, 0)
    assert a.transmit_confirm("Q") == 0
    assert a.transmit_put("Q") == 1
    assert (a.inquire_queue_size("Q"), b.inquire_queue_size("Q")) == (1, 1)
    assert (seen(b), take(b)) == ([], "-")
    assert a.transmit_put("Q") == 0
    assert a.transmit_confirm("Q") == 1
    assert (a.inquire_queue_size("Q"), b.inquire_queue_size("Q")) == (0, 1)
    assert (take(b), take(b)) == ("x", "-")


def test_M12_an_application_cannot_confirm_or_undo_a_transmission(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    asynchronous(a, b)
    uid = a.put_message("Q", text(clock))
    a.transmit_put("Q")
    refused(rc.MQRC_NO_MSG_AVAILABLE, lambda: b.confirm_put_message("Q", uid))
    refused(rc.MQRC_NO_MSG_AVAILABLE, lambda: b.delete_message("Q", uid))
    refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, lambda: a.get_message("Q"))


def test_M12_an_unconfirmed_put_is_not_sent(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    asynchronous(a, b)
    uid = a.put_message("Q", text(clock), confirm_id=1)
    assert a.transmit_put("Q") == 0
    a.confirm_put_message("Q", uid)
    assert a.transmit_put("Q") == 1


def test_M12_the_rule_holds_back_what_it_answers_False_for(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    class NotYet(QueueRule):
        def transmit(self, entry: QueueEntry, message: MessageFields) -> bool:
            return message.get_ascii("MsgData") != "later"

    asynchronous(a, b, at_a=NotYet())
    a.put_message("Q", text(clock, "later"))
    a.put_message("Q", text(clock, "now"))
    assert (a.transmit_put("Q"), a.transmit_confirm("Q")) == (1, 1)
    assert (take(b), seen(a)) == ("now", ["later"])


def test_M12_a_message_that_the_rule_refuses_to_send_holds_nobody_up(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    class Never(QueueRule):
        def transmit(self, entry: QueueEntry, message: MessageFields) -> bool:
            if message.get_ascii("MsgData") == "never":
                raise RuleRefused("not this one")
            return True

    asynchronous(a, b, at_a=Never())
    a.put_message("Q", text(clock, "never"))
    a.put_message("Q", text(clock, "now"))
    assert (a.transmit_put("Q"), a.transmit_confirm("Q")) == (1, 1)
    assert (take(b), seen(a)) == ("now", ["never"])


def test_M12_a_rule_that_deletes_what_it_is_asked_about_sends_nothing(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    class Delete(QueueRule):
        def transmit(self, entry: QueueEntry, message: MessageFields) -> bool:
            entry.owner.delete_message(entry.queue, entry.uid)
            return True

    asynchronous(a, b, at_a=Delete())
    a.put_message("Q", text(clock))
    assert (a.transmit_put("Q"), a.transmit_confirm("Q")) == (0, 0)
    assert (a.inquire_queue_size("Q"), b.inquire_queue_size("Q")) == (0, 0)


@pytest.mark.parametrize(("late_ms", "is_gone"), [(-1, False), (0, True), (1, True)])
@pytest.mark.parametrize("is_absolute", [False, True])
def test_M13_cut_between_the_stages_it_expires_on_both_sides(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    is_absolute: bool,
    late_ms: int,
    is_gone: bool,
) -> None:
    """Due to expire at 10:00; first stage at 9:55, the network is back at 10:00 give or take."""
    at_a, at_b = Remembering(), Remembering()
    asynchronous(a, b, at_a, at_b)
    life_ms = 10 * MINUTE_MS
    message = text(clock, relative_ms=life_ms)
    if is_absolute:
        message = text(clock, at_ms=START_MS + life_ms)
    a.put_message("Q", message)
    clock.advance(5 * MINUTE_MS)
    assert a.transmit_put("Q") == 1
    link.cut()
    clock.advance(MINUTE_MS)
    assert a.transmit_confirm("Q") == 0
    clock.advance(4 * MINUTE_MS + late_ms)
    link.restore()
    assert (at_a.expired, at_b.expired) == ([], [])
    assert a.transmit_confirm("Q") == (0 if is_gone else 1)
    assert at_a.expired == (["x"] if is_gone else [])
    assert at_b.expired == []
    assert take(b) == ("-" if is_gone else "x")
    assert at_b.expired == (["x"] if is_gone else [])
    assert (a.inquire_queue_size("Q"), b.inquire_queue_size("Q")) == (0, 0)
    assert (a.transmit_put("Q"), a.transmit_confirm("Q")) == (0, 0)
    assert (len(at_a.expired), len(at_b.expired)) == ((1, 1) if is_gone else (0, 0))


def test_M13_each_side_looks_at_its_own_next_check(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    """The other order: the destination asks for its size while the network is away."""
    at_a, at_b = Remembering(), Remembering()
    asynchronous(a, b, at_a, at_b)
    a.put_message("Q", text(clock, relative_ms=10))
    a.transmit_put("Q")
    link.cut()
    clock.advance(10)
    assert b.inquire_queue_size("Q") == 0
    assert (at_a.expired, at_b.expired) == ([], ["x"])
    assert a.inquire_queue_size("Q") == 0
    assert (at_a.expired, at_b.expired) == (["x"], ["x"])


def test_M13_the_interval_of_the_sending_queue_takes_the_unseen_copy_with_it(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    """The message has no end of its own, so the other side would keep it for ever."""
    at_a, at_b = Remembering(), Remembering()
    b.create_queue("Q", rule=at_b)
    a.create_remote_queue("Q", "B", asynchronous=True, rule=at_a, expiry_ms=10)
    a.put_message("Q", text(clock))
    a.transmit_put("Q")
    link.cut()
    clock.advance(10)
    assert a.transmit_confirm("Q") == 0
    assert b.inquire_queue_size("Q") == 1
    link.restore()
    assert a.transmit_put("Q") == 0
    assert b.inquire_queue_size("Q") == 0
    assert (at_a.expired, at_b.expired) == (["x"], [])


@pytest.mark.parametrize(("late_ms", "is_gone"), [(-1, False), (0, True), (1, True)])
def test_M7_what_has_expired_before_the_first_stage_is_not_sent(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    late_ms: int,
    is_gone: bool,
) -> None:
    at_a, at_b = Remembering(), Remembering()
    asynchronous(a, b, at_a, at_b)
    a.put_message("Q", text(clock, relative_ms=1_000))
    clock.advance(1_000 + late_ms)
    assert a.transmit_put("Q") == (0 if is_gone else 1)
    assert (at_a.expired, at_b.expired) == (["x"] if is_gone else [], [])
    assert b.inquire_queue_size("Q") == (0 if is_gone else 1)


def test_M13_the_sender_leaves_a_copy_with_its_own_end_to_the_other_side(
    clock: VirtualClock,
) -> None:
    """The clock of the destination is behind: what is over for the sender is alive there."""
    at_a, at_b = Remembering(), Remembering()
    a = EveryplaceQueueManager("A", clock=clock)
    b = EveryplaceQueueManager("B", clock=SkewedClock(clock, -1_000))
    a.connect(b)
    asynchronous(a, b, at_a, at_b)
    a.put_message("Q", text(clock, relative_ms=1_000))
    a.transmit_put("Q")
    clock.advance(1_000)
    assert a.transmit_confirm("Q") == 0
    assert (a.transmit_put("Q"), a.transmit_confirm("Q")) == (0, 0)
    assert (at_a.expired, at_b.expired) == (["x"], [])
    clock.advance(999)
    assert b.inquire_queue_size("Q") == 1
    clock.advance(1)
    assert b.inquire_queue_size("Q") == 0
    assert (at_a.expired, at_b.expired) == (["x"], ["x"])


def test_M13_what_is_withdrawn_and_over_at_the_other_side_too_meets_its_rule(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    """Both queues have an interval; the other side is told before it looks itself."""
    at_a, at_b = Remembering(), Remembering()
    b.create_queue("Q", rule=at_b, expiry_ms=10)
    a.create_remote_queue("Q", "B", asynchronous=True, rule=at_a, expiry_ms=10)
    a.put_message("Q", text(clock))
    a.transmit_put("Q")
    clock.advance(10)
    assert a.inquire_queue_size("Q") == 0
    a.transmit_confirm("Q")
    assert (at_a.expired, at_b.expired) == (["x"], ["x"])
    assert b.inquire_queue_size("Q") == 0


def test_a_way_that_leaves_a_copy_behind_cannot_be_deleted(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    """Expired by the interval of the way, which the other side cannot know: see M13."""
    b.create_queue("Q")
    a.create_remote_queue("Q", "B", asynchronous=True, expiry_ms=10)
    a.put_message("Q", text(clock))
    a.transmit_put("Q")
    link.cut()
    clock.advance(10)
    said = refused(rc.MQRC_OBJECT_IN_USE, lambda: a.delete_queue("Q"))
    assert "queue Q" in said
    link.restore()
    a.delete_queue("Q")
    assert b.inquire_queue_size("Q") == 0


def test_M6_pushed_when_it_is_too_late_there(clock: VirtualClock) -> None:
    """M14: the clock of the destination is ahead."""
    at_a, at_b = Remembering(), Remembering()
    a = EveryplaceQueueManager("A", clock=clock)
    b = EveryplaceQueueManager("B", clock=SkewedClock(clock, 1_000))
    a.connect(b)
    asynchronous(a, b, at_a, at_b)
    a.put_message("Q", text(clock, relative_ms=1_000))
    assert (a.transmit_put("Q"), at_b.expired, b.browse_messages("Q")) == (1, ["x"], [])
    assert a.transmit_confirm("Q") == 1
    assert (at_a.expired, a.inquire_queue_size("Q")) == ([], 0)


@pytest.mark.parametrize(("skew_ms", "is_gone"), [(-1, False), (0, True), (1, True)])
def test_M14_a_message_is_active_on_one_side_and_expired_on_the_other(
    clock: VirtualClock, skew_ms: int, is_gone: bool
) -> None:
    a = EveryplaceQueueManager("A", clock=clock)
    b = EveryplaceQueueManager("B", clock=SkewedClock(clock, skew_ms))
    a.connect(b)
    asynchronous(a, b)
    a.put_message("Q", text(clock, relative_ms=1_000))
    a.transmit_put("Q")
    a.transmit_confirm("Q")
    clock.advance(1_000)
    assert take(b) == ("-" if is_gone else "x")


def test_a_cut_link_keeps_messages_and_their_order(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    asynchronous(a, b)
    link.fail_next(Fault.DELAY)
    refused(rc.MQRC_HOST_NOT_AVAILABLE, lambda: a.inquire_queue_size("R", "B"))
    link.cut()
    for said in ("1", "2", "3"):
        a.put_message("Q", text(clock, said))
    assert (a.transmit_put("Q"), link.deliver_delayed()) == (0, 0)
    link.restore()
    assert (a.transmit_put("Q"), a.transmit_confirm("Q")) == (3, 3)
    assert [take(b) for _ in range(4)] == ["1", "2", "3", "-"]


def test_what_the_other_side_refuses_stays_and_holds_nobody_up(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    b.create_queue("Q", max_depth=1)
    a.create_remote_queue("Q", "B", asynchronous=True)
    a.put_message("Q", text(clock, "1"))
    a.put_message("Q", text(clock, "2"))
    assert (a.transmit_put("Q"), a.transmit_confirm("Q")) == (1, 1)
    assert (take(b), a.inquire_queue_size("Q")) == ("1", 1)
    assert (a.transmit_put("Q"), a.transmit_confirm("Q")) == (1, 1)
    assert take(b) == "2"


@pytest.mark.parametrize("second", list(Fault))
@pytest.mark.parametrize("first", list(Fault))
def test_each_message_comes_once_whatever_happens_to_both_stages(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    first: Fault,
    second: Fault,
) -> None:
    asynchronous(a, b)
    a.put_message("Q", text(clock))
    link.fail_next(first)
    arrived = a.transmit_put("Q")
    assert arrived == (first is Fault.DUPLICATE)
    a.transmit_put("Q")
    link.fail_next(second)
    done = a.transmit_confirm("Q")
    assert done == (second is Fault.DUPLICATE)
    assert a.transmit_confirm("Q") == 1 - done
    assert take(b) == "x"
    link.deliver_delayed()
    a.put_message("Q", text(clock, "next"))
    a.transmit_put("Q")
    a.transmit_confirm("Q")
    link.deliver_delayed()
    assert (take(b), take(b)) == ("next", "-")
    assert (a.inquire_queue_size("Q"), b.inquire_queue_size("Q")) == (0, 0)


def test_a_first_stage_that_comes_after_the_message_was_got_changes_nothing(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    asynchronous(a, b)
    a.put_message("Q", text(clock))
    link.fail_next(Fault.DELAY)
    a.transmit_put("Q")
    a.transmit_put("Q")
    link.fail_next(Fault.DELAY)
    a.transmit_confirm("Q")
    a.transmit_confirm("Q")
    assert take(b) == "x"
    assert link.deliver_delayed() == 2
    assert (take(b), b.inquire_queue_size("Q")) == ("-", 0)


def test_the_receiver_forgets_what_the_sender_has_finished(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    asynchronous(a, b)
    for number in range(50):
        a.put_message("Q", text(clock, str(number)))
        assert (a.transmit_put("Q"), a.transmit_confirm("Q")) == (1, 1)
        assert take(b) == str(number)
        exchange = Exchange("A", "B", number + 1, a.peers.era)
        assert exchange in b.peers.finished["A"]
        assert b.definitions.local_queue("Q").of_exchange(exchange) is None
    assert len(b.peers.finished["A"].numbers) == 1


def test_the_receiver_forgets_what_was_withdrawn(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    b.create_queue("Q")
    a.create_remote_queue("Q", "B", asynchronous=True, expiry_ms=10)
    for _ in range(50):
        a.put_message("Q", text(clock))
        assert a.transmit_put("Q") == 1
        clock.advance(10)
        assert (a.transmit_confirm("Q"), a.transmit_put("Q")) == (0, 0)
    assert b.inquire_queue_size("Q") == 0
    assert len(b.peers.finished["A"].numbers) == 1


def test_a_synchronous_queue_answers_at_once(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    b.create_queue("Q")
    a.create_remote_queue("Q", "B")
    uid = a.put_message("Q", text(clock, "1"))
    assert (a.inquire_queue_size("Q"), seen(a)) == (1, ["1"])
    a.delete_message("Q", uid)
    other = a.put_message("Q", text(clock, "2"), confirm_id=1)
    assert take(b) == "-"
    a.confirm_put_message("Q", other)
    assert a.get_message("Q", confirm_id=2) is not None
    assert (take(b), a.undo("Q", 2)) == ("-", 1)
    assert a.get_message("Q", confirm_id=3) is not None
    a.confirm_get_message("Q", other)
    assert (a.inquire_queue_size("Q"), b.inquire_queue_size("Q")) == (0, 0)


@pytest.mark.parametrize(("late_ms", "is_gone"), [(-1, False), (0, True), (1, True)])
def test_M7_a_remote_get_checks_where_the_queue_is(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    rule: Remembering,
    late_ms: int,
    is_gone: bool,
) -> None:
    b.create_queue("Q", expiry_ms=1_000, rule=rule)
    a.put_message("Q", text(clock), queue_manager="B")
    clock.advance(1_000 + late_ms)
    got = a.get_message("Q", queue_manager="B")
    assert (got is None) == is_gone
    assert rule.expired == (["x"] if is_gone else [])


def test_a_synchronous_call_fails_when_no_answer_comes(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    b.create_queue("Q")
    message = text(clock)
    link.cut()
    said = refused(rc.MQRC_HOST_NOT_AVAILABLE, lambda: a.put_message("Q", message, "B"))
    assert "A to B" in said
    link.restore()
    link.fail_next(Fault.DROP)
    with pytest.raises(LinkDown):
        a.put_message("Q", message, "B")
    a.put_message("Q", message, "B")
    assert (take(b), take(b)) == ("x", "-")


def test_a_refusal_whose_answer_was_lost_is_not_heard(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    b.create_queue("Q", max_depth=1)
    b.put_message("Q", text(clock))
    link.fail_next(Fault.DROP_ANSWER)
    refused(rc.MQRC_HOST_NOT_AVAILABLE, lambda: a.put_message("Q", text(clock), "B"))
    refused(rc.MQRC_Q_FULL, lambda: a.put_message("Q", text(clock), "B"))


def test_M16_a_put_whose_answer_was_lost_is_put_again_with_resend(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    """Without it the queue refuses what it holds; with it nothing comes twice."""
    b.create_queue("Q")
    message = text(clock)
    link.fail_next(Fault.DROP_ANSWER)
    with pytest.raises(LinkDown):
        a.put_message("Q", message, "B")
    refused(rc.MQRC_OBJECT_ALREADY_EXISTS, lambda: a.put_message("Q", message, "B"))
    message.put_boolean("Msg_Resend", True)
    a.put_message("Q", message, "B")
    assert (take(b), take(b)) == ("x", "-")


def test_a_get_that_comes_twice_or_late_takes_one_message(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    b.create_queue("Q")
    for said in ("1", "2", "3"):
        b.put_message("Q", text(clock, said))
    link.fail_next(Fault.DUPLICATE, Fault.DELAY)
    got = a.get_message("Q", "B")
    assert got is not None
    with pytest.raises(LinkDown):
        a.get_message("Q", "B")
    again = a.get_message("Q", "B")
    assert again is not None
    assert link.deliver_delayed() == 1
    assert (got.get_ascii("MsgData"), again.get_ascii("MsgData"), seen(b)) == ("1", "2", ["3"])


def test_unknown_queue_managers_and_queues(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    message = text(clock)
    assert "'C'" in refused(rc.MQRC_UNKNOWN_REMOTE_Q_MGR, lambda: a.put_message("Q", message, "C"))
    assert "'Q'" in refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.put_message("Q", message, "B"))
    assert "'Q'" in refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.put_message("Q", message))
    a.create_queue("Q")
    a.put_message("Q", message)
    assert take(a) == "x"


def test_a_remote_queue_may_be_defined_before_the_link(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    asynchronous(a, b)
    a.put_message("Q", text(clock))
    refused(rc.MQRC_UNKNOWN_REMOTE_Q_MGR, lambda: a.transmit_put("Q"))
    assert seen(a) == ["x"]
    link = b.connect(a)
    assert a.connect(b) is link
    assert (a.transmit_put("Q"), a.transmit_confirm("Q")) == (1, 1)
