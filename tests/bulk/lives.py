"""A real queue manager whose messages live and end, for what reads its ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from mayfly import QueueManager

QUEUES = ("Q0", "Q1", "Q2")


@contextmanager
def queue_manager(folder: Path | None = None) -> Iterator[QueueManager]:
    """Open QM1 with three queues; close it afterwards."""
    with closing(QueueManager("QM1", folder)) as manager:
        for queue in QUEUES:
            manager.mqsc(f"DEFINE QLOCAL({queue}) REPLACE")
        yield manager


def live(manager: QueueManager, count: int) -> None:
    """Put ``count`` messages in turn on the queues; a quarter expires, the rest is got.

    One in three is persistent. The ledger gains a row for each, and balance rows in its own time.
    """
    with manager.session(transacted=True) as session:
        for number in range(count):
            session.put(
                QUEUES[number % 3],
                b"body",
                time_to_live_ms=1 if number % 4 == 0 else None,
                persistent=number % 3 == 0,
            )
        session.commit()
        # The last lifetime ends a millisecond after its put; the clock is the machine's.
        last_put_ms = manager.now_ms()
        while manager.now_ms() <= last_put_ms:
            pass
        for queue in QUEUES:
            while session.get(queue) is not None:
                pass
