"""Helpers of the tests of triggering: a queue that triggers, and a monitor that only reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mayfly import QueueManager
from mayfly.engine import GetRequest, Handle, Session
from mayfly.engine.api.administration import PROCESS, define_named
from mayfly.mqi import constants as c
from mayfly.mqi.errors import NoMessage
from mayfly.mqi.structures import TM
from mayfly.verbs.facts import Value
from mayfly.verbs.messages import Message
from tests.spec.scene import INPUT, local

INITQ, PROGRAM = "INITQ", "PROGRAM"
FIRST, EVERY, DEPTH = c.MQTT_FIRST, c.MQTT_EVERY, c.MQTT_DEPTH
ON, OFF = c.MQTC_ON, c.MQTC_OFF


def triggering(qm: QueueManager, name: str = "Q1", **attributes: Value) -> str:
    """Define a queue that triggers, and what it needs; return its name."""
    if qm.engine.registry.find(INITQ) is None:
        local(qm, INITQ)
        define_named(qm.engine, PROCESS, PROGRAM, {"APPLICID": "serve it"})
    given: dict[str, Value] = {"TRIGGER": ON, "INITQ": INITQ, "PROCESS": PROGRAM}
    return local(qm, name, **{**given, **attributes})


class Monitor:
    """Has an initiation queue open and remembers for which queues trigger messages have come."""

    def __init__(self, session: Session, queue: str = INITQ) -> None:
        self.handle: Handle = session.open(queue, INPUT)
        self.messages: list[Message] = []

    def read(self) -> list[str]:
        """Return the queues of the trigger messages that have come since the last call."""
        found: list[str] = []
        while True:
            try:
                message = self.handle.get(GetRequest()).message
            except NoMessage:
                return found
            self.messages.append(message)
            found.append(str(TM.unpack(message.body)["QName"]))


@contextmanager
def serving(session: Session, queue: str = "Q1") -> Iterator[Handle]:
    """Have a queue open for input, as the program does that was started."""
    handle = session.open(queue, INPUT)
    try:
        yield handle
    finally:
        handle.close()


def control(qm: QueueManager, queue: str = "Q1") -> Value:
    """Return what TRIGGER of a queue is now."""
    definition = qm.engine.registry.find(queue)
    assert definition is not None
    return definition.attributes["TRIGGER"]
