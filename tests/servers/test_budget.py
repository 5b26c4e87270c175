"""The bytes of messages that all connections of a server have in memory together."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from mayfly.servers.budget import OWN_BYTES, Budget, CallsAwaitingMemory, MemoryUse, SlowClientTimer
from tests.facts import PATIENCE_SECONDS


def test_those_that_wait_are_served_in_their_order() -> None:
    """A long message is not passed over by short ones that would fit."""
    budget, told = Budget(100), list[object]()
    first = budget.reserve(60)
    assert first is not None
    long, short = (budget.reserve(n, partial(told.append, n)) for n in (80, 10))
    assert budget.reserve(10) is None
    assert (budget.is_waited_for, told) == (True, [])
    first.end()
    assert told == [80, 10]
    assert long is not None
    assert short is not None
    assert (long.is_granted, short.is_granted, budget.left_bytes) == (True, True, 10)
    for reservation in (long, long, short, first):
        reservation.end()
    assert (budget.left_bytes, budget.is_waited_for) == (100, False)


def test_room_that_nobody_waits_for_any_more_goes_to_others() -> None:
    budget, told = Budget(100), list[object]()
    first = budget.reserve(60)
    gone = budget.reserve(90, lambda: told.append("gone"))
    other = budget.reserve(30, lambda: told.append("other"))
    assert first is not None
    assert gone is not None
    assert other is not None
    gone.end()
    assert told == ["other"]
    first.end()
    other.end()
    assert (told, budget.left_bytes) == (["other"], 100)


def test_what_is_in_memory_already_is_taken_whether_it_is_left_or_not() -> None:
    budget, told = Budget(100), list[object]()
    budget.take(150)
    assert budget.is_used_up
    assert budget.reserve(0, lambda: told.append(0)) is not None
    budget.give(40)
    assert told == []
    budget.give(110)
    assert (told, budget.is_used_up, budget.left_bytes) == ([0], False, 100)


def test_a_limit_that_is_lowered_keeps_nobody_waiting_for_ever() -> None:
    """A message that is longer than the new limit comes when nobody has anything."""
    budget, told = Budget(100), list[object]()
    held = budget.reserve(60)
    budget.reserve(90, lambda: told.append(90))
    budget.limit(50)
    assert (budget.longest(90), budget.longest(40), told) == (50, 40, [])
    assert held is not None
    held.end()
    assert (told, budget.left_bytes) == ([90], -40)
    budget.limit(200)
    assert budget.left_bytes == 110


def test_a_connection_has_some_bytes_that_nobody_counts() -> None:
    budget = Budget(100)
    held = MemoryUse(budget)
    for count, left in ((OWN_BYTES, 100), (OWN_BYTES + 7, 93), (OWN_BYTES + 2, 98), (0, 100)):
        held.note(count)
        assert budget.left_bytes == left


def test_who_is_slow_is_ended_while_others_wait_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mayfly.servers.budget.REQUEST_SECONDS", 0.0)
    monkeypatch.setattr("mayfly.servers.budget.LOOK_SECONDS", 0.001)
    budget = Budget(100)
    reservation = budget.reserve(100)

    async def wait() -> None:
        late = asyncio.Event()
        patience = SlowClientTimer(budget, asyncio.get_running_loop(), late.set)
        patience.begin(0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(late.wait(), 0.02)
        waiting = budget.reserve(1, lambda: None)
        await asyncio.wait_for(late.wait(), PATIENCE_SECONDS)
        assert waiting is not None
        waiting.end()

    asyncio.run(wait())
    assert reservation is not None


def test_calls_are_made_when_something_is_left_and_none_of_a_connection_that_has_ended() -> None:
    budget, told = Budget(100), list[object]()
    budget.take(101)
    one, other = (CallsAwaitingMemory(budget, lambda call: call()) for _ in range(2))
    for number in (1, 2):
        one.call(partial(told.append, number))
    other.call(lambda: told.append(3))
    other.end()
    budget.give(101)
    assert (told, budget.left_bytes, budget.is_waited_for) == ([1, 2], 100, False)
    one.call(lambda: told.append(4))
    assert told == [1, 2, 4]
