"""The trace of a message: its state and history on all queues, in steps and in a sentence."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

MAX_TRACES: Final = 100
_EARLIEST_MS, _LATEST_MS = 0, 2**63 - 1


class Relation(StrEnum):
    """The relation between a found message and the id in the question."""

    #: It has the id as its MsgId.
    MESSAGE = "message"
    #: A report about that message.
    REPORT = "report"
    #: It has the id as its CorrelId.
    CORRELATED = "correlated"


class TraceEntry(NamedTuple):
    """One message on one queue: its state there now, or how its stay there ended.

    ``state`` is a ``lifetime.life.State``. Times are ms since 1970; ``ended_ms`` is None while it
    is on the queue, ``expire_at_ms`` None if it never expires. ``msg_id`` and ``correl_id`` are
    those its sender knows: 24 bytes, empty where unknown. ``target`` is its next queue, on the
    staging queue, a transmission queue or a dead-letter queue. ``reason`` is an MQRC_* or MQFB_*:
    why it was dead-lettered or discarded, or the Feedback of a report. ``holder`` names the user or
    consumer that holds it while it is uncommitted or locked, ``hindrance`` why nobody can get it.
    ``report`` are its report options. ``queue_manager`` owns the queue; for a shared queue it is
    the queue-sharing group.

    ``program`` is the PutApplName, ``topic`` the topic string of a published copy; both are empty
    for an ended message, as the ledger does not have them. ``capped_by``, ``detected_by``,
    ``ended_by`` and ``ended_program`` are columns of the ledger (docs/LEDGER.md), empty where
    unknown. Only ``capped_by`` is known of a message that is still on its queue.
    """

    relation: str
    state: str
    queue: str
    msg_id: bytes
    correl_id: bytes
    put_ms: int
    deliver_at_ms: int
    expire_at_ms: int | None
    ended_ms: int | None
    reason: int
    target: str
    holder: str
    hindrance: str
    persistent: bool
    body_bytes: int
    report: int
    reply_to_q: str
    backout_count: int
    user_identifier: str
    program: str = ""
    topic: str = ""
    queue_manager: str = ""
    capped_by: str = ""
    detected_by: str = ""
    ended_by: str = ""
    ended_program: str = ""


class Step(NamedTuple):
    """One line of the answer: an event of a message, or its state; ``at_ms`` is ms since 1970.

    ``user`` and ``program`` are those that caused the event, empty where unknown.
    """

    at_ms: int
    what: str
    queue: str
    text: str
    queue_manager: str = ""
    user: str = ""
    program: str = ""


class MessageTrace(NamedTuple):
    """The history of the messages with one id, as queue managers know it at one moment.

    ``entries`` are in the order in which they ended, present ones last; empty for an unknown id.
    ``is_cut`` is True when more than MAX_TRACE_ENTRIES of a kind were found. ``ledger_position``
    and ``ledger_ms`` belong to the oldest row of the ledger that retention has kept, None while the
    ledger is empty. These three are about ``queue_manager``. ``notes`` are sentences about places
    that could not be searched.
    """

    asked_id: bytes
    at_ms: int
    sentence: str
    steps: tuple[Step, ...]
    entries: tuple[TraceEntry, ...]
    is_cut: bool
    ledger_position: int | None
    ledger_ms: int | None
    queue_manager: str = ""
    notes: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether a message with this id was found, on a queue or in the ledger."""
        return bool(self.entries)

    def __str__(self) -> str:
        """Return the sentence, so that ``print(qm.why(msg_id))`` tells where a message is."""
        return self.sentence


#: The most messages in an answer, of each kind and place.
MAX_TRACE_ENTRIES = 50


class PropertyQuestion(NamedTuple):
    """A search for messages with a property; times are those of the put, ms since 1970.

    ``value`` is the value as text. ``from_ms`` is inside the range, ``before_ms`` outside; None is
    no bound. At most ``limit`` traces are returned, those of the latest puts.
    """

    name: str
    value: str
    from_ms: int | None = None
    before_ms: int | None = None
    limit: int = 20

    def check(self) -> None:
        """Raise MQRC_OPTIONS_ERROR for a limit outside 1 to 100, or an empty range of time."""
        if not 1 <= self.limit <= MAX_TRACES:
            text = f"limit {self.limit} is not a whole number from 1 to {MAX_TRACES}"
            raise mq_error(rc.MQRC_OPTIONS_ERROR, text)
        if self.put_range[0] >= self.put_range[1]:
            text = f"from_ms {self.from_ms} is not before before_ms {self.before_ms}"
            raise mq_error(rc.MQRC_OPTIONS_ERROR, text)

    @property
    def put_range(self) -> tuple[int, int]:
        """The range of put times searched, ms since 1970; the second is outside of the range."""
        return (
            _EARLIEST_MS if self.from_ms is None else self.from_ms,
            _LATEST_MS if self.before_ms is None else self.before_ms,
        )


class TracesFound(NamedTuple):
    """Traces of messages with a property, the latest put first.

    ``is_cut`` is True when there are more. ``notes`` are sentences about places that could not be
    searched.
    """

    traces: tuple[MessageTrace, ...]
    is_cut: bool
    notes: tuple[str, ...]
