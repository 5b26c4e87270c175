"""The answer to a question for a message: where it stands, step by step and in one sentence."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

MAX_TRACES: Final = 100
_EARLIEST_MS, _LATEST_MS = 0, 2**63 - 1


class Relation(StrEnum):
    """The relation of a found message to the id that was asked for."""

    #: It has the id as its MsgId.
    MESSAGE = "message"
    #: A report about that message.
    REPORT = "report"
    #: It has the id as its CorrelId.
    CORRELATED = "correlated"


class TraceEntry(NamedTuple):
    """One message on one queue: where it stands there now, or how its life there ended.

    ``state`` is a ``lifetime.life.State``; times are epoch ms, ``ended_ms`` None is still there,
    ``expire_at_ms`` None is never. ``msg_id`` and ``correl_id`` are those its sender knows, 24
    bytes or empty where unknown. ``target`` is where it goes from here: from the staging queue, a
    transmission queue or a dead-letter queue. ``reason`` is an MQRC_* or MQFB_*: why it was
    dead-lettered or discarded, or the Feedback of a report. ``holder`` says whose it is while it is
    uncommitted or locked, ``hindrance`` why nobody can get it. ``report`` are its report options.
    ``queue_manager`` owns the queue; of a shared queue it is the queue-sharing group. ``program``
    is the PutApplName and ``topic`` the topic string of a publication's copy; both are empty for a
    life that has ended, as the ledger has neither. ``capped_by``, ``met_by``, ``ended_by`` and
    ``ended_program`` are those of the ledger (docs/LEDGER.md), empty where it has none. Only the
    first is known of a message that is still there.
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
    met_by: str = ""
    ended_by: str = ""
    ended_program: str = ""


class Step(NamedTuple):
    """One line of the answer: an event or the state of a message; ``at_ms`` epoch ms.

    ``user`` and ``program`` are who did it, empty where that is not known.
    """

    at_ms: int
    what: str
    queue: str
    text: str
    queue_manager: str = ""
    user: str = ""
    program: str = ""


class MessageTrace(NamedTuple):
    """The knowledge of queue managers about an id, at a moment.

    ``entries`` are in the order in which they ended, those of now last; empty for an unknown id.
    ``is_cut``: there were more than MAX_TRACE_ENTRIES of a kind. ``ledger_position`` and
    ``ledger_ms`` are the oldest row that retention has left, None while the ledger is empty. These
    three are of
    ``queue_manager``, which was asked. ``notes`` are sentences about what was not looked at.
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
        """Whether a message with this id was found, now or in the ledger."""
        return bool(self.entries)


#: Messages that are told of, of each kind and place.
MAX_TRACE_ENTRIES = 50


class PropertyQuestion(NamedTuple):
    """A question for messages with a property; times are ms since 1970, of the put.

    ``value`` is the value as text; from ``from_ms`` on and before ``before_ms``, None is no bound.
    ``limit`` traces are returned, those of the latest puts.
    """

    name: str
    value: str
    from_ms: int | None = None
    before_ms: int | None = None
    limit: int = 20

    def check(self) -> None:
        """Raise MQRC_OPTIONS_ERROR for a limit or a range that is none, naming it."""
        if not 1 <= self.limit <= MAX_TRACES:
            text = f"limit {self.limit} is not a whole number from 1 to {MAX_TRACES}"
            raise mq_error(rc.MQRC_OPTIONS_ERROR, text)
        if self.put_range[0] >= self.put_range[1]:
            text = f"from_ms {self.from_ms} is not before before_ms {self.before_ms}"
            raise mq_error(rc.MQRC_OPTIONS_ERROR, text)

    @property
    def put_range(self) -> tuple[int, int]:
        """The half-open range of the time of the put."""
        return (
            _EARLIEST_MS if self.from_ms is None else self.from_ms,
            _LATEST_MS if self.before_ms is None else self.before_ms,
        )


class TracesFound(NamedTuple):
    """Traces of messages with a property, the latest put first.

    ``is_cut``: there are more. ``notes`` are sentences about what was not looked at.
    """

    traces: tuple[MessageTrace, ...]
    is_cut: bool
    notes: tuple[str, ...]
