"""Helpers of the spec tests: queues, puts with a whole descriptor, ended lives as rows by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any, NamedTuple

from mayfly import QueueManager, QueueSharingGroup
from mayfly.engine import GetRequest, Handle, Match, PutRequest, Session
from mayfly.engine.api.administration import QALIAS, QLOCAL, QMGR
from mayfly.engine.objects import administration
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS, LifeRecord
from mayfly.lifetime.window import life_ms_of_expiry
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.verbs.facts import Value
from mayfly.verbs.messages import GetResult, Message, PutResult

START_MS = 1_700_000_000_000
STAGING = "SYSTEM.DDELAY.LOCAL.QUEUE"
DEAD = "SYSTEM.DEAD.LETTER.QUEUE"
#: The states of the delay processor in which delayed messages are released.
WORKING = ("running", "spark")
ZERO_ID = bytes(24)
INPUT, OUTPUT, BROWSE = c.MQOO_INPUT_SHARED, c.MQOO_OUTPUT, c.MQOO_BROWSE
#: A thread that has not come back after this never will, however busy the machine.
JOIN_SECONDS = 120.0
#: ReplyToQ of the reports, wherever a test makes one.
REPLIES = "REPLIES"
V2 = Descriptor(version=2)


def local(qm: QueueManager, name: str = "Q1", **attributes: Value) -> str:
    """Define a local queue and return its name."""
    administration.define(qm.engine, QLOCAL, name, attributes)
    return name


def alias(qm: QueueManager, name: str, target: str, **attributes: Value) -> str:
    """Define an alias and return its name."""
    administration.define(qm.engine, QALIAS, name, {"TARGET": target, **attributes})
    return name


def alter(qm: QueueManager, name: str, **attributes: Value) -> None:
    """Alter a local queue."""
    administration.alter(qm.engine, QLOCAL, name, attributes)


def alter_manager(qm: QueueManager | QueueSharingGroup, **attributes: Value) -> None:
    """Alter the queue manager."""
    administration.alter(qm.engine, QMGR, "", attributes)


def put_md(
    session: Session, queue: str, body: bytes, descriptor: Descriptor, **more: Any
) -> PutResult:
    """Put with a whole descriptor; ``more`` are fields of PutRequest, and ``options``."""
    options = more.pop("options", c.MQPMO_NONE)
    handle = session.open(queue, OUTPUT | c.MQOO_SET_ALL_CONTEXT)
    try:
        return handle.put(body, PutRequest(descriptor, **more), options)
    finally:
        handle.close()


def put_expiry(session: Session, queue: str, expiry_tenths: int, report: int = 0) -> PutResult:
    """Put with MQMD.Expiry, as a facade of the MQI does."""
    manager = session.core
    life_ms = life_ms_of_expiry(
        expiry_tenths,
        enforce_maximum=manager.settings.is_maximum_enforced,
        refuse_zero=manager.settings.is_zero_refused,
    )
    descriptor = Descriptor(report=report, reply_to_q=REPLIES if report else "")
    return put_md(session, queue, b"x", descriptor, life_ms=life_ms)


def take(handle: Handle, options: int = 0, **more: Any) -> GetResult:
    """Get or browse through a handle; ``more`` are fields of GetRequest."""
    return handle.get(GetRequest(**more), options)


def body(message: Message | None) -> bytes | None:
    """Return the body of what came, or None."""
    return None if message is None else message.body


def bodies(session: Session, queue: str) -> list[bytes]:
    """Get all there is and return the bodies."""
    found = []
    while (message := session.get(queue)) is not None:
        found.append(message.body)
    return found


def by_msg_id(msg_id: bytes) -> Match:
    """Match one MsgId."""
    return Match(msg_id=msg_id)


@contextmanager
def refused(reason: int) -> Iterator[None]:
    """Expect MQError with this reason code."""
    refusal = None
    try:
        yield
    except MQError as error:
        refusal = error
    # Programs that tests kill begin without pytest, whose import takes as long as half of Mayfly's.
    assert refusal is not None, f"nothing was refused by {reason}"
    assert refusal.reason == reason, str(refusal)


class End(NamedTuple):
    """How one life ended: the moment counts from START_MS."""

    outcome: str
    at_ms: int
    reason: int = 0


def lives(qm: QueueManager | QueueSharingGroup, queue: str) -> list[LifeRecord]:
    """Return the lives that ended on a queue, in ledger order."""
    rows = [dict(zip(LEDGER_COLUMNS, row, strict=True)) for row in qm.engine.ledger.page(0, 10_000)]
    return [
        LifeRecord(**{name: row[name] for name in LifeRecord._fields})
        for row in rows
        if row["kind"] == KIND_LIFE and row["queue"] == queue
    ]


def ends(qm: QueueManager | QueueSharingGroup, queue: str) -> list[End]:
    """Return how and when the lives on a queue ended."""
    return [End(r.outcome, r.ended_ms - START_MS, r.reason) for r in lives(qm, queue)]


class Running:
    """A call on a thread of its own, with what it returned or raised."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.result: object = None
        self.error: MQError | None = None
        self._call = call
        self.thread = Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except MQError as error:
            self.error = error

    @property
    def is_under_way(self) -> bool:
        """Whether the call has not come back."""
        return self.thread.is_alive()

    def finish(self) -> object:
        """Wait for the end of the call and return its result."""
        self.thread.join(JOIN_SECONDS)
        assert not self.thread.is_alive(), "the call did not come back"
        return self.result


def waiting(
    qm: QueueManager | QueueSharingGroup, queue: str, call: Callable[[], object]
) -> Running:
    """Start a call that waits on a queue on which nobody waits yet; return once it does."""
    number = qm.engine.registry.queue(queue).number
    running = Running(call)
    while not qm.engine.waits.is_waited_on(number):
        assert running.is_under_way, "the call came back without waiting"
    return running
