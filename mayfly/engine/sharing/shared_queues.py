"""The queues that a group shares: an engine of their own, its members, what is decided for them."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from mayfly.engine.engine import Engine
from mayfly.engine.membership import Membership
from mayfly.engine.sharing.directory import GroupDirectory, MemberStatus
from mayfly.engine.sharing.group_transactions import GroupTransactions, Participant
from mayfly.engine.sharing.waits import FIRST_SHARED
from mayfly.mqi.errors import StoreError
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


class SharedQueues(Membership[Engine]):
    """The place of the engine that has the shared queues among those of the members."""

    engine: Engine
    transactions: GroupTransactions
    directory: GroupDirectory

    def join(self, engine: Engine) -> None:
        """Take the engine that is being opened; StoreError refuses the folder of a member."""
        super().join(engine)
        self.engine = engine
        engine.registry.numbers = range(FIRST_SHARED, LARGEST_QUEUE_NUMBER + 1)
        self.transactions = GroupTransactions(engine)
        engine.committer.across = Participant(self.transactions, engine)
        self.directory = GroupDirectory(engine, self.transactions.done_counts)
        engine.before_close.append(self._close_members)

    def may_bring(self, end_ms: int) -> bool:
        """Return True if a member may release a message here by a moment."""
        members = self.directory.members.values()
        releases = (m.due_work.release_due_ms() for m in members if m.is_usable)
        return any(due_ms is not None and due_ms <= end_ms for due_ms in releases)

    def status(self) -> list[MemberStatus]:
        """Return the members; see ``QueueSharingGroup.members``."""
        with self.engine.engine_lock:
            self.engine.check_running()
            return self.directory.status()

    def has(self, name: str) -> bool:
        """Return True if an open member, or the group, has this name."""
        return name in self.directory.members or name == self.engine.name

    def remove_member(self, name: str) -> int:
        """Forget what was decided for a member; see ``QueueSharingGroup.remove_member``."""
        engine = self.engine
        with engine.engine_lock:
            engine.check_running()
            if name in self.directory.members:
                raise ValueError(f"name {name!r} is open in queue-sharing group {engine.name}")
            count = intent_counts(engine.store.persistent).get(name, 0)
            unit = Unit()
            unit.statements += remove_member(name, engine.store.sequence.next())
        engine.store.group.commit(unit)
        _LOG.warning("%s was removed from %s; %d units forgotten", name, engine.name, count)
        return count

    def take_store(self, member: Engine) -> None:
        """Let the store of a member that is being opened belong to the group from now on.

        Raises StoreError for the folder of another group.
        """
        engine, messages, folder = self.engine, member.store.persistent, member.store.folder
        with engine.engine_lock:
            known = group_of(messages)
            if known == engine.name:
                return
            if known and folder is not None:
                said = (
                    f"{member.name} is a member of queue-sharing group {known}: open it with that"
                )
                raise StoreError(said, folder)
            number = engine.store.sequence.next()
        unit = Unit()
        unit.statements += join_group(engine.name, number)
        member.store.group.commit(unit)

    def check_belongs(self, member: Engine) -> None:
        """Raise StoreError for the folder of a member that was removed since it joined."""
        engine, folder = self.engine, member.store.folder
        with engine.engine_lock:
            removed = removed_at(engine.store.persistent, member.name)
            if folder is not None and joined_at(member.store.persistent) < removed:
                raise StoreError(f"{member.name} was removed from {engine.name}", folder)

    def agree_on_time(self, member: Engine) -> None:
        """Let nobody of the group be behind a member that is being opened, nor that one behind."""
        with self.engine.engine_lock:
            everybody = [self.engine, member, *self.directory.members.values()]
            ahead_ms = max(each.ahead_ms for each in everybody)
            for each in everybody:
                each.ahead_ms = ahead_ms

    def intents_of(self, name: str) -> list[tuple[int, Unit]]:
        """Return what was decided and a member of this name may not have carried out."""
        with self.engine.engine_lock:
            return intents_of(self.engine.store.persistent, name)

    def carried_out_by(self, member: Engine) -> set[int]:
        """Return the intents that a member says it has carried out."""
        with self.engine.engine_lock:
            return carried_out(member.store.persistent)

    def forget(self, numbers: Iterable[int]) -> None:
        """Remove intents that were carried out."""
        unit = Unit()
        unit.statements.append(forget_intents(numbers))
        self.engine.store.group.commit(unit)

    def dismiss(self, member: Engine) -> None:
        """Forget a member that has ended, and remove what members have carried out."""
        with self.engine.engine_lock:
            self.directory.dismiss(member)
        if self.engine.is_usable:
            self.transactions.clean_up()

    def _close_members(self) -> None:
        for member in list(self.directory.members.values()):
            member.close()
