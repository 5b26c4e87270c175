"""The transmission queue as its sender has it: open for it alone, and watched."""

from __future__ import annotations

from mayfly.channel.receiver import PROGRAM
from mayfly.engine import Arrivals, Manager
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQOO_INPUT_EXCLUSIVE
from mayfly.mqi.errors import mq_error


class Intake(Arrivals):
    """Holds a queue open and notes when something arrives on it."""

    def __init__(self, manager: Manager, name: str) -> None:
        """Open it.

        Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_OBJECT_IN_USE, MQRC_XMIT_Q_USAGE_ERROR, and
        MQRC_OBJECT_TYPE_ERROR for a shared queue: what is in doubt there would be seen by other
        members while this one is closed.
        """
        super().__init__(manager)
        #: As the channel's definition names the queue.
        self.name = name
        path = manager.registry.resolve(name)
        if not path.queue.transmits:
            raise mq_error(rc.MQRC_XMIT_Q_USAGE_ERROR, f"{name} is not USAGE(XMITQ)")
        if path.queue.home is not manager:
            raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"{name} is shared: no channel empties it")
        self._session = manager.session(program=PROGRAM)
        try:
            self.queue = self._session.open(name, MQOO_INPUT_EXCLUSIVE).queue
        except BaseException:
            self._session.close()
            raise
        self.watch(self.queue)

    def close(self) -> None:
        """Let the queue go."""
        self.end()
        self._session.close()
