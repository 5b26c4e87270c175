"""Many threads at once: nothing is got twice or lost, and verify() is right at any moment."""

import threading
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.examples import examples

THREADS = 4
OPERATIONS = examples(2_000)
QUEUES = ("Q1", "Q2")


class Worker(threading.Thread):
    """Puts and gets at random, in and out of units of work, and remembers what was final."""

    def __init__(self, manager: QueueManager, seed: int) -> None:
        super().__init__()
        self.manager = manager
        self.random = Random(seed)
        self.put: list[bytes] = []
        self.got: list[bytes] = []

    def run(self) -> None:
        plain, work = self.manager.session(), self.manager.session(transacted=True)
        for _ in range(OPERATIONS):
            queue, persistent = self.random.choice(QUEUES), self.random.random() < 0.5
            delay_ms = self.random.choice((0, 0, 5))
            if self.random.random() < 0.5:
                self.put.append(plain.put(queue, b"", persistent=persistent, delay_ms=delay_ms))
                message = plain.get(queue)
                self.got += [] if message is None else [message.msg_id]
                continue
            puts = [work.put(queue, b"", persistent=persistent, delay_ms=delay_ms)]
            taken = [work.get(self.random.choice(QUEUES)) for _ in range(2)]
            if self.random.random() < 0.3:
                work.backout()
            else:
                work.commit()
                self.put += puts
                self.got += [message.msg_id for message in taken if message is not None]
        plain.close()
        work.close()


@pytest.mark.slow
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_nothing_is_lost_or_doubled_and_verify_never_cries_wolf(
    tmp_path: Path, on_disk: bool
) -> None:
    clock = VirtualClock()
    with QueueManager("QM1", tmp_path if on_disk else None, clock) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2) MSGDLVSQ(FIFO)")
        workers = [Worker(manager, seed) for seed in range(THREADS)]
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            verification = manager.verify()
            assert verification.ok, verification.problems
            clock.advance(1)
        clock.advance(5)
        for worker in workers:
            worker.join()
        session = manager.session()
        left = [message.msg_id for queue in QUEUES for message in session.browse(queue)]
        got = Counter(msg_id for worker in workers for msg_id in worker.got)
        assert set(got.values()) == {1}
        assert got + Counter(left) == Counter(msg_id for w in workers for msg_id in w.put)
        assert manager.verify().ok
