"""MQ Everyplace: its rules of time, with expiry by queue interval or by message, and clock skew.

They differ from those of MQ (`window`). The width of a number decides its meaning. A lifetime runs
from the creation of the message, or from its arrival on a queue, not from the put.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol, cast

from mayfly.lifetime.times import Clock
from mayfly.mqi.errors import mq_error
from mayfly.mqi.reasons import MQRC_EXPIRY_ERROR, MQRC_PROP_NUMBER_FORMAT_ERROR

#: Values of an int (32 bits) and of a long (64 bits), both ends included.
INT_RANGE = (-(2**31), 2**31 - 1)
LONG_RANGE = (-(2**63), 2**63 - 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Timepiece(Protocol):
    """Gives the time; every Clock is one."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch, UTC."""


class SkewedClock:
    """The clock of another machine: another clock's time plus ``skew_ms``, which may be changed."""

    def __init__(self, clock: Timepiece, skew_ms: int = 0) -> None:
        """Create a clock that runs ``skew_ms`` ahead of ``clock``; a negative number is behind."""
        self.skew_ms = skew_ms
        self.base = clock

    def now_ms(self) -> int:
        """Return the time of this machine in epoch ms."""
        return self.base.now_ms() + self.skew_ms


def driver_of(clock: Timepiece) -> Clock | None:
    """Return the Clock inside a (skewed) timepiece, None if it only gives the time.

    A Clock can also run due work, by its method ``attach``.
    """
    while isinstance(clock, SkewedClock):
        clock = clock.base
    return cast(Clock, clock) if callable(getattr(clock, "attach", None)) else None


class ExpireTime(NamedTuple):
    """The expiry in a message: epoch ms if ``is_absolute``, else ms from creation (M4)."""

    value: int
    is_absolute: bool

    def at_ms(self, created_ms: int) -> int:
        """Return the expiry time in epoch ms; the message is expired from that moment on.

        A relative expiry counts from ``created_ms``, the creation of the message.
        """
        return self.value if self.is_absolute else created_ms + self.value


def moment_ms(moment: datetime) -> int:
    """Return a datetime as epoch ms, rounded down.

    Raises MQRC_PROP_NUMBER_FORMAT_ERROR for a datetime without a time zone.
    """
    if moment.utcoffset() is None:
        raise mq_error(MQRC_PROP_NUMBER_FORMAT_ERROR, f"{moment!r} has no time zone")
    return (moment - _EPOCH) // _MILLISECOND


def moment_of(at_ms: int) -> datetime:
    """Return epoch ms as a datetime in UTC.

    Raises MQRC_PROP_NUMBER_FORMAT_ERROR beyond year 9999.
    """
    try:
        return _EPOCH + at_ms * _MILLISECOND
    except OverflowError:
        raise mq_error(MQRC_PROP_NUMBER_FORMAT_ERROR, f"{at_ms} ms are no datetime") from None


def deadline_ms(
    created_ms: int, arrived_ms: int, expire_time: ExpireTime | None, interval_ms: int | None
) -> int | None:
    """Return the expiry time of a message on a queue in epoch ms, None for never.

    The expiry time that the message carries overrides the queue's interval, even if it is later
    (M3). It counts from the creation (M4), the interval from the arrival on this queue (M1).
    """
    if expire_time is not None:
        return expire_time.at_ms(created_ms)
    return None if interval_ms is None else arrived_ms + interval_ms


def is_never_live(created_ms: int, expire_time: ExpireTime | None) -> bool:
    """Return True if a message expires no later than its creation (M15); False without an expiry.

    Most likely its program set a number of the wrong width (32 or 64 bits).
    """
    return expire_time is not None and expire_time.at_ms(created_ms) <= created_ms


def check_interval_ms(interval_ms: int | None) -> None:
    """Raise MQRC_EXPIRY_ERROR unless a queue's interval is None or within 1 .. 2**63 - 1 ms."""
    if interval_ms is not None and not is_interval_ms(interval_ms):
        raise mq_error(
            MQRC_EXPIRY_ERROR, f"expiry_ms {interval_ms!r} is not within 1 .. {LONG_RANGE[1]}"
        )


def next_trickle_ms(begun_ms: int, interval_ms: int, now_ms: int) -> int:
    """Return the first time after ``now_ms`` that is a multiple of the interval from ``begun_ms``.

    Held messages are transmitted and pulled at these times. All values are in ms.
    """
    return now_ms + interval_ms - (now_ms - begun_ms) % interval_ms


def is_interval_ms(value: object) -> bool:
    """Return True for an int from 1 to 2**63 - 1, the intervals in ms that a queue may have."""
    return type(value) is int and 0 < value <= LONG_RANGE[1]
