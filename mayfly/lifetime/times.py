"""Times: clock interfaces, conversions of time units, and times and durations as text.

Everything inside Mayfly is integer milliseconds since the epoch, UTC. MQ fields have tenths of a
second (Expiry, CAPEXPRY) and seconds (EXPRYINT); only this module converts them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol, TypeVar

TENTH_MS = 100
SECOND_MS = 1000
_HUNDREDTH_MS = 10
_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000
_DAY_MS = 86_400_000
#: Differences up to this are a time service slewing the wall clock, not a step.
SLEW_MS = 1_000
#: The time in a store, from which a restart continues (E4), is never older after a commit, ...
STORED_TIME_STEP_MS = 1_000
#: ... nor while a queue manager is idle and anything in the store has a deadline or a delay.
STORED_TIME_IDLE_MS = 10_000
_UNITS_MS = {
    unit: size_ms
    for units, size_ms in (
        ("ms millisecond milliseconds", 1),
        ("s sec second seconds", SECOND_MS),
        ("m min minute minutes", _MINUTE_MS),
        ("h hour hours", _HOUR_MS),
        ("d day days", _DAY_MS),
    )
    for unit in units.split()
}
_LEADING_WORD = re.compile(r"(in|for|after|lives) +")
_PART_OF_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_T = TypeVar("_T")


def ms_of_tenths(tenths: int) -> int:
    """Return tenths of a second as milliseconds."""
    return tenths * TENTH_MS


def tenths_of_ms(duration_ms: int) -> int:
    """Return ms as tenths of a second, rounded up, so that 1 ms never shows as 0 (E4)."""
    return -(-duration_ms // TENTH_MS)


def ms_of_seconds(seconds: int) -> int:
    """Return whole seconds as milliseconds."""
    return seconds * SECOND_MS


def read_duration(text: str) -> int:
    """Return a duration in ms, as ``20s``, ``1.5 h``, ``3 days`` or ``1 h 30 min`` spell it.

    A word before it does not count: ``in 3 days``, ``lives 1 h``. 0 needs no unit. Raises
    ValueError for another text, a number without a unit, and parts of a ms.
    """
    typed = text.strip().lower()
    meant = _LEADING_WORD.sub("", typed)
    if meant == "0":
        return 0
    parts = _PART_OF_DURATION.findall(meant)
    if not parts or _PART_OF_DURATION.sub("", meant).strip():
        raise ValueError(f"{text!r} is not a duration: a number and ms, s, m, h or d, as in 20s")
    total_ms = 0.0
    for number, unit in parts:
        if not unit:
            units = ", ".join(f"{number}{each}" for each in ("ms", "s", "m", "h"))
            raise ValueError(f"{text!r} has no unit: {units} or {number}d")
        if unit not in _UNITS_MS:
            raise ValueError(
                f"{text!r} is not a duration: a number and ms, s, m, h or d, as in 20s"
            )
        total_ms += float(number) * _UNITS_MS[unit]
    if not total_ms.is_integer():
        raise ValueError(f"{text!r} is not a whole number of milliseconds")
    return int(total_ms)


def ms_of_duration(value: _T | timedelta) -> _T | int:
    """Return a timedelta in whole ms, rounded up; any other value unchanged."""
    return -(-value // _MILLISECOND) if isinstance(value, timedelta) else value


def ms_of_moment(value: _T | datetime, name: str) -> _T | int:
    """Return a datetime in ms since 1970, rounded up; any other value unchanged.

    Raises ValueError for a datetime without a time zone; ``name`` names the argument in its text.
    """
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        raise ValueError(f"{name} {value!r} has no time zone")
    return -(-(value - _EPOCH) // _MILLISECOND)


def next_scan_ms(scan_ms: int, interval_ms: int, from_ms: int) -> int:
    """Return the time of the first expiry scan that is not before ``from_ms``.

    Scans are at ``scan_ms`` and every ``interval_ms`` after it.
    """
    late_ms = max(from_ms - scan_ms, 0)
    return scan_ms + -(-late_ms // interval_ms) * interval_ms


def put_date(at_ms: int) -> str:
    """Return the MQMD.PutDate (UTC) of a time in epoch ms: ``20261120``."""
    return _date_of_day(at_ms // _DAY_MS)


def put_time(at_ms: int) -> str:
    """Return the MQMD.PutTime (UTC, to hundredths) of a time in epoch ms: ``17000525``."""
    minutes, ms = divmod(at_ms % _DAY_MS, _MINUTE_MS)
    return f"{minutes // 60:02d}{minutes % 60:02d}{ms // _HUNDREDTH_MS:04d}"


@lru_cache(maxsize=64)
def _date_of_day(day: int) -> str:
    """Return the date of a day counted from 1970-01-01 as ``YYYYMMDD``; cached."""
    return (_EPOCH + timedelta(days=day)).strftime("%Y%m%d")


def spelled_moment(at_ms: int) -> str:
    """Return epoch ms as text, UTC to the millisecond: ``2026-11-20 17:00:05.250``."""
    return f"{_EPOCH + timedelta(milliseconds=at_ms):%Y-%m-%d %H:%M:%S}.{at_ms % SECOND_MS:03d}"


def spelled_duration(duration_ms: int) -> str:
    """Return a duration in its two largest units: ``59 min 20 s``, ``5.25 s``, ``3 d 1 h``.

    It is exact below a minute and rounded up above (E4).
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
    """Return a count of ``part`` as text in units and parts: ``59 min 20 s``.

    ``in_unit`` is how many parts a unit has.
    """
    units, rest = divmod(count, in_unit)
    return f"{units:,} {unit} {rest} {part}" if rest else f"{units:,} {unit}"


class Driven(Protocol):
    """An owner of due work, such as a queue manager, whose work a Clock runs."""

    def next_due_ms(self) -> int | None:
        """Return the moment (epoch ms) of the next due work, None without any."""

    def run_due(self) -> None:
        """Do the work that is due now; afterwards :meth:`next_due_ms` is in the future."""


class Clock(Protocol):
    """Gives the time, and runs the due work of its owners when it falls due."""

    def now_ms(self) -> int:
        """Return epoch ms, UTC; never less than an earlier result."""

    def attach(self, driven: Driven) -> None:
        """Begin to run the due work of ``driven``, such as a queue manager."""

    def detach(self, driven: Driven) -> None:
        """Stop running the due work of ``driven``; on return no other thread runs that work.

        Does nothing when it is not attached.
        """

    def wake(self, driven: Driven) -> None:
        """Read ``driven.next_due_ms()`` again, because its due time may have become earlier."""
