"""How long a handler works: WAIT, RETRYINT, new letters at once, and stop from another thread."""

from __future__ import annotations

from threading import Thread

import pytest

from mayfly import QueueManager
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.services.dead_letter import Outcome
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from tests.dead_letter.scene import (
    PLAIN,
    handled,
    handler,
    named,
    on,
    put_dead_letter,
    settled,
    started,
)
from tests.spec.scene import DEAD, JOIN_SECONDS, START_MS, Running, alter, alter_manager, refused

RETRY = "ACTION(RETRY)"


def step(qm: QueueManager, clock: VirtualClock, running: Running, ms: int) -> None:
    """Let time pass in steps of at most a second; the handler is back in a wait after each."""
    while ms and settled(qm, running):
        clock.advance(min(ms, 1_000))
        ms -= min(ms, 1_000)
    settled(qm, running)


def test_WAIT_NO_ends_when_nothing_is_left_to_do(qm: QueueManager) -> None:
    put_dead_letter(qm)
    put_dead_letter(qm, target="NOWHERE")
    with handler(qm, f"WAIT(NO)\n{RETRY}") as working:
        working.run()
        assert named(working.counts) == {"redriven": 1, "failed": 1, "left": 1}


def test_WAIT_NO_stays_for_what_is_to_be_tried_again(qm: QueueManager, clock: VirtualClock) -> None:
    alter(qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    put_dead_letter(qm)
    with handler(qm, f"WAIT(NO) RETRYINT(10)\n{RETRY} RETRY(3)") as working:
        running = started(qm, working)
        for failed in (1, 2):
            clock.advance(9_999)
            assert settled(qm, running)
            assert working.counts[Outcome.FAILED] == failed
            clock.advance(1)
            assert settled(qm, running) is (failed == 1)
        running.finish()
        assert named(working.counts) == {"failed": 3, "left": 1}
    assert clock.now_ms() == START_MS + 20_000


@pytest.mark.parametrize("rules", [f"WAIT(30)\n{RETRY}", f"WAIT(30) RETRYINT(7)\n{RETRY}"])
def test_WAIT_n_ends_when_nothing_new_came_for_n_seconds(
    qm: QueueManager, clock: VirtualClock, rules: str
) -> None:
    with handler(qm, rules) as working:
        running = started(qm, working)
        step(qm, clock, running, 29_999)
        put_dead_letter(qm)
        assert settled(qm, running)
        assert qm.curdepth("Q1") == 1
        step(qm, clock, running, 29_999)
        assert running.is_under_way
        clock.advance(1)
        assert not settled(qm, running)
        running.finish()
        assert named(working.counts) == {"redriven": 1}


def test_WAIT_YES_takes_new_letters_at_once_and_ends_when_stopped(
    qm: QueueManager, clock: VirtualClock
) -> None:
    with handler(qm, RETRY) as working:
        running = started(qm, working)
        for count in (1, 2):
            put_dead_letter(qm)
            assert settled(qm, running)
            assert working.counts[Outcome.REDRIVEN] == count
        step(qm, clock, running, 600_000)
        assert running.is_under_way
        working.stop()
        running.finish()
        assert running.error is None
        working.run()
    put_dead_letter(qm)
    assert qm.curdepth(DEAD) == 1


def test_letter_of_higher_priority_than_those_left_alone_is_found_at_the_next_pass(
    qm: QueueManager, clock: VirtualClock
) -> None:
    put_dead_letter(qm, target="OTHER")
    with handler(qm, "DESTQ(OTHER) ACTION(IGNORE)\nACTION(RETRY)") as working:
        running = started(qm, working)
        put_dead_letter(qm, PLAIN._replace(priority=9))
        step(qm, clock, running, 60_000)
        assert settled(qm, running)
        assert named(working.counts) == {"ignored": 1, "redriven": 1}
        working.stop()
        running.finish()


def test_all_that_has_failed_is_tried_again_in_one_pass_every_RETRYINT(
    qm: QueueManager, clock: VirtualClock
) -> None:
    """A pass for each letter of a thousand would go through the queue a thousand times."""
    alter(qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    put_dead_letter(qm)
    with handler(qm, f"RETRYINT(10)\n{RETRY} RETRY(9)") as working:
        running = started(qm, working)
        step(qm, clock, running, 9_999)
        put_dead_letter(qm)
        assert settled(qm, running)
        assert working.counts[Outcome.FAILED] == 2
        for failed in (4, 6):
            step(qm, clock, running, 1)
            assert working.counts[Outcome.FAILED] == failed
            step(qm, clock, running, 9_999)
            assert working.counts[Outcome.FAILED] == failed
        working.stop()
        running.finish()


def test_only_letters_that_stay_are_remembered(qm: QueueManager, clock: VirtualClock) -> None:
    with handler(qm, f"RETRYINT(999999999)\nDESTQ(Q2) ACTION(IGNORE)\n{RETRY}") as working:
        running = started(qm, working)
        for target in ("Q2", "Q1", "Q1", "Q1"):
            put_dead_letter(qm, target=target)
            assert settled(qm, running)
        assert named(working.counts) == {"redriven": 3, "ignored": 1}
        assert len(working._left_alone) == 1
        working.stop()
        running.finish()


def test_two_handlers_at_once_redrive_each_letter_once(qm: QueueManager) -> None:
    count = 80
    alter(qm, "Q1", MAXDEPTH=1_000)
    for _ in range(count):
        put_dead_letter(qm)
    handlers = [handler(qm, f"WAIT(NO)\n{RETRY}") for _ in range(2)]
    threads = [Thread(target=working.run) for working in handlers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_SECONDS)
        assert not thread.is_alive()
    for working in handlers:
        working.close()
    assert sum(working.counts[Outcome.REDRIVEN] for working in handlers) == count
    assert (qm.curdepth(DEAD), qm.curdepth("Q1")) == (0, count)


def test_stop_in_the_middle_leaves_each_letter_in_one_place(qm: QueueManager) -> None:
    count = 60
    alter(qm, "Q1", MAXDEPTH=1_000)
    for _ in range(count):
        put_dead_letter(qm)
    with handler(qm, RETRY) as working:
        running = Running(working.run)
        while working.counts[Outcome.REDRIVEN] < 5:
            assert running.is_under_way
        working.stop()
        running.finish()
        assert running.error is None
    done = working.counts[Outcome.REDRIVEN]
    assert (qm.curdepth("Q1"), qm.curdepth(DEAD)) == (done, count - done)
    assert qm.counts("Q1").uncommitted == qm.counts(DEAD).locked == 0
    handled(qm, RETRY)
    assert (qm.curdepth("Q1"), qm.curdepth(DEAD)) == (count, 0)


def test_queue_manager_that_closes_ends_a_handler_with_its_reason() -> None:
    qm = QueueManager("QM1", clock=VirtualClock(START_MS))
    alter_manager(qm, DEADQ=DEAD)
    working = handler(qm, RETRY)
    running = started(qm, working)
    qm.close()
    running.finish()
    assert running.error is not None
    assert running.error.reason in (rc.MQRC_Q_MGR_STOPPING, rc.MQRC_HCONN_ERROR)


def test_attempts_of_another_handler_are_not_counted(qm: QueueManager, clock: VirtualClock) -> None:
    alter(qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    put_dead_letter(qm)
    for _ in range(2):
        assert handled(qm, "ACTION(RETRY) RETRY(2)") == {"failed": 1}
    assert on(qm, DEAD)[0].backout_count == 0


def test_run_once_after_stop_does_nothing(qm: QueueManager) -> None:
    put_dead_letter(qm)
    with handler(qm, RETRY) as working:
        working.stop()
        assert named(working.run_once()) == {}
    assert qm.curdepth(DEAD) == 1
    with refused(rc.MQRC_HCONN_ERROR):
        working._connection.call(ask.Commit())
