"""A query is restarted when that may help, given time, and stopped between two batches."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly.pipeline.bulk.errors import ServerNotReachable, WrongToken
from mayfly.pipeline.errors import CheckpointError
from mayfly.pipeline.progress import Progress
from mayfly.pipeline.supervise import (
    DEFAULT_LIMITS,
    RestartLimits,
    RunResult,
    SourceClaims,
    Supervisor,
    Termination,
)
from tests.pipeline.queries import Hand, Seen, Timetable, Work

GONE = ServerNotReachable("no Mayfly server answers at grpc://127.0.0.1:9414")
IDLE_MS = 600_000


class Run:
    """A supervisor over queries that are made one after the other."""

    def __init__(self, hand: Hand, *makers: Callable[[Hand], Timetable]) -> None:
        self.hand = hand
        self.seen = Seen(hand)
        self.queries: list[Timetable] = []
        self._makers = iter(makers)

    def start(self) -> Timetable:
        self.queries.append(next(self._makers)(self.hand))
        return self.queries[-1]

    def run(
        self, limits: RestartLimits = DEFAULT_LIMITS, claims: SourceClaims | None = None
    ) -> RunResult:
        progress = Progress("calls")
        supervisor = Supervisor(self.start, self.hand, self.seen, progress, limits, claims=claims)
        return supervisor.run()


class Held:
    """Claims of queries that go by a timetable; a queue manager that is away ends none."""

    def __init__(self, run: Run, *, away_until_ms: int = 0) -> None:
        self._run = run
        self._away_until_ms = away_until_ms
        self.calls: list[tuple[str, int]] = []

    def _call(self, name: str) -> None:
        assert name != "give back" or not self._run.queries[-1].isActive
        self.calls.append((name, self._run.hand.time_ms))

    def end_written(self) -> bool:
        self._call("end")
        return self._run.hand.time_ms >= self._away_until_ms

    def quiesce(self) -> None:
        self._call("quiesce")

    def give_back(self) -> None:
        self._call("give back")


def fails(*works: Work, ends_ms: int = 50, error: Exception = GONE) -> Callable[[Hand], Timetable]:
    return lambda hand: Timetable(hand, *works, ends_ms=ends_ms, error=error)


def ends(*works: Work, ends_ms: int = 50) -> Callable[[Hand], Timetable]:
    return lambda hand: Timetable(hand, *works, ends_ms=ends_ms)


def goes_on(*works: Work) -> Callable[[Hand], Timetable]:
    return lambda hand: Timetable(hand, *works)


def raises(error: Exception) -> Callable[[Hand], Timetable]:
    def start(hand: Hand) -> Timetable:
        raise error

    return start


def test_every_batch_counts_once_also_those_between_two_looks() -> None:
    """Three end within the first look, one with the query itself."""
    works = [Work(n, n * 50, n * 50 + 40, rows=n + 1) for n in range(3)]
    run = Run(Hand(), ends(*works, Work(3, 300, 450, rows=10), ends_ms=450))
    ended = run.run()
    assert (ended.end, ended.text) == (Termination.DONE, "")
    assert run.seen.batches == [0, 1, 2, 3]
    assert (ended.progress.rows_in, ended.progress.released) == (16, 16)
    assert (ended.progress.batches, ended.progress.restarts) == (4, 0)


def test_a_failed_query_is_started_again_after_a_wait_that_doubles() -> None:
    run = Run(Hand(), fails(), fails(), fails(), ends(Work(0, 0, 50)))
    ended = run.run()
    assert ended.end is Termination.DONE
    assert run.seen.restarts == [(str(GONE), 1000), (str(GONE), 2000), (str(GONE), 4000)]
    # A failure is seen at the next look, 200 ms after the start.
    assert run.seen.starts_ms == [0, 1200, 3400, 7600]
    assert (ended.progress.rows_in, ended.progress.restarts) == (1, 3)


def test_the_wait_has_an_end_and_begins_anew_after_a_finished_batch() -> None:
    limits = RestartLimits(failures_max=9, wait_ms_max=3000)
    makers = [fails(), fails(), fails(), fails(Work(0, 0, 50)), fails(Work(1, 0, 50)), ends()]
    run = Run(Hand(), *makers)
    assert run.run(limits).progress.batches == 2
    assert [wait_ms for _, wait_ms in run.seen.restarts] == [1000, 2000, 3000, 1000, 1000]


def test_failures_without_a_finished_batch_between_them_end_it() -> None:
    makers = [fails(), fails(), fails(Work(0, 0, 50)), fails(), fails(), fails()]
    run = Run(Hand(), *makers, raises(AssertionError("started once too often")))
    ended = run.run(RestartLimits(failures_max=4))
    assert ended.end is Termination.FAILED
    assert ended.text == f"{GONE} (4 failures without a finished batch)"
    assert (len(run.queries), ended.progress.restarts) == (6, 5)


@pytest.mark.parametrize(
    "error", [WrongToken("the token is wrong"), CheckpointError("the checkpoint is another's")]
)
def test_what_no_restart_mends_ends_it_at_once(error: Exception) -> None:
    for maker in (fails(error=error), raises(error)):
        run = Run(Hand(), maker)
        ended = run.run()
        assert (ended.end, ended.text) == (Termination.FAILED, str(error))
        assert (run.seen.restarts, run.hand.time_ms <= 200) == ([], True)
    run = Run(Hand(), fails(), raises(error))
    assert run.run().text == f"{error} (2 failures without a finished batch)"


def test_what_could_not_even_start_once_is_not_tried_again() -> None:
    """Later on the same error is one that passes."""
    run = Run(Hand(), raises(GONE))
    assert (run.run().text, run.seen.restarts) == (str(GONE), [])
    run = Run(Hand(), fails(), raises(GONE), ends())
    assert (run.run().end, len(run.seen.restarts)) == (Termination.DONE, 2)


def test_an_error_of_ours_is_not_taken_for_a_failure() -> None:
    with pytest.raises(ZeroDivisionError):
        Run(Hand(), raises(ZeroDivisionError())).run()


def test_a_first_batch_that_hangs_has_its_time_and_twice_that_after_it() -> None:
    """Else a cold start that takes longer than the limit would begin again for ever."""
    limits = RestartLimits(poll_ms=100, first_batch_ms=60_000, batch_ms=5_000, wait_ms=1_000)
    slow = Work(0, 0, 100_000)
    run = Run(Hand(), goes_on(slow), ends(slow, ends_ms=100_000))
    ended = run.run(limits)
    assert ended.end is Termination.DONE
    assert [query.stopped_ms for query in run.queries] == [60_000, None]
    assert run.seen.restarts == [("a batch was not finished within 60 seconds", 1000)]
    just_in_time = Run(Hand(), ends(Work(0, 0, 59_900), ends_ms=60_000))
    assert just_in_time.run(limits).progress.restarts == 0


def test_a_later_batch_that_hangs_is_noticed_and_an_idle_query_is_left_alone() -> None:
    limits = RestartLimits(poll_ms=100, first_batch_ms=60_000, batch_ms=5_000)
    hung = Work(1, IDLE_MS, 2 * IDLE_MS)
    run = Run(Hand(), goes_on(Work(0, 0, 1_000), hung), ends(Work(1, 0, 50)))
    assert run.run(limits).progress.batches == 2
    [(text, _)] = run.seen.restarts
    assert text == "a batch was not finished within 5 seconds"
    # The last look at which it was idle was the one before the batch began.
    assert run.queries[0].stopped_ms == IDLE_MS - 100 + 5_000


def test_the_end_comes_between_two_batches() -> None:
    run = Run(Hand(1_100), goes_on(Work(0, 0, 900), Work(1, 1_000, 3_010), Work(2, 4_000, 5_000)))
    ended = run.run()
    assert (ended.end, run.seen.batches) == (Termination.STOPPED, [0, 1])
    assert run.queries[0].stopped_ms == 3_020


def test_the_end_comes_after_the_batch_in_work_also_where_the_next_follows_at_once() -> None:
    run = Run(Hand(1_100), goes_on(*(Work(n, n * 1000, n * 1000 + 1000) for n in range(9))))
    ended = run.run()
    assert (ended.end, run.seen.batches) == (Termination.STOPPED, [0, 1])
    assert run.queries[0].stopped_ms == 2_000


def test_who_asks_twice_does_not_wait_for_the_batch() -> None:
    run = Run(Hand(1_100, 1_505), goes_on(Work(0, 0, 900), Work(1, 1_000, 3_000)))
    ended = run.run()
    assert (ended.end, run.seen.batches) == (Termination.INTERRUPTED, [0])
    assert run.queries[0].stopped_ms == 1_505


def test_an_idle_query_ends_at_once_and_one_that_waits_to_start_never_starts() -> None:
    run = Run(Hand(1_100), goes_on(Work(0, 0, 900)))
    assert run.run().end is Termination.STOPPED
    assert run.queries[0].stopped_ms == 1_100
    run = Run(Hand(700), fails(), raises(AssertionError("started although the end was asked for")))
    assert (run.run().end, run.hand.time_ms) == (Termination.STOPPED, 700)


def test_a_batch_that_fails_while_the_end_waits_for_it_is_told() -> None:
    run = Run(Hand(1_100), fails(Work(0, 0, 900), Work(1, 1_000, 3_000), ends_ms=2_000))
    ended = run.run()
    assert (ended.end, ended.text) == (Termination.FAILED, str(GONE))
    assert run.seen.restarts == []


def test_claims_are_ended_after_each_batch_and_given_back_when_the_query_has_stopped() -> None:
    """The end is asked for in the midst of the second batch."""
    run = Run(Hand(500), goes_on(Work(0, 0, 150), Work(1, 400, 700), Work(2, 700, 900)))
    held = Held(run)
    ended = run.run(claims=held)
    assert (ended.end, run.seen.batches) == (Termination.STOPPED, [0, 1])
    assert held.calls == [
        ("end", 200),
        ("quiesce", 500),
        ("end", 700),
        ("end", 700),
        ("give back", 700),
    ]


def test_claims_of_a_query_that_failed_or_never_started_are_left_alone() -> None:
    """Somebody else may read under the name."""
    for maker in (fails(error=WrongToken("wrong")), raises(WrongToken("wrong"))):
        run = Run(Hand(), maker)
        held = Held(run)
        assert run.run(claims=held).end is Termination.FAILED
        assert {name for name, _ in held.calls} == {"end"}


def test_released_counts_delayed_messages_only_once_their_claims_have_ended() -> None:
    """Their queue manager is away until the second batch; a third ends after it is gone again."""
    works = [Work(n, n * 200, n * 200 + 100, rows=n + 1, let_go=n + 1) for n in range(2)]
    run = Run(Hand(), ends(*works, ends_ms=700))
    progress = run.run(claims=Held(run, away_until_ms=400)).progress
    assert [(p.released, p.releasing) for p in run.seen.progress] == [(0, 1), (3, 0)]
    assert (progress.rows_in, progress.rows_out, progress.held) == (3, 3, 0)
    run = Run(Hand(), ends(*works, ends_ms=700))
    progress = run.run(claims=Held(run, away_until_ms=IDLE_MS)).progress
    assert (progress.released, progress.releasing) == (0, 3)
