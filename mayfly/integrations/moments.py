"""Moments that a framework names, as times from now."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil

from mayfly.lifetime.times import SECOND_MS, ms_of_moment
from mayfly.runtime.clocks import SystemClock


def ms_from_now(moment: object, name: str) -> int:
    """Return the ms from now, by this machine's clock, until a moment; negative in the past.

    ``moment`` is a datetime or its ISO form, UTC without a time zone, or seconds since 1970.
    Frameworks make it from this machine's clock and a countdown; so the countdown is what counts,
    whatever time the queue manager has. Raises ValueError for another value, with ``name``.
    """
    now_ms = SystemClock().now_ms()
    if isinstance(moment, (int, float)):
        return ceil(moment * SECOND_MS) - now_ms
    try:
        given = moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment))
    except ValueError as error:
        raise ValueError(f"{name} {moment!r} is no moment: {error}") from None
    aware = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
    return ms_of_moment(aware, name) - now_ms
