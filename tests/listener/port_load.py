"""A port of eight sessions at work, to be killed; each thread keeps a journal of what it does.

Called as ``python -m tests.listener.port_load FOLDER JOURNALS SEED``; it says ``ready`` when it
begins. A seed that ends with an even digit is non-ASF, else it is ASF. ``put`` and ``kept`` are
written before and after each put, ``seen`` when an on_message begins, ``bad`` before it raises.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
import threading
from pathlib import Path
from random import Random

from mayfly import QueueManager, jms
from mayfly.listener import ListenerPort, current_transaction

SESSIONS = 8
QUEUES = ("Q1", "ANSWERS")
_AHEAD = 200
#: A loop without a pause would take the processor from the sessions that it waits for.
_LOOK_SECONDS = 0.001


class Journals:
    """One file for each thread; ``os.write`` has handed a line to the kernel when it returns."""

    def __init__(self, folder: Path, seed: str) -> None:
        """Begin without a file."""
        self._folder, self._seed = folder, seed
        self._own = threading.local()
        self._numbers = itertools.count()

    def note(self, word: str, label: str) -> None:
        """Write a line into the journal of the present thread."""
        if not hasattr(self._own, "file"):
            name = self._folder / f"{self._seed}.{next(self._numbers)}"
            self._own.file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(self._own.file, f"{word} {label}\n".encode())


class Worker:
    """Answers each message in its transaction; one in ten comes to nothing the first time."""

    def __init__(self, journals: Journals, seed: str) -> None:
        """Take where to write."""
        self._journals = journals
        self._random = Random(seed)

    def on_message(self, message: jms.Message) -> None:
        """Send an answer."""
        assert isinstance(message, jms.TextMessage)
        label = str(message.text)
        self._journals.note("seen", label)
        session = current_transaction().session
        assert isinstance(session, jms.Session)
        producer = session.create_producer(session.create_queue("ANSWERS"))
        producer.send(session.create_text_message(label))
        producer.close()
        if self._random.random() < 0.1:
            self._journals.note("bad", label)
            raise ValueError(label)


def main() -> None:
    """Put and answer until killed."""
    logging.disable()
    folder, journal_folder, seed = sys.argv[1:]
    manager = QueueManager("QM1", folder)
    for queue in QUEUES:
        manager.mqsc(f"DEFINE QLOCAL({queue}) MAXDEPTH(1000000)")
    journals = Journals(Path(journal_folder), seed)
    timeout_ms = "0" if int(seed[-1]) % 2 else "50"
    port = ListenerPort(
        manager,
        destination="Q1",
        on_message=Worker(journals, seed).on_message,
        max_sessions=SESSIONS,
        properties={"NON.ASF.RECEIVE.TIMEOUT": timeout_ms},
    )
    port.start()
    print("ready", flush=True)
    with manager.session() as session:
        for number in itertools.count():
            label = f"{seed}.{number}"
            journals.note("put", label)
            session.put("Q1", label.encode(), format_name="MQSTR", persistent=True)
            journals.note("kept", label)
            if number % _AHEAD == 0:
                while manager.curdepth("Q1") > _AHEAD:
                    threading.Event().wait(_LOOK_SECONDS)


if __name__ == "__main__":
    main()
