"""A process that moves messages, to be killed: two queue managers in folders, a channel between.

Called as ``python -m tests.channel.load FOLDER JOURNALS SEED``; it says ``ready`` when it begins. A
journal has the labels of each unit of work before its commit, and once more, marked, behind it. A
SEED that ends with IN_DOUBT has it kill itself where its first batch is in doubt.
"""

import itertools
import json
import os
import signal
import sys
import threading
from pathlib import Path
from random import Random

from mayfly import QueueManager
from tests.channel.scene import CHANNEL, receiving, sending, standing, through
from tests.facts import wait_until

#: So that batches begin and end at any moment of the others' work.
BATCH_SIZE, THREADS = 7, 2
IN_DOUBT = ".in-doubt"


def die_in_doubt(where: str) -> None:
    """End the process by the kernel's hand where its partner is about to be told to commit."""
    if where == "before confirm":
        os.kill(os.getpid(), signal.SIGKILL)


def opened(folder: Path, *, in_doubt: bool) -> tuple[QueueManager, QueueManager]:
    """Open both, the receiver first, and start the channel."""
    two = receiving(None, folder / "2")
    one = sending(None, folder / "1", BATCHSZ=BATCH_SIZE, SHORTTMR=1)
    if in_doubt:
        through(one, die_in_doubt)
        # It has run since the opening, maybe over a link of another kind.
        one.channels.stop(CHANNEL)
        wait_until(lambda: standing(one).status == "STOPPED")
    one.channels.start(CHANNEL)
    return one, two


def put_for_ever(manager: QueueManager, journal: Path, seed: str) -> None:
    """Put units of work, the labels of which nobody has used before."""
    random, labels = Random(seed), (f"{seed}.{n}" for n in itertools.count())
    out = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    session = manager.session(transacted=True)
    while True:
        unit = [next(labels) for _ in range(random.randrange(1, 12))]
        for label in unit:
            session.put("IN@QM2", label.encode(), persistent=True)
        os.write(out, (json.dumps([False, unit]) + "\n").encode())
        session.commit()
        os.write(out, (json.dumps([True, unit]) + "\n").encode())


def main() -> None:
    folder, journals, seed = sys.argv[1:]
    one, _two = opened(Path(folder), in_doubt=seed.endswith(IN_DOUBT))
    for n in range(THREADS):
        name = f"{seed}.{n}"
        threading.Thread(target=put_for_ever, args=(one, Path(journals) / name, name)).start()
    print("ready", flush=True)


if __name__ == "__main__":
    main()
