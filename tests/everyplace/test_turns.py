"""Verbs of several threads beside a trickle take turns, by the runtime of their queue managers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from mayfly.everyplace import EveryplaceQueueManager, MessageFields, QueueEntry, QueueRule
from mayfly.mqi import reasons as rc
from mayfly.runtime import Runtime
from mayfly.testing import VirtualClock
from tests.everyplace.scene import refused, seen, text, text_of
from tests.runtime.steps import StepRuntime

INTERVAL_MS = 10
MESSAGES = 5


class Crowded(QueueRule):
    """Lets other threads run in the midst of a verb, and counts how many are in one."""

    def __init__(self, runtime: StepRuntime, pauses: int = 3) -> None:
        self.runtime, self.pauses = runtime, pauses
        self.inside = self.max_inside = 0

    def _look(self) -> None:
        self.inside += 1
        self.max_inside = max(self.inside, self.max_inside)
        for _ in range(self.pauses):
            self.runtime.loop.give_way()
        self.inside -= 1

    def put_message(self, entry: QueueEntry, message: MessageFields) -> None:
        self._look()

    def get_message(self, entry: QueueEntry, message: MessageFields) -> None:
        self._look()

    def transmit(self, entry: QueueEntry, message: MessageFields) -> bool:
        self._look()
        return True


def in_threads(runtime: StepRuntime, *works: Callable[[], None]) -> None:
    """Run functions on threads of a runtime, and wait until all have ended."""
    threads = [runtime.thread(work, "program") for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def work_together(seed: int) -> tuple[list[str], int, int]:
    """Put at A, get at B and let A's trickle run, each on a thread; return what has come."""
    runtime = StepRuntime(seed)
    clock = VirtualClock(runtime=runtime)
    rule = Crowded(runtime)
    a, b = (EveryplaceQueueManager(name, clock, runtime=runtime) for name in "AB")
    a.connect(b)
    b.create_queue("Q", rule=rule)
    a.create_remote_queue("Q", "B", asynchronous=True, rule=rule)
    a.start_trickle(INTERVAL_MS)
    got: list[str] = []

    def put() -> None:
        for number in range(MESSAGES):
            a.put_message("Q", text(clock, str(number)))

    def get() -> None:
        for _ in range(2 * MESSAGES):
            message = b.get_message("Q")
            got.extend([] if message is None else [text_of(message)])

    in_threads(runtime, put, get, *[partial(clock.advance, INTERVAL_MS)] * 3)
    clock.advance(INTERVAL_MS)
    return got + seen(b), rule.max_inside, runtime.loop.switch_count


@pytest.mark.parametrize("seed", range(8))
def test_verbs_and_a_trickle_take_turns_whoever_runs_when(seed: int) -> None:
    messages, max_inside, switch_count = work_together(seed)
    assert messages == [str(number) for number in range(MESSAGES)]
    assert max_inside == 1
    assert switch_count > 20


def test_two_runs_of_one_seed_are_the_same() -> None:
    assert work_together(1) == work_together(1)


@pytest.mark.parametrize("seed", range(8))
def test_a_verb_may_stop_a_trickle_that_waits_for_its_turn(seed: int) -> None:
    """The stop waits for the run to end, and the run for the turn of the verb that stops it."""
    runtime = StepRuntime(seed)
    clock = VirtualClock(runtime=runtime)
    stops: list[str] = []

    class Stop(Crowded):
        def put_message(self, entry: QueueEntry, message: MessageFields) -> None:
            self._look()
            entry.owner.stop_trickle()
            stops.append("returned")

    a = EveryplaceQueueManager("A", clock, runtime=runtime)
    # Long enough for the other thread to come as far as the wait for its turn.
    a.create_queue("Q", rule=Stop(runtime, pauses=30))
    a.start_trickle(INTERVAL_MS)

    def put() -> None:
        a.put_message("Q", text(clock, "1"))

    in_threads(runtime, put, partial(clock.advance, INTERVAL_MS))
    assert (seen(a), stops) == (["1"], ["returned"])


def test_queue_managers_of_two_runtimes_cannot_be_linked() -> None:
    clock = VirtualClock()
    a, b = (EveryplaceQueueManager(name, clock, runtime=Runtime()) for name in "AB")
    assert "B has another runtime" in refused(rc.MQRC_OPTIONS_ERROR, lambda: a.connect(b))
    refused(rc.MQRC_UNKNOWN_REMOTE_Q_MGR, lambda: a.browse_messages("Q", "B"))


def test_the_era_of_a_queue_manager_comes_from_its_runtime() -> None:
    """A namesake of another era is another queue manager: its exchanges begin anew (M10)."""
    clock = VirtualClock()
    eras = [EveryplaceQueueManager("A", clock, runtime=StepRuntime(s)).peers.era for s in (1, 1, 2)]
    assert eras[0] == eras[1] != eras[2]
