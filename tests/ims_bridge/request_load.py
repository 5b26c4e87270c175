"""A process whose IMS bridge is killed at work.

Called as ``python -m tests.ims_bridge.request_load FOLDER COUNT PLACE``. The kernel kills it in the
transaction of request COUNT, or at any place a moment after that many requests were answered; at
the latest when AHEAD more are answered.
"""

import itertools
import os
import signal
import sys
import threading

from mayfly import QueueManager
from mayfly.ims_bridge import ImsBridge, Request
from mayfly.pymqi import IIH
from tests.ims_bridge.scene import IMS, PATIENCE_SECONDS

IN_TRANSACTION, ANYWHERE = "transaction", "anywhere"
AHEAD = 30


def kill() -> None:
    """End the process by the kernel's hand."""
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    folder, count, place = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    numbers = itertools.count(1)
    reached = threading.Event()

    def transaction(request: Request, _iih: IIH | None) -> bytes:
        number = next(numbers)
        if number == count:
            if place == IN_TRANSACTION:
                kill()
            reached.set()
        elif number > count + AHEAD:
            kill()
        return request.upper()

    with QueueManager("QM1", folder) as manager:
        bridge = ImsBridge(manager, queue=IMS, transaction=transaction)
        bridge.start()
        reached.wait(PATIENCE_SECONDS)
        kill()


if __name__ == "__main__":
    main()
