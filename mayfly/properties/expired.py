"""An expired message on the queue that EXPQ names: properties about its life.

The reason, the queue where it expired and the moment are message properties, for programs of JMS
and of AMQP and for selectors; MQMD.Feedback has the reason for programs that read no properties.
"""

from __future__ import annotations

from typing import Final

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
    """Return a message as it stands on the queue that EXPQ names.

    It asks for no report: its sender has been told. Ids, context and everything else are as they
    were. One whose MQRFH2 is damaged has the Feedback alone.
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
