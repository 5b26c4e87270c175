"""The transmission queue as its sender has it: open for it alone, and watched."""

from __future__ import annotations

from mayfly.channel.receiver import PROGRAM
from mayfly.engine.manager import Manager
from mayfly.engine.waiting import Waiter
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQOO_INPUT_EXCLUSIVE
from mayfly.mqi.errors import mq_error
from mayfly.mqi.selectors import MQUS_TRANSMISSION


class Intake:
    """Holds a queue open and notes when something arrives on it."""

    def __init__(self, manager: Manager, name: str) -> None:
        """Open it; raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_OBJECT_IN_USE, MQRC_XMIT_Q_USAGE_ERROR."""
        self._manager = manager
        #: As the channel's definition names the queue.
        self.name = name
        path = manager.registry.resolve(name)
        if path.queue.definition.number("USAGE") != MQUS_TRANSMISSION:
            raise mq_error(rc.MQRC_XMIT_Q_USAGE_ERROR, f"{name} is not USAGE(XMITQ)")
        self._session = manager.session(program=PROGRAM)
        try:
            self.queue = self._session.open(name, MQOO_INPUT_EXCLUSIVE).queue
        except BaseException:
            self._session.close()
            raise
        #: Whether there may be messages that nobody has looked for.
        self.has_work = True
        self._waiter = Waiter(self._note, None, self)
        with manager.latch:
            manager.waits.add(self.queue.number, self._waiter)

    def close(self) -> None:
        """Let the queue go."""
        with self._manager.latch:
            self._manager.waits.withdraw(self.queue.number, self._waiter)
        self._session.close()

    def _note(self) -> None:
        """Something has come: under the latch, by whoever brings it, who then wakes the clock."""
        if not self.has_work:
            self.has_work = self._manager.must_wake = True
