"""A process that puts in units over two stores and delays messages, and kills itself at work.

Called as ``python -m tests.sharing.moving FOLDER ROUND``; it says on its output what is durable.
"""

import os
import signal
import sys
import threading
from itertools import count
from pathlib import Path

from mayfly import QueueManager, QueueSharingGroup
from tests.sharing.scene import PRIVATE, SHARED

_PAIRS_BEFORE_KILL = 60


def say(body: bytes) -> None:
    """Write a line that outlives the process."""
    os.write(1, body + b"\n")


def put_pairs(qm1: QueueManager, round_: int, put: threading.Semaphore) -> None:
    """Put each message on the private and on the shared queue, in one unit."""
    with qm1.session(transacted=True) as one:
        for number in count():
            body = b"pair-%d-%d" % (round_, number)
            one.put(PRIVATE, body, persistent=True)
            one.put(SHARED, body, persistent=True)
            one.commit()
            say(body)
            put.release()


def put_delayed(qm1: QueueManager, round_: int) -> None:
    """Put messages that are due in no time."""
    with qm1.session() as one:
        for number in count():
            body = b"late-%d-%d" % (round_, number)
            one.put(SHARED, body, delay_ms=1 + number % 20, persistent=True)
            say(body)


def main() -> None:
    folder, round_ = Path(sys.argv[1]), int(sys.argv[2])
    group = QueueSharingGroup("QSG1", folder / "QSG1")
    qm1 = QueueManager("QM1", folder / "QM1", sharing_group=group)
    put = threading.Semaphore(0)
    for work in (lambda: put_pairs(qm1, round_, put), lambda: put_delayed(qm1, round_)):
        threading.Thread(target=work, daemon=True).start()
    for _ in range(_PAIRS_BEFORE_KILL + 7 * round_):
        put.acquire()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
