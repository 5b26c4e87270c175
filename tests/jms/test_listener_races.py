"""Listeners of all modes compete while contexts stop, start and close: each message counts once."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

import pytest

from mayfly import QueueManager, jms
from tests.examples import first_of
from tests.facts import PATIENCE_SECONDS
from tests.jms.scene import alter

_MESSAGES = 150
_QUEUES = ("Q1", "Q2")


class Crowd:
    """Listeners that now and then give their message back; what they keep is counted."""

    def __init__(self, factory: jms.ConnectionFactory, seed: int) -> None:
        """Begin with nothing kept."""
        self._factory = factory
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.kept: Counter[str] = Counter()
        self.has_all = threading.Event()

    def join(self) -> jms.JMSContext:
        """Return a context of any mode whose listeners listen to both queues."""
        mode = self._random.randrange(4)
        context = self._factory.create_context(mode)
        rolls = random.Random(self._random.random())

        def listener(message: Any) -> None:
            if rolls.random() < 0.1:
                self._give_back(context, mode)
            else:
                self._keep(context, mode, message)

        for name in _QUEUES:
            context.create_consumer(context.create_queue(name)).set_message_listener(listener)
        return context

    def _give_back(self, context: jms.JMSContext, mode: int) -> None:
        if mode == jms.SESSION_TRANSACTED:
            context.rollback()
        elif mode == jms.CLIENT_ACKNOWLEDGE:
            context.recover()
        else:
            raise ValueError("not now")

    def _keep(self, context: jms.JMSContext, mode: int, message: Any) -> None:
        if mode == jms.SESSION_TRANSACTED:
            context.commit()
        message.acknowledge()
        with self._lock:
            self.kept[message.text] += 1
            if len(self.kept) == len(_QUEUES) * _MESSAGES:
                self.has_all.set()


def send_all(factory: jms.ConnectionFactory, name: str) -> None:
    """Send the messages of one queue."""
    with factory.create_context() as context:
        producer, queue = context.create_producer(), context.create_queue(name)
        for number in range(_MESSAGES):
            producer.send(queue, f"{name} {number}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_of(1, *range(3)))
def test_each_message_is_kept_once_whoever_stops_starts_or_closes(
    factory: jms.ConnectionFactory, manager: QueueManager, seed: int
) -> None:
    alter(manager, "ALTER QLOCAL(Q1) BOTHRESH(0)")
    crowd, choose = Crowd(factory, seed), random.Random(seed)
    contexts = [crowd.join() for _ in range(4)]
    senders = [threading.Thread(target=send_all, args=(factory, name)) for name in _QUEUES]
    for sender in senders:
        sender.start()
    for _ in range(200):
        place = choose.randrange(len(contexts))
        if choose.random() < 0.6:
            contexts[place].stop()
            contexts[place].start()
        else:
            contexts[place].close()
            contexts[place] = crowd.join()
    assert crowd.has_all.wait(PATIENCE_SECONDS)
    for thread in senders:
        thread.join(PATIENCE_SECONDS)
    for context in contexts:
        context.close()
    assert set(crowd.kept.values()) == {1}
    assert manager.curdepth("Q1") == manager.curdepth("Q2") == 0
