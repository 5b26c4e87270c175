"""The place of a queue manager among others: outside of all queue-sharing groups, or in one."""

from __future__ import annotations

from typing import Generic, TypeVar

from mayfly.engine.core import Core
from mayfly.mqi.errors import StoreError
from mayfly.runtime import EngineLock, Runtime
from mayfly.store.prepare_records import group_of

_Engine = TypeVar("_Engine", bound=Core)


class Membership(Generic[_Engine]):
    """An engine's questions about its group, here of none; ``engine/sharing`` has the others."""

    @property
    def has_unfinished(self) -> bool:
        """Whether decided transactions wait until the disk has room."""
        return False

    def lock(self, runtime: Runtime) -> EngineLock:
        """Return the engine's lock, which all of a group share."""
        return runtime.engine_lock()

    def join(self, engine: _Engine) -> None:
        """Join while the store is open and nothing is loaded; StoreError refuses the folder."""
        group, folder = group_of(engine.store.persistent), engine.store.folder
        if group and folder is not None:
            text = f"{engine.name} is a member of queue-sharing group {group}: open it with that"
            raise StoreError(text, folder)

    def recover(self) -> None:
        """Do what was decided while it was closed, before anybody looks at a message."""

    def admit(self) -> None:
        """Let names of the group lead to the queue manager, which is open now."""

    def finish(self) -> None:
        """Do what was decided and a full disk has kept from being done."""

    def may_bring(self, end_ms: int) -> bool:
        """Return True if another engine of the group may release a message here by a moment."""
        return False

    def end_waits(self) -> None:
        """Let the group end the waits that have waited for a round of due work."""

    def end(self) -> None:
        """Leave the others, as the queue manager is closed."""
