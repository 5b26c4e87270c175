"""The questions whether lifetimes are right, as SQL for Spark and DuckDB.

``{ledger}`` in a text is the table of ledger rows. Rows of answers have no order. Ages, lifetimes
and delays count from the put. Lives on the staging queue are looked at by ``delays`` alone: a
delayed message lives there first and then on its queue.

Memory decides how the questions are put. A percentile is found among the counts of equal values,
and the last get before a deadline among the milliseconds in which something ended: an engine can
spill both to disk, which it cannot do with all values of a group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from mayfly.lifetime.life import State
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.lake.measures import DURATIONS, IS_LIFE
from mayfly.pipeline.lake.part import DAY_MS, HOUR_MS
from mayfly.verbs.contracts.outcomes import MetBy

LIFETIME_RANKS = {"p50": 0.5}
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

#: When a life ends. A message expires at its deadline, whenever it is met after it.
_AT_MS = f"CASE WHEN {_IS_EXPIRED} THEN coalesce(expire_at_ms, ended_ms) ELSE ended_ms END"


def lifetimes(by: By, cap_ms: int | None) -> str:
    """Return the SQL query for how lifetimes suited the messages of each group.

    ``by`` says by what messages are grouped. ``lifetimes.LifetimeFigures`` explains the columns;
    those that begin with ``cap_`` are there if ``cap_ms`` is not None.
    """
    manager = "manager" if by is By.QUEUE else "''"
    group = f"{manager} AS group_manager, {_KEYS[by]} AS name"
    margin = f"greatest(asked_p99_9_ms / {_MARGIN_DIVISOR}, {_MARGIN_MS_MIN})"
    suggested = f"ceil((asked_p99_9_ms + {margin}) / {_ROUNDED_TO_MS}) * {_ROUNDED_TO_MS}"
    counts = _counts_by_limit() | ({} if cap_ms is None else _counts_by_cap(cap_ms))
    keys = ("group_manager", "name")
    return f"""
WITH first_met AS (
    SELECT instance_id AS store, min(position) AS first_position
    FROM {{ledger}} WHERE {_OF_QUEUES} AND {_IS_MET_BY_GET}
    GROUP BY instance_id, queue, ended_ms),
lives AS (
    SELECT {group}, {_IS_GOT} AS is_got, {_IS_EXPIRED} AS is_expired,
        {_IS_GOT} OR first_position IS NOT NULL OR {_IS_MET_BY_CLAIM} AS is_asked, body_bytes,
        capped_by IS NOT NULL AS is_capped, ended_ms - put_ms AS age_ms,
        expire_at_ms - put_ms AS lifetime_ms, deliver_at_ms - put_ms AS delay_ms,
        {DURATIONS["left"]} AS left_ms
    FROM {{ledger}} r LEFT JOIN first_met f
        ON f.store = r.instance_id AND f.first_position = r.position
    WHERE {_OF_QUEUES}),
lifetimes_of AS ({_percentiles("lives", keys, "lifetime_ms", "lifetime", LIFETIME_RANKS)}),
left_of AS ({_percentiles("lives", keys, "left_ms", "left", LEFT_RANKS)}),
asked_of AS ({_percentiles("lives", keys, "age_ms", "asked", ASKED_RANKS, where="is_asked")}),
ends AS (
    -- A get in the ms of a deadline comes too late.
    SELECT {group}, {_IS_EXPIRED} AS is_expired, deliver_at_ms,
        expire_at_ms - expire_at_ms % {HOUR_MS} AS expiry_hour_ms,
        max(CASE WHEN {_IS_GOT} THEN ended_ms END) OVER (PARTITION BY manager, queue
            ORDER BY {_AT_MS}, {_IS_GOT} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS last_get_ms
    FROM {{ledger}} WHERE {_OF_QUEUES} AND ({_IS_GOT} OR {_IS_EXPIRED})),
unserved_of AS (
    SELECT group_manager, name, count(*) AS unserved,
        count(DISTINCT expiry_hour_ms) AS unserved_hours
    FROM ends WHERE is_expired AND coalesce(last_get_ms < deliver_at_ms, true)
    GROUP BY group_manager, name),
groups AS (
    SELECT group_manager, name, count(*) AS lives, {_count("is_got")} AS got,
        {_count("is_expired")} AS expired, {_count("lifetime_ms IS NULL")} AS unlimited,
        {_count("is_expired AND is_capped")} AS expired_by_cap, {_count("is_asked")} AS asked
    FROM lives GROUP BY group_manager, name),
limits AS (
    SELECT g.group_manager, g.name,
        CASE WHEN asked >= {GETS_MIN} THEN CAST({suggested} AS BIGINT) END AS limit_ms
    FROM groups g LEFT JOIN asked_of a ON a.group_manager = g.group_manager AND a.name = g.name),
counted AS (
    SELECT l.group_manager, l.name, max(limit_ms) AS suggested_ms,
        {", ".join(f"{text} AS {name}" for name, text in counts.items())}
    FROM lives l JOIN limits m ON l.group_manager = m.group_manager AND l.name = m.name
    GROUP BY l.group_manager, l.name)
SELECT g.group_manager AS manager, g.name, lives, got, expired, unlimited, expired_by_cap, asked,
    coalesce(unserved, 0) AS unserved, coalesce(unserved_hours, 0) AS unserved_hours,
    lifetime_p50_ms, left_p1_ms, left_p5_ms, left_p50_ms, asked_p50_ms, asked_p99_9_ms,
    suggested_ms, {", ".join(counts)}
FROM groups g JOIN counted c ON g.group_manager = c.group_manager AND g.name = c.name
    {" ".join(_joined(table, keys) for table in _BY_GROUP)}"""


#: Tables that have a row for some of the groups.
_BY_GROUP = ("lifetimes_of", "left_of", "asked_of", "unserved_of")


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


def delays(late_after_ms: int) -> str:
    """Return the SQL query for how late delayed messages were, by queue manager and queue.

    ``lifetimes.DelayFigures`` explains the columns; late is what came more than ``late_after_ms``
    after its delivery time. On the staging queue the release counts, on other queues the get.
    """
    late = f"coalesce({DURATIONS['waited']}, {DURATIONS['released_late']})"
    keys = ("manager", "queue")
    return f"""
WITH delayed AS (
    SELECT manager, queue, outcome, {late} AS late_ms FROM {{ledger}}
    WHERE {IS_LIFE} AND deliver_at_ms > put_ms),
groups AS (
    SELECT manager, queue, count(*) AS lives, count(late_ms) AS delivered,
        {_count(_IS_EXPIRED)} AS expired, {_count(f"late_ms > {late_after_ms}")} AS late,
        max(late_ms) AS late_max_ms
    FROM delayed GROUP BY manager, queue),
late_of AS ({_percentiles("delayed", keys, "late_ms", "late", LATE_RANKS)})
SELECT g.*, {_names("late", LATE_RANKS)} FROM groups g {_joined("late_of", keys)}"""


def consumers() -> str:
    """Return the SQL query for how those who get from a queue kept up, by program and user.

    ``lifetimes.ConsumerFigures`` explains the columns.
    """
    keys = ("manager", "queue", "application", "user_id")
    return f"""
WITH asked AS (
    SELECT manager, queue, coalesce(ended_program, '') AS application,
        coalesce(ended_by, '') AS user_id, {_IS_GOT} AS is_got, {DURATIONS["left"]} AS left_ms,
        ended_ms - ended_ms % {HOUR_MS} AS hour_ms
    FROM {{ledger}} WHERE {_OF_QUEUES} AND ({_IS_GOT} OR {_IS_MET_BY_GET} OR {_IS_MET_BY_CLAIM})),
groups AS (
    SELECT manager, queue, application, user_id, {_count("is_got")} AS got,
        {_count("NOT is_got")} AS met_expired, count(DISTINCT hour_ms) AS hours
    FROM asked GROUP BY manager, queue, application, user_id),
left_of AS ({_percentiles("asked", keys, "left_ms", "left", LEFT_RANKS)})
SELECT g.*, {_names("left", LEFT_RANKS)} FROM groups g {_joined("left_of", keys)}"""


def _percentiles(
    table: str,
    keys: Sequence[str],
    value: str,
    name: str,
    ranks: Mapping[str, float],
    *,
    where: str = "true",
) -> str:
    """Return the SQL query for exact percentiles of a column of whole numbers, by some keys.

    ``where`` chooses rows of the table. The columns are the keys, and those of ``_names``; a
    percentile is interpolated between two values. A key whose rows have no value has no row.
    """
    by = ", ".join(keys)
    return f"""
    SELECT {by}, {
        ", ".join(
            f"{_at(rank)} AS {column}"
            for column, rank in zip(_columns(name, ranks), ranks.values(), strict=True)
        )
    }
    FROM (
        SELECT *, sum(equal) OVER (PARTITION BY {by} ORDER BY value) AS up_to,
            sum(equal) OVER (PARTITION BY {by}) AS total
        FROM (
            SELECT {by}, {value} AS value, count(*) AS equal FROM {table}
            WHERE {value} IS NOT NULL AND {where} GROUP BY {by}, {value}) counts) places
    GROUP BY {by}"""


def _at(rank: float) -> str:
    """Return SQL for the value at a rank from 0 to 1, by ``value``, ``up_to`` and ``total``."""
    place = f"(total - 1) * CAST({rank} AS DOUBLE)"
    low, high = (
        f"min(CASE WHEN up_to > {edge}({place}) THEN value END)" for edge in ("floor", "ceil")
    )
    share = f"max({place} - floor({place}))"
    return f"({low} * (1 - {share}) + {high} * {share})"


def _columns(name: str, ranks: Mapping[str, float]) -> list[str]:
    """Return the names of the columns of percentiles, such as ``left_p50_ms``."""
    return [f"{name}_{rank}_ms" for rank in ranks]


def _names(name: str, ranks: Mapping[str, float]) -> str:
    """Return these names as SQL."""
    return ", ".join(_columns(name, ranks))


def _joined(table: str, keys: Sequence[str]) -> str:
    """Return SQL that joins a table by its keys to the groups ``g``, which all stay."""
    return f"LEFT JOIN {table} ON {' AND '.join(f'{table}.{key} = g.{key}' for key in keys)}"


def _count(condition: str) -> str:
    """Return SQL that counts the rows for which the condition is true; 0 if there are none."""
    return f"count(CASE WHEN {condition} THEN 1 END)"
