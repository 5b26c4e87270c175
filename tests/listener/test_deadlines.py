"""L9 to L11: the transaction's time runs while a session receives, and what is late is undone."""

from __future__ import annotations

from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.listener import check_timeouts
from mayfly.testing import VirtualClock
from tests.listener.scene import (
    LIFETIME_MS,
    Calls,
    backout_count,
    idle,
    port_of,
    put,
    receiving,
    started,
    until,
)

#: When the message of the example comes.
ARRIVAL_MS = 110_000


def deliver_at_110_s(manager: QueueManager, clock: VirtualClock, calls: Calls) -> None:
    """Let a message come 110 s after the receive has begun, and wait for its on_message."""
    clock.advance(ARRIVAL_MS)
    put(manager, "x")
    calls.next()


def test_L11_110_s_of_waiting_and_15_s_of_work_are_more_than_120_s(
    manager: QueueManager, clock: VirtualClock
) -> None:
    calls = Calls(is_held=True)
    port = port_of(manager, calls, receive_timeout_ms=115_000, max_retries=0)
    with started(port):
        deliver_at_110_s(manager, clock, calls)
        clock.advance(9_999)
        assert port.statistics().timed_out == 0
        clock.advance(1)
        # Marked for rollback, and on_message is still at work.
        assert (port.statistics().timed_out, port.statistics().rolled_back) == (1, 0)
        assert manager.counts("Q1").locked == 1
        clock.advance(5_000)
        calls.let_go()
        now = until(port, lambda now: now.rolled_back == 1)
        assert (now.delivered, now.committed, now.timed_out) == (1, 0, 1)
    assert (manager.curdepth("Q1"), backout_count(manager)) == (1, 1)


@pytest.mark.parametrize(("work_ms", "committed"), [(9_999, 1), (10_000, 0), (10_001, 0)])
def test_L9_waiting_counts_to_the_ms(
    manager: QueueManager, clock: VirtualClock, work_ms: int, committed: int
) -> None:
    calls = Calls(lambda _message: clock.advance(work_ms))
    port = port_of(manager, calls, receive_timeout_ms=115_000, max_retries=0)
    with started(port):
        deliver_at_110_s(manager, clock, calls)
        now = until(port, lambda now: now.committed + now.rolled_back == 1)
        assert (now.committed, now.timed_out) == (committed, 1 - committed)
    assert manager.curdepth("Q1") == 1 - committed


def test_L11_a_lifetime_of_0_is_no_limit(manager: QueueManager, clock: VirtualClock) -> None:
    calls = Calls(lambda _message: clock.advance(10 * LIFETIME_MS))
    port = port_of(manager, calls, receive_timeout_ms=115_000, total_tran_lifetime_timeout_s=0)
    with started(port):
        deliver_at_110_s(manager, clock, calls)
        assert until(port, lambda now: now.committed == 1).timed_out == 0


def test_L11_a_receive_longer_than_the_lifetime_times_out_while_it_waits(
    manager: QueueManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls()
    port = port_of(manager, calls, receive_timeout_ms=130_000, max_retries=0)
    assert "the receive timeout of 130000 ms is not less than" in caplog.text
    with started(port):
        clock.advance(LIFETIME_MS)
        assert (port.statistics().timed_out, port.statistics().receiving) == (1, 1)
        clock.advance(9_999)
        put(manager, "x")
        calls.next()
        # It is the late transaction's and cannot be committed with it.
        assert until(port, lambda now: now.rolled_back == 1).committed == 0
    assert backout_count(manager) == 1


def test_L9_each_receive_has_a_transaction_of_its_own(
    manager: QueueManager, clock: VirtualClock
) -> None:
    calls = Calls(lambda _message: clock.advance(9_999))
    with started(port_of(manager, calls)) as port:
        for count in range(1, 4):
            receiving(port)
            clock.advance(ARRIVAL_MS)
            idle(port, count)
        receiving(port)
        clock.advance(ARRIVAL_MS - 1)
        put(manager, "x")
        assert until(port, lambda now: now.committed == 1).timed_out == 0


def test_L9_each_message_has_a_transaction_of_its_own(
    manager: QueueManager, clock: VirtualClock
) -> None:
    """Three times nearly the whole lifetime: a commit begins the time anew."""
    calls = Calls(lambda _message: clock.advance(LIFETIME_MS - 1))
    put(manager, "1", "2", "3")
    with started(port_of(manager, calls)) as port:
        now = until(port, lambda now: now.committed == 3)
        assert (now.delivered, now.timed_out) == (3, 0)


@pytest.mark.parametrize(
    ("receive_timeout_ms", "longest_ms", "problem_count"),
    [
        (109_999, 10_000, 0),
        (110_000, 10_000, 1),
        (110_000, 9_999, 0),
        (119_999, 0, 0),
        (120_000, 0, 1),
        (120_001, 1, 2),
        (0, 119_999, 0),
        (0, 120_000, 1),
    ],
)
def test_L10_safe_means_less_and_never_equal(
    receive_timeout_ms: int, longest_ms: int, problem_count: int
) -> None:
    problems = check_timeouts(
        receive_timeout_ms=receive_timeout_ms,
        total_tran_lifetime_timeout_s=120,
        longest_on_message_ms=longest_ms,
    )
    assert len(problems) == problem_count
    assert all("120000 ms" in problem for problem in problems)


def test_L10_the_example_says_what_is_wrong() -> None:
    (problem,) = check_timeouts(
        receive_timeout_ms=110_000,
        total_tran_lifetime_timeout_s=120,
        longest_on_message_ms=15_000,
    )
    assert problem == (
        "10000 ms are left of the total transaction lifetime timeout of 120000 ms after a receive "
        "of 110000 ms, not more than the 15000 ms of the longest on_message"
    )


def test_L10_no_lifetime_is_always_safe_and_nothing_is_negative() -> None:
    assert not check_timeouts(
        receive_timeout_ms=500_000, total_tran_lifetime_timeout_s=0, longest_on_message_ms=9_000_000
    )
    with pytest.raises(ValueError, match="longest_on_message_ms -1 is negative"):
        check_timeouts(
            receive_timeout_ms=1, total_tran_lifetime_timeout_s=1, longest_on_message_ms=-1
        )


@pytest.mark.parametrize("value", ["1", None, 1.5, True])
def test_L10_what_is_no_number_is_named(value: Any) -> None:
    with pytest.raises(TypeError, match=f"receive_timeout_ms {value!r} is no number"):
        check_timeouts(
            receive_timeout_ms=value, total_tran_lifetime_timeout_s=1, longest_on_message_ms=1
        )
