"""Properties about the life of a message: how it expired, and the moments that an AMQP client gave.

An expired message on the queue that EXPQ names has its reason, the queue where it expired and the
moment as properties, for programs of JMS and of AMQP and for selectors; MQMD.Feedback has the
reason for programs that read no properties.

An AMQP client gives moments by its own clock. Life and delay count from the arrival, so that this
clock and the queue manager's need not agree. The moment in force then differs from the given one by
the time of the transfer, and by the difference of the clocks. Clients see the given one.
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

    It gets properties about its expiry and the Feedback MQFB_EXPIRATION, and asks for no further
    report. Ids, context and everything else stay. If its MQRFH2 is damaged, it has the Feedback
    alone.
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
    """Return the value of a property: the given moment, and the one in force at the arrival."""
    return f"{said_ms}/{counted_ms}"


def as_said(kept: str | None, counts_ms: int) -> int:
    """Return the moment (epoch ms) to show to a client; ``counts_ms`` is the one in force now.

    It is the moment that the sender gave. It is ``counts_ms`` if ``kept`` has none, or if the
    moment in force has changed since the arrival: by a cap on its life, or by another delivery
    time.
    """
    given, slash, counted = (kept or "").partition("/")
    if not slash or not (_is_moment(given) and _is_moment(counted)):
        return counts_ms
    return int(given) if abs(int(counted) - counts_ms) <= _SLACK_MS else counts_ms


def _is_moment(text: str) -> bool:
    """Return True if a text is an integer of 64 bits."""
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(_LARGEST_MS))
    return is_number and abs(int(text)) <= _LARGEST_MS
