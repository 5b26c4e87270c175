"""The whole queue manager: the engine together with its channels and its command language."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from mayfly.channel import Channels
from mayfly.engine import Manager, OwnTime, SettingValue, advance_clock, folder_in_home
from mayfly.hierarchy import Hierarchy
from mayfly.lifetime.times import Clock
from mayfly.mqi.errors import FolderInUse
from mayfly.mqsc import MqscResult, run_script
from mayfly.runtime import Runtime
from mayfly.sharing.group import QueueSharingGroup
from mayfly.sharing.membership import GroupMembership


class QueueManager(Manager):
    """A queue manager in this process; a context manager.

    ``QueueManager("QM1")`` lives in memory, ``QueueManager("QM1", folder)`` keeps persistent
    messages, definitions and the ledger in the folder. ``QueueManager.open("QM1")`` is the one that
    the command line and pymqi mean by this name. All parameters: ``engine.manager.Manager``; with a
    ``sharing_group``, which gives its clock, it has the queues of that group, too.
    """

    def __init__(
        self,
        name: str,
        path: str | Path | None = None,
        clock: Clock | None = None,
        *,
        platform: str | None = None,
        command_level: int | None = None,
        settings: Mapping[str, SettingValue] | None = None,
        user: str = "",
        runtime: Runtime | None = None,
        sharing_group: QueueSharingGroup | None = None,
    ) -> None:
        """Open the queue manager, and start the channels that ran when it was last open.

        Raises ValueError for another clock than that of the group and for a name that is open in
        the group already, and StoreError for a folder that belongs to another group, or to one when
        none is given, or that was removed from its group.
        """
        membership = None
        if sharing_group is not None:
            clock = sharing_group.clock_for(name, clock)
            membership = GroupMembership(sharing_group)
        try:
            super().__init__(
                name,
                path,
                clock,
                platform=platform,
                command_level=command_level,
                settings=settings,
                user=user,
                runtime=runtime,
                membership=membership,
            )
        except FolderInUse as error:
            raise FolderInUse(
                f"{error.message}; programs share {name} through the command `mayfly serve {name}`,"
                " to which they connect by mayfly.served.ServedQueueManager (docs/SERVING.md)",
                error.path,
            ) from None
        #: The channels to and from other queue managers (docs/CHANNELS.md).
        self.channels = Channels(self)
        self.channels.restart()
        #: Publish/subscribe with other queue managers (docs/HIERARCHY.md).
        self.hierarchy = Hierarchy(self)

    @classmethod
    def open(
        cls,
        name: str,
        clock: Clock | None = None,
        *,
        platform: str | None = None,
        command_level: int | None = None,
        settings: Mapping[str, SettingValue] | None = None,
        user: str = "",
    ) -> Self:
        """Open the queue manager in ``$MAYFLY_HOME/name`` (``~/.mayfly``), made when missing.

        Raises as ``Manager``, and MQRC_Q_MGR_NAME_ERROR for a name that no folder can have.
        """
        return cls(
            name,
            folder_in_home(name),
            clock,
            platform=platform,
            command_level=command_level,
            settings=settings,
            user=user,
        )

    def mqsc(self, script: str) -> MqscResult:
        """Run MQSC commands; ``.text`` as runmqsc prints, ``.rows`` for programs, ``.ok`` for all.

        A wrong command makes ``ok`` False and does not stop those after it; nothing is raised.
        """
        return run_script(self, script)

    def advance_clock(self, ms: int) -> OwnTime:
        """Move a virtual clock on, and do what falls due; see ``own_time.advance_clock``."""
        return advance_clock(self, ms)

    def close(self) -> None:
        """End what runs on it, then as ``Manager.close``."""
        self.hierarchy.close()
        self.channels.close()
        super().close()
