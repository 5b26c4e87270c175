"""Figures that say whether lifetimes are right, and what they mean; from Spark and from DuckDB.

All figures are exact. An age, a lifetime and a delay count from the put, so a lifetime that is
suggested for delayed messages contains their delay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from mayfly.pipeline.lake.lifetime_queries import GETS_MIN, By
from mayfly.pipeline.lake.part import HOUR_MS

#: Up to this share of expired messages, lifetimes are not too short.
_TOLERATED_SHARE = 0.001
#: A lifetime that is so many times the suggested one is too long.
_TOO_LONG_TIMES = 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Verdict(StrEnum):
    """What the figures of a group of messages say about their lifetimes."""

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
    """What a CAPEXPRY of ``cap_ms`` on every path would have changed for a group of messages.

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
    """Return the analysis made of rows of the three queries of ``lifetime_queries``.

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
    """Return the figures of one group, made of a row of ``lifetime_queries.lifetimes``."""
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
