"""Moments and durations as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mayfly.lifetime.times import SECOND_MS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE_MS = 60 * SECOND_MS
_HOUR_MS = 60 * _MINUTE_MS


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
    whole, rest = divmod(count, in_unit)
    return f"{whole:,} {unit} {rest} {part}" if rest else f"{whole:,} {unit}"
