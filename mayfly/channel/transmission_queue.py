"""The transmission queue as its sender has it: open for it alone, and watched."""

from __future__ import annotations

from mayfly.channel.receiver import PROGRAM
from mayfly.engine import Arrivals, Engine
from mayfly.engine.face.transit import open_transmission_queue


class OpenTransmissionQueue(Arrivals):
    """Holds a queue open and notes when something arrives on it."""

    def __init__(self, manager: Engine, name: str) -> None:
        """Open it; raises as ``open_transmission_queue``."""
        super().__init__(manager)
        #: As the channel's definition names the queue.
        self.name = name
        self._session = manager.session(program=PROGRAM)
        try:
            queue = open_transmission_queue(self._session, name).queue
        except BaseException:
            self._session.close()
            raise
        self.watch(queue)

    def close(self) -> None:
        """Let the queue go."""
        self.end()
        self._session.close()
