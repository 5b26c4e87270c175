"""A queue-sharing group, as programs have it (docs/SHARED_QUEUES.md)."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from mayfly.engine.counting import verify
from mayfly.engine.engine import Engine
from mayfly.engine.session import Session
from mayfly.engine.sharing.directory import MemberStatus
from mayfly.engine.sharing.membership import GroupMembership
from mayfly.engine.sharing.shared_queues import SharedQueues
from mayfly.lifetime.times import Clock
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.runtime import Runtime
from mayfly.verbs.facts import Verification


class QueueSharingGroup:
    """Shared queues of several queue managers in this process; a context manager.

    ``QueueSharingGroup("QSG1", folder)`` keeps them in the folder, without one in memory. Queue
    managers are opened with ``sharing_group=``; closing the group closes them first.
    """

    def __init__(
        self,
        name: str,
        path: str | Path | None = None,
        clock: Clock | None = None,
        *,
        runtime: Runtime | None = None,
    ) -> None:
        """Open the group; raises as ``QueueManager`` does for its folder."""
        self._shared = SharedQueues()
        # On z/OS nobody defines a staging queue: delayed messages wait with the members.
        self.engine = Engine(
            name, path, clock, platform="zos", runtime=runtime, membership=self._shared
        )
        self.name, self.clock = name, self.engine.clock
        #: Returns the time of the group, which is that of its members.
        self.now_ms = self.engine.now_ms

    @property
    def is_stopped(self) -> bool:
        """Whether it was closed, or its store has failed."""
        return self.engine.is_stopped

    def membership(self, name: str, clock: Clock | None) -> GroupMembership:
        """Return the membership of a queue manager to be, for whoever opens it.

        Raises ValueError for another clock than that of the group, and for a name in use.
        """
        if clock is not None and clock is not self.clock:
            raise ValueError(f"clock: {name} has that of its queue-sharing group {self.name}")
        if self._shared.has(name):
            raise ValueError(f"name {name!r} is in use in queue-sharing group {self.name}")
        return GroupMembership(self._shared)

    def members(self) -> list[MemberStatus]:
        """Return the members that are open, and those that something decided waits for, by name.

        Raises MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
        """
        return self._shared.status()

    def remove_member(self, name: str) -> int:
        """Forget what was decided for a member that is never opened again; return how many units.

        Their changes in its store do not happen. Its folder may not join any more, for it holds
        messages that are elsewhere by now; another queue manager of the name may. Raises ValueError
        while it is open, MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
        """
        return self._shared.remove_member(name)

    def session(self, *_given: object, **_named: object) -> Session:
        """Raise MQRC_FUNCTION_NOT_SUPPORTED: programs connect to a member."""
        raise mq_error(rc.MQRC_FUNCTION_NOT_SUPPORTED, f"{self.name}: connect to a member of it")

    def verify(self) -> Verification:
        """Recount the shared queues and compare, as ``QueueManager.verify`` does for its own."""
        return verify(self.engine)

    def close(self) -> None:
        """Close the members, then the store of the shared queues."""
        self.engine.close()

    def __repr__(self) -> str:
        """Say where it lives, and whether it has stopped."""
        return f"<{type(self).__name__} {self.engine.label}>"

    def __enter__(self) -> Self:
        """Return the group."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()
