"""The timeline of delayed messages counts what the schedule lists, whatever has happened."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.api.operating import DelayTimeline, Span
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import ScheduleFilter
from tests.examples import first_of

QUEUES = ("Q1", "Q2")
WHOLE = Span(None, None, 10)


def counted(session: Session, queue: str | None, from_ms: int, before_ms: int) -> int:
    """Count as the schedule lists."""
    where = ScheduleFilter(queue, due_from_ms=from_ms, due_before_ms=before_ms)
    return len(session.schedule.list(where, limit=10_000))


def check(manager: QueueManager, session: Session, span: Span, queue: str | None) -> None:
    """Compare a timeline with lists of the schedule, step by step."""
    found = manager.engine.staged_keys.timeline(span, queue)
    listed = session.schedule.list(limit=10_000)
    of_queue = [one for one in listed if queue in (None, one.target)]
    assert found.earlier + sum(found.counts) + found.later == len(of_queue)
    assert found.earlier == sum(one.deliver_at_ms < found.from_ms for one in of_queue)
    assert len(found.counts) <= span.step_count
    for number, count in enumerate(found.counts):
        low = found.from_ms + number * found.step_ms
        high = min(low + found.step_ms, found.before_ms)
        assert count == counted(session, queue, low, high)


@pytest.mark.parametrize("seed", first_of(2, *range(8)))
def test_D26_a_timeline_counts_what_the_schedule_lists(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline = "mayfly.engine.delay.staging_queries"
    monkeypatch.setattr(f"{timeline}._PAGE", 3)
    monkeypatch.setattr(f"{timeline}.MAX_CHANGES", 12)
    chosen, clock = random.Random(seed), VirtualClock()
    folder = None if seed % 4 == 3 else tmp_path
    with QueueManager("QM1", folder, clock=clock) as manager:
        assert manager.mqsc("".join(f"DEFINE QLOCAL({name})\n" for name in QUEUES)).ok
        with manager.session() as plain, manager.session(transacted=True) as unit:
            ids: list[bytes] = []
            for _ in range(80):
                does, persistent = chosen.randrange(10), chosen.random() < 0.6
                one = chosen.choice(ids) if ids else bytes(24)
                if does < 4:
                    by = chosen.choice([plain, plain, unit])
                    life = chosen.choice([None, 5_000])
                    ids.append(
                        by.put(
                            chosen.choice(QUEUES),
                            b"x" * chosen.choice([1, 10_000]),
                            delay_ms=chosen.randrange(1, 4_000),
                            time_to_live_ms=life,
                            persistent=persistent,
                        )
                    )
                elif does == 4:
                    chosen.choice([plain, unit]).schedule.cancel(one)
                elif does == 5:
                    chosen.choice([unit.commit, unit.backout])()
                elif does == 6:
                    plain.schedule.reschedule(one, delay_ms=chosen.randrange(1, 4_000))
                elif does == 7:
                    plain.schedule.release(one)
                else:
                    clock.advance(chosen.choice([1, 300, 1_000]))
                if chosen.random() < 0.5:
                    now_ms = clock.now_ms()
                    low, high = sorted(now_ms + chosen.randrange(-100, 4_000) for _ in range(2))
                    span = chosen.choice([WHOLE, Span(low, high, chosen.choice([1, 7, 2_000]))])
                    check(manager, plain, span, chosen.choice([None, *QUEUES]))
            unit.backout()


def test_D26_steps_are_equal_and_the_last_is_cut_off(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    start_ms = clock.now_ms()
    with queue_manager.session() as session:
        for delay_ms in (5, 10, 11, 19, 20, 30):
            session.put("Q1", b"x", delay_ms=delay_ms)
    span = Span(start_ms + 10, start_ms + 30, 3)
    found = queue_manager.engine.staged_keys.timeline(span)
    # Steps of 7 ms: from 10, 17 and 24 on.
    assert found == DelayTimeline(
        start_ms,
        start_ms + 10,
        start_ms + 30,
        7,
        [2, 2, 0],
        1,
        1,
        start_ms + 5,
        start_ms + 30,
    )


def test_D26_an_empty_timeline_has_no_steps(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    now_ms = clock.now_ms()
    found = queue_manager.engine.staged_keys.timeline(WHOLE)
    assert found == DelayTimeline(now_ms, now_ms, now_ms, 1, [], 0, 0, None, None)
    found = queue_manager.engine.staged_keys.timeline(Span(now_ms, now_ms + 10, 5))
    assert (found.step_ms, found.counts) == (2, [0] * 5)


def test_a_timeline_of_no_queue_is_refused(queue_manager: QueueManager) -> None:
    with pytest.raises(MQError) as caught:
        queue_manager.engine.staged_keys.timeline(WHOLE, "NONE")
    assert caught.value.reason == rc.MQRC_UNKNOWN_OBJECT_NAME


@pytest.mark.interpreted
def test_nothing_is_kept_before_the_first_question_and_after_many_changes(
    queue_manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayfly.engine.delay.staging_queries.MAX_CHANGES", 5)
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    engine = queue_manager.engine
    with queue_manager.session() as session:
        session.put("Q1", b"x", delay_ms=1_000)
        assert engine.on_effect == []
        assert sum(engine.staged_keys.timeline(WHOLE).counts) == 1
        assert len(engine.on_effect) == 1
        for _ in range(6):
            session.put("Q1", b"x", delay_ms=1_000)
        assert engine.on_effect == []
        assert sum(engine.staged_keys.timeline(WHOLE).counts) == 7
