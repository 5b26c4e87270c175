"""A process with two durable queue managers and one of MQ is killed: nothing is lost or doubled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.everyplace import EveryplaceQueueManager
from mayfly.runtime.clocks import SystemClock
from mayfly.testing import VirtualClock
from tests.everyplace.kill_load import (
    BACK,
    FETCHED,
    FIRED,
    IN_MQ,
    SHORT,
    SHORT_MS,
    THROUGH,
    journal_of,
    move_all,
    opened,
)
from tests.everyplace.scene import quick_folder
from tests.store.kills import run_and_kill

#: Messages that each run puts at least.
LINES = 12
QUEUES = THROUGH, SHORT, FETCHED
#: An exchange that failed needs one more round for each stage.
ROUNDS = 4


def numbers(manager: EveryplaceQueueManager, queue: str) -> Counter[int]:
    return Counter(message.get_int("N") for message in manager.browse_messages(queue))


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, pytest.param(6, marks=pytest.mark.soak)])
def test_M12_kill_9_at_any_moment_loses_and_doubles_nothing(kills: int) -> None:
    """Each message is where it belongs, once; a rule has told of it once on a side, if at all."""
    with quick_folder() as folder:
        journals = folder / "journals"
        journals.mkdir()
        for seed in range(kills):
            run_and_kill(
                "tests.everyplace.kill_load",
                folder,
                journals,
                str(seed),
                0.1 * seed,
                line_count=LINES * (seed + 1),
            )
        put = [tuple(line.split()) for line in journal_of(journals).read_text().split("\n")[:-1]]
        check(folder, {queue: {int(n) for q, n in put if q == queue} for queue in QUEUES}, kills)


def check(folder: Path, put: dict[str, set[int]], kills: int) -> None:
    """Open all three, let everything come to its end, and count."""
    clock = VirtualClock(SystemClock().now_ms() + 86_400_000)
    a, b = opened(folder, clock)
    with a, b, QueueManager("QM1", folder / "QM1", clock=clock) as mq:
        clock.advance(SHORT_MS)
        move_all(a, b, mq, ROUNDS)
        for manager in (a, b):
            assert manager.inquire_queue_size(SHORT) == 0
        assert a.inquire_queue_size(THROUGH) == b.inquire_queue_size(THROUGH) == 0
        assert b.inquire_queue_size(FETCHED) == mq.curdepth(IN_MQ) == 0
        through, fetched = numbers(a, BACK), numbers(a, FETCHED)
        fired = [numbers(manager, FIRED) for manager in (a, b)]
        assert all(set(each.values()) <= {1} for each in (through, fetched, *fired))
        # One may have been put and not written down at each kill.
        ended = {THROUGH: set(through), FETCHED: set(fetched), SHORT: set().union(*fired)}
        for queue, there in ended.items():
            assert put[queue] <= there
            assert len(there - put[queue]) <= kills
