"""The five moments at which age is looked at (M6 to M10), on queues of every kind, and no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly.everyplace import EveryplaceQueueManager, Fault, Link, SkewedClock
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.everyplace.scene import Remembering, refused, seen, take, text

boundaries = pytest.mark.parametrize(("late_ms", "is_gone"), [(-1, False), (0, True), (1, True)])


@boundaries
@pytest.mark.parametrize("confirm_id", [0, 7])
def test_M6_put_through_a_link_it_is_checked_where_it_arrives(
    clock: VirtualClock, rule: Remembering, confirm_id: int, late_ms: int, is_gone: bool
) -> None:
    a = EveryplaceQueueManager("A", clock=clock)
    b = EveryplaceQueueManager("B", clock=SkewedClock(clock, 1_000 + late_ms))
    a.connect(b)
    b.create_queue("Q", rule=rule)
    uid = a.put_message("Q", text(clock, relative_ms=1_000), "B", confirm_id)
    assert rule.expired == (["x"] if is_gone else [])
    if confirm_id and is_gone:
        refused(rc.MQRC_NO_MSG_AVAILABLE, lambda: a.confirm_put_message("Q", uid, "B"))
    elif confirm_id:
        a.confirm_put_message("Q", uid, "B")
    assert seen(b) == ([] if is_gone else ["x"])


@boundaries
def test_M6_a_put_through_a_link_is_checked_again_when_it_is_confirmed(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    rule: Remembering,
    late_ms: int,
    is_gone: bool,
) -> None:
    b.create_queue("Q", expiry_ms=1_000, rule=rule)
    uid = a.put_message("Q", text(clock), "B", confirm_id=7)
    clock.advance(1_000 + late_ms)
    a.confirm_put_message("Q", uid, "B")
    assert (rule.expired, seen(b)) == ((["x"], []) if is_gone else ([], ["x"]))


@boundaries
def test_M6_checked_when_the_second_stage_lets_it_in(
    clock: VirtualClock, late_ms: int, is_gone: bool
) -> None:
    """The clock of the destination is ahead, and the message was alive at the first stage."""
    at_a, at_b = Remembering(), Remembering()
    a = EveryplaceQueueManager("A", clock=clock)
    b = EveryplaceQueueManager("B", clock=SkewedClock(clock, 400))
    a.connect(b)
    b.create_queue("Q", rule=at_b)
    a.create_remote_queue("Q", "B", asynchronous=True, rule=at_a)
    a.put_message("Q", text(clock, relative_ms=1_000))
    assert (a.transmit_put("Q"), b.inquire_queue_size("Q")) == (1, 1)
    clock.advance(600 + late_ms)
    assert at_b.expired == []
    assert a.transmit_confirm("Q") == 1
    assert (at_a.expired, at_b.expired) == ([], ["x"] if is_gone else [])
    assert len(b.browse_messages("Q")) == (0 if is_gone else 1)


@boundaries
def test_M7_a_get_meets_an_unconfirmed_put_in_its_way(
    a: EveryplaceQueueManager, clock: VirtualClock, rule: Remembering, late_ms: int, is_gone: bool
) -> None:
    a.create_queue("Q", rule=rule)
    a.put_message("Q", text(clock, "first", relative_ms=10), confirm_id=7)
    a.put_message("Q", text(clock, "live"))
    a.put_message("Q", text(clock, "last", relative_ms=10), confirm_id=7)
    clock.advance(10 + late_ms)
    assert take(a) == "live"
    assert rule.expired == (["first"] if is_gone else [])


def test_M7_a_get_under_a_confirm_id_was_in_time_however_late_it_is_confirmed(
    a: EveryplaceQueueManager, clock: VirtualClock, rule: Remembering
) -> None:
    a.create_queue("Q", rule=rule)
    uid = a.put_message("Q", text(clock, relative_ms=10))
    clock.advance(9)
    assert a.get_message("Q", confirm_id=7) is not None
    clock.advance(1_000)
    a.confirm_get_message("Q", uid)
    assert (rule.expired, a.inquire_queue_size("Q")) == ([], 0)


@boundaries
def test_M7_a_delete_through_a_link_checks_where_the_queue_is(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    rule: Remembering,
    late_ms: int,
    is_gone: bool,
) -> None:
    b.create_queue("Q", rule=rule)
    uid = a.put_message("Q", text(clock, relative_ms=10), "B")
    clock.advance(10 + late_ms)
    if is_gone:
        refused(rc.MQRC_NO_MSG_AVAILABLE, lambda: a.delete_message("Q", uid, "B"))
    else:
        a.delete_message("Q", uid, "B")
    assert (rule.expired, seen(b)) == (["x"] if is_gone else [], [])


@boundaries
def test_M9_a_queue_deleted_through_a_link_is_checked_where_it_is(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    rule: Remembering,
    late_ms: int,
    is_gone: bool,
) -> None:
    """As when an administration message arrives: what has expired goes first, then it is empty."""
    b.create_queue("Q", rule=rule)
    a.put_message("Q", text(clock, relative_ms=10), "B")
    clock.advance(10 + late_ms)
    if not is_gone:
        assert "1 messages" in refused(rc.MQRC_Q_NOT_EMPTY, lambda: a.delete_queue("Q", "B"))
        assert (rule.expired, seen(b)) == ([], ["x"])
        return
    a.delete_queue("Q", "B")
    assert rule.expired == ["x"]
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: b.inquire_queue_size("Q"))
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.delete_queue("Q", "B"))


def test_M9_a_remote_queue_that_is_defined_here_is_deleted_here_alone(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link
) -> None:
    b.create_queue("Q")
    a.create_remote_queue("Q", "B")
    a.delete_queue("Q", "B")
    assert b.inquire_queue_size("Q") == 0
    a.delete_queue("Q", "B")
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: b.inquire_queue_size("Q"))


@pytest.mark.parametrize(
    ("fault", "is_deleted"),
    [(Fault.DROP, False), (Fault.DROP_ANSWER, True), (Fault.DUPLICATE, True), (Fault.DELAY, False)],
)
def test_M9_a_queue_is_deleted_through_a_bad_link_once_or_not_at_all(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, fault: Fault, is_deleted: bool
) -> None:
    b.create_queue("Q")
    link.fail_next(fault)
    if fault is Fault.DUPLICATE:
        a.delete_queue("Q", "B")
    else:
        refused(rc.MQRC_HOST_NOT_AVAILABLE, lambda: a.delete_queue("Q", "B"))
    if fault is Fault.DELAY:
        # A later call has told that nobody waits for this one any more: it comes too late.
        assert a.inquire_queue_size("Q", "B") == 0
        assert link.deliver_delayed() == 1
    if is_deleted:
        refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: b.inquire_queue_size("Q"))
    else:
        assert b.inquire_queue_size("Q") == 0


FOR_ALL: dict[str, Callable[[EveryplaceQueueManager], object]] = {
    "M8_activated": lambda a: a.activate_queue("Q"),
    "M10_asked for its size": lambda a: a.inquire_queue_size("Q"),
    "M9_deleted": lambda a: a.delete_queue("Q"),
}


@boundaries
@pytest.mark.parametrize("moment", FOR_ALL)
def test_M8_M9_M10_what_is_being_sent_is_met_whatever_the_state(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    rule: Remembering,
    moment: str,
    late_ms: int,
    is_gone: bool,
) -> None:
    """Arrived at the other side, sent without an answer, and not sent yet."""
    b.create_queue("Q")
    a.create_remote_queue("Q", "B", asynchronous=True, rule=rule)
    a.put_message("Q", text(clock, "arrived", relative_ms=10))
    assert a.transmit_put("Q") == 1
    link.fail_next(Fault.DROP)
    a.put_message("Q", text(clock, "lost", relative_ms=10))
    assert a.transmit_put("Q") == 0
    a.put_message("Q", text(clock, "here", relative_ms=10))
    clock.advance(10 + late_ms)
    if moment == "M9_deleted" and not is_gone:
        refused(rc.MQRC_Q_NOT_EMPTY, lambda: FOR_ALL[moment](a))
    else:
        FOR_ALL[moment](a)
    assert rule.expired == (["arrived", "lost", "here"] if is_gone else [])


@boundaries
@pytest.mark.parametrize("moment", FOR_ALL)
def test_M8_M9_M10_what_is_being_pulled_is_met_whatever_the_state(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    rule: Remembering,
    moment: str,
    late_ms: int,
    is_gone: bool,
) -> None:
    a.create_queue("Q", rule=rule)
    b.create_home_server_queue("Q", "A")
    a.put_message("Q", text(clock, relative_ms=10))
    link.fail_next(Fault.DROP_ANSWER)
    assert b.pull("Q") == 0
    clock.advance(10 + late_ms)
    if moment == "M9_deleted" and not is_gone:
        refused(rc.MQRC_Q_NOT_EMPTY, lambda: FOR_ALL[moment](a))
    else:
        FOR_ALL[moment](a)
    assert rule.expired == (["x"] if is_gone else [])
    if moment != "M9_deleted":
        assert b.pull("Q") == (0 if is_gone else 1)


@boundaries
def test_M10_an_inquiry_through_a_link_removes_first(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    rule: Remembering,
    late_ms: int,
    is_gone: bool,
) -> None:
    b.create_queue("Q", expiry_ms=10, rule=rule)
    a.put_message("Q", text(clock), "B")
    clock.advance(10 + late_ms)
    assert len(a.browse_messages("Q", "B")) == 1
    assert rule.expired == []
    assert a.inquire_queue_size("Q", "B") == (0 if is_gone else 1)
    assert rule.expired == (["x"] if is_gone else [])


def test_M11_a_put_that_finds_the_queue_full_checks_nobody_else(
    a: EveryplaceQueueManager, clock: VirtualClock, rule: Remembering
) -> None:
    a.create_queue("Q", expiry_ms=10, rule=rule, max_depth=1)
    a.put_message("Q", text(clock, "old"))
    clock.advance(10)
    new = text(clock, "new")
    refused(rc.MQRC_Q_FULL, lambda: a.put_message("Q", new))
    assert (rule.expired, seen(a)) == ([], ["old"])
    assert a.inquire_queue_size("Q") == 0
    a.put_message("Q", new)
    assert take(a) == "new"


def test_M11_nothing_that_only_looks_or_defines_checks(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    rule = Remembering()
    a.create_remote_queue("Q", "B", asynchronous=True, rule=rule, expiry_ms=10)
    a.put_message("Q", text(clock))
    uid = a.put_message("Q", text(clock), confirm_id=7)
    clock.advance(1_000)
    assert len(a.browse_messages("Q")) == 1
    a.create_home_server_queue("R", "B")
    a.create_queue("S")
    a.alter_queue("Q", max_depth=9)
    a.deactivate_queue("Q")
    assert rule.expired == []
    refused(rc.MQRC_NO_MSG_AVAILABLE, lambda: a.confirm_get_message("Q", uid))
    # That call brought the queue back into memory, and this was the check.
    assert len(rule.expired) == 2


@pytest.mark.parametrize("stage", ["transmit_put", "transmit_confirm"])
def test_M8_a_transmission_brings_its_queue_back_and_checks_it(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    stage: str,
) -> None:
    class Noting(Remembering):
        def queue_activate(self, queue: str) -> None:
            self.expired.append(f"active: {queue}")

    rule = Noting()
    a.create_remote_queue("Q", "B", asynchronous=True, rule=rule)
    a.put_message("Q", text(clock, relative_ms=10))
    a.deactivate_queue("Q")
    clock.advance(10)
    assert getattr(a, stage)("Q") == 0
    assert rule.expired == ["active: Q", "x", "active: Q"]


def test_M14_what_a_clock_set_back_makes_live_again_is_alive(
    clock: VirtualClock, rule: Remembering
) -> None:
    """Only a check ends a message, by the time of that moment."""
    skewed = SkewedClock(clock, 1_000)
    a = EveryplaceQueueManager("A", clock=skewed)
    a.create_queue("Q", rule=rule)
    a.put_message("Q", text(skewed, relative_ms=1_000))
    clock.advance(1_000)
    assert seen(a) == ["x"]
    skewed.skew_ms = 999
    assert (a.inquire_queue_size("Q"), rule.expired) == (1, [])
    skewed.skew_ms = 1_000
    assert (a.inquire_queue_size("Q"), rule.expired) == (0, ["x"])
