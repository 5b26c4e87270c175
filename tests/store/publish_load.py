"""A process that publishes to durable subscribers, to be killed; it keeps journals of what it does.

Called as ``python -m tests.store.publish_load FOLDER JOURNALS SEED``; it says ``ready`` when it
begins. A journal has a line before each call or commit, with the publications in it, and one after
it; ``os.write`` has handed a line to the kernel when it returns, so that it survives the death of
the process. Each thread has topics of its own, whose retained publications no other replaces.
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
from mayfly.mqi.errors import MQError
from tests.store.load import id_of

THREADS = 3
LONG_MS = 600_000
URGENT = 5
#: Durable subscriptions with queues of their own; MANAGED has a managed one.
DEFINED = {
    "ALL": "TOPICSTR('#')",
    "TOO": "TOPICSTR('#')",
    "AND": "TOPICSTR('kill/#')",
    "FIRST": "TOPICSTR('kill/+/first')",
    "URGENT": f"TOPICSTR('kill/#') SELECTOR('JMSPriority >= {URGENT}')",
}
MANAGED, MANAGED_TOPIC = "MANAGED", "+/+/second"
#: RETAIN with an empty body is EMPTY; CLEAR is no publication.
PLAIN, DELAYED, RETAIN, EMPTY, CLEAR = "plain", "delayed", "retain", "empty", "clear"


class Publication(NamedTuple):
    """One publication as journals name it."""

    label: str
    persistent: bool
    topic: str
    priority: int
    kind: str


class Worker:
    """One thread's work; every label it publishes is new in the whole test."""

    def __init__(self, manager: QueueManager, journal: Path, seed: str, number: int) -> None:
        self.random = Random(seed)
        self.journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.plain = manager.session()
        self.transacted = manager.session(transacted=True)
        self.labels = (f"{seed}.{n}" for n in itertools.count())
        self.topics = [f"kill/{number}/{last}" for last in ("first", "second", "third")]
        managed = manager.engine.registry.subscriptions.named(MANAGED).destination
        self.queues = [*DEFINED, managed]

    def run(self) -> None:
        while True:
            self.random.choices((self.publish, self.unit, self.clear, self.get), (6, 3, 1, 2))[0]()

    def write(self, line: object) -> None:
        os.write(self.journal, (json.dumps(line) + "\n").encode())

    def publish(self) -> None:
        publication = self.new()
        self.write([publication])
        self.send(self.plain, publication)
        self.write("done")

    def unit(self) -> None:
        """Nobody hears of a unit of work that is backed out: its labels must never be seen."""
        publications = [self.new() for _ in range(self.random.randrange(1, 4))]
        for publication in publications:
            self.send(self.transacted, publication)
        if self.random.random() < 0.25:
            self.transacted.backout()
            return
        self.write(publications)
        self.transacted.commit()
        self.write("done")

    def clear(self) -> None:
        topic = self.random.choice(self.topics)
        self.write([Publication("", True, topic, 0, CLEAR)])
        self.plain.clear_retained(topic)
        self.write("done")

    def get(self) -> None:
        """Keep the queues short; the ledger tells what was got."""
        for _ in range(8):
            self.transacted.get(self.random.choice(self.queues))
        self.random.choice((self.transacted.commit, self.transacted.backout))()

    def new(self) -> Publication:
        return Publication(
            next(self.labels),
            self.random.random() < 0.7,
            self.random.choice(self.topics),
            self.random.randrange(10),
            self.random.choice((PLAIN, PLAIN, DELAYED, DELAYED, RETAIN, RETAIN, EMPTY)),
        )

    def send(self, session: Session, publication: Publication) -> None:
        label, persistent, topic, priority, kind = publication
        session.publish(
            topic,
            b"" if kind == EMPTY else self.random.randbytes(1 + self.random.randrange(300)),
            msg_id=id_of(label),
            persistent=persistent,
            priority=priority,
            retain=kind in (RETAIN, EMPTY),
            delay_ms=self.random.choice((1, 20, 200, LONG_MS)) if kind == DELAYED else 0,
        )


def subscribe(manager: QueueManager) -> None:
    """Make the subscriptions; from the second time on they exist already."""
    manager.mqsc("ALTER TOPIC(SYSTEM.BASE.TOPIC) PMSGDLV(ALLAVAIL) NPMSGDLV(ALLAVAIL)")
    for name, asked in DEFINED.items():
        manager.mqsc(f"DEFINE QLOCAL({name}) MAXDEPTH(1000000)")
        manager.mqsc(f"DEFINE SUB({name}) {asked} DEST({name})")
    manager.mqsc("ALTER QMODEL(SYSTEM.DURABLE.MODEL.QUEUE) MAXDEPTH(1000000)")
    with manager.session() as session:
        try:
            session.resume(MANAGED)
        except MQError:
            session.subscribe(MANAGED_TOPIC, name=MANAGED, durable=True)


def main() -> None:
    folder, journals, seed = sys.argv[1:]
    manager = QueueManager("QM1", folder)
    subscribe(manager)
    for n in range(THREADS):
        worker = Worker(manager, Path(journals) / f"{seed}.{n}", f"{seed}.{n}", n)
        threading.Thread(target=worker.run).start()
    print("ready", flush=True)


if __name__ == "__main__":
    main()
