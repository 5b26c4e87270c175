"""Membership of a queue manager in a queue-sharing group, or in none."""

from __future__ import annotations

from typing import Generic, TypeVar

from mayfly.engine.core import Core
from mayfly.mqi.errors import StoreError
from mayfly.runtime import EngineLock, Runtime
from mayfly.store.prepare_records import group_of

_Engine = TypeVar("_Engine", bound=Core)


class Membership(Generic[_Engine]):
    """The calls of an engine to its queue-sharing group.

    This class is for an engine without a group.
    Its methods do nothing, or check. ``engine/sharing`` has the membership in a group.
    """

    @property
    def has_unfinished(self) -> bool:
        """True while transactions that the group has decided wait for space on the disk.

        This class, for a queue manager without a group, returns False.
        """
        return False

    def lock(self, runtime: Runtime) -> EngineLock:
        """Return the lock for the engine.

        All members of a group share one. This class, for no group, returns a new one.
        """
        return runtime.engine_lock()

    def join(self, engine: _Engine) -> None:
        """Join the group, once the store is open.

        This class, for no group, raises StoreError if the folder belongs to a member of a group.
        """
        group, folder = group_of(engine.store.persistent), engine.store.folder
        if group and folder is not None:
            text = (
                f"{engine.name} is a member of queue-sharing group {group}: open it with the group"
            )
            raise StoreError(text, folder)

    def recover(self) -> None:
        """Complete transactions that the group decided while the queue manager was closed.

        This class, for a queue manager without a group, does nothing.
        """

    def admit(self) -> None:
        """Make the queue manager known in the group by its name, now that it is open.

        This class, for a queue manager without a group, does nothing.
        """

    def finish(self) -> None:
        """Complete decided transactions that a full disk has delayed; nothing without a group."""

    def may_bring(self, end_ms: int) -> bool:
        """Return True if another member may release a message to a shared queue by ``end_ms``.

        Without a group it returns False.
        """
        return False

    def end_waits(self) -> None:
        """End the gets whose wait the group prolonged until the due work was done.

        This class, for a queue manager without a group, does nothing.
        """

    def end(self) -> None:
        """Leave the group, as the queue manager is closed; without a group do nothing."""
