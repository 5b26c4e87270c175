"""Live figures: a watch sees the same as counts, totals and the ledger, whatever has happened."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine.api.operating import PUT, LiveFigures, Watch, counts_of
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.testing import VirtualClock

QUEUES = ("Q1", "Q2", "Q3")


def check(manager: QueueManager, seen: LiveFigures) -> None:
    """Compare what was seen with counts of each queue."""
    for name, one in seen.queues.items():
        assert one.present == counts_of(manager.engine, name), name
        assert one.depth == manager.curdepth(name)
    of_all = Counter[str]()
    for name in seen.queues:
        of_all.update(counts_of(manager.engine, name)._asdict())
    staging = counts_of(manager.engine, STAGING_QUEUE)
    live = of_all["live"] - staging.live
    assert seen.present.live == live
    assert seen.present.expired_present == of_all["expired_present"]
    assert seen.present.locked == of_all["locked"]
    with manager.session() as session:
        assert seen.present.staged == session.schedule.count()


@pytest.mark.parametrize("seed", range(8))
def test_a_watch_sees_what_counts_and_ledger_say(tmp_path: Path, seed: int) -> None:
    chosen, clock = random.Random(seed), VirtualClock()
    with QueueManager("QM1", tmp_path, clock=clock) as manager:
        assert manager.mqsc("".join(f"DEFINE QLOCAL({name})\n" for name in QUEUES)).ok
        with manager.session() as plain, manager.session(transacted=True) as unit:
            watch, put_count = Watch(manager.engine, 100), 0
            watch.look()
            position = manager.ledger.last_position()
            for _ in range(60):
                name, persistent = chosen.choice(QUEUES), chosen.random() < 0.5
                does = chosen.randrange(8)
                if does < 3:
                    life = chosen.choice([None, 500, 2_000])
                    delay = chosen.choice([0, 0, 300, 1_500])
                    if life is not None and delay >= life:
                        life = None
                    plain.put(
                        name, b"x", time_to_live_ms=life, delay_ms=delay, persistent=persistent
                    )
                    put_count += 1
                elif does == 3:
                    plain.get(name)
                elif does == 4:
                    unit.get(name)
                elif does == 5:
                    chosen.choice([unit.commit, unit.backout])()
                else:
                    clock.advance(chosen.choice([1, 400, 1_000]))
                check(manager, watch.look())
            unit.backout()
            seen = watch.look()
            lives = manager.ledger.page(position, 10_000)
            ended = Counter(row[10] for row in lives if row[10] is not None)
            ended.update({PUT: put_count})
            assert Counter(seen.flow) == +ended


def test_E15_a_message_that_expires_in_a_unit_of_work_is_locked_and_not_expired(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    watch = Watch(queue_manager.engine, 100)
    with queue_manager.session(transacted=True) as unit, queue_manager.session() as session:
        for _ in range(2):
            session.put("Q1", b"x", time_to_live_ms=1_000)
        assert unit.get("Q1") is not None
        clock.advance(1_000)
        seen = watch.look().queues["Q1"].present
        assert seen is not None
        assert (seen.locked, seen.expired_present, seen.live) == (1, 1, 0)
        unit.backout()
        seen = watch.look().queues["Q1"].present
        assert seen is not None
        assert (seen.locked, seen.expired_present, seen.live) == (0, 2, 0)


@pytest.mark.interpreted
def test_many_expired_messages_are_counted_less_often(
    queue_manager: QueueManager, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayfly.engine.figures.EXPIRED_A_LOOK", 2)
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    watch = Watch(queue_manager.engine, 100)
    with queue_manager.session() as session:
        for _ in range(4):
            session.put("Q1", b"x", time_to_live_ms=1_000)
        clock.advance(1_000)
        counted = []
        for _ in range(4):
            seen = watch.look()
            counted.append((seen.expired_as_of_ms, seen.present.expired_present))
            clock.advance(1_000)
    start_ms = counted[0][0]
    assert counted == [(start_ms, 4)] * 3 + [(start_ms + 3_000, 4)]


def test_the_first_expired_message_that_a_scan_could_discard_is_told(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    """Expired at 1 s, discarded by the scan at 10 s; a locked message is no concern of the scan."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)\nALTER QMGR EXPRYINT(10)").ok
    watch = Watch(queue_manager.engine, 100)
    start_ms = clock.now_ms()
    with queue_manager.session() as session, queue_manager.session(transacted=True) as unit:
        session.put("Q1", b"locked", time_to_live_ms=500)
        assert unit.get("Q1") is not None
        session.put("Q1", b"x", time_to_live_ms=1_000)
        told = []
        for step_ms in (999, 1, 8_999, 1):
            clock.advance(step_ms)
            seen = watch.look()
            told.append(seen.first_expired_ms)
        assert told == [None, start_ms + 1_000, start_ms + 1_000, None]
        assert seen.scan_interval_ms == 10_000
        assert queue_manager.mqsc("ALTER QMGR EXPRYINT(OFF)").ok
        assert watch.look().scan_interval_ms is None
        unit.backout()


def test_a_queue_defined_anew_begins_its_flow_anew(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    watch = Watch(queue_manager.engine, 100)
    watch.look()
    with queue_manager.session() as session:
        for _ in range(3):
            session.put("Q1", b"x")
        assert watch.look().flow[PUT] == 3
        assert queue_manager.mqsc("DELETE QLOCAL(Q1) PURGE\nDEFINE QLOCAL(Q1)").ok
        assert watch.look().flow[PUT] == 3
        session.put("Q1", b"x")
        assert watch.look().flow[PUT] == 4


def test_the_oldest_message_is_found_again_when_it_has_left(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    watch, start_ms = Watch(queue_manager.engine, 100), clock.now_ms()
    with queue_manager.session() as session:
        session.put("Q1", b"x")
        clock.advance(10)
        session.put("Q1", b"x", priority=9)
        assert watch.look().queues["Q1"].oldest_put_ms == start_ms
        assert session.get("Q1") is not None
        assert watch.look().queues["Q1"].oldest_put_ms == start_ms
        assert session.get("Q1") is not None
        assert watch.look().queues["Q1"].oldest_put_ms is None
