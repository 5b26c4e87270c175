"""Properties about a message's expiry, and the times that an AMQP client has set.

An expired message on the queue that EXPQ names has three properties: reason, queue of the expiry,
and time. They are for JMS and AMQP programs and for selectors. MQMD.Feedback has the reason for
programs that read no properties.

An AMQP client sets times by its clock. Time to live and delay count from the arrival, so that this
clock and the queue manager's need not agree. The time in force then differs from the client's by
the transfer time and by the difference of the clocks. Clients see the time that was set.
"""

from __future__ import annotations

from typing import Final

from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.properties import Typed
from mayfly.properties.folders import Property, joined

#: Names of the properties: why it is here, where it expired, and when, in ms since 1970.
REASON: Final = "MayflyReason"
ORIGINAL_QUEUE: Final = "MayflyOriginalQueue"
EXPIRED_AT: Final = "MayflyExpiredAt"
EXPIRED: Final = "expired"


def as_expired(
    descriptor: Descriptor, body: bytes, queue: str, expired_at_ms: int
) -> tuple[Descriptor, bytes]:
    """Return descriptor and body of an expired message, as the queue that EXPQ names holds it.

    Adds the properties MayflyReason, MayflyOriginalQueue and MayflyExpiredAt (ms since 1970). Sets
    Feedback MQFB_EXPIRATION, and clears the report options. Ids, context and everything else stay.
    If its MQRFH2 is damaged, no properties are added.
    """
    descriptor = descriptor._replace(report=c.MQRO_NONE, feedback=c.MQFB_EXPIRATION)
    properties = [
        Property(REASON, Typed("string", EXPIRED)),
        Property(ORIGINAL_QUEUE, Typed("string", queue)),
        Property(EXPIRED_AT, Typed("i8", expired_at_ms)),
    ]
    try:
        return joined(descriptor, body, properties)
    except MQError:
        return descriptor, body


#: The properties that hold the moments an AMQP client gave. A folder of JMS would make
#: PROPCTL(COMPAT) show MQI programs a header that they do not expect.
CREATION: Final = "amqp.CreationTime"
EXPIRY: Final = "amqp.ExpiryTime"
DELIVERY: Final = "amqp.DeliveryTime"
_LARGEST_MS: Final = 2**63 - 1
#: Time passes between the reading of a message and its put, and a channel counts in tenths.
_SLACK_MS: Final = SECOND_MS


def as_kept(said_ms: int, counted_ms: int) -> str:
    """Return the property value for a time that a client set: ``SAID/COUNTED``, in epoch ms.

    ``said_ms`` is the client's time, ``counted_ms`` the one in force at the arrival.
    """
    return f"{said_ms}/{counted_ms}"


def as_said(kept: str | None, counts_ms: int) -> int:
    """Return the time (epoch ms) to show to a client: the one that the sender set, if still valid.

    ``kept`` is a text from :func:`as_kept`, or None; ``counts_ms`` is the time in force now.
    Returns ``counts_ms`` if ``kept`` is None or invalid, or if the time in force has changed since
    the arrival. A CAPEXPRY or another delivery time may have changed it.
    """
    given, slash, counted = (kept or "").partition("/")
    if not slash or not (_is_moment(given) and _is_moment(counted)):
        return counts_ms
    return int(given) if abs(int(counted) - counts_ms) <= _SLACK_MS else counts_ms


def _is_moment(text: str) -> bool:
    """Return True if a text is a decimal integer of 64 bits."""
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(_LARGEST_MS))
    return is_number and abs(int(text)) <= _LARGEST_MS
