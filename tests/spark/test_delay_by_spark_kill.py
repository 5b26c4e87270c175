"""kill -9 of a queue manager whose delayed messages a pipeline releases: each goes exactly once."""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.bulk.queue_client import QueueClient
from mayfly.servers.flight import FlightServer
from tests.bulk.books import TOKEN
from tests.spark.test_queue_source_kill import Journal, Reader, process, read_until_killed

pytestmark = pytest.mark.slow


class Releaser(Reader):
    """The pipeline; of a batch that comes again, a crash may have taken what was in memory."""

    consumer, queue = "releaser", STAGING_QUEUE

    def check_repeat(self, before: list[int], found: list[int]) -> None:
        """Nothing new, nothing in another order."""
        assert found == [number for number in before if number in set(found)]


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.soak)])
def test_D22_a_delayed_message_is_released_once_whenever_the_queue_manager_is_killed(
    tmp_path: Path, rounds: int
) -> None:
    """Between claim, read, commit and release: none lost, none twice, all at their target."""
    seed = int(os.environ.get("MAYFLY_KILL_SEED") or random.randrange(10**6))
    rng, with_seed = random.Random(seed), f"again with MAYFLY_KILL_SEED={seed}"
    reader, folder, notes = Releaser(rng), tmp_path / "QM1", tmp_path / "journal"
    for number in itertools.count():
        # For this to mean something.
        if number >= rounds and reader.repeated and reader.count > 500:
            break
        assert number < 60 + 20 * rounds, f"too little happens; {with_seed}"
        first = str(Journal(notes).next_number)
        with process(str(folder), str(notes), first, module="tests.spark.drive_delayed") as child:
            assert child.stdout is not None
            read_until_killed(child.stdout.readline().strip(), reader, child, rng.uniform(0.5, 1.5))
        with QueueManager("QM1", folder) as manager:
            assert manager.verify().ok, f"{manager.verify().problems}; {with_seed}"
    with (
        QueueManager("QM1", folder) as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
        QueueClient(server.url, token=TOKEN) as client,
        manager.session() as session,
    ):
        consumer = client.attach(reader.consumer, reader.queue)
        while manager.counts("Q1").staged:
            reader.run_batch(client, consumer)
        out = Counter(int(message.body) for message in session.browse("Q1"))
        Journal(notes).check(out)
        claimed = Counter(number for batch in reader.output.values() for number in batch)
        assert set(claimed.values()) == {1}, with_seed
        assert out.keys() <= claimed.keys(), with_seed
        assert manager.curdepth(STAGING_QUEUE) == 0, with_seed
        assert manager.verify().ok, with_seed
