"""The rules of MQ Everyplace about time: a queue's interval, a message's own end, clocks apart.

They differ from those of MQ (`window`): the width of a number says what it means, and a lifetime
runs from the creation of the message or from its arrival on a queue, not from the put.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from mayfly.mqi.errors import mq_error
from mayfly.mqi.reasons import MQRC_EXPIRY_ERROR

#: What an int (32 bits) and a long (64 bits) can say, both ends included.
INT_RANGE = (-(2**31), 2**31 - 1)
LONG_RANGE = (-(2**63), 2**63 - 1)


class Timepiece(Protocol):
    """Tells the time; every Clock is one."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch, UTC."""


class SkewedClock:
    """The clock of another machine: another clock's time plus ``skew_ms``, which may change."""

    def __init__(self, clock: Timepiece, skew_ms: int = 0) -> None:
        """Stand ``skew_ms`` ahead of a clock; negative: behind."""
        self.skew_ms = skew_ms
        self._clock = clock

    def now_ms(self) -> int:
        """Return milliseconds since the epoch, UTC, as this machine has them."""
        return self._clock.now_ms() + self.skew_ms


class ExpireTime(NamedTuple):
    """A message's own end: ms from its creation, or with ``is_absolute`` epoch ms (M4)."""

    value: int
    is_absolute: bool

    def at_ms(self, created_ms: int) -> int:
        """Return the moment from which on the message is expired."""
        return self.value if self.is_absolute else created_ms + self.value


def deadline_ms(
    created_ms: int, arrived_ms: int, expire_time: ExpireTime | None, interval_ms: int | None
) -> int | None:
    """Return the moment from which on a message on a queue is expired, None for never.

    The message's own end overrides the queue's interval, whether it is nearer or further (M3). It
    runs from the creation (M4), the interval from the arrival on this queue (M1).
    """
    if expire_time is not None:
        return expire_time.at_ms(created_ms)
    return None if interval_ms is None else arrived_ms + interval_ms


def is_never_alive(created_ms: int, expire_time: ExpireTime | None) -> bool:
    """Tell whether an end is no later than the creation: most likely the wrong width (M15)."""
    return expire_time is not None and expire_time.at_ms(created_ms) <= created_ms


def check_interval_ms(interval_ms: int | None) -> None:
    """Raise MQRC_EXPIRY_ERROR unless a queue's interval is None or a positive long."""
    if interval_ms is not None and not (
        type(interval_ms) is int and 0 < interval_ms <= LONG_RANGE[1]
    ):
        raise mq_error(
            MQRC_EXPIRY_ERROR, f"expiry_ms {interval_ms!r} is not within 1 .. {LONG_RANGE[1]}"
        )
