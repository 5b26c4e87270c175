"""The membership of a queue manager in a queue-sharing group, or in none."""

from __future__ import annotations

from typing import Generic, TypeVar

from mayfly.engine.core import Core
from mayfly.mqi.errors import StoreError
from mayfly.runtime import EngineLock, Runtime
from mayfly.store.prepare_records import group_of

_Engine = TypeVar("_Engine", bound=Core)


class Membership(Generic[_Engine]):
    """What an engine asks of its queue-sharing group; this one is of no group.

    ``engine/sharing`` has the membership in a group.
    """

    @property
    def has_unfinished(self) -> bool:
        """Whether decided transactions wait until the disk has space."""
        return False

    def lock(self, runtime: Runtime) -> EngineLock:
        """Return the engine's lock; all members of a group share one."""
        return runtime.engine_lock()

    def join(self, engine: _Engine) -> None:
        """Join the group, once the store is open; raises StoreError for another group's folder."""
        group, folder = group_of(engine.store.persistent), engine.store.folder
        if group and folder is not None:
            text = (
                f"{engine.name} is a member of queue-sharing group {group}: open it with the group"
            )
            raise StoreError(text, folder)

    def recover(self) -> None:
        """Complete transactions that the group decided while the queue manager was closed."""

    def admit(self) -> None:
        """Make the queue manager known in the group by its name, now that it is open."""

    def finish(self) -> None:
        """Complete decided transactions that a full disk has delayed."""

    def may_bring(self, end_ms: int) -> bool:
        """Return True if another member may release a message to a shared queue by ``end_ms``."""
        return False

    def end_waits(self) -> None:
        """End waits for which the group waited until the due work was done."""

    def end(self) -> None:
        """Leave the group, as the queue manager is closed."""
