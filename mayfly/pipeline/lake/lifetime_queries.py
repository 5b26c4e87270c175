"""The questions whether lifetimes are right, as SQL for Spark and DuckDB.

``{ledger}`` in a text is the table of ledger rows. What the engines spell differently comes from a
Dialect. Rows have no order. Ages, lifetimes and delays count from the put. Lives on the staging
queue are looked at by ``delays`` alone: a delayed message lives there first and then on its queue.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from mayfly.lifetime.life import State
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.lake.measures import DURATIONS, IS_LIFE
from mayfly.pipeline.lake.part import DAY_MS, HOUR_MS
from mayfly.pipeline.lake.queries import Percentiles
from mayfly.verbs.contracts.outcomes import MetBy

#: Percentiles of the life that is left at the get, of which the short end matters.
LEFT_RANKS = {"p1": 0.01, "p5": 0.05, "p50": 0.5}
#: Percentiles of the age at which a get asked for a message. The last one is covered by a suggested
#: lifetime.
ASKED_RANKS = {"p50": 0.5, "p99_9": 0.999}
#: Percentiles of lateness, of which the long end matters.
LATE_RANKS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
#: With fewer gets no lifetime is suggested.
GETS_MIN = 30
#: A suggested lifetime is longer than the age that it covers by a tenth of it, or by a second if
#: that is more, and rounded up to a whole second.
_MARGIN_DIVISOR, _MARGIN_MS_MIN, _ROUNDED_TO_MS = 10, 1_000, 1_000

_IS_GOT, _IS_EXPIRED = f"outcome = '{State.GOT}'", f"outcome = '{State.EXPIRED}'"
_IS_MET_BY_GET, _IS_MET_BY_CLAIM = (
    f"{_IS_EXPIRED} AND coalesce(met_by, '') = '{met_by}'" for met_by in (MetBy.GET, MetBy.CLAIM)
)
_OF_QUEUES = f"{IS_LIFE} AND queue <> '{STAGING_QUEUE}'"


class Dialect(NamedTuple):
    """What DuckDB and Spark spell differently: functions that make SQL of SQL."""

    percentiles: Percentiles
    #: The last value that is not null, as a window function without its window.
    last_value: Callable[[str], str]
    #: The largest number in an array, null for null.
    largest: Callable[[str], str]


class By(StrEnum):
    """What messages are grouped by; dates and hours (UTC) are those of their delivery time."""

    QUEUE = "queue"
    DATE = "date"
    HOUR = "hour"
    HOUR_OF_DAY = "hour-of-day"
    #: The program that got a message, or whose get met it expired.
    APPLICATION = "application"
    #: The user who put it, and so chose its lifetime.
    PUTTER = "putter"

    @property
    def is_time(self) -> bool:
        """Whether the groups are dates or hours."""
        return self in (By.DATE, By.HOUR, By.HOUR_OF_DAY)


_HOUR = f"deliver_at_ms - deliver_at_ms % {HOUR_MS}"
#: The key of a message's group; for dates and hours the epoch ms of their beginning, or ms of day.
_KEYS = {
    By.QUEUE: "queue",
    By.DATE: f"CAST(deliver_at_ms - deliver_at_ms % {DAY_MS} AS STRING)",
    By.HOUR: f"CAST({_HOUR} AS STRING)",
    By.HOUR_OF_DAY: f"CAST(({_HOUR}) % {DAY_MS} AS STRING)",
    By.APPLICATION: "coalesce(ended_program, '')",
    By.PUTTER: "coalesce(user_identifier, '')",
}

#: A message expires at its deadline, whenever it is met after it. A get of that ms comes too late.
_IN_ORDER = f"coalesce(CASE WHEN {_IS_EXPIRED} THEN expire_at_ms END, ended_ms), {_IS_GOT}"
#: The lives of a queue up to the present one.
_SO_FAR = f"""OVER (PARTITION BY manager, queue ORDER BY {_IN_ORDER}
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"""


def lifetimes(dialect: Dialect, by: By, cap_ms: int | None) -> str:
    """Return the SQL query for how lifetimes suited the messages of each group.

    ``dialect`` makes the engine's own SQL, ``by`` says by what messages are grouped.
    ``lifetimes.LifetimeFigures`` explains the columns; those that begin with ``cap_`` are there if
    ``cap_ms`` is not None.
    """
    percentiles = dialect.percentiles
    last_get_ms = f"{dialect.last_value(f'CASE WHEN {_IS_GOT} THEN ended_ms END')} {_SO_FAR}"
    manager = "manager" if by is By.QUEUE else "''"
    covered = dialect.largest("asked_ms")
    margin = f"greatest({covered} / {_MARGIN_DIVISOR}, {_MARGIN_MS_MIN})"
    suggested = f"ceil(({covered} + {margin}) / {_ROUNDED_TO_MS}) * {_ROUNDED_TO_MS}"
    counts = _counts_by_limit() | ({} if cap_ms is None else _counts_by_cap(cap_ms))
    return f"""
WITH first_met AS (
    SELECT instance_id AS store, min(position) AS first_position
    FROM {{ledger}} WHERE {_OF_QUEUES} AND {_IS_MET_BY_GET}
    GROUP BY instance_id, queue, ended_ms),
lives AS (
    SELECT {manager} AS manager, {_KEYS[by]} AS name, {_IS_GOT} AS is_got,
        {_IS_EXPIRED} AS is_expired, {_IS_GOT} OR first_position IS NOT NULL
            OR {_IS_MET_BY_CLAIM} AS is_asked, body_bytes,
        capped_by IS NOT NULL AS is_capped, ended_ms - put_ms AS age_ms,
        expire_at_ms - put_ms AS lifetime_ms, deliver_at_ms - put_ms AS delay_ms,
        {DURATIONS["left"]} AS left_ms, expire_at_ms - expire_at_ms % {HOUR_MS} AS expiry_hour_ms,
        {_IS_EXPIRED} AND coalesce({last_get_ms} < deliver_at_ms, true) AS is_unserved
    FROM {{ledger}} r LEFT JOIN first_met f
        ON f.store = r.instance_id AND f.first_position = r.position
    WHERE {_OF_QUEUES}),
groups AS (
    SELECT manager, name, count(*) AS lives, {_count("is_got")} AS got,
        {_count("is_expired")} AS expired, {_count("lifetime_ms IS NULL")} AS unlimited,
        {_count("is_expired AND is_capped")} AS expired_by_cap,
        {_count("is_unserved")} AS unserved, {_count("is_asked")} AS asked,
        count(DISTINCT CASE WHEN is_unserved THEN expiry_hour_ms END) AS unserved_hours,
        {percentiles("lifetime_ms", [0.5])} AS lifetime_ms,
        {percentiles("left_ms", [*LEFT_RANKS.values()])} AS left_ms,
        {percentiles("CASE WHEN is_asked THEN age_ms END", [*ASKED_RANKS.values()])} AS asked_ms
    FROM lives GROUP BY manager, name),
limits AS (
    SELECT manager, name,
        CASE WHEN asked >= {GETS_MIN} THEN CAST({suggested} AS BIGINT) END AS limit_ms
    FROM groups),
counted AS (
    SELECT l.manager, l.name, max(limit_ms) AS suggested_ms,
        {", ".join(f"{text} AS {name}" for name, text in counts.items())}
    FROM lives l JOIN limits m ON l.manager = m.manager AND l.name = m.name
    GROUP BY l.manager, l.name)
SELECT g.*, suggested_ms, {", ".join(counts)}
FROM groups g JOIN counted c ON g.manager = c.manager AND g.name = c.name"""


def _counts_by_limit() -> dict[str, str]:
    """Return SQL, by column name, for what another lifetime of every message would have changed.

    That lifetime is the column ``limit_ms``.
    """
    return {
        "would_be_got": _count("is_expired AND is_asked AND age_ms < limit_ms"),
        "would_still_expire": _count("is_expired AND age_ms >= limit_ms"),
        "not_known": _count("is_expired AND NOT is_asked AND age_ms < limit_ms"),
        "got_lost": _count(
            "is_got AND age_ms >= limit_ms AND coalesce(lifetime_ms > limit_ms, true)"
        ),
    }


def _counts_by_cap(cap_ms: int) -> dict[str, str]:
    """Return SQL, by column name, for what a CAPEXPRY of ``cap_ms`` would have changed.

    A cap shortens longer lifetimes and refuses puts with a longer delay. If a lower cap had
    shortened a lifetime, ``cap_ms`` can only save messages that the lower one ended.
    """
    shortened = f"coalesce(lifetime_ms > {cap_ms}, true)"
    accepted = f"{shortened} AND delay_ms <= {cap_ms}"
    earlier = f"CASE WHEN is_expired AND {accepted} THEN lifetime_ms - {cap_ms} END"
    raised = f"is_expired AND is_capped AND lifetime_ms < {cap_ms} AND age_ms < {cap_ms}"
    return {
        "cap_shortened": _count(shortened),
        "cap_refused": _count(f"{shortened} AND delay_ms > {cap_ms}"),
        "cap_got_lost": _count(f"is_got AND {accepted} AND age_ms >= {cap_ms}"),
        "cap_expired_earlier": _count(f"is_expired AND {accepted}"),
        "cap_freed_ms": f"CAST(coalesce(sum({earlier}), 0) AS BIGINT)",
        "cap_freed_byte_ms": f"coalesce(sum(CAST(body_bytes AS DOUBLE) * {earlier}), 0)",
        "cap_would_be_got": _count(f"{raised} AND is_asked"),
        "cap_not_known": _count(f"{raised} AND NOT is_asked"),
    }


def delays(dialect: Dialect, late_after_ms: int) -> str:
    """Return the SQL query for how late delayed messages were, by queue manager and queue.

    ``lifetimes.DelayFigures`` explains the columns; late is what came more than ``late_after_ms``
    after its delivery time. On the staging queue the release counts, on other queues the get.
    """
    late = f"coalesce({DURATIONS['waited']}, {DURATIONS['released_late']})"
    return f"""
WITH delayed AS (
    SELECT manager, queue, outcome, {late} AS late_ms FROM {{ledger}}
    WHERE {IS_LIFE} AND deliver_at_ms > put_ms)
SELECT manager, queue, count(*) AS lives, count(late_ms) AS delivered,
    {_count(_IS_EXPIRED)} AS expired, {_count(f"late_ms > {late_after_ms}")} AS late,
    {dialect.percentiles("late_ms", [*LATE_RANKS.values()])} AS late_ms, max(late_ms) AS late_max_ms
FROM delayed GROUP BY manager, queue"""


def consumers(dialect: Dialect) -> str:
    """Return the SQL query for how those who get from a queue kept up, by program and user.

    ``lifetimes.ConsumerFigures`` explains the columns.
    """
    ranks = [*LEFT_RANKS.values()]
    return f"""
WITH asked AS (
    SELECT manager, queue, coalesce(ended_program, '') AS application,
        coalesce(ended_by, '') AS user_id, {_IS_GOT} AS is_got, {DURATIONS["left"]} AS left_ms,
        ended_ms - ended_ms % {HOUR_MS} AS hour_ms
    FROM {{ledger}} WHERE {_OF_QUEUES} AND ({_IS_GOT} OR {_IS_MET_BY_GET} OR {_IS_MET_BY_CLAIM}))
SELECT manager, queue, application, user_id, {_count("is_got")} AS got,
    {_count("NOT is_got")} AS met_expired, count(DISTINCT hour_ms) AS hours,
    {dialect.percentiles("left_ms", ranks)} AS left_ms
FROM asked GROUP BY manager, queue, application, user_id"""


def _count(condition: str) -> str:
    """Return SQL that counts the rows for which the condition is true; 0 if there are none."""
    return f"count(CASE WHEN {condition} THEN 1 END)"
