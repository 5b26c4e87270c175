"""Two durable queue managers and one of MQ, all of whose ways are used until the process is killed.

Numbers go from A to B in two stages, on to MQ and back to A; others are fetched by A from B. Some
end soon: a rule leaves a message for each that it is told of.
"""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from mayfly import QueueManager
from mayfly.everyplace import (
    MSG_EXPIRE_TIME,
    EveryplaceError,
    EveryplaceQueueManager,
    Fault,
    MessageFields,
    QueueEntry,
    QueueRule,
    RuleOwner,
)
from mayfly.lifetime.everyplace import Timepiece
from mayfly.mqi.reasons import MQRC_OBJECT_ALREADY_EXISTS
from mayfly.services.everyplace.mq_queues import move_from_mq, move_to_mq

#: Pushed from A to B and moved by way of MQ to A's BACK; pushed and soon over; fetched by A from B.
THROUGH, SHORT, FETCHED = "THROUGH", "SHORT", "FETCHED"
BACK, FIRED, IN_MQ = "BACK", "FIRED", "IN.MQ"
SHORT_MS = 20


class Telling(QueueRule):
    """Leaves a message for each that expires."""

    def message_expired(self, entry: QueueEntry, message: MessageFields) -> None:
        entry.owner.put_message(FIRED, numbered(entry.owner, message.get_int("N")))


def numbered(manager: RuleOwner, number: int) -> MessageFields:
    """Create a message that carries a number."""
    message = MessageFields(manager.clock)
    message.put_int("N", number)
    return message


def opened(
    folder: Path, clock: Timepiece | None
) -> tuple[EveryplaceQueueManager, EveryplaceQueueManager]:
    """Open both, defined at the first time, with their rules."""
    a = EveryplaceQueueManager("A", clock, folder / "A")
    b = EveryplaceQueueManager("B", clock, folder / "B")
    for queue in (BACK, FIRED):
        define(a, queue, None, partial(a.create_queue, queue))
    for queue in (THROUGH, SHORT, FIRED):
        rule = Telling() if queue == SHORT else None
        define(b, queue, rule, partial(b.create_queue, queue, rule=rule))
    for queue in (THROUGH, SHORT):
        rule = Telling() if queue == SHORT else None
        define(
            a,
            queue,
            rule,
            partial(a.create_remote_queue, queue, "B", True, rule),
        )
    define(a, FETCHED, None, partial(a.create_home_server_queue, FETCHED, "B"))
    define(b, FETCHED, None, partial(b.create_remote_queue, FETCHED, "A", True))
    a.connect(b)
    return a, b


def define(
    manager: EveryplaceQueueManager,
    queue: str,
    rule: QueueRule | None,
    create: Callable[[], None],
) -> None:
    """Create a queue or, where it is already there, give it its rule."""
    try:
        create()
    except EveryplaceError as error:
        if error.reason != MQRC_OBJECT_ALREADY_EXISTS:
            raise
        manager.set_rule(queue, rule)


def move_all(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, mq: QueueManager, rounds: int = 1
) -> None:
    """Let everything go on to where it ends."""
    with mq.session() as session:
        for _ in range(rounds):
            for queue in (SHORT, THROUGH):
                a.transmit_put(queue)
                a.transmit_confirm(queue)
            with suppress(EveryplaceError):
                a.pull(FETCHED)
            while move_to_mq(b, THROUGH, session, IN_MQ):
                pass
            while move_from_mq(mq, IN_MQ, a, BACK):
                pass


def journal_of(journals: Path) -> Path:
    """Return the file of what has been put, a line for each message."""
    return journals / "put"


def main(folder: Path, journals: Path, seed: int) -> None:
    logging.disable(logging.ERROR)
    chance = random.Random(seed)
    a, b = opened(folder, None)
    link = a.connect(b)
    mq = QueueManager("QM1", folder / "QM1")
    mq.mqsc(f"DEFINE QLOCAL({IN_MQ})")
    journal = journal_of(journals)
    journal.touch()
    known = [int(line.split()[1]) for line in journal.read_text().split("\n")[:-1]]
    # One that was put and not written down is not taken for the next.
    number = max(known, default=0) + 1
    with journal.open("a", buffering=1) as written:
        print("ready", flush=True)
        while True:
            number += 1
            for queue, manager in ((THROUGH, a), (SHORT, a), (FETCHED, b)):
                message = numbered(manager, number)
                if queue == SHORT:
                    message.put_int(MSG_EXPIRE_TIME, SHORT_MS)
                manager.put_message(queue, message)
                written.write(f"{queue} {number}\n")
            link.fail_next(*chance.choices(list(Fault), k=chance.randrange(3)))
            move_all(a, b, mq)
            link.deliver_delayed()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
