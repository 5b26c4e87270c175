"""The argument of the engine's verbs: the state of a queue manager, with its committer."""

from __future__ import annotations

from mayfly.engine.callbacks import Background
from mayfly.engine.commit import Committer
from mayfly.engine.state import State
from mayfly.lifetime.times import Clock
from mayfly.runtime import EngineLock, Runtime
from mayfly.runtime.extended import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Core(State):
    """The state of a queue manager with its committer."""

    def __init__(self, name: str, engine_lock: EngineLock, clock: Clock, runtime: Runtime) -> None:
        """Begin without a store; the queue manager opens it."""
        super().__init__(name, engine_lock, clock, runtime)
        #: Its queue-sharing group, for a member of one.
        self.group: Core | None = None
        self.committer = Committer(self)
        #: Work for callers that do not wait.
        self.background = Background(self.callbacks, self.committer.run, runtime)
