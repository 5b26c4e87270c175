"""``…/ledger`` and ``…/expired``: messages that have ended, and expired ones still on queues."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from mayfly.admin.security.roles import Role
from mayfly.engine.api.operating import EndedFilter, ended_messages, ended_summary, expired_present
from mayfly.lifetime.life import LifeRecord, State
from mayfly.mqi.constants import MQ_MSG_ID_LENGTH
from mayfly.mqi.reasons import cause_name
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.resources.operations import OF_MANAGER, Call, Next, Operation, check_span

_MAX: Final = 1_000
_LAST_POSITION: Final = 2**63 - 1
_Moment: TypeAlias = Annotated[int, Meta(ge=0, le=_LAST_POSITION, description="ms since 1970, UTC")]


class EndedSpan(Struct, forbid_unknown_fields=True, kw_only=True):
    """Query parameters that select ended messages to count."""

    queue: Annotated[str | None, Meta(description="only those that ended on this queue")] = None
    outcome: Annotated[
        str | None, Meta(description="only those with this outcome, as `expired` or `got`")
    ] = None
    from_ms: _Moment | None = None
    before_ms: _Moment | None = None


class EndedListing(EndedSpan, forbid_unknown_fields=True, kw_only=True):
    """Query parameters that select ended messages to list."""

    id: Annotated[
        str | None, Meta(description="only those with this MsgId or CorrelId, in hexadecimal")
    ] = None
    limit: Annotated[int, Meta(ge=1, le=_MAX, description="the most entries of a page")] = 20
    after: (
        Annotated[
            int, Meta(ge=0, le=_LAST_POSITION, description="`next` of the page before, a position")
        ]
        | None
    ) = None


class Life(Struct):
    """A message that has ended, as in its ledger row: its stay on one queue, put to end.

    Times are in ms since 1970; unknown values are null or empty.
    """

    position: Annotated[int, Meta(description="of its row in the ledger")]
    queue: str
    msg_id: Annotated[str, Meta(description="in hexadecimal")]
    correl_id: Annotated[str, Meta(description="in hexadecimal, empty for all zeros")]
    origin_id: Annotated[str | None, Meta(description="MsgId of the life that this one continues")]
    put_ms: int
    deliver_at_ms: Annotated[int, Meta(description="its delivery time, or when it was put")]
    expire_at_ms: Annotated[int | None, Meta(description="its deadline, null without one")]
    ended_ms: int
    outcome: str
    reason: Annotated[int, Meta(description="MQRC_* or MQFB_* for which it left, 0 for none")]
    reason_name: str | None
    priority: int
    persistent: bool
    body_bytes: int
    report: Annotated[int, Meta(description="MQMD.Report")]
    reply_to_q: str
    backout_count: int
    user_identifier: Annotated[str, Meta(description="MQMD.UserIdentifier of its sender")]
    capped_by: Annotated[str | None, Meta(description="the CAPEXPRY that shortened the life")]
    detected_by: Annotated[
        str | None, Meta(description="what met it when it had expired, as `scan`")
    ]
    ended_by: Annotated[str | None, Meta(description="the user or channel that ended the life")]
    ended_program: Annotated[str | None, Meta(description="the program that ended the life")]


class Lives(Struct):
    """Ended messages, the newest first. A page may be short, or empty, and not be the last one."""

    lives: list[Life]
    next: Next


class EndedCount(Struct):
    """The number of messages of one queue with one outcome."""

    queue: str
    outcome: str
    count: int


class LedgerSummary(Struct):
    """Numbers of ended messages by queue and outcome, the largest first."""

    counts: list[EndedCount]
    others: Annotated[int, Meta(description="lives beyond these 1,000 counts")]
    first_position: Annotated[int, Meta(description="the oldest row that was looked at")]
    last_position: Annotated[int, Meta(description="the newest row that was looked at")]
    is_cut: Annotated[bool, Meta(description="whether there are older rows: 2,000,000 are read")]


class ExpiredQueue(Struct):
    """Messages that have expired and are still on a queue."""

    queue: str
    message_count: int
    oldest_deadline_ms: Annotated[int, Meta(description="the first deadline, ms since 1970, UTC")]


class ExpiredListing(Struct, forbid_unknown_fields=True):
    """Query parameters of the list of expired messages."""

    limit: Annotated[int, Meta(ge=0, le=_MAX, description="the most entries of a page")] = 20


class ExpiredShown(Struct):
    """Expired messages that are still on queues, and the last ones that were discarded."""

    now_ms: Annotated[int, Meta(description="ms since 1970, UTC")]
    present: Annotated[list[ExpiredQueue], Meta(description="by name of the queue")]
    latest: Annotated[
        list[Life], Meta(description="the last that were discarded, the newest first")
    ]


def listed(call: Call[EndedListing, None]) -> Lives:
    """List messages that have ended, the newest first.

    They come from the ledger, the log of ended messages. A request reads at most 500,000 of its
    rows; the next page continues after them. So a page may be empty and not be the last; ``next``
    is null on the last one. 400 for an invalid id or range of time.
    """
    asked = call.query
    where = _to_filter(asked)._replace(
        identifier=None if asked.id is None else _identifier(asked.id)
    )
    found = ended_messages(call.manager.engine, where, asked.limit, asked.after)
    following = None if found.next_before is None else str(found.next_before)
    return Lives([_to_life(position, life) for position, life in found.ended_messages], following)


def summed(call: Call[EndedSpan, None]) -> LedgerSummary:
    """Count messages that have ended, by queue and outcome, the largest counts first.

    The newest 2,000,000 rows of the ledger, the log of ended messages, are read. 400 for an invalid
    range of time.
    """
    found = ended_summary(call.manager.engine, _to_filter(call.query))
    ordered = sorted(found.counts.items(), key=lambda each: (-each[1], each[0]))
    counts = [EndedCount(*key, count) for key, count in ordered[:_MAX]]
    others = sum(count for _key, count in ordered[_MAX:])
    return LedgerSummary(counts, others, found.first_position, found.last_position, found.is_cut)


def expired(call: Call[ExpiredListing, None]) -> ExpiredShown:
    """Show which expired messages are still on queues, and which were discarded last.

    Messages in an open unit of work are not shown: they do not expire before it ends.
    """
    engine, limit = call.manager.engine, call.query.limit
    lives = ended_messages(engine, EndedFilter(outcome=State.EXPIRED.value), limit).ended_messages
    return ExpiredShown(
        engine.now_ms(),
        [ExpiredQueue(*one) for one in expired_present(engine)],
        [_to_life(position, life) for position, life in lives[:limit]],
    )


def _to_filter(asked: EndedSpan) -> EndedFilter:
    """Return the ledger filter for a query; raises HttpError (400) for a wrong time range."""
    check_span(asked.from_ms, asked.before_ms)
    return EndedFilter(asked.queue, asked.outcome, asked.from_ms, asked.before_ms)


def _identifier(text: str) -> bytes:
    """Return an id of 24 bytes from up to 48 hexadecimal digits, padded with zeros.

    Raises HttpError (400) for another text or an empty one.
    """
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if not 0 < len(found) <= MQ_MSG_ID_LENGTH:
        message = f"id {text!r} is not 1 to {MQ_MSG_ID_LENGTH} bytes in hexadecimal"
        raise HttpError(HTTPStatus.BAD_REQUEST, message)
    return found.ljust(MQ_MSG_ID_LENGTH, b"\0")


def _to_life(position: int, life: LifeRecord) -> Life:
    """Return the ledger row of an ended message as the API shows it; ``position`` is the row's."""
    found = life._asdict()
    origin = found.pop("origin_id")
    found |= {
        "msg_id": life.msg_id.hex(),
        "correl_id": life.correl_id.hex(),
        "persistent": bool(life.persistent),
        "reason_name": cause_name(life.reason) if life.reason else None,
        "origin_id": None if origin is None else origin.hex(),
    }
    return Life(position=position, **found)


OPERATIONS: Final = (
    Operation("GET", f"{OF_MANAGER}/ledger", listed, Role.LOOK),
    Operation("GET", f"{OF_MANAGER}/ledger/summary", summed, Role.LOOK),
    Operation("GET", f"{OF_MANAGER}/expired", expired, Role.LOOK),
)
