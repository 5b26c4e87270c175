"""Moments of a message as its sender has said them, beside those that the queue manager keeps.

A client says moments by its own clock. Life and delay are counted from the arrival, so that this
clock and the queue manager's need not agree. The moment that counts then differs from the one that
was said by the time of the way, and by the difference of the clocks. Clients are shown the latter.
"""

from __future__ import annotations

from typing import Final

from mayfly.lifetime.times import SECOND_MS

#: The properties of a message that hold what AMQP clients have said. A folder of JMS would make
#: PROPCTL(COMPAT) show programs of the MQI a header that they do not expect.
CREATION: Final = "amqp.CreationTime"
EXPIRY: Final = "amqp.ExpiryTime"
DELIVERY: Final = "amqp.DeliveryTime"
_LARGEST_MS: Final = 2**63 - 1
#: The clock goes on between the reading of a message and its put, and a channel counts in tenths.
_SLACK_MS: Final = SECOND_MS


def as_kept(said_ms: int, counted_ms: int) -> str:
    """Return the value of a property: a moment, and the one that counted when the message came."""
    return f"{said_ms}/{counted_ms}"


def as_said(kept: str | None, counts_ms: int) -> int:
    """Return a moment as its sender has said it; ``counts_ms`` is the one that counts now.

    That one is returned where the sender has said none, and where another one counts than when the
    message came: a cap has shortened its life, or somebody has delivered it at another time.
    """
    said, slash, counted = (kept or "").partition("/")
    if not slash or not (_is_moment(said) and _is_moment(counted)):
        return counts_ms
    return int(said) if abs(int(counted) - counts_ms) <= _SLACK_MS else counts_ms


def _is_moment(text: str) -> bool:
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(_LARGEST_MS))
    return is_number and abs(int(text)) <= _LARGEST_MS
