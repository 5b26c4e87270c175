"""A process that works on a dead-letter queue and kills itself in the middle.

Called as ``python -m tests.dead_letter.letter_load FOLDER COUNT``; a thread kills it some time
after so many letters are off the queue, wherever the handler is then.
"""

import os
import signal
import sys
import threading

from mayfly import QueueManager
from mayfly.services.dead_letter import DeadLetterHandler, Outcome, parse_rules

#: Letters of each kind end in another way; those for NOWHERE stay.
RULES = """
RETRYINT(1)
DESTQ(KEPT) ACTION(IGNORE)
DESTQ(NOWHERE) ACTION(RETRY)
DESTQ(GONE) ACTION(DISCARD)
DESTQ(PARKED) ACTION(FWD) FWDQ(PARKED) HEADER(YES)
ACTION(RETRY)
"""


_LOOK_SECONDS = 0.0005
_DONE = (Outcome.DISCARDED, Outcome.FORWARDED, Outcome.REDRIVEN)


def kill(handler: DeadLetterHandler, done_count: int) -> None:
    """End the process by the kernel's hand."""
    pause = threading.Event()
    while sum(handler.counts[outcome] for outcome in _DONE) < done_count:
        pause.wait(_LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    folder, done_count = sys.argv[1], int(sys.argv[2])
    with QueueManager("QM1", folder) as manager:
        handler = DeadLetterHandler(manager, parse_rules(RULES))
        threading.Thread(target=kill, args=(handler, done_count), daemon=True).start()
        handler.run()


if __name__ == "__main__":
    main()
