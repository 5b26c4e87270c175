"""A process under load, to be killed: four threads put and get, and keep journals of what they do.

Called as ``python -m tests.store.load FOLDER JOURNALS SEED``; it says ``ready`` when it begins. A
journal has one line before each call or commit (what it is about to put and get) and one after it
(what was got). ``os.write`` has handed a line to the kernel when it returns, so that it survives
the death of the process.
"""

import itertools
import json
import os
import sys
import threading
from pathlib import Path
from random import Random
from typing import NamedTuple

from mayfly import QueueManager
from mayfly.engine import Session

THREADS = 4
QUEUES = ("Q1", "Q2", "Q3")
LABEL_BYTES = 24


class Line(NamedTuple):
    """One line of a journal: [label, persistent] put and labels got; ``done`` after the call."""

    done: bool
    puts: list[tuple[str, bool]]
    gets: list[str]


def id_of(label: str) -> bytes:
    return label.encode().ljust(LABEL_BYTES, b"\0")


def label_of(msg_id: bytes) -> str:
    return msg_id.rstrip(b"\0").decode()


class Worker:
    """One thread's work; every label it puts is new in the whole test."""

    def __init__(self, manager: QueueManager, journal: Path, seed: str) -> None:
        self.random = Random(seed)
        self.journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.plain = manager.session()
        self.transacted = manager.session(transacted=True)
        self.labels = (f"{seed}.{n}" for n in itertools.count())
        self.mine: list[tuple[str, str]] = []

    def run(self) -> None:
        while True:
            self.random.choice((self.put, self.get_own, self.unit_of_work))()

    def note(self, *, done: bool, puts: list[tuple[str, bool]], gets: list[str]) -> None:
        os.write(self.journal, (json.dumps(Line(done, puts, gets)) + "\n").encode())

    def put(self) -> None:
        label, persistent = next(self.labels), self.random.random() < 0.6
        self.note(done=False, puts=[(label, persistent)], gets=[])
        queue = self.send(self.plain, label, persistent=persistent)
        self.note(done=True, puts=[], gets=[])
        self.mine.append((queue, label))

    def get_own(self) -> None:
        if not self.mine:
            return
        queue, label = self.mine.pop(self.random.randrange(len(self.mine)))
        self.note(done=False, puts=[], gets=[label])
        got = self.plain.get(queue, msg_id=id_of(label))
        self.note(done=True, puts=[], gets=[] if got is None else [label])

    def unit_of_work(self) -> None:
        """Nobody hears of a unit of work that is backed out: its labels must never be seen."""
        puts = [(next(self.labels), self.random.random() < 0.6) for _ in range(2)]
        for label, persistent in puts:
            self.send(self.transacted, label, persistent=persistent)
        got = [self.transacted.get(self.random.choice(QUEUES)) for _ in range(3)]
        if self.random.random() < 0.25:
            self.transacted.backout()
            return
        gets = [label_of(message.msg_id) for message in got if message is not None]
        self.note(done=False, puts=puts, gets=gets)
        self.transacted.commit()
        self.note(done=True, puts=[], gets=gets)

    def send(self, session: Session, label: str, *, persistent: bool) -> str:
        queue = self.random.choice(QUEUES)
        delay_ms = self.random.choice((0, 0, 0, 5, 50, 500))
        session.put(
            queue,
            self.random.randbytes(self.random.randrange(300)),
            msg_id=id_of(label),
            persistent=persistent,
            priority=self.random.randrange(3),
            delay_ms=delay_ms,
            time_to_live_ms=self.random.choice((None, None, 500, 600, 5_000)),
        )
        return queue


def main() -> None:
    folder, journals, seed = sys.argv[1:]
    manager = QueueManager("QM1", folder)
    for queue in QUEUES:
        # From the second time on it exists already, and this changes nothing.
        manager.mqsc(f"DEFINE QLOCAL({queue}) MAXDEPTH(1000000)")
    for n in range(THREADS):
        worker = Worker(manager, Path(journals) / f"{seed}.{n}", f"{seed}.{n}")
        threading.Thread(target=worker.run).start()
    print("ready", flush=True)


if __name__ == "__main__":
    main()
