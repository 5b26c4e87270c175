"""Whether lifetimes are right: queries for Spark and DuckDB, figures, and advice in sentences.

All figures are exact. An age, a lifetime and a delay count from the put, so a lifetime that is
suggested for delayed messages contains their delay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from mayfly.lifetime.life import State
from mayfly.lifetime.times import spelled_duration
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.lake.queries import DAY_MS, DURATIONS, HOUR_MS, IS_LIFE
from mayfly.verbs.contracts.outcomes import DetectedBy

#: Up to this share of expired messages, lifetimes are not too short.
_TOLERATED_SHARE = 0.001
#: A lifetime is too long from this multiple of the suggested one on.
_TOO_LONG_TIMES = 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Verdict(StrEnum):
    """The verdict of a group's figures about the lifetimes of its messages."""

    #: Most of the expired would have been got within the suggested lifetime.
    TOO_SHORT = "too short"
    #: Few expire, but the suggested lifetime, which has a margin, is longer than that of half.
    TIGHT = "tight"
    #: Few expire, and the lifetime of half is from the suggested one up to twice as long.
    FITS = "fits"
    #: Few expire, and half have at least twice the suggested lifetime.
    TOO_LONG = "too long"
    #: Few expire, and most have no lifetime.
    UNLIMITED = "unlimited"
    #: Of most of the expired nothing was got from their queue as long as they could be got.
    NOTHING_GOT = "nothing got"
    #: Others were got, but for most of the expired no get is known to have come.
    NOT_ASKED_FOR = "not asked for"
    #: There are fewer gets, or expired messages, than a judgement needs.
    TOO_FEW = "too few"


class CapFigures(NamedTuple):
    """The effect that a CAPEXPRY of ``cap_ms`` on every path would have had on a group.

    ``shortened``: their lifetime was longer. Of these ``refused``: the delay was longer than the
    cap, so the put would have failed (2013); ``got_lost``: they were got, and would have expired;
    ``expired_earlier``: they expired, and would have done so ``freed_ms`` milliseconds earlier in
    sum, from deadline to deadline; ``freed_byte_ms`` is that times their data in bytes.

    ``would_be_got`` and ``not_known`` are of the messages that expired because a lower cap than
    this had shortened their lifetime: a get is known to have come in the longer time, or not. Both
    are upper limits, because the ledger does not have the lifetime before the lower cap.
    """

    cap_ms: int
    shortened: int
    refused: int
    got_lost: int
    expired_earlier: int
    freed_ms: int
    freed_byte_ms: float
    would_be_got: int
    not_known: int


@dataclass(frozen=True)
class LifetimeFigures:
    """How lifetimes suited the ended messages of a group; times are in ms, None without values.

    ``manager`` is "" unless the group is a queue. ``name`` is the queue, date, hour, program or
    user; "" is none. ``unlimited`` have no deadline. ``expired_by_cap`` expired after a CAPEXPRY
    had shortened their lifetime. From the queue of the ``unserved`` nothing was got from their
    delivery time to their deadline; their deadlines are in ``unserved_hours`` hours of the
    calendar. ``asked`` were asked for: they were got, or a get or a claim met them expired; of
    several that gets met on a queue in one millisecond one counts.

    ``lifetime_p50_ms`` is of messages with a deadline, ``left_*_ms`` the life left at the get,
    ``asked_*_ms`` the age at which the get came; under syncpoint a get counts at its commit.
    ``suggested_ms`` is asked_p99_9_ms with its margin, None with fewer than GETS_MIN asked.

    If every message had had that lifetime: of the expired ``would_be_got``, as a get came in time;
    ``would_still_expire``, as they were met later; and ``not_known``, which were met by no get
    before, so that their age then is a lower bound. ``got_lost`` were got, and would have expired.
    These four are None without a suggestion. ``cap`` is None unless a cap was asked about.
    """

    manager: str
    name: str
    lives: int
    got: int
    expired: int
    unlimited: int
    expired_by_cap: int
    unserved: int
    unserved_hours: int
    asked: int
    lifetime_p50_ms: float | None
    left_p1_ms: float | None
    left_p5_ms: float | None
    left_p50_ms: float | None
    asked_p50_ms: float | None
    asked_p99_9_ms: float | None
    suggested_ms: int | None
    would_be_got: int | None
    would_still_expire: int | None
    not_known: int | None
    got_lost: int | None
    cap: CapFigures | None = None

    @property
    def expired_share(self) -> float:
        """Return the share of the ended messages that expired, from 0 to 1."""
        return self.expired / self.lives

    @property
    def verdict(self) -> Verdict:
        """Return what these figures say, by the rules of Verdict; the first that holds wins."""
        if self.expired > _TOLERATED_SHARE * (self.got + self.expired):
            return self._verdict_on_expired()
        if self.suggested_ms is None:
            return Verdict.TOO_FEW
        if self.lifetime_p50_ms is None or self.unlimited * 2 > self.lives:
            return Verdict.UNLIMITED
        if self.suggested_ms > self.lifetime_p50_ms:
            return Verdict.TIGHT
        if self.suggested_ms * _TOO_LONG_TIMES <= self.lifetime_p50_ms:
            return Verdict.TOO_LONG
        return Verdict.FITS

    def _verdict_on_expired(self) -> Verdict:
        """Return why too many have expired."""
        if self.would_be_got is not None and self.would_be_got * 2 > self.expired:
            return Verdict.TOO_SHORT
        if self.suggested_ms is None and self.expired < GETS_MIN:
            return Verdict.TOO_FEW
        if self.unserved * 2 > self.expired:
            return Verdict.NOTHING_GOT
        return Verdict.TOO_FEW if self.suggested_ms is None else Verdict.NOT_ASKED_FOR


class DelayFigures(NamedTuple):
    """How late the delayed messages of a queue were; times are in ms, None without values.

    ``lives`` have ended, ``delivered`` of them by a get, on a staging queue by a release.
    Lateness, from the delivery time to that, is ``late_*_ms``; ``late`` were so by more than the
    limit that was asked about. ``expired`` were not delivered before their deadline.
    """

    manager: str
    queue: str
    lives: int
    delivered: int
    expired: int
    late: int
    late_p50_ms: float | None
    late_p95_ms: float | None
    late_p99_ms: float | None
    late_max_ms: int | None


class ConsumerFigures(NamedTuple):
    """How a program of a user kept up with a queue; times are in ms, None without values.

    It ``got`` messages, and its gets met others that had expired (``met_expired``), in ``hours``
    hours of the calendar. ``left_*_ms`` is the life left at its gets. ``application`` and
    ``user_id`` are "" where the ledger has none.
    """

    manager: str
    queue: str
    application: str
    user_id: str
    got: int
    met_expired: int
    hours: int
    left_p1_ms: float | None
    left_p5_ms: float | None
    left_p50_ms: float | None


class LifetimeAnalysis(NamedTuple):
    """Whether lifetimes are right: by group, by queue with delayed messages, by consumer.

    Each list is ordered by queue manager and name.
    """

    by: By
    lifetimes: list[LifetimeFigures]
    delays: list[DelayFigures]
    consumers: list[ConsumerFigures]


Rows = Iterable[Mapping[str, Any]]


def analysis_from(
    by: By, cap_ms: int | None, *, lifetimes: Rows, delays: Rows, consumers: Rows
) -> LifetimeAnalysis:
    """Return the analysis made of rows of the queries ``lifetimes``, ``delays`` and ``consumers``.

    ``by`` and ``cap_ms`` are those that the query of lifetimes was made with.
    """
    groups = (_lifetime_figures(row, by, cap_ms) for row in lifetimes)
    return LifetimeAnalysis(
        by,
        sorted(groups, key=lambda group: (group.manager, group.name)),
        sorted(DelayFigures(**row) for row in delays),
        sorted(ConsumerFigures(**row) for row in consumers),
    )


def _lifetime_figures(row: Mapping[str, Any], by: By, cap_ms: int | None) -> LifetimeFigures:
    """Return the figures of one group, made of a row of the query ``lifetimes``."""
    flat = dict(row)
    flat["name"] = _spelled(flat["name"], by)
    if flat["suggested_ms"] is None:
        changed = ("would_be_got", "would_still_expire", "not_known", "got_lost")
        flat |= dict.fromkeys(changed)
    if cap_ms is not None:
        names = [name for name in flat if name.startswith("cap_")]
        flat["cap"] = CapFigures(
            cap_ms, **{name.removeprefix("cap_"): flat.pop(name) for name in names}
        )
    return LifetimeFigures(**flat)


def _spelled(key: str, by: By) -> str:
    """Return the name of a group for people; only a moment in epoch ms changes.

    It becomes ``2026-11-20`` by date, ``2026-11-20T14`` by hour and ``14`` by hour of the day.
    """
    if by is By.HOUR_OF_DAY:
        return f"{int(key) // HOUR_MS:02d}"
    if by in (By.DATE, By.HOUR):
        moment = _EPOCH + timedelta(milliseconds=int(key))
        return f"{moment:%Y-%m-%d}" if by is By.DATE else f"{moment:%Y-%m-%dT%H}"
    return key


# The questions whether lifetimes are right, as SQL for Spark and DuckDB
#
# {ledger} in a text is the table of ledger rows. Rows of answers have no order. Ages, lifetimes and
# delays count from the put. Lives on the staging queue are looked at by delays alone: a delayed
# message lives there first and then on its queue.
#
# Memory decides how the questions are put. A percentile is found among the counts of equal values,
# and the last get before a deadline among the milliseconds in which something ended: an engine can
# spill both to disk, which it cannot do with all values of a group.

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
_IS_DETECTED_BY_GET, _IS_DETECTED_BY_CLAIM = (
    f"{_IS_EXPIRED} AND coalesce(detected_by, '') = '{detected_by}'"
    for detected_by in (DetectedBy.GET, DetectedBy.CLAIM)
)
_OF_QUEUES = f"{IS_LIFE} AND queue <> '{STAGING_QUEUE}'"


class By(StrEnum):
    """The keys of groups of messages; dates and hours (UTC) are those of their delivery time."""

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

#: When a life ends. A message expires at its deadline, however late the expiry is detected.
_AT_MS = f"CASE WHEN {_IS_EXPIRED} THEN coalesce(expire_at_ms, ended_ms) ELSE ended_ms END"


def lifetimes(by: By, cap_ms: int | None) -> str:
    """Return the SQL query for how lifetimes suited the messages of each group.

    ``by`` says by what messages are grouped. `LifetimeFigures` explains the columns;
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
    FROM {{ledger}} WHERE {_OF_QUEUES} AND {_IS_DETECTED_BY_GET}
    GROUP BY instance_id, queue, ended_ms),
lives AS (
    SELECT {group}, {_IS_GOT} AS is_got, {_IS_EXPIRED} AS is_expired,
        {_IS_GOT} OR first_position IS NOT NULL OR {_IS_DETECTED_BY_CLAIM} AS is_asked, body_bytes,
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
    FROM {{ledger}} WHERE {_OF_QUEUES}
        AND ({_IS_GOT} OR {_IS_DETECTED_BY_GET} OR {_IS_DETECTED_BY_CLAIM})),
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
    """Return the column names of :func:`_columns`, joined by commas for SQL."""
    return ", ".join(_columns(name, ranks))


def _joined(table: str, keys: Sequence[str]) -> str:
    """Return SQL that joins a table by its keys to the groups ``g``, which all stay."""
    return f"LEFT JOIN {table} ON {' AND '.join(f'{table}.{key} = g.{key}' for key in keys)}"


def _count(condition: str) -> str:
    """Return SQL that counts the rows for which the condition is true; 0 if there are none."""
    return f"count(CASE WHEN {condition} THEN 1 END)"


# Advice on lifetimes in sentences, each from the figures of one group, queue or consumer
#
# A sentence says what has happened, or what would have; where the ledger cannot tell, it says so.


#: A percentile of 99.9 of fewer values than this is hardly more than the largest of them.
_GETS_ENOUGH = 1_000


def lifetime_advice(figures: LifetimeFigures) -> list[str]:
    """Return sentences on the lifetimes of a group of messages: first facts, then advice."""
    said = [_shares(figures)]
    if figures.unserved:
        said.append(_unserved(figures))
    if figures.suggested_ms is None:
        said.append(f"{_counted(figures.asked, 'get')}: {GETS_MIN} are needed for a suggestion.")
    else:
        said.append(_suggestion(figures, spelled(figures.suggested_ms)))
        if figures.asked < _GETS_ENOUGH:
            said.append(f"Only {figures.asked:,} gets stand behind this.")
    if figures.expired_by_cap:
        said.append(
            f"A CAPEXPRY had shortened the lifetime of {figures.expired_by_cap:,} of the expired: "
            f"a longer one at the put does not help them."
        )
    return said


def cap_advice(cap: CapFigures) -> str:
    """Return a sentence on what an expiry cap (CAPEXPRY) would have changed for some messages."""
    changed = [
        (cap.got_lost, f"{cap.got_lost:,} that were got would have expired"),
        (cap.refused, f"{cap.refused:,} puts would have been refused (delay longer than the cap)"),
        (cap.expired_earlier, _earlier(cap)),
        (cap.would_be_got, f"at most {cap.would_be_got:,} ended by a lower cap would be got"),
        (cap.not_known, f"of {cap.not_known:,} ended by a lower cap the ledger cannot say it"),
    ]
    said = [what for count, what in changed if count]
    return f"With a cap of {spelled(cap.cap_ms)}: {_listed(said) if said else 'nothing changes'}."


def delay_advice(figures: DelayFigures, late_after_ms: int) -> str:
    """Return a sentence on how late the delayed messages of a queue were.

    ``late_after_ms`` is the limit by which ``figures.late`` were counted.
    """
    expired = f"; {figures.expired:,} expired first" if figures.expired else ""
    if figures.late_p50_ms is None or figures.late_p99_ms is None:
        return f"None of {figures.lives:,} was delivered{expired}."
    late = "none was" if not figures.late else f"{figures.late:,} were"
    return (
        f"Half of {figures.delivered:,} came at most {spelled(figures.late_p50_ms)} after their "
        f"delivery time, 99 of 100 at most {spelled(figures.late_p99_ms)}; {late} late by more "
        f"than {spelled(late_after_ms)}{expired}."
    )


def consumer_advice(figures: ConsumerFigures) -> str | None:
    """Return a sentence on a program that came too late for messages, None if it never did."""
    if not figures.met_expired:
        return None
    asked = figures.got + figures.met_expired
    return (
        f"{_share(figures.met_expired, asked)} of the {asked:,} messages that its gets met had "
        f"expired before."
    )


def spelled(duration_ms: float | None) -> str:
    """Return a duration in ms as text, with ``-`` before one below 0; "-" for None.

    It is rounded to whole ms. The lifetime left at a get is below 0 if the get was committed after
    the deadline.
    """
    if duration_ms is None:
        return "-"
    return ("-" if duration_ms < 0 else "") + spelled_duration(round(abs(duration_ms)))


def _shares(figures: LifetimeFigures) -> str:
    """Return the sentence on the share expired, and on the lifetime left at the gets."""
    if figures.expired:
        said = f"{_share(figures.expired, figures.lives)} of {figures.lives:,} expire"
    else:
        said = f"none of {figures.lives:,} expires"
    if figures.left_p50_ms is None:
        return f"{said}."
    return f"{said}; half of those that are got have at most {spelled(figures.left_p50_ms)} left."


def _unserved(figures: LifetimeFigures) -> str:
    """Return the sentence on messages that expired while nothing was got from their queue."""
    advice = ": look at the consumer first" if figures.verdict is Verdict.NOTHING_GOT else ""
    return (
        f"As long as {figures.unserved:,} of the {figures.expired:,} could be got, nothing was got "
        f"from their queue; their deadlines are in {_counted(figures.unserved_hours, 'hour')} of "
        f"the calendar{advice}."
    )


def _suggestion(figures: LifetimeFigures, suggested: str) -> str:
    """Return the sentence on the suggested lifetime; ``suggested`` is that lifetime as text."""
    present = spelled(figures.lifetime_p50_ms)
    match figures.verdict:
        case Verdict.TOO_LONG:
            said = f"A lifetime of {suggested} would have been enough{_but(figures)}"
            return f"{said}; half have {present} or more."
        case Verdict.UNLIMITED:
            unlimited = f"{figures.unlimited:,} of {figures.lives:,} have no lifetime"
            return f"{unlimited}; {suggested} would have been enough{_but(figures)}."
        case Verdict.TIGHT:
            said = f"A lifetime of {suggested} would leave a margin; half have {present} or less"
        case Verdict.FITS:
            return (
                f"The lifetime suits them; half have {present} or less, {suggested} is suggested."
            )
        case _ if not figures.would_be_got:
            return (
                f"No get is known to have come within {suggested} for one of the expired: a longer "
                f"lifetime is not known to help."
            )
        case _:
            said = f"With a lifetime of {suggested} for all, {_outcomes(figures)}"
    lost = (
        "" if not figures.got_lost else f"; {figures.got_lost:,} that were got would not have been"
    )
    return f"{said}{lost}."


def _but(figures: LifetimeFigures) -> str:
    """Return the exception of messages that were got after the suggested lifetime.

    It is the end of a sentence, or "" if there are none.
    """
    return f" for all but {figures.got_lost:,} of the got" if figures.got_lost else ""


def _outcomes(figures: LifetimeFigures) -> str:
    """Return what would have become of the expired with the suggested lifetime."""
    parts = [f"{figures.would_be_got:,} of the {figures.expired:,} expired would have been got"]
    if figures.would_still_expire:
        parts.append(f"{figures.would_still_expire:,} would have expired all the same")
    if figures.not_known:
        parts.append(f"of {figures.not_known:,} the ledger cannot say it")
    return _listed(parts)


def _earlier(cap: CapFigures) -> str:
    """Return how many messages an expiry cap would have ended earlier, and by how much.

    The text is "" for none.
    """
    if not cap.expired_earlier:
        return ""
    mean = spelled(cap.freed_ms / cap.expired_earlier)
    return f"{cap.expired_earlier:,} would have expired earlier, by {mean} on average"


def _counted(count: int, noun: str) -> str:
    """Return a number with its noun: ``1 hour``, ``12 hours``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _share(part: int, whole: int) -> str:
    """Return a share in percent, ``31.0 %``; a part that is not all of it is never ``100.0 %``."""
    tenths = min(round(1000 * part / whole), 1000 if part == whole else 999)
    return f"{tenths / 10:.1f} %" if tenths or not part else "less than 0.1 %"


def _listed(parts: list[str]) -> str:
    """Return parts as a list in a sentence."""
    return ", ".join(parts[:-1]) + f" and {parts[-1]}" if len(parts) > 1 else parts[0]
