"""A process that a test kills: a queue manager whose delayed messages a pipeline releases."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pyarrow as pa

from mayfly import QueueManager
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.servers.flight import FlightServer
from tests.bulk.books import TOKEN

#: Messages of one commit; the first half of each is persistent.
COMMIT_MESSAGES = 20
#: So many wait at most, so that a reader keeps up.
DEPTH = 2_000
DELAY_MS_MAX = 300


def serve(folder: str, journal: str, first: str) -> None:
    """Serve and put numbered, delayed messages, noting each commit before and after."""
    number, rng = int(first), random.Random(first)
    # A server loads pandas beside its first calls, which takes the time of a whole round.
    pa.array([None])
    with QueueManager("QM1", folder) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1) REPLACE MAXDEPTH(999999999)\nALTER QMGR DDELAY(SPARK)")
        with (
            FlightServer(manager, port=0, token=TOKEN) as server,
            Path(journal).open("a") as notes,
            manager.session(transacted=True) as session,
        ):
            print(server.url, flush=True)
            while True:
                if manager.curdepth(STAGING_QUEUE) >= DEPTH:
                    manager.run_due()
                    continue
                for offset in range(COMMIT_MESSAGES):
                    session.put(
                        "Q1",
                        b"%d" % (number + offset),
                        persistent=offset < COMMIT_MESSAGES // 2,
                        delay_ms=rng.randint(1, DELAY_MS_MAX),
                    )
                print("-", number, file=notes, flush=True)
                session.commit()
                print("+", number, file=notes, flush=True)
                number += COMMIT_MESSAGES


if __name__ == "__main__":
    serve(*sys.argv[1:])
