"""Puts messages of the shortest lives on a queue with EXPQ, and gets when they have expired."""

from __future__ import annotations

import sys
from pathlib import Path

from mayfly import QueueManager

COUNT = 50


def run(folder: Path) -> None:
    """Put rounds of messages, each with a line after its commit, and get when they have expired."""
    with QueueManager("QM1", folder) as manager:
        assert manager.mqsc("DEFINE QLOCAL(LATE) MAXDEPTH(999999)").ok
        assert manager.mqsc("DEFINE QLOCAL(Q1) EXPQ(LATE)").ok
        first = 0
        while True:
            with manager.session(transacted=True) as unit:
                for number in range(first, first + COUNT):
                    unit.put("Q1", b"%d" % number, time_to_live_ms=1, persistent=True)
                unit.commit()
            print(f"{first} {COUNT}.", flush=True)
            first += COUNT
            # A fast build would get the first of them alive.
            while manager.counts("Q1").live:
                pass
            with manager.session() as session:
                while manager.curdepth("Q1"):
                    session.get("Q1")


if __name__ == "__main__":
    run(Path(sys.argv[1]))
