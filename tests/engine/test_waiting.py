"""Waits of gets by themselves: whom they serve and end, and how many of them they look at."""

from __future__ import annotations

from typing import Any

import pytest

from mayfly.engine.waiting import SEARCH_UNLOCKED, Waiter, Waits
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error

MANY = 10_000
#: A few steps down a heap of so many; a look at each would be MANY.
FEW = 500
NOW_MS = 1_000


class CountedMs(int):
    """A moment that counts how often it is compared with another one."""

    count = 0

    def __lt__(self, other: int) -> bool:
        CountedMs.count += 1
        return int(self) < int(other)

    def __le__(self, other: int) -> bool:
        CountedMs.count += 1
        return int(self) <= int(other)

    def __gt__(self, other: int) -> bool:
        CountedMs.count += 1
        return int(self) > int(other)

    def __eq__(self, other: object) -> bool:
        CountedMs.count += 1
        return int(self) == other

    __hash__ = int.__hash__


class Taker:
    """What a wait takes from: nothing, until it is given something."""

    def __init__(self) -> None:
        self.there: Any = None
        self.asked = 0

    def take(self) -> Any:
        self.asked += 1
        return self.there


def waiter(
    until_ms: int | None = None, owner: object = None, *, takes_any: bool = False
) -> tuple[Waiter, Taker]:
    """Return a wait and what it takes from."""
    taker = Taker()
    return Waiter(taker.take, until_ms, owner, takes_any=takes_any), taker


def is_over(wait: Waiter) -> bool:
    """Whether a wait has ended by its time."""
    return wait.error is not None and wait.error.reason == rc.MQRC_NO_MSG_AVAILABLE


def always(_queue_number: int, _end_ms: int) -> bool:
    """Let no message be to come."""
    return True


@pytest.mark.parametrize("is_one_queue", [True, False])
def test_the_next_end_and_due_ends_are_found_without_a_look_at_all_who_wait(
    is_one_queue: bool,
) -> None:
    waits = Waits()
    standing = []
    for n in range(MANY):
        wait, _ = waiter(CountedMs(NOW_MS + n), owner=n)
        waits.add(1 if is_one_queue else n + 1, wait)
        standing.append(wait)
    CountedMs.count = 0
    assert waits.next_end_ms() == NOW_MS
    # The assertion above compares, too.
    assert CountedMs.count <= 5
    CountedMs.count = 0
    waits.end_due(CountedMs(NOW_MS - 1), always)
    assert CountedMs.count <= 5
    CountedMs.count = 0
    waits.end_due(CountedMs(NOW_MS + 2), always)
    assert CountedMs.count <= FEW
    assert [is_over(wait) for wait in standing[:4]] == [True, True, True, False]
    CountedMs.count = 0
    waits.withdraw(standing[3])
    assert waits.next_end_ms() == NOW_MS + 4
    assert CountedMs.count <= FEW


def test_G4_waits_end_at_their_moment_in_the_order_of_their_ends_then_of_their_beginning() -> None:
    waits, told = Waits(), list[str]()
    for name, number, end_ms in [
        ("late", 1, 3), ("first", 1, 2), ("never", 2, None), ("second", 2, 2), ("third", 1, 2)
    ]:  # fmt: skip
        until_ms = None if end_ms is None else NOW_MS + end_ms
        wait = Waiter(Taker().take, until_ms, name, on_decided=lambda w: told.append(str(w.owner)))
        waits.add(number, wait)
    waits.end_due(NOW_MS + 1, always)
    assert told == []
    waits.end_due(NOW_MS + 2, always)
    assert told == ["first", "second", "third"]
    assert waits.next_end_ms() == NOW_MS + 3
    waits.end_due(NOW_MS + 3, always)
    assert told == ["first", "second", "third", "late"]
    assert waits.next_end_ms() is None
    assert (waits.is_waited_on(1), waits.is_waited_on(2)) == (False, True)


def test_G4_an_end_that_a_message_may_still_precede_stays_the_next_one() -> None:
    waits = Waits()
    (open_one, taker), (other, _) = waiter(NOW_MS), waiter(NOW_MS)
    waits.add(1, open_one)
    waits.add(2, other)
    waits.end_due(NOW_MS + 5, lambda number, _end_ms: number == 2)
    assert (is_over(open_one), is_over(other)) == (False, True)
    assert taker.asked == 0
    assert waits.next_end_ms() == NOW_MS
    # The message that was to come wins.
    taker.there = b"message"
    waits.end_due(NOW_MS + 5, always)
    assert (open_one.result, open_one.error) == (b"message", None)
    assert waits.next_end_ms() is None


@pytest.mark.parametrize("way", ["withdraw", "offer", "offer_all", "fail", "fail_owner"])
def test_a_wait_that_is_over_leaves_nothing_behind(way: str) -> None:
    """Its end is far away: a program that always waits an hour fills no memory with ends."""
    waits = Waits()
    stays, _ = waiter(NOW_MS + 1, owner="stays")
    waits.add(2, stays)
    for n in range(1_000):
        wait, taker = waiter(NOW_MS + 3_600_000 + n, owner="goes")
        waits.add(1, wait)
        taker.there = b"message"
        error = mq_error(rc.MQRC_Q_DELETED, "gone")
        if way == "withdraw":
            waits.withdraw(wait)
        elif way == "offer":
            waits.offer(1)
        elif way == "offer_all":
            waits.offer_all()
        elif way == "fail":
            waits.fail(error, 1)
        else:
            waits.fail_owner("goes", error)
        assert not waits.is_waited_on(1)
        assert len(waits._ends) < 100
    assert set(waits._ending.values()) == {stays}
    assert set(waits._by_owner) == {"stays"}
    assert waits.next_end_ms() == NOW_MS + 1


def test_G4_a_message_is_offered_to_those_behind_who_choose_until_one_takes_any() -> None:
    waits = Waits()
    chooser, any_one = waiter(), waiter(takes_any=True)
    behind, last = waiter(), waiter(takes_any=True)
    for wait, _ in (chooser, any_one, behind, last):
        waits.add(1, wait)
    waits.offer(1)
    assert [taker.asked for _, taker in (chooser, any_one, behind, last)] == [1, 1, 0, 0]
    any_one[1].there = b"message"
    behind[1].there = SEARCH_UNLOCKED
    waits.offer(1)
    assert [taker.asked for _, taker in (chooser, any_one, behind, last)] == [2, 2, 1, 1]
    assert list(waits.by_queue[1]) == [chooser[0], last[0]]


def test_G4_one_that_takes_any_and_can_have_nothing_is_asked_for_all_behind() -> None:
    waits = Waits()
    takers = []
    for _ in range(MANY):
        wait, taker = waiter(takes_any=True)
        waits.add(1, wait)
        takers.append(taker)
    for taker in takers[:2]:
        taker.there = b"message"
    waits.offer(1)
    assert [taker.asked for taker in takers[:4]] == [1, 1, 1, 0]
    assert sum(taker.asked for taker in takers) == 3


def test_a_wait_that_is_withdrawn_while_it_is_asked_ends_no_offer() -> None:
    """As a cancel by a callback does; those behind it are asked as before."""
    waits = Waits()

    def leave() -> None:
        leaving.drop()
        waits.withdraw(leaving)

    leaving = Waiter(leave, NOW_MS, "leaving")
    behind, taker = waiter()
    waits.add(1, leaving)
    waits.offer(1)
    assert not waits.is_waited_on(1)
    leaving = Waiter(leave, NOW_MS, "leaving")
    waits.add(1, leaving)
    waits.add(1, behind)
    waits.offer(1)
    assert taker.asked == 1
    assert list(waits.by_queue[1]) == [behind]


def test_an_owner_that_ends_ends_its_own_waits_alone() -> None:
    waits, error = Waits(), MQError(rc.MQRC_HCONN_ERROR, "closed")
    mine, others = [waiter(owner="mine")[0] for _ in range(2)], waiter(owner="other")[0]
    for number, wait in ((1, mine[0]), (1, others), (2, mine[1])):
        waits.add(number, wait)
    waits.fail_owner("mine", error)
    assert [wait.error for wait in (*mine, others)] == [error, error, None]
    assert (list(waits.by_queue), waits.is_waited_on(2)) == ([1], False)
