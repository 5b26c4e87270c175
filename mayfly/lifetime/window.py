"""The window of a message: the time between delivery delay and expiry in which it may be got.

A message can be got at ``now_ms`` when ``deliver_at_ms <= now_ms < expire_at_ms``. The window is
fixed at the put (E17, D17). Units of work, staging, locks and dead-lettering do not change it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from mayfly.lifetime.moments import Until
from mayfly.lifetime.times import ms_of_tenths, tenths_of_ms
from mayfly.mqi.constants import MQCEX_NOLIMIT, MQEI_UNLIMITED
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.reasons import MQRC_EXPIRY_ERROR, MQRC_OPTIONS_ERROR

#: The upper bound of MQMD.Expiry while AMQ_ENFORCE_MAX_EXPIRY_ERROR is set (E3).
MAXIMUM_EXPIRY_TENTHS = 999_999_999
#: The largest Expiry of the 32-bit field (X10), as milliseconds; no lifetime is longer.
LONGEST_LIFE_MS = ms_of_tenths(2**31 - 1)
#: The longest lifetime that a putter may ask for under E3.
LONGEST_ENFORCED_LIFE_MS = ms_of_tenths(MAXIMUM_EXPIRY_TENTHS)
#: Due moments fit into 42 bits of the staging key: the year 2109.
LATEST_DUE_MS = 2**42 - 1

#: A queue manager below this command level knows no delivery delay (D5).
DELAY_COMMAND_LEVEL = 800


class Window(NamedTuple):
    """The time of the put, and the time in which a message may be got, in epoch ms.

    ``expire_at_ms`` None is unlimited. ``capped_by`` is text on the CAPEXPRY that shortened the
    window, with its object (`lifetime.life.Cap`), None if none has.
    """

    put_ms: int
    deliver_at_ms: int
    expire_at_ms: int | None
    capped_by: str | None = None


def life_ms_of_expiry(
    expiry_tenths: int, *, enforce_maximum: bool = False, refuse_zero: bool = True
) -> int | None:
    """Return the lifetime in ms that MQMD.Expiry asks for, None for unlimited.

    ``expiry_tenths`` is in tenths of a second. Raises MQRC_EXPIRY_ERROR for 0 (E2), for a negative
    value other than MQEI_UNLIMITED, and above 999,999,999 with ``enforce_maximum`` (E3). With
    ``refuse_zero`` False, setting ``expiry.zero_check=env``, 0 is accepted and elapses at once.
    """
    if expiry_tenths == MQEI_UNLIMITED:
        return None
    if expiry_tenths < 0 or (expiry_tenths == 0 and refuse_zero):
        raise mq_error(
            MQRC_EXPIRY_ERROR, f"Expiry {expiry_tenths} is neither positive nor MQEI_UNLIMITED"
        )
    if enforce_maximum and expiry_tenths > MAXIMUM_EXPIRY_TENTHS:
        raise mq_error(
            MQRC_EXPIRY_ERROR, f"Expiry {expiry_tenths} is above {MAXIMUM_EXPIRY_TENTHS}"
        )
    return ms_of_tenths(expiry_tenths)


def lowest_cap_ms(caps_tenths: Iterable[int]) -> int | None:
    """Return the lowest CAPEXPRY of the objects a put passes through, in ms.

    ``caps_tenths`` are in tenths of a second. None when none limits the expiry (X3).
    """
    limits = [cap for cap in caps_tenths if cap != MQCEX_NOLIMIT]
    return ms_of_tenths(min(limits)) if limits else None


def window_at_put(
    put_ms: int,
    life_ms: int | None,
    # int; a program may give anything, which is refused here.
    delay_ms: Any = 0,
    cap_ms: int | None = None,
    *,
    from_release: bool = False,
    longest_ms: int | None = None,
    capped_by: str | None = None,
) -> Window:
    """Return the window of a message put at ``put_ms``: its delivery and expiry times.

    ``life_ms`` is the time to live, None for unlimited. Time to live and delay both begin at the
    put, not at the commit (E17, D12, D17). A delay may be passed as its end (``Until``). ``cap_ms``
    (CAPEXPRY) can only shorten the time to live, without an error (X3). A delay equal to the time
    to live is allowed; the message then can never be got (D18). With ``from_release``,
    TTLFROM(RELEASE), the time to live of a delayed message begins when the delay is over.
    ``longest_ms`` limits ``life_ms`` before the cap (E3); None is no limit. ``capped_by`` is text
    on the cap and its object.

    Raises MQRC_EXPIRY_ERROR when ``life_ms`` is above ``longest_ms``, or the delay is longer than
    the resulting time to live (D7, D31). Raises MQRC_OPTIONS_ERROR when the delay is no int,
    negative, or ends after the year 2109.
    """
    if longest_ms is not None and life_ms is not None and life_ms > longest_ms:
        raise _too_long(life_ms, longest_ms)
    if cap_ms is not None and (life_ms is None or life_ms > cap_ms):
        life_ms = cap_ms
    else:
        capped_by = None
    if life_ms is None:
        expire_at_ms = None
    else:
        expire_at_ms = put_ms + life_ms
    if delay_ms == 0 and type(delay_ms) is int:
        # Made without a call of Python, as every put comes here.
        return tuple.__new__(Window, (put_ms, put_ms, expire_at_ms, capped_by))
    if type(delay_ms) is Until:
        delay_ms = max(int(delay_ms) - put_ms, 1)
    deliver_at_ms = due_at(put_ms, delay_ms)
    if from_release and life_ms is not None:
        expire_at_ms = deliver_at_ms + life_ms
    elif life_ms is not None and delay_ms > life_ms:
        text = f"delay_ms {delay_ms} is longer than the lifetime of {life_ms} ms"
        raise mq_error(MQRC_EXPIRY_ERROR, f"{text}, which is {capped_by}" if capped_by else text)
    return Window(put_ms, deliver_at_ms, expire_at_ms, capped_by)


def capped_from(window: Window, now_ms: int, cap_ms: int | None, capped_by: str | None) -> Window:
    """Return the window of a message that the queue manager puts on another queue now.

    ``cap_ms`` is the CAPEXPRY of that queue in ms, ``capped_by`` the text that names it. It counts
    from this put (X1, X3). An earlier expiry, or a ``cap_ms`` of None, leaves the window unchanged
    (E21).
    """
    if cap_ms is None:
        return window
    end_ms = now_ms + cap_ms
    if window.expire_at_ms is not None and window.expire_at_ms <= end_ms:
        return window
    return window._replace(expire_at_ms=end_ms, capped_by=capped_by)


def check_life_ms(life_ms: object, longest_ms: int = LONGEST_LIFE_MS) -> None:
    """Raise MQRC_EXPIRY_ERROR unless a time to live is None or an int from 1 to ``longest_ms``."""
    if life_ms is not None and not (type(life_ms) is int and 0 < life_ms <= longest_ms):
        raise mq_error(
            MQRC_EXPIRY_ERROR,
            f"time_to_live_ms {life_ms!r} is not within 1 .. {longest_ms}",
        )


def _too_long(life_ms: int, longest_ms: int) -> MQError:
    """Return the MQRC_EXPIRY_ERROR for a time to live above the allowed one, both in ms.

    ``longest_ms`` is the longest allowed one.
    """
    return mq_error(
        MQRC_EXPIRY_ERROR,
        f"a lifetime of {life_ms} ms, Expiry {tenths_of_ms(life_ms)}, is above "
        f"{tenths_of_ms(longest_ms)}",
    )


def due_at(now_ms: int, delay_ms: Any) -> int:
    """Return the delivery time (epoch ms) of a delay in ms that begins at ``now_ms``.

    Raises MQRC_OPTIONS_ERROR unless the delay is an int, not negative, and ends by the year 2109.
    """
    if type(delay_ms) is not int or not 0 <= delay_ms <= LATEST_DUE_MS - now_ms:
        raise mq_error(
            MQRC_OPTIONS_ERROR,
            f"delay_ms {delay_ms!r} is not a number of ms from 0 to {LATEST_DUE_MS - now_ms}",
        )
    return now_ms + delay_ms


def remaining_ms(expire_at_ms: int | None, now_ms: int) -> int | None:
    """Return the time until expiry in ms: 0 once expired, None when unlimited."""
    return None if expire_at_ms is None else max(expire_at_ms - now_ms, 0)


def remaining_tenths(expire_at_ms: int | None, now_ms: int) -> int:
    """Return the Expiry that a getter sees, in tenths of a second, rounded up (E4, E5).

    MQEI_UNLIMITED for None, 0 only for an expired message.
    """
    if expire_at_ms is None:
        return MQEI_UNLIMITED
    return tenths_of_ms(max(expire_at_ms - now_ms, 0))
