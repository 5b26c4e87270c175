"""A lake as a real queue manager leaves it: half an hour lived under a virtual clock."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mayfly import QueueManager
from mayfly.pipeline.bulk.schema import ledger_batch
from mayfly.testing import VirtualClock

START_MS = 1_700_000_000_000
#: Lives on Q1 and Q2, put and ended within the half hour.
LIFE_COUNT = 300


def live(folder: Path, *, is_by_correl_id: bool = False) -> Path:
    """Put, delay, get and let expire; return the lake with the ledger of it.

    Q1 delivers by priority, Q2 FIFO with equal priorities. Gets take whatever comes first or, with
    ``is_by_correl_id``, one message each.
    """
    clock = VirtualClock(START_MS)
    chance = random.Random(11)
    with QueueManager("QM1", None, clock=clock) as manager, manager.session() as session:
        manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2) MSGDLVSQ(FIFO)")
        correl_ids = []
        for number in range(LIFE_COUNT):
            queue = f"Q{1 + number % 2}"
            correl_ids.append((queue, b"%024d" % number))
            session.put(
                queue,
                b"body",
                time_to_live_ms=chance.choice([20_000, 60_000, 90_000]),
                delay_ms=chance.choice([0, 0, 5_000, 20_000]),
                priority=chance.randrange(10) if queue == "Q1" else 4,
                correl_id=correl_ids[-1][1],
            )
            clock.advance(chance.randrange(1_000, 5_000))
            if chance.random() < 0.7:
                if is_by_correl_id:
                    wanted, correl_id = chance.choice(correl_ids[-8:])
                    session.get(wanted, correl_id=correl_id)
                else:
                    session.get(chance.choice(["Q1", "Q2"]))
            # Within a millisecond a ledger does not say whether the get was before the next put.
            clock.advance(1)
        clock.advance(100_000)
        for queue in ("Q1", "Q2"):
            assert session.get(queue) is None
        clock.advance(2_000)
        ledger = manager.ledger
        rows = ledger.page(0, ledger.last_position())
        batch = ledger_batch(rows, "QM1", ledger.instance_id)
    dated = folder / "lake" / "date=2023-11-14"
    dated.mkdir(parents=True)
    pq.write_table(pa.Table.from_batches([batch]), dated / "batch-abc-000000000000.parquet")
    return folder / "lake"
