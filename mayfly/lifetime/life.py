"""The life of a message: its stay on one queue, with states, events, expiry limits and the record.

A life is one MsgId on one queue. It begins when the message becomes part of the queue and ends
once; its end writes one :class:`LifeRecord`. A message that goes from the staging queue to its
target, or to the dead-letter queue, ends one life and begins the next, whose ``origin_id`` names
the previous one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """The state of a message on its queue, or the way in which its stay there ended."""

    #: Put under syncpoint; leaves by its owner's commit or backout, never by expiry (E17).
    UNCOMMITTED = "uncommitted"
    #: On the staging queue until its delivery time, when the delay processor moves it out; or on
    #: its own queue after a backout, until its redelivery (BODELAY).
    DELAYED = "delayed"
    #: Can be got. Leaves by a get, by disposal, or with its queue.
    AVAILABLE = "available"
    #: Got under syncpoint; leaves by the owner's commit or backout, never by expiry (E15).
    LOCKED = "locked"
    #: The put was backed out: it was never part of the queue and leaves no record.
    WITHDRAWN = "withdrawn"
    # How a life can end. The word is the code that is stored (verbs/contracts/outcomes.py): it may
    # be added to, and never changes.
    GOT = "got"
    EXPIRED = "expired"
    DEAD_LETTERED = "dead_lettered"
    DISCARDED = "discarded"
    TRANSMITTED = "transmitted"
    RELEASED = "released"
    CLEARED = "cleared"
    CANCELLED = "cancelled"
    LOST_AT_RESTART = "lost_at_restart"


class Event(StrEnum):
    """An event during a message's stay on a queue; a key of the table NEXT."""

    COMMIT = "commit"
    COMMIT_DELAYED = "commit_delayed"
    BACKOUT = "backout"
    BACKOUT_DELAYED = "backout_delayed"
    WITHDRAW = "withdraw"
    GET = "get"
    GET_UNDER_SYNCPOINT = "get_under_syncpoint"
    DUE = "due"
    #: The delay after its backout is over: it can be got again (BODELAY, D32).
    REDELIVER = "redeliver"
    #: A get, a browse, the scan or the delay processor found it after its deadline.
    DEADLINE_SEEN = "deadline_seen"
    DEAD_LETTER = "dead_letter"
    DISCARD = "discard"
    TRANSMIT = "transmit"
    CLEAR = "clear"
    #: Removed from the staging queue before its delivery time (D3).
    CANCEL = "cancel"
    RESTART = "restart"


_LEAVES_A_QUEUE: dict[Event, State] = {
    Event.DEADLINE_SEEN: State.EXPIRED,
    Event.DEAD_LETTER: State.DEAD_LETTERED,
    Event.DISCARD: State.DISCARDED,
    Event.CLEAR: State.CLEARED,
    Event.RESTART: State.LOST_AT_RESTART,
}

#: State -> event -> next state. A pair that is missing is a bug in the engine, not of a caller.
NEXT: dict[State, dict[Event, State]] = {
    State.UNCOMMITTED: {
        Event.COMMIT: State.AVAILABLE,
        Event.COMMIT_DELAYED: State.DELAYED,
        Event.BACKOUT: State.WITHDRAWN,
        # P9: the unit of work that put a message may get it before it commits.
        Event.GET_UNDER_SYNCPOINT: State.LOCKED,
    },
    State.DELAYED: {
        Event.DUE: State.RELEASED,
        Event.CANCEL: State.CANCELLED,
        Event.GET_UNDER_SYNCPOINT: State.LOCKED,
        Event.REDELIVER: State.AVAILABLE,
        **_LEAVES_A_QUEUE,
    },
    State.AVAILABLE: {
        Event.GET: State.GOT,
        Event.GET_UNDER_SYNCPOINT: State.LOCKED,
        Event.TRANSMIT: State.TRANSMITTED,
        **_LEAVES_A_QUEUE,
    },
    # Nothing but its unit of work moves a locked message; after a backout past its deadline it is
    # AVAILABLE again and the next get finds it expired (E15).
    State.LOCKED: {
        Event.COMMIT: State.GOT,
        Event.CANCEL: State.CANCELLED,
        Event.BACKOUT: State.AVAILABLE,
        Event.BACKOUT_DELAYED: State.DELAYED,
        # P9: it was put in the same unit of work.
        Event.WITHDRAW: State.WITHDRAWN,
    },
}

#: How a life can end, in the order in which reports list them; each has a record.
OUTCOMES: tuple[State, ...] = tuple(
    state for state in State if state not in NEXT and state is not State.WITHDRAWN
)


class TransitionError(AssertionError):
    """An event that is impossible in the message's state: a bug in the engine."""


_CAP = re.compile(r"CAPEXPRY\((\d+)\) of (\w+)\((.*)\)")


class Cap(NamedTuple):
    """An expiry limit: CAPEXPRY in tenths of a second, with kind (QALIAS, TOPIC, …) and name."""

    tenths: int
    kind: str
    name: str

    @property
    def text(self) -> str:
        """The limit as text, stored with messages: ``CAPEXPRY(600) of QLOCAL(ORDERS)``."""
        return f"CAPEXPRY({self.tenths}) of {self.kind}({self.name})"


def read_cap(text: str) -> Cap | None:
    """Parse the text of :attr:`Cap.text`; None for any other text, as of a later version."""
    found = _CAP.fullmatch(text)
    return None if found is None else Cap(int(found[1]), found[2], found[3])


class LifeRecord(NamedTuple):
    """The record of a message's ended stay on a queue: the content of one ledger row.

    Its position is set when it is written. Times are epoch ms. ``deliver_at_ms`` equals ``put_ms``
    without a delay. ``expire_at_ms`` None is unlimited. ``origin_id`` is the MsgId of the stay that
    this one continues, None without one. ``outcome`` is a final State. ``reason`` is the MQRC_* or
    MQFB_* of a dead-lettered or discarded message, else 0. ``capped_by`` is the CAPEXPRY that
    shortened the expiry, with its object, None without one. For ``detected_by`` (what detected the
    expiry), ``ended_by`` and ``ended_program`` see `contracts.outcomes`.
    """

    queue: str
    msg_id: bytes
    correl_id: bytes
    origin_id: bytes | None
    put_ms: int
    deliver_at_ms: int
    expire_at_ms: int | None
    ended_ms: int
    outcome: str
    reason: int
    priority: int
    persistent: int
    body_bytes: int
    report: int
    reply_to_q: str
    backout_count: int
    user_identifier: str
    capped_by: str | None = None
    detected_by: str | None = None
    ended_by: str | None = None
    ended_program: str | None = None


class Balance(NamedTuple):
    """The message counts of one queue at a position of the ledger: puts = sum of ended + present.

    ``ended`` counts ended messages by outcome, without outcomes of 0. All counts begin with the
    creation of the queue, and are exact at the position of the row. ``at_ms`` is epoch ms.
    """

    queue: str
    at_ms: int
    puts: int
    present: int
    ended: Mapping[str, int]

    def is_balanced(self) -> bool:
        """Return True if every message put is either present or has ended."""
        return self.puts == sum(self.ended.values()) + self.present


#: Columns of a ledger row. ``kind`` 0 is a life, 1 a balance; a balance fills queue, ended_ms (its
#: at_ms), puts, present and ended (JSON: verbs/contracts/outcomes.py), a life everything else.
LEDGER_COLUMNS: tuple[str, ...] = (
    "position",
    "kind",
    *LifeRecord._fields,
    "puts",
    "present",
    "ended",
)
KIND_LIFE = 0
KIND_BALANCE = 1


#: State in which a life begins -> its events: a put, a delayed put, a put under syncpoint.
_BEGINNINGS = {
    State.AVAILABLE: "put, release, dead letter, report",
    State.DELAYED: "delayed put",
    State.UNCOMMITTED: "put under syncpoint",
}


def picture() -> str:
    """Return the states and events as a Mermaid state diagram, a line for each transition."""
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state}: {how}" for state, how in _BEGINNINGS.items()]
    for state, following in NEXT.items():
        events_to: dict[State, list[Event]] = {}
        for event, after in following.items():
            events_to.setdefault(after, []).append(event)
        for after, events in events_to.items():
            names = ", ".join(event.replace("_", " ") for event in events)
            lines.append(f"    {state} --> {after}: {names}")
    lines += [f"    {state} --> [*]" for state in State if state not in NEXT]
    return "\n".join(lines) + "\n"
