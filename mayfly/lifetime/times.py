"""Where time comes from, how its units convert, and how people read moments and durations.

Everything inside Mayfly is integer milliseconds since the epoch, UTC. Tenths of a second exist in
MQ fields (Expiry, CAPEXPRY), seconds in EXPRYINT; both are converted here and nowhere else.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

TENTH_MS = 100
SECOND_MS = 1000
_HUNDREDTH_MS = 10
_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000
_DAY_MS = 86_400_000
#: Differences up to this are a time service slewing the wall clock, not a step.
SLEW_MS = 1_000
#: The time in a store, from which a restart goes on (E4), is never older after a commit, ...
STORED_TIME_STEP_MS = 1_000
#: ... nor while a queue manager is idle and anything in the store has a deadline or a delay.
STORED_TIME_IDLE_MS = 10_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ms_of_tenths(tenths: int) -> int:
    """Return tenths of a second as milliseconds."""
    return tenths * TENTH_MS


def tenths_of_ms(duration_ms: int) -> int:
    """Return milliseconds as tenths of a second, rounded up: a life left never shows as 0 (E4)."""
    return -(-duration_ms // TENTH_MS)


def ms_of_seconds(seconds: int) -> int:
    """Return whole seconds as milliseconds."""
    return seconds * SECOND_MS


def next_scan_ms(scan_ms: int, interval_ms: int, from_ms: int) -> int:
    """Return the first of the scans at ``scan_ms`` and every interval after it from a moment on."""
    late_ms = max(from_ms - scan_ms, 0)
    return scan_ms + -(-late_ms // interval_ms) * interval_ms


def put_date(at_ms: int) -> str:
    """Return MQMD.PutDate (``YYYYMMDD``, UTC) of a moment."""
    return _date_of_day(at_ms // _DAY_MS)


def put_time(at_ms: int) -> str:
    """Return MQMD.PutTime (``HHMMSSTH``, UTC, hundredths of a second) of a moment."""
    minutes, ms = divmod(at_ms % _DAY_MS, _MINUTE_MS)
    return f"{minutes // 60:02d}{minutes % 60:02d}{ms // _HUNDREDTH_MS:04d}"


@lru_cache(maxsize=64)
def _date_of_day(day: int) -> str:
    return (_EPOCH + timedelta(days=day)).strftime("%Y%m%d")


def spelled_moment(at_ms: int) -> str:
    """Return a moment, UTC to the millisecond: ``2026-11-20 17:00:05.250``."""
    return f"{_EPOCH + timedelta(milliseconds=at_ms):%Y-%m-%d %H:%M:%S}.{at_ms % SECOND_MS:03d}"


def spelled_duration(duration_ms: int) -> str:
    """Return a duration in its two largest units: ``59 min 20 s``, ``5.25 s``, ``3 d 1 h``.

    Rounded up, so that a life that is left never shows as 0 (E4); below a minute it is exact.
    """
    if duration_ms < SECOND_MS:
        return f"{duration_ms} ms"
    if duration_ms < _MINUTE_MS:
        return f"{duration_ms / SECOND_MS:.3f}".rstrip("0").rstrip(".") + " s"
    if duration_ms <= _HOUR_MS - SECOND_MS:
        return _pair(-(-duration_ms // SECOND_MS), 60, "min", "s")
    if duration_ms <= 24 * _HOUR_MS - _MINUTE_MS:
        return _pair(-(-duration_ms // _MINUTE_MS), 60, "h", "min")
    return _pair(-(-duration_ms // _HOUR_MS), 24, "d", "h")


def _pair(count: int, in_unit: int, unit: str, part: str) -> str:
    units, rest = divmod(count, in_unit)
    return f"{units:,} {unit} {rest} {part}" if rest else f"{units:,} {unit}"


class Driven(Protocol):
    """A queue manager, or another owner of work that falls due, as a clock drives it."""

    def next_due_ms(self) -> int | None:
        """Return the moment of the next due work, or None when there is none."""

    def run_due(self) -> None:
        """Do what is due by the clock's present time; afterwards ``next_due_ms`` lies ahead."""


class Clock(Protocol):
    """Tells the time and runs due work at its moment."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch, UTC; never less than an earlier answer."""

    def attach(self, driven: Driven) -> None:
        """Begin to run the due work of a queue manager."""

    def detach(self, driven: Driven) -> None:
        """Stop running it; on return no run is under way on another thread."""

    def wake(self, driven: Driven) -> None:
        """Look at ``driven.next_due_ms()`` again: it may have come nearer."""
