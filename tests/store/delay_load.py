"""A process that delays messages and changes their schedule, to be killed; it keeps journals.

Called as ``python -m tests.store.delay_load FOLDER JOURNALS SEED``; it says ``ready`` when it
begins. A journal has two lines for each call: the request, before it, and the answer, after it.
``os.write`` has handed a line to the kernel when it returns, so the line survives the death of the
process.
"""

import itertools
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.delay import delay_processor, staging_queries
from mayfly.verbs.schedule import Receipt, ScheduleFilter
from tests.store.load import id_of, label_of

THREADS = 3
#: Messages on the first two are changed one by one, those on the others in bulk.
SINGLE, RELEASED_IN_BULK, CANCELLED_IN_BULK = ("Q1", "Q2"), "QR", "QC"
QUEUES = (*SINGLE, RELEASED_IN_BULK, CANCELLED_IN_BULK)
BURST = 60
#: Batches so small that a kill hits the middle of what is done in bulk, and that what a step makes
#: due is more than one.
BATCH, STEP = 12, 25
LONG_MS = 600_000


class Worker:
    """One thread's work; every label it puts is new in the whole test."""

    def __init__(self, manager: QueueManager, journal: Path, seed: str) -> None:
        self.random = Random(seed)
        self.journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.plain = manager.session("clerk")
        self.transacted = manager.session("clerk", transacted=True)
        self.labels = (f"{seed}.{n}" for n in itertools.count())
        self.mine: list[str] = []

    def run(self) -> None:
        while True:
            self.random.choices(
                (self.put, self.change, self.get, self.unit_of_work, self.burst, self.bulk),
                (6, 6, 4, 3, 1, 2),
            )[0]()

    def call(self, asked: str, labels: list[str], call: Callable[[], object]) -> None:
        """Do what is asked between the two lines of the journal."""
        self.write([asked, labels])
        self.write(call())

    def write(self, line: object) -> None:
        os.write(self.journal, (json.dumps(line) + "\n").encode())

    def put(self) -> None:
        label, persistent = next(self.labels), self.random.random() < 0.7
        delay_ms = self.random.choice((1, 5, 50, LONG_MS))
        self.call(
            "put" if persistent else "put volatile",
            [label],
            lambda: self.send(self.plain, label, delay_ms, persistent=persistent),
        )
        self.mine.append(label)

    def change(self) -> None:
        """A message that has been put is never unknown, whatever became of it."""
        if not self.mine:
            return
        place = self.random.randrange(len(self.mine))
        label = self.mine.pop(place)
        asked = self.random.choice(
            ("cancel", "cancel", "release", "hasten", "postpone", "postpone")
        )
        delay_ms = LONG_MS if asked == "postpone" else self.random.choice((0, 5))
        self.call(asked, [label], lambda: self.receipt(self.plain, asked, label, delay_ms))
        if self.random.random() < 0.5:
            self.mine.append(label)

    def get(self) -> None:
        """Get in a unit of work: so the journal names the messages before the get is final."""
        got = [self.transacted.get(self.random.choice(QUEUES)) for _ in range(4)]
        labels = [label_of(message.msg_id) for message in got if message is not None]
        self.call("get", labels, self.transacted.commit)

    def unit_of_work(self) -> None:
        """Puts, a cancel and a reschedule together; when backed out nobody ever hears of it."""
        session, puts = self.transacted, [next(self.labels) for _ in range(2)]
        for label in puts:
            self.send(session, label, self.random.choice((1, 20, LONG_MS)), persistent=True)
        cancelled = []
        if self.mine:
            label = self.random.choice(self.mine)
            if self.receipt(session, "cancel", label, 0) == Receipt.CANCELLED:
                cancelled.append(label)
        if self.mine:
            self.receipt(session, "postpone", self.random.choice(self.mine), LONG_MS)
        if self.random.random() < 0.3:
            session.backout()
            return
        self.call("unit", [*puts, "|", *cancelled], session.commit)
        self.mine += puts

    def burst(self) -> None:
        """Many messages of one delivery time, for the bulk."""
        labels = [next(self.labels) for _ in range(BURST)]
        queue = self.random.choice((RELEASED_IN_BULK, CANCELLED_IN_BULK))
        for label in labels:
            self.transacted.put(
                queue, b"x", msg_id=id_of(label), persistent=True, delay_ms=LONG_MS
            )  # fmt: skip
        self.call("burst " + queue, labels, self.transacted.commit)

    def bulk(self) -> None:
        schedule = self.plain.schedule
        if self.random.random() < 0.4:
            done = schedule.cancel_all(ScheduleFilter(queue=CANCELLED_IN_BULK))
            asked = "cancel_all"
        elif self.random.random() < 0.7:
            done, asked = schedule.release_all(ScheduleFilter(queue=RELEASED_IN_BULK)), "bulk"
        else:
            where, by_ms = ScheduleFilter(queue=RELEASED_IN_BULK), self.random.choice((-500, 500))
            done, asked = schedule.reschedule_all(where, by_ms=by_ms), "bulk"
        before = 0
        self.write([asked, []])
        for total in done:
            # Each batch is acknowledged when it is counted.
            self.write(total - before)
            self.write([asked, []])
            before = total
        self.write(0)

    def receipt(self, session: Session, asked: str, label: str, delay_ms: int) -> str:
        schedule, msg_id = session.schedule, id_of(label)
        if asked == "cancel":
            receipt = schedule.cancel(msg_id)
        elif asked == "release":
            receipt = schedule.release(msg_id)
        else:
            receipt = schedule.reschedule(msg_id, delay_ms=delay_ms)
        assert receipt != Receipt.UNKNOWN, f"{asked} {label}: unknown"
        return receipt.value

    def send(self, session: Session, label: str, delay_ms: int, *, persistent: bool) -> None:
        session.put(
            self.random.choice(SINGLE),
            self.random.randbytes(self.random.randrange(300)),
            msg_id=id_of(label),
            persistent=persistent,
            delay_ms=delay_ms,
        )


def main() -> None:
    folder, journals, seed = sys.argv[1:]
    delay_processor.BATCH, staging_queries.STEP = BATCH, STEP
    manager = QueueManager("QM1", folder)
    # What is not persistent may be lost here.
    manager.mqsc("ALTER SETTING(delay.volatile_check) VALUE(off)")
    for queue in QUEUES:
        manager.mqsc(f"DEFINE QLOCAL({queue}) MAXDEPTH(1000000)")
    for n in range(THREADS):
        worker = Worker(manager, Path(journals) / f"{seed}.{n}", f"{seed}.{n}")
        threading.Thread(target=worker.run).start()
    print("ready", flush=True)


if __name__ == "__main__":
    main()
