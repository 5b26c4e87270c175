"""The trigger attributes of a queue, and the time of its last trigger message."""

from __future__ import annotations

from mayfly.engine.attributes import QueueDefinition
from mayfly.mqi.constants import (
    MQMDS_FIFO,
    MQQA_GET_INHIBITED,
    MQTC_ON,
    MQTT_DEPTH,
    MQTT_EVERY,
    MQTT_NONE,
    MQUS_TRANSMISSION,
)
from mayfly.store.keys import STAGING_NUMBER

#: Attributes whose change lets the conditions be looked at again, though nothing arrives.
CONDITIONS = frozenset("TRIGGER TRIGTYPE TRIGDPTH TRIGMPRI INITQ PROCESS USAGE".split())
#: The same of an initiation queue, for the queues that it is that of.
INITIATION_CONDITIONS = frozenset("PUT GET USAGE".split())


class Trigger:
    """The trigger of one queue, made from its attributes; guarded by the engine lock.

    ``least_priority`` is TRIGMPRI. With ``is_fifo``, keys of messages do not contain their
    priority.
    """

    __slots__ = (
        "initiation_queue",
        "is_fifo",
        "last_ms",
        "least_priority",
        "messages_needed",
        "process",
        "trigger_type",
    )

    def __init__(self, definition: QueueDefinition, last_ms: int | None) -> None:
        """Set the trigger attributes from a queue definition.

        ``last_ms`` is when the last trigger message was put (ms since 1970), None for never.
        """
        self.trigger_type = definition.trigtype
        self.least_priority = definition.trigmpri
        self.is_fifo = definition.msgdlvsq == MQMDS_FIFO
        self.initiation_queue = definition.initq
        #: The process that must be defined; None on a transmission queue, which needs none (T1).
        self.process: str | None = definition.process
        if _is_transmission(definition):
            self.process = None
        #: How many qualifying messages let it trigger although none arrives.
        self.messages_needed = definition.trigdpth if self.is_depth else 1
        self.last_ms = last_ms

    @property
    def is_every(self) -> bool:
        """Whether the trigger type is TRIGTYPE(EVERY)."""
        return self.trigger_type == MQTT_EVERY

    @property
    def is_depth(self) -> bool:
        """Whether the trigger type is TRIGTYPE(DEPTH)."""
        return self.trigger_type == MQTT_DEPTH


def trigger_of(definition: QueueDefinition, number: int, last_ms: int | None) -> Trigger | None:
    """Return the trigger of a local queue, None when it has none.

    It has none with NOTRIGGER, TRIGTYPE(NONE) or an empty INITQ. The staging queue, and a
    transmission queue with GET(DISABLED), have none either. ``number`` is that of the queue,
    ``last_ms`` when its last trigger message was put, None for never.
    """
    if definition.trigger != MQTC_ON or number == STAGING_NUMBER:
        return None
    if _is_transmission(definition) and definition.get == MQQA_GET_INHIBITED:
        return None
    if definition.trigtype == MQTT_NONE or not definition.initq:
        return None
    return Trigger(definition, last_ms)


def _is_transmission(definition: QueueDefinition) -> bool:
    """Return True for a definition with USAGE(XMITQ)."""
    return definition.usage == MQUS_TRANSMISSION
