"""Transmission to another queue manager: the Expiry inside the MQXQH, and the time on the link.

A message in transit has a second Expiry in its MQXQH, which a get or browse counts down. Only the
outer Expiry, in the MQMD of the message on the transmission queue, decides when it is discarded
(E25). The embedded one belongs to the message at its destination, and is 0 once it has elapsed
(E26).
"""

from __future__ import annotations

from typing import Literal

from mayfly.lifetime.times import TENTH_MS, ms_of_seconds, ms_of_tenths, tenths_of_ms
from mayfly.mqi.structures import XQH

#: Offset of the embedded Expiry in the data; shorter data has none.
EXPIRY_AT = XQH.offset_of("MsgDesc.Expiry")
EXPIRY_END = EXPIRY_AT + 4
_GRACE_SECONDS = 60


def embedded_expiry(body: bytes, *, big_endian: bool) -> int:
    """Return the Expiry (tenths of a second) inside the MQXQH at the start of a body.

    With ``big_endian`` it is read with the high byte first. The body must have at least EXPIRY_END
    bytes.
    """
    return int.from_bytes(body[EXPIRY_AT:EXPIRY_END], _order(big_endian), signed=True)


def counted_down(body: bytes, waited_ms: int, *, big_endian: bool) -> bytes:
    """Return a body with the Expiry in its MQXQH reduced by ``waited_ms``, but not below 0.

    With ``big_endian`` it has the high byte first. An embedded MQEI_UNLIMITED stays. A body too
    short for an MQXQH comes back unchanged.
    """
    if len(body) < EXPIRY_END:
        return body
    tenths = embedded_expiry(body, big_endian=big_endian)
    if tenths <= 0:
        return body
    left_ms = max(ms_of_tenths(tenths) - waited_ms, 0)
    left = tenths_of_ms(left_ms).to_bytes(4, _order(big_endian), signed=True)
    return body[:EXPIRY_AT] + left + body[EXPIRY_END:]


def shorter_life_ms(outer_ms: int | None, embedded_tenths: int) -> int | None:
    """Return the shorter of outer and embedded expiry in ms, when an MQXQH is removed.

    ``outer_ms`` None is unlimited, and so is a negative ``embedded_tenths``; None if both are.
    """
    if embedded_tenths < 0:
        return outer_ms
    embedded_ms = ms_of_tenths(embedded_tenths)
    return embedded_ms if outer_ms is None else min(outer_ms, embedded_ms)


def transit_ms(round_trip_ms: int, had_ms: int) -> int:
    """Return an estimate, in ms, of how long a batch was on the way to the receiver (E7).

    ``round_trip_ms`` is the time from handing the batch over until the answer, by the sender's
    clock. ``had_ms`` is how long the receiver had the batch meanwhile, by its own clock. Half of
    the difference is the way there, never less than 0.
    """
    return max(round_trip_ms - had_ms, 0) // 2


def counted_transit_ms(spent_ms: int) -> int:
    """Return by how many ms a time on the link reduces Expiry: 0 if below 100 ms, else all (E7)."""
    return spent_ms if spent_ms >= TENTH_MS else 0


def silence_ms(heartbeat_s: int) -> int | None:
    """Return after how many ms of silence a channel end ends the connection, None for never.

    ``heartbeat_s`` is HBINT in seconds. The result is twice HBINT below a minute, else HBINT plus a
    minute; HBINT 0 gives None.
    """
    if not heartbeat_s:
        return None
    return ms_of_seconds(heartbeat_s + min(heartbeat_s, _GRACE_SECONDS))


def _order(big_endian: bool) -> Literal["big", "little"]:
    """Return the byte order as ``int.from_bytes`` names it."""
    return "big" if big_endian else "little"
