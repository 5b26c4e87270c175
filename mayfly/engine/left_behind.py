"""Objects that programs dropped without closing them, until a thread without locks ends them."""

from __future__ import annotations

from collections.abc import Callable

from mayfly.engine.queues import LocalQueue


class LeftBehind:
    """Sessions and other objects that were dropped, and temporary queues of such sessions.

    The garbage collector finds them in the midst of the engine, where locks may be held: it only
    adds to the lists. The next thread that holds no lock ends them.
    """

    __slots__ = ("objects", "queues", "sessions")

    def __init__(self) -> None:
        """Begin with nothing."""
        #: A function for each session, which ends it.
        self.sessions: list[Callable[[], None]] = []
        #: A function for each other object, which ends it.
        self.objects: list[Callable[[], None]] = []
        #: To be deleted, in turn under the lock.
        self.queues: list[LocalQueue] = []

    def share(self, other: LeftBehind) -> None:
        """Have sessions and objects in common with another queue manager: either may end them."""
        self.sessions, self.objects = other.sessions, other.objects

    def end_sessions(self) -> None:
        """End all sessions."""
        _end_all(self.sessions)

    def end_objects(self) -> None:
        """End all other objects."""
        _end_all(self.objects)


def _end_all(ends: list[Callable[[], None]]) -> None:
    while ends:
        try:
            end = ends.pop()
        except IndexError:
            # Another thread was faster.
            break
        end()
