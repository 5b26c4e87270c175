"""A process that writes batches through stages as a pipeline does, and kills itself on the way.

Called as ``python -m tests.spec.stage_load FOLDER BATCHES KILL_AT``. Like Spark it keeps a log of
the batches that are done; batches that are not in the log are done again, as a new attempt. With
KILL_AT above 0 it ends by SIGKILL right after that many of its commits have become durable.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
from pathlib import Path

from mayfly import QueueManager
from mayfly.store.stage_table import StagePlace
from mayfly.store.units import Unit
from tests.spec.stage_scene import commit, encode, plain

PARTITIONS = 2
ROWS_PER_BLOB = 1_500
BLOBS = 2
ROWS_PER_PARTITION = ROWS_PER_BLOB * BLOBS
ROWS_PER_BATCH = PARTITIONS * ROWS_PER_PARTITION
QUERY = "load"


def write_batch(manager: QueueManager, batch: int) -> None:
    """Stage every partition, then commit."""
    attempt = secrets.token_hex(4)
    stages = []
    for partition in range(PARTITIONS):
        writer = manager.stages.begin(StagePlace(QUERY, batch, partition, attempt))
        first = batch * ROWS_PER_BATCH + partition * ROWS_PER_PARTITION
        for start in range(first, first + ROWS_PER_PARTITION, ROWS_PER_BLOB):
            if writer is not None:
                rows = plain(ROWS_PER_BLOB, start, persistence=1)
                # A life without end for most, one already over for some.
                for row in rows[::100]:
                    row["expire_at_ms"] = 1
                writer.append(encode(rows), ROWS_PER_BLOB)
        if writer is not None:
            writer.finish()
        stages.append((partition, attempt))
    commit(manager, QUERY, batch, stages, step_count=1)


def main(folder: str, batches: str, kill_at: str) -> None:
    """Write the batches that the log does not have."""
    log = Path(folder) / "log"
    with QueueManager("QM1", Path(folder) / "QM1") as manager:
        # From the second time on it exists already, and this changes nothing.
        manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(1000000)")
        group = manager.engine.store.group
        durable_commit, left = group.commit, int(kill_at)

        def commit_and_die(*units: Unit) -> None:
            nonlocal left
            durable_commit(*units)
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        group.commit = commit_and_die  # type: ignore[method-assign]  # counts what is durable
        done = int(log.read_text()) if log.exists() else 0
        for batch in range(done, int(batches)):
            write_batch(manager, batch)
            # A kill in the midst of a write would leave an empty file.
            beside = log.with_suffix(".new")
            beside.write_text(str(batch + 1))
            beside.rename(log)


if __name__ == "__main__":
    main(*sys.argv[1:])
