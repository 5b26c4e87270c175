"""A process that commits random units: ``FOLDER JOURNALS SEED``; without end, until it is killed.

Each line of its journal is a message that was put and acknowledged, and the moment after that.
"""

import os
import random
import sys
from pathlib import Path

from mayfly import QueueManager
from mayfly.runtime import SystemClock
from mayfly.store.store import Checkpointer

if __name__ == "__main__":
    folder, journals, seed = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    # The log begins anew a few times a second.
    Checkpointer.PAGES_BEFORE_CHECKPOINT = 300
    chance, clock = random.Random(seed), SystemClock()
    with (
        (journals / seed).open("w") as journal,
        QueueManager("QM1", folder, clock) as qm,
        qm.session(transacted=True) as session,
    ):
        qm.define_queue("Q1", replace=True)
        print("ready", flush=True)
        while True:
            sizes = [chance.choice((10, 100, 9_000)) for _ in range(3)]
            ids = [session.put("Q1", os.urandom(size), persistent=True) for size in sizes]
            for _ in range(chance.randrange(5)):
                session.get("Q1")
            session.commit()
            print(ids[0].hex(), clock.now_ms(), file=journal, flush=True)
