"""One seed, one run: threads, ids and the ledger come out the same, byte for byte."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.runtime.steps import StepRuntime

THREADS, MESSAGES = 4, 6


class Run(NamedTuple):
    """What a run leaves behind."""

    ids: list[bytes]
    got: list[list[bytes]]
    ledger: list[tuple[object, ...]]
    batch_count: int
    switch_count: int


def run(seed: int, folder: Path | None) -> Run:
    """Put and get with several threads; return what came of it."""
    runtime = StepRuntime(seed)
    clock = VirtualClock(runtime=runtime)
    ids = list[bytes]()
    got = [list[bytes]() for _ in range(THREADS)]

    def work(number: int) -> None:
        with qm.session() as session:
            for count in range(MESSAGES):
                body = b"%d-%d" % (number, count)
                persistent = bool(runtime.loop.random.randrange(2))
                ids.append(session.put("Q1", body, persistent=persistent, time_to_live_ms=1_000))
                if count % 2:
                    message = session.get("Q1", wait_ms=1_000)
                    assert message is not None
                    got[number].append(message.body)

    with QueueManager("QM1", folder, clock, runtime=runtime) as qm:
        qm.mqsc("DEFINE QLOCAL(Q1)")
        threads = [runtime.thread(partial(work, number), "program") for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        batch_count = qm.engine.store.group.batch_count
        assert qm.verify().ok
        clock.advance(1_000)
        with qm.session() as session:
            # The rest has expired.
            assert session.get("Q1") is None
        ledger = qm.ledger.page(0, 1_000)
    return Run(ids, got, ledger, batch_count, runtime.loop.switch_count)


@pytest.mark.parametrize("in_memory", [True, False])
def test_two_runs_of_one_seed_are_the_same_byte_for_byte(tmp_path: Path, in_memory: bool) -> None:
    first, second = (run(1, None if in_memory else tmp_path / str(number)) for number in range(2))
    assert first == second
    assert len(first.ids) == len(set(first.ids)) == THREADS * MESSAGES
    assert sum(map(len, first.got)) == THREADS * MESSAGES // 2
    assert first.switch_count > 100


def test_other_seeds_are_other_runs_and_each_is_right(tmp_path: Path) -> None:
    runs = [run(seed, tmp_path / str(seed)) for seed in range(8)]
    assert len({tuple(each.ids) for each in runs}) == len(runs)
    # What shares a transaction depends on the turns.
    assert len({each.batch_count for each in runs}) > 1
    for each in runs:
        taken = [body for bodies in each.got for body in bodies]
        assert len(taken) == len(set(taken)) == THREADS * MESSAGES // 2
