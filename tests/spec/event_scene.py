"""Event messages of a queue manager, got and read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.mqi.pcf import PcfMessage, Structure, unpack
from mayfly.verbs.messages import Message

PERFORMANCE = "SYSTEM.ADMIN.PERFM.EVENT"
MANAGER = "SYSTEM.ADMIN.QMGR.EVENT"
CHANNELS = "SYSTEM.ADMIN.CHANNEL.EVENT"
CONFIGURATION = "SYSTEM.ADMIN.CONFIG.EVENT"
COMMANDS = "SYSTEM.ADMIN.COMMAND.EVENT"


class SeenEvent(NamedTuple):
    """An event message: its descriptor, its header, and its parameters in order."""

    message: Message
    content: PcfMessage

    @property
    def reason(self) -> int:
        """The reason code of the event."""
        return self.content.header.reason

    @property
    def parameters(self) -> list[int]:
        """The numbers of the parameters, in order."""
        return [each.parameter for each in self.content.structures]

    def value(self, parameter: int) -> object:
        """Return the value of a parameter, a text without blanks; None if it is not there."""
        return value_of(self.content.structures, parameter)


def value_of(structures: Sequence[Structure], parameter: int) -> object:
    """Return the value of a structure, a text without blanks; None if it is not there."""
    for each in structures:
        if each.parameter == parameter:
            return each.value.decode().rstrip() if isinstance(each.value, bytes) else each.value
    return None


def turned_on(qm: QueueManager, script: str) -> None:
    """Run commands that turn events on, and must succeed."""
    result = qm.mqsc(script)
    assert result.ok, result.text


def seen(session: Session, queue: str = PERFORMANCE) -> list[SeenEvent]:
    """Get all event messages of a queue."""
    found = []
    while (message := session.get(queue)) is not None:
        found.append(SeenEvent(message, unpack(message.body, big_endian=False)))
    return found


def reasons(session: Session, queue: str = PERFORMANCE) -> list[int]:
    """Get all event messages of a queue; return their reason codes."""
    return [event.reason for event in seen(session, queue)]
