"""The queue-sharing group: the store of the shared queues, and who its members are."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath

from mayfly.engine import Manager, Session
from mayfly.lifetime.times import Clock
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import StoreError, mq_error
from mayfly.runtime import Runtime
from mayfly.sharing.directory import GroupDirectory, MemberStatus
from mayfly.sharing.joint import Joint, Participant
from mayfly.sharing.waits import FIRST_SHARED
from mayfly.store.intents import (
    carried_out,
    forget_intents,
    group_of,
    intent_counts,
    intents_of,
    join_group,
    joined_at,
    remove_member,
    removed_at,
)
from mayfly.store.keys import LARGEST_QUEUE_NUMBER
from mayfly.store.units import Unit

_LOG = logging.getLogger("mayfly.sharing")


class QueueSharingGroup(Manager):
    """Shared queues of several queue managers in this process; a context manager.

    ``QueueSharingGroup("QSG1", folder)`` keeps them in the folder, without one in memory. Queue
    managers are opened with ``sharing_group=``; closing the group closes them first.
    """

    takes_connections = False

    def __init__(
        self,
        name: str,
        path: str | FilePath | None = None,
        clock: Clock | None = None,
        *,
        runtime: Runtime | None = None,
    ) -> None:
        """Open the group; raises as ``engine.manager.Manager``."""
        # On z/OS nobody defines a staging queue: delayed messages wait with the members.
        super().__init__(name, path, clock, platform="zos", runtime=runtime)

    def session(
        self,
        user: str | None = None,
        transacted: bool = False,
        program: str = "mayfly",
        *,
        groups: Sequence[str] = (),
    ) -> Session:
        """Raise MQRC_FUNCTION_NOT_SUPPORTED: programs connect to a member."""
        raise mq_error(rc.MQRC_FUNCTION_NOT_SUPPORTED, f"{self.name}: connect to a member of it")

    def next_due_ms(self) -> int | None:
        """Return the clock's time of the next due work, None when nothing is to come.

        A wait ends when no member has a message to release that was due before its end.
        """
        with self.engine_lock:
            if self.is_stopped:
                return None
            books_ms, end_ms = self._books.next_due_ms(), self.waits.next_end_ms()
            lapse_ms = self.marks.next_lapse_ms(self.waits.is_waited_on)
            moments = [] if lapse_ms is None else [lapse_ms]
            if books_ms is not None:
                moments.append(max(books_ms, self._postponed_to_ms))
            if end_ms is not None and self._is_decided(0, end_ms):
                moments.append(end_ms)
        return min(moments) - self.ahead_ms if moments else None

    def close(self) -> None:
        """Close the members, then the store of the shared queues."""
        for member in list(self.directory.members.values()):
            member.close()
        super().close()

    def members(self) -> list[MemberStatus]:
        """Return the members that are open, and those that something decided waits for, by name.

        Raises MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
        """
        with self.engine_lock:
            self.check_running()
            return self.directory.status()

    def remove_member(self, name: str) -> int:
        """Forget what was decided for a member that is never opened again; return how many units.

        What they were to change in its store does not happen. Its folder may not join any more, for
        it holds what is elsewhere by now; another queue manager of the name may. Raises ValueError
        while it is open, MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
        """
        with self.engine_lock:
            self.check_running()
            if name in self.directory.members:
                raise ValueError(f"name {name!r} is open in queue-sharing group {self.name}")
            count = intent_counts(self.store.persistent).get(name, 0)
            unit = Unit()
            unit.statements += remove_member(name, self.store.sequence.next())
        self.store.group.commit(unit)
        _LOG.warning("%s was removed from %s; %d units forgotten", name, self.name, count)
        return count

    def join(self, member: Manager) -> None:
        """Let the store of a member that is being opened belong to the group from now on."""
        messages = member.store.persistent
        with self.engine_lock:
            if group_of(messages) == self.name:
                return
            number = self.store.sequence.next()
        unit = Unit()
        unit.statements += join_group(self.name, number)
        member.store.group.commit(unit)

    def check_belongs(self, member: Manager) -> None:
        """Raise StoreError for the folder of a member that was removed since it joined."""
        folder = member.store.folder
        with self.engine_lock:
            removed = removed_at(self.store.persistent, member.name)
            if folder is not None and joined_at(member.store.persistent) < removed:
                raise StoreError(f"{member.name} was removed from {self.name}", folder)

    def clock_for(self, name: str, clock: Clock | None) -> Clock:
        """Return the clock of a member to be; raises ValueError for another, or a name in use."""
        if clock is not None and clock is not self.clock:
            raise ValueError(f"clock: {name} has that of its queue-sharing group {self.name}")
        if name in self.directory.members or name == self.name:
            raise ValueError(f"name {name!r} is in use in queue-sharing group {self.name}")
        return self.clock

    def agree_on_time(self, member: Manager) -> None:
        """Let nobody of the group be behind a member that is being opened, nor that one behind."""
        with self.engine_lock:
            everybody = [self, member, *self.directory.members.values()]
            ahead_ms = max(sharer.ahead_ms for sharer in everybody)
            for sharer in everybody:
                sharer.ahead_ms = ahead_ms

    def intents_of(self, name: str) -> list[tuple[int, Unit]]:
        """Return what was decided and a member of this name may not have carried out."""
        with self.engine_lock:
            return intents_of(self.store.persistent, name)

    def carried_out_by(self, member: Manager) -> set[int]:
        """Return the intents that a member says it has carried out."""
        with self.engine_lock:
            return carried_out(member.store.persistent)

    def forget(self, numbers: Iterable[int]) -> None:
        """Remove intents that were carried out."""
        unit = Unit()
        unit.statements.append(forget_intents(numbers))
        self.store.group.commit(unit)

    def tidy(self) -> None:
        """Remove what members have carried out, as one of them ends."""
        if self.is_usable:
            self.joint.clean_up()

    def _load(self) -> None:
        self.registry.numbers = range(FIRST_SHARED, LARGEST_QUEUE_NUMBER + 1)
        self.joint = Joint(self)
        self.committer.across = Participant(self.joint, self)
        self.directory = GroupDirectory(self, self.joint.done_counts)
        super()._load()

    def _is_decided(self, _queue_number: int, end_ms: int) -> bool:
        releases = (m.release_due_ms() for m in self.directory.members.values() if m.is_usable)
        return all(due_ms is None or end_ms < due_ms for due_ms in releases)
