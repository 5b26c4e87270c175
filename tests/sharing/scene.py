"""A queue-sharing group of two queue managers, and what the tests do with it."""

from __future__ import annotations

from pathlib import Path

from mayfly import QueueManager, QueueSharingGroup
from mayfly.mqi.constants import MQQSGD_SHARED
from mayfly.testing import VirtualClock
from mayfly.verbs.facts import Value
from tests.snapshots import on_a_snapshot
from tests.spec.scene import START_MS, alter_manager, local

SHARED, PRIVATE = "SHARED.Q", "PRIVATE.Q"


class Sharing:
    """QSG1 with QM1 and QM2; each member has a private queue, and both have a shared one."""

    def __init__(self, folder: Path | None) -> None:
        """Open all of it under one clock, new; in memory without a folder."""
        self.begin(folder, VirtualClock(START_MS))
        local(self.qm1, SHARED, QSGDISP=MQQSGD_SHARED, MAXDEPTH=100_000)
        for member in (self.qm1, self.qm2):
            local(member, PRIVATE, MAXDEPTH=100_000)
            alter_manager(member, DEADQ="SYSTEM.DEAD.LETTER.QUEUE")

    @classmethod
    def again(cls, folder: Path, clock: VirtualClock) -> Sharing:
        """Open what is in a folder."""
        found = cls.__new__(cls)
        found.begin(folder, clock)
        return found

    def begin(self, folder: Path | None, clock: VirtualClock) -> None:
        """Open the group and both members under a clock."""
        self.folder, self.clock = folder, clock
        self.open()

    def open_group(self) -> None:
        """Open the group alone."""
        self.group = QueueSharingGroup(
            "QSG1", self.folder_of("QSG1"), self.clock, runtime=on_a_snapshot()
        )

    def open(self) -> None:
        """Open the group and both members."""
        self.open_group()
        self.qm1, self.qm2 = self.member("QM1"), self.member("QM2")

    def member(self, name: str) -> QueueManager:
        """Open a member."""
        return QueueManager(
            name, self.folder_of(name), sharing_group=self.group, runtime=on_a_snapshot()
        )

    def folder_of(self, name: str) -> Path | None:
        """Return the folder of the group or of a member."""
        return None if self.folder is None else self.folder / name

    def shared(self, name: str = SHARED, **attributes: Value) -> str:
        """Define another shared queue and return its name."""
        return local(self.qm1, name, QSGDISP=MQQSGD_SHARED, **attributes)

    def end(self) -> None:
        """Check the books of everybody who runs, then close."""
        for manager in (self.group, self.qm1, self.qm2):
            if not manager.is_stopped:
                found = manager.verify()
                assert found.ok, (manager.name, found.problems)
        self.group.close()
        assert self.qm1.is_stopped
        assert self.qm2.is_stopped
