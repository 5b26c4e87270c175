"""Ended lives in the ledger: questions of operators, and the erasure of who and what they were.

The ledger has one record for each message that has left a queue. It is indexed by position only. A
question reads a limited number of rows, newest first, and its answer has the position where the
next question continues.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from mayfly.engine.core import Core
from mayfly.engine.queues import VOLATILE
from mayfly.lifetime.life import KIND_LIFE, LifeRecord, State
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.store.messages import EXPIRED_OUTSIDE, limited
from mayfly.verbs.checks import Identifier, stored_id
from mayfly.verbs.contracts.erasure import Erasure

#: Rows of one read, some 20 ms; in memory others wait for it.
READ_ROWS: Final = 50_000
#: Rows that one question about single lives looks at.
MAX_ROWS: Final = 500_000
#: Rows that one summary counts: about a second.
MAX_COUNTED: Final = 2_000_000
#: A life of a message that is not persistent may be written later than others that ended after it.
_DISORDER_MS: Final = 60 * SECOND_MS
_FIELDS: Final = ", ".join(LifeRecord._fields)
_WITHIN: Final = f"position >= ? AND position < ? AND kind = {KIND_LIFE}"

#: Lives that a rule about time, or a get, has ended; the others were ended by an operator.
_REPLAYED: Final = ", ".join(f"'{one}'" for one in (State.GOT, State.TRANSMITTED, State.EXPIRED))
_IS_GOT: Final = f"outcome <> '{State.EXPIRED}'"
#: The columns of a trace, and what they are of a life.
_OF_TRACE: Final = {
    "queue": "queue",
    "seq": "position",
    "put_ms": "put_ms",
    "delay_ms": "(deliver_at_ms - put_ms)",
    "life_ms": "coalesce(expire_at_ms - put_ms, '')",
    "get_ms": f"CASE WHEN {_IS_GOT} THEN ended_ms ELSE '' END",
    "priority": "priority",
    "recorded": f"CASE WHEN {_IS_GOT} THEN '{State.GOT}' ELSE outcome END",
}


class EndedFilter(NamedTuple):
    """A filter of the records of ended messages; a field that is None matches all.

    ``identifier`` is a MsgId or CorrelId of 24 bytes, ``outcome`` a word of the ledger, such as
    ``'expired'``. A record matches if the message ended at or after ``from_ms`` and before
    ``before_ms``.
    """

    queue: str | None = None
    outcome: str | None = None
    from_ms: int | None = None
    before_ms: int | None = None
    identifier: bytes | None = None

    def condition(self) -> tuple[str, list[Any]]:
        """Return the filter as an SQL condition and its parameters.

        ``(' AND queue = ?', ['Q1'])``, or ``('', [])`` when all fields are None.
        """
        parts: list[str] = []
        values: list[Any] = []
        for column, value in (
            ("queue = ?", self.queue),
            ("outcome = ?", self.outcome),
            ("ended_ms >= ?", self.from_ms),
            ("ended_ms < ?", self.before_ms),
        ):
            if value is not None:
                parts.append(f" AND {column}")
                values.append(value)
        if self.identifier is not None:
            parts.append(" AND (msg_id = ? OR correl_id = ?)")
            values += [self.identifier] * 2
        return "".join(parts), values


class EndedPage(NamedTuple):
    """Records of ended messages with their ledger positions, newest first.

    ``next_before`` is the position for the next question; None when all rows were read. A short or
    empty page need not be the last.
    """

    ended_messages: list[tuple[int, LifeRecord]]
    next_before: int | None


class Summary(NamedTuple):
    """The number of ended messages by queue and outcome.

    It covers the rows from ``first_position`` to ``last_position``, both inside; with no rows the
    first is the higher one. ``is_cut`` is True when older records are not counted.
    """

    counts: Counter[tuple[str, str]]
    first_position: int
    last_position: int
    is_cut: bool


class EndedInStep(NamedTuple):
    """How many messages ended in one step of time, and how many of them by expiry."""

    ended_count: int
    expired_count: int


class EndedSteps(NamedTuple):
    """Ended messages by steps of time, as ``ended_steps`` returns them.

    ``is_cut`` is True when older records are not counted.
    """

    steps: list[EndedInStep]
    is_cut: bool


class ExpiredPresent(NamedTuple):
    """The expired messages that are still on a queue, and the earliest of their deadlines."""

    queue: str
    message_count: int
    oldest_deadline_ms: int


def ended_messages(
    core: Core, where: EndedFilter, limit: int, before: int | None = None
) -> EndedPage:
    """Return up to ``limit`` of the newest matching records of ended messages, newest first.

    The result has pairs of ledger position and record, and the position to pass as ``before`` for
    the next page, None at the end. Only ledger positions below ``before`` are searched, None for
    all; at most 500,000 rows are read, so a short page need not be the last. Raises
    MQRC_CONNECTION_BROKEN.
    """
    first, last = _span(core, where)
    high = last + 1 if before is None else min(before, last + 1)
    condition, values = where.condition()
    sql = limited(
        f"SELECT position, {_FIELDS} FROM ledger WHERE {_WITHIN}{condition} ORDER BY position DESC",
        limit + 1,
    )
    found: list[tuple[int, LifeRecord]] = []
    floor = max(first, high - MAX_ROWS)
    for low, end in _reads(floor, high):
        rows = core.store.statistics_reader.rows(sql, (low, end, *values))
        found += [(row[0], LifeRecord._make(row[1:])) for row in rows]
        if len(found) > limit:
            return EndedPage(found[:limit], found[limit - 1][0])
    return EndedPage(found, floor if floor > first else None)


def ended_summary(core: Core, where: EndedFilter) -> Summary:
    """Return counts of matching ended messages by queue and outcome.

    Only the newest two million ledger rows are read. The result also has the first and last ledger
    position that was read, and whether older rows were left out. Raises MQRC_CONNECTION_BROKEN.
    """
    first, last = _span(core, where)
    condition, values = where.condition()
    sql = (
        f"SELECT queue, outcome, count(*) FROM ledger WHERE {_WITHIN}{condition} "
        "GROUP BY queue, outcome"
    )
    counts, floor = Counter[tuple[str, str]](), max(first, last + 1 - MAX_COUNTED)
    for low, high in _reads(floor, last + 1):
        for queue, outcome, count in core.store.statistics_reader.rows(sql, (low, high, *values)):
            counts[queue, outcome] += count
    return Summary(counts, floor, last, floor > first)


def ended_steps(
    core: Core, queue: str | None, from_ms: int, step_ms: int, step_count: int
) -> EndedSteps:
    """Return how many messages ended in each of ``step_count`` steps that begin at ``from_ms``.

    ``queue`` None counts all queues. An expired message counts in the step of its deadline, however
    late it was met; another one in the step of its end. A release from the staging queue is no end.
    Only the newest two million ledger rows are read. Raises MQRC_CONNECTION_BROKEN.
    """
    first, last = _span(core, EndedFilter(queue, from_ms=from_ms))
    condition, values = EndedFilter(queue).condition()
    is_expired = f"outcome = '{State.EXPIRED}'"
    sql = (
        f"SELECT (iif({is_expired}, expire_at_ms, ended_ms) - ?) / ? AS step, count(*), "
        f"sum({is_expired}) FROM ledger WHERE {_WITHIN}{condition} "
        f"AND outcome <> '{State.RELEASED}' AND iif({is_expired}, expire_at_ms, ended_ms) >= ? "
        "GROUP BY step"
    )
    ended, expired, floor = [0] * step_count, [0] * step_count, max(first, last + 1 - MAX_COUNTED)
    for low, high in _reads(floor, last + 1):
        asked = (from_ms, step_ms, low, high, *values, from_ms)
        for step, ended_count, expired_count in core.store.statistics_reader.rows(sql, asked):
            if step < step_count:
                ended[step] += ended_count
                expired[step] += expired_count
    return EndedSteps(
        [EndedInStep(*one) for one in zip(ended, expired, strict=True)], floor > first
    )


def expired_present(core: Core) -> list[ExpiredPresent]:
    """Return the queues that have expired messages, by name.

    Messages that an open unit of work has put or got are not counted. Raises
    MQRC_CONNECTION_BROKEN.
    """
    with core.engine_lock:
        core.check_running()
        now_ms, hidden = core.now_ms(), json.dumps([*core.hidden])
        volatile = core.messages(VOLATILE).fetch(EXPIRED_OUTSIDE, (now_ms, hidden))
        names = {queue.number: queue.name for queue in core.registry.queues()}
    found: dict[str, ExpiredPresent] = {}
    for number, count, oldest_ms in [
        *volatile,
        *core.store.statistics_reader.rows(EXPIRED_OUTSIDE, (now_ms, hidden)),
    ]:
        name = names.get(number)
        if name is not None:
            known = found.get(name, ExpiredPresent(name, 0, oldest_ms))
            first_ms = min(oldest_ms, known.oldest_deadline_ms)
            found[name] = ExpiredPresent(name, known.message_count + count, first_ms)
    return [found[name] for name in sorted(found)]


def _reads(low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield parts (start, end) of a range of positions, highest first, at most 50,000 rows each.

    ``high`` and each ``end`` are outside. Yields nothing for an empty range.
    """
    while high > low:
        start = max(low, high - READ_ROWS)
        yield start, high
        high = start


def _span(core: Core, where: EndedFilter) -> tuple[int, int]:
    """Return the first and last ledger position where a match can be; the first is higher for none.

    Raises MQRC_CONNECTION_BROKEN.
    """
    core.check_running()
    core.store.settle()
    ledger = core.store.ledger
    first, last = ledger.first_position(), ledger.last_position()
    if where.from_ms is not None:
        first = _position_at(core, where.from_ms - _DISORDER_MS, first, last)
    if where.before_ms is not None:
        last = _position_at(core, where.before_ms + _DISORDER_MS, first, last + 1) - 1
    return first, last


def _position_at(core: Core, moment_ms: int, low: int, high: int) -> int:
    """Return the first ledger position whose message ended at or after a moment (epoch ms).

    Positions from ``low`` to below ``high`` are searched; the result is ``high`` if every message
    there ended earlier.
    """
    while low < high:
        middle = (low + high) // 2
        rows = core.store.statistics_reader.rows(
            "SELECT ended_ms FROM ledger WHERE position >= ? ORDER BY position LIMIT 1", (middle,)
        )
        if rows and rows[0][0] < moment_ms:
            low = middle + 1
        else:
            high = middle
    return low


def write_trace(
    core: Core, where: EndedFilter, max_lives: int, write: Callable[[str], object]
) -> bool:
    """Write the newest matching ended messages as CSV for replay, in ledger order (docs/LAKE.md).

    ``write`` receives the header line, then blocks of lines; an error that it raises is passed on.
    Only messages that ended by a get, a transmission or expiry are written; at most ``max_lives``
    positions are read. Returns True if older ones were left out.
    """
    first, last = _span(core, where)
    condition, values = where.condition()
    floor = max(first, last + 1 - max_lives)
    write(f"{','.join(_OF_TRACE)}\n")
    columns = "||','||".join(_OF_TRACE.values())
    sql = (
        f"SELECT group_concat(line, char(10)) FROM (SELECT {columns} AS line FROM ledger "
        f"WHERE {_WITHIN}{condition} AND outcome IN ({_REPLAYED}) ORDER BY position)"
    )
    for low, high in reversed(list(_reads(floor, last + 1))):
        [(lines,)] = core.store.statistics_reader.rows(sql, (low, high, *values))
        if lines is not None:
            write(f"{lines}\n")
    return floor > first


# Erases who and what ended messages were from the ledger, with a record of it


def erase_lives(
    core: Core, *, identifier: Identifier | None, user: str | None, by: str, reason: str
) -> Erasure:
    """Erase ids, users and programs from the records of ended messages; return the record of it.

    The messages are those that have ``identifier`` as MsgId, CorrelId, or MsgId of the life before,
    or those that ``user`` has put or ended: one of both is given. Messages that have not ended stay
    as they are. ``by`` is who erases. Call it without the engine lock. Raises MQRC_OPTIONS_ERROR
    without a reason, or for not one of both; MQRC_MD_ERROR for a wrong id;
    MQRC_STORAGE_MEDIUM_FULL.
    """
    core.check_running()
    if (identifier is None) == (user is None) or user == "":
        raise mq_error(rc.MQRC_OPTIONS_ERROR, "erase by an id, or by the name of a user")
    if not reason.strip():
        raise mq_error(rc.MQRC_OPTIONS_ERROR, "the reason of an erasure is missing")
    value: bytes | str
    if identifier is not None:
        value = stored_id(identifier)
        if not value:
            raise mq_error(rc.MQRC_MD_ERROR, "the id has no byte but zeros")
    else:
        assert user is not None
        value = user
    selected_by = "id" if user is None else "user"
    begun = Erasure(core.now_ms(), by, selected_by, reason.strip(), 0)
    return core.store.erasure.erase(value, begun)


def erasures(core: Core) -> list[Erasure]:
    """Return the records of erasures from the ledger, oldest first; [] if there was none."""
    core.check_running()
    return core.store.erasure.records()
