"""The answer to a question for a message: where it stands, step by step and in one sentence."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Relation(StrEnum):
    """The relation of a found message to the id that was asked for."""

    #: It has the id as its MsgId.
    MESSAGE = "message"
    #: A report about that message.
    REPORT = "report"
    #: It has the id as its CorrelId.
    CORRELATED = "correlated"


class Stay(NamedTuple):
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


class Whereabouts(NamedTuple):
    """The knowledge of queue managers about an id, at a moment.

    ``stays`` are in the order in which they ended, those of now last; empty when nothing is known.
    ``is_cut``: there were more than MOST_STAYS of a kind. ``ledger_position`` and ``ledger_ms`` are
    the oldest row that retention has left in the ledger, None while it is empty. Those three are of
    ``queue_manager``, which was asked. ``notes`` are sentences about what was not looked at.
    """

    asked_id: bytes
    at_ms: int
    sentence: str
    steps: tuple[Step, ...]
    stays: tuple[Stay, ...]
    is_cut: bool
    ledger_position: int | None
    ledger_ms: int | None
    queue_manager: str = ""
    notes: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether a message with this id was found, now or in the ledger."""
        return bool(self.stays)


#: Messages that are told of, of each kind and place.
MOST_STAYS = 50
