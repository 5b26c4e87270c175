"""Home-server queues fetch what is kept elsewhere: rules M6 and M7, and once over a bad network."""

from __future__ import annotations

import pytest

from mayfly.everyplace import EveryplaceQueueManager, Fault, Link, SkewedClock
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.everyplace.scene import Remembering, refused, seen, take, text

WAYS = pytest.mark.parametrize("kept", ["remote", "local"])


def keep_at(b: EveryplaceQueueManager, kept: str, rule: Remembering | None = None) -> None:
    """Let B keep messages for Q of A: addressed to A, or on a queue of the same name."""
    if kept == "remote":
        b.create_remote_queue("Q", "A", asynchronous=True, rule=rule)
    else:
        b.create_queue("Q", rule=rule)


@WAYS
def test_M6_a_pull_brings_all_in_their_order(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    kept: str,
) -> None:
    keep_at(b, kept)
    a.create_home_server_queue("Q", "B")
    for said in ("1", "2", "3"):
        b.put_message("Q", text(clock, said))
    assert take(a) == "-"
    assert a.pull("Q") == 3
    assert b.inquire_queue_size("Q") == 0
    assert [take(a) for _ in range(4)] == ["1", "2", "3", "-"]
    assert a.pull("Q") == 0


@WAYS
@pytest.mark.parametrize(("late_ms", "is_gone"), [(-1, False), (0, True), (1, True)])
def test_M7_a_pull_checks_at_the_server(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    rule: Remembering,
    kept: str,
    late_ms: int,
    is_gone: bool,
) -> None:
    keep_at(b, kept, rule)
    a.create_home_server_queue("Q", "B")
    b.put_message("Q", text(clock, relative_ms=1_000))
    clock.advance(1_000 + late_ms)
    assert a.pull("Q") == (0 if is_gone else 1)
    assert rule.expired == (["x"] if is_gone else [])


@pytest.mark.parametrize(("late_ms", "is_gone"), [(-1, False), (0, True), (1, True)])
def test_M6_pulled_it_is_checked_where_it_arrives(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    rule: Remembering,
    late_ms: int,
    is_gone: bool,
) -> None:
    """The other side has no clock that says so: its clock is a second behind."""
    c = EveryplaceQueueManager("C", clock=SkewedClock(clock, -1_000))
    a.connect(c)
    c.create_queue("Q")
    a.create_home_server_queue("Q", "C", rule=rule)
    c.put_message("Q", text(clock, relative_ms=1_000))
    clock.advance(1_000 + late_ms)
    assert a.pull("Q") == 1
    assert rule.expired == (["x"] if is_gone else [])
    assert take(a) == ("-" if is_gone else "x")
    assert c.inquire_queue_size("Q") == 0


@pytest.mark.parametrize("second", list(Fault))
@pytest.mark.parametrize("first", list(Fault))
def test_each_message_comes_once_whatever_happens_to_both_steps(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    first: Fault,
    second: Fault,
) -> None:
    keep_at(b, "local")
    a.create_home_server_queue("Q", "B")
    b.put_message("Q", text(clock, "1"))
    b.put_message("Q", text(clock, "2"))
    link.fail_next(first, second)
    for _ in range(4):
        a.pull("Q")
        link.deliver_delayed()
    assert [take(a) for _ in range(3)] == ["1", "2", "-"]
    assert b.inquire_queue_size("Q") == 0


def test_a_question_that_comes_after_its_answer_was_nothing_locks_nothing(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    keep_at(b, "local")
    a.create_home_server_queue("Q", "B")
    link.fail_next(Fault.DELAY)
    assert (a.pull("Q"), a.pull("Q")) == (0, 0)
    b.put_message("Q", text(clock))
    assert link.deliver_delayed() == 1
    assert seen(b) == ["x"]
    assert (a.pull("Q"), take(a), b.inquire_queue_size("Q")) == (1, "x", 0)


#: The next one in its turn goes through: that it comes twice is noticed.
HARMLESS = Fault.DUPLICATE


def test_a_late_question_locks_nothing_though_no_later_one_has_arrived(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    """Not even before the server is told which numbers are over."""
    keep_at(b, "local")
    a.create_home_server_queue("Q", "B")
    link.fail_next(Fault.DELAY, HARMLESS, Fault.DROP)
    assert (a.pull("Q"), a.pull("Q")) == (0, 0)
    b.put_message("Q", text(clock))
    assert link.deliver_delayed() == 1
    assert seen(b) == ["x"]


def test_a_late_question_locks_nothing_after_its_message_was_stored(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    keep_at(b, "local")
    a.create_home_server_queue("Q", "B")
    b.put_message("Q", text(clock, "1"))
    link.fail_next(Fault.DELAY, HARMLESS, HARMLESS, Fault.DROP)
    assert (a.pull("Q"), a.pull("Q")) == (0, 1)
    b.put_message("Q", text(clock, "2"))
    assert link.deliver_delayed() == 1
    assert (take(a), seen(b)) == ("1", ["2"])


def test_what_is_being_pulled_is_locked_at_the_server(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    keep_at(b, "local")
    a.create_home_server_queue("Q", "B")
    b.put_message("Q", text(clock))
    link.fail_next(Fault.DROP_ANSWER)
    assert a.pull("Q") == 0
    assert (take(b), seen(b), b.inquire_queue_size("Q")) == ("-", [], 1)
    assert a.pull("Q") == 1
    assert (take(a), b.inquire_queue_size("Q")) == ("x", 0)


def test_the_server_is_told_by_the_next_pull_that_a_message_was_stored(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    keep_at(b, "local")
    a.create_home_server_queue("Q", "B")
    b.put_message("Q", text(clock))
    link.fail_next(HARMLESS, Fault.DROP)
    assert (a.pull("Q"), b.inquire_queue_size("Q")) == (1, 1)
    assert (a.pull("Q"), b.inquire_queue_size("Q")) == (0, 0)
    assert (take(a), take(a)) == ("x", "-")


def test_the_server_forgets_what_was_pulled(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    keep_at(b, "local")
    a.create_home_server_queue("Q", "B")
    for _ in range(50):
        b.put_message("Q", text(clock))
        assert (a.pull("Q"), take(a)) == (1, "x")
    assert len(b.peers.finished["A"].numbers) == 1


def test_a_pull_goes_on_behind_what_has_expired_since_it_was_asked_for(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    keep_at(b, "local")
    a.create_home_server_queue("Q", "B")
    b.put_message("Q", text(clock, "short", relative_ms=10))
    b.put_message("Q", text(clock, "long"))
    link.fail_next(Fault.DROP_ANSWER)
    assert a.pull("Q") == 0
    clock.advance(10)
    assert b.inquire_queue_size("Q") == 1
    assert (a.pull("Q"), take(a), b.inquire_queue_size("Q")) == (1, "long", 0)


@pytest.mark.parametrize("fault", [Fault.DROP_ANSWER, None])
def test_a_home_server_queue_with_a_pull_unfinished_cannot_be_deleted(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    fault: Fault | None,
) -> None:
    """Nobody else could ever get what the server holds back: unfetched, or fetched unheard."""
    keep_at(b, "local")
    a.create_home_server_queue("Q", "B")
    b.put_message("Q", text(clock))
    link.fail_next(*([Fault.DROP_ANSWER] if fault else [Fault.DUPLICATE, Fault.DROP]))
    assert a.pull("Q") == (0 if fault else 1)
    assert take(a) == ("-" if fault else "x")
    link.cut()
    refused(rc.MQRC_OBJECT_IN_USE, lambda: a.delete_queue("Q"))
    link.restore()
    assert a.pull("Q") == (1 if fault else 0)
    assert take(a) == ("x" if fault else "-")
    a.delete_queue("Q")
    assert b.inquire_queue_size("Q") == 0


def test_a_full_queue_leaves_the_rest_at_the_server(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    keep_at(b, "local")
    a.create_queue("Q", max_depth=1)
    a.create_home_server_queue("Q", "B")
    b.put_message("Q", text(clock, "1"))
    b.put_message("Q", text(clock, "2"))
    refused(rc.MQRC_Q_FULL, lambda: a.pull("Q"))
    assert (seen(a), b.inquire_queue_size("Q")) == (["1"], 1)
    assert take(a) == "1"
    assert a.pull("Q") == 1
    assert (take(a), b.inquire_queue_size("Q")) == ("2", 0)


def test_definitions_that_do_not_fit(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, rule: Remembering
) -> None:
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.pull("Q"))
    a.create_queue("Q")
    refused(rc.MQRC_OBJECT_ALREADY_EXISTS, lambda: a.create_home_server_queue("Q", "B", rule=rule))
    a.create_home_server_queue("Q", "B")
    refused(rc.MQRC_OBJECT_ALREADY_EXISTS, lambda: a.create_home_server_queue("Q", "B"))
    assert "keeps nothing for 'Q' of A" in refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.pull("Q"))
    b.create_queue("Q")
    assert a.pull("Q") == 0


@pytest.mark.parametrize(("late_ms", "is_gone"), [(-1, False), (0, True), (1, True)])
def test_M12_a_transmission_leaves_what_a_pull_holds(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    late_ms: int,
    is_gone: bool,
) -> None:
    """It is in the hands of the other queue manager: neither sent a second time nor expired."""
    rule = Remembering()
    b.create_remote_queue("Q", "A", asynchronous=True, rule=rule)
    a.create_home_server_queue("Q", "B")
    b.put_message("Q", text(clock, "pulled", relative_ms=10))
    link.fail_next(Fault.DROP_ANSWER)
    assert a.pull("Q") == 0
    b.put_message("Q", text(clock, "sent"))
    clock.advance(10 + late_ms)
    assert (b.transmit_put("Q", "A"), b.transmit_confirm("Q", "A")) == (1, 1)
    assert (rule.expired, seen(a)) == ([], ["sent"])
    # The pull goes on with what it holds; expired, it meets the check where it arrives (M6).
    assert a.pull("Q") == 1
    assert seen(a) == (["sent"] if is_gone else ["sent", "pulled"])
    assert b.inquire_queue_size("Q", "A") == 0
