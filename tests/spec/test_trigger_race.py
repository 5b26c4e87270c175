"""Puts race a program and its monitor, which come and go: no message is left without a trigger."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from tests.examples import first_of
from tests.over import NewSession
from tests.spec.scene import INPUT, JOIN_SECONDS, alter
from tests.spec.trigger_scene import DEPTH, FIRST, INITQ, ON, Monitor, triggering

PUTTERS, PUTS, THRESHOLD = 3, 150, 5
#: How far the putters are ahead at most, so that there is a race until the end.
AHEAD, LOOK_SECONDS = 3 * THRESHOLD, 0.1


class Race:
    """Two sides of a queue that triggers; what breaks the rule is remembered."""

    def __init__(self, manager: QueueManager, trigger_type: int, random: Random) -> None:
        self.manager, self.random = manager, random
        self.is_depth = trigger_type == DEPTH
        triggering(manager, TRIGTYPE=trigger_type, TRIGDPTH=THRESHOLD, MAXDEPTH=10_000)
        self.room = threading.Semaphore(AHEAD)
        self.failures: list[str] = []
        self.got: list[bytes] = []

    def look(self) -> None:
        """Tell when what it takes to trigger is there, and nobody has been told of it."""
        registry = self.manager.engine.registry
        with self.manager.engine.engine_lock:
            queue, initiation_queue = registry.queue("Q1"), registry.queue(INITQ)
            is_held = queue in self.manager.engine.triggering._held
            if queue.trigger is None or is_held or not initiation_queue.input_count:
                return
            there = queue.depth - queue.uncommitted
            needed = THRESHOLD if self.is_depth else 1
            # A trigger message that the program works by is locked until it has closed the queue.
            told = initiation_queue.depth + initiation_queue.locked
            if there >= needed and not queue.input_count and not told:
                self.failures.append(f"{there} messages and no trigger message")

    def put(self, number: int) -> None:
        """Put messages one by one and in units of work, some of them backed out."""
        random = Random(number)
        with self.manager.session(transacted=True) as unit, self.manager.session() as session:
            for count in range(PUTS):
                while not self.room.acquire(timeout=LOOK_SECONDS):
                    if self.failures:
                        return
                if random.random() < 0.3:
                    unit.put("Q1", b"undone", persistent=True)
                    unit.backout()
                putting, persistent = random.choice((session, unit)), random.random() < 0.5
                putting.put("Q1", b"%d.%d" % (number, count), persistent=persistent)
                unit.commit()
                self.look()

    def serve(self, is_over: Callable[[], bool]) -> None:
        """Read trigger messages and do as the program would, until nobody puts any more."""
        with self.manager.session(transacted=True) as unit, self.manager.session() as session:
            while not is_over():
                monitor = Monitor(unit)
                for _ in range(self.random.randrange(1, 8)):
                    if unit.get(INITQ) is not None:
                        self.work(session)
                    unit.commit()
                    self.look()
                monitor.handle.close()

    def work(self, session: Session) -> None:
        """Get some of what is there, or all; switch the trigger on again."""
        handle = session.open("Q1", INPUT)
        for _ in range(self.random.randrange(AHEAD)):
            message = session.get("Q1")
            if message is None:
                break
            self.got.append(message.body)
            self.room.release()
        handle.close()
        self.look()
        if self.is_depth:
            alter(self.manager, "Q1", TRIGGER=ON)
            self.look()


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_of(1, *range(40)))
@pytest.mark.parametrize("trigger_type", [FIRST, DEPTH], ids=["FIRST", "DEPTH"])
def test_T2_T4_no_message_is_left_without_a_trigger(
    queue_manager: QueueManager, trigger_type: int, seed: int, new_session: NewSession
) -> None:
    race = Race(queue_manager, trigger_type, Random(seed))
    putters = [threading.Thread(target=race.put, args=(n,)) for n in range(PUTTERS)]
    serving = threading.Thread(
        target=race.serve, args=(lambda: not any(putter.is_alive() for putter in putters),)
    )
    for thread in (*putters, serving):
        thread.start()
    for thread in (*putters, serving):
        thread.join(JOIN_SECONDS)
        assert not thread.is_alive()
    assert race.failures == []
    with new_session(queue_manager) as session:
        told = Monitor(session).read()
        needed = THRESHOLD if race.is_depth else 1
        assert told or queue_manager.curdepth("Q1") < needed
        race.got += [message.body for message in session.browse("Q1")]
    assert sorted(race.got) == sorted(
        b"%d.%d" % (n, i) for n in range(PUTTERS) for i in range(PUTS)
    )
