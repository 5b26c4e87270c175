"""A queue-sharing group (docs/CHANNELS.md): its shared queues, members and waiting gets."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self
from weakref import WeakSet

from mayfly.engine.attributes import QueueDefinition
from mayfly.engine.counting import verify
from mayfly.engine.engine import Engine
from mayfly.engine.membership import Membership
from mayfly.engine.objects.registry import Registry, ResolvedQueue
from mayfly.engine.queues import LocalQueue
from mayfly.engine.session import Session
from mayfly.engine.sharing.two_phase_commit import Participant, TwoPhaseCommit
from mayfly.engine.waiting import Waiter, Waits
from mayfly.lifetime.times import Clock
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQQSGD_SHARED
from mayfly.mqi.errors import MQError, StoreError, mq_error
from mayfly.runtime import EngineLock, Runtime
from mayfly.store.keys import LARGEST_QUEUE_NUMBER
from mayfly.store.prepare_records import (
    carried_out,
    carry_out,
    forget_carried_out,
    forget_prepare_records,
    group_of,
    join_group,
    joined_at,
    prepare_record_counts,
    prepare_records_of,
    remove_member,
    removed_at,
)
from mayfly.store.units import Unit
from mayfly.verbs.facts import Verification

_LOG = logging.getLogger("mayfly.sharing")
#: Shared queues are numbered from here, so that a number says whose a queue is.
FIRST_SHARED: Final = (LARGEST_QUEUE_NUMBER + 1) // 2


class MemberStatus(NamedTuple):
    """The state of one member of a group.

    ``decided_count`` is the number of committed units of work that its store does not contain yet.
    """

    name: str
    is_open: bool
    decided_count: int


class QueueSharingGroup:
    """The shared queues of several queue managers in this process; a context manager.

    ``QueueSharingGroup("QSG1", folder)`` stores them in the folder; without one they are in memory.
    Queue managers join with ``sharing_group=``. Closing the group closes its members first.
    """

    def __init__(
        self,
        name: str,
        path: str | Path | None = None,
        clock: Clock | None = None,
        *,
        runtime: Runtime | None = None,
    ) -> None:
        """Open the group; raises the errors of ``QueueManager`` for its folder.

        ``path`` is the folder of the shared queues, created when missing; None keeps them in
        memory. ``clock`` is the clock of all members; None is the time of the machine. ``runtime``
        replaces threads, locks and files in tests.
        """
        self._shared = SharedQueues()
        # On z/OS there is no default staging queue: delayed messages wait on the members.
        self.engine = Engine(
            name, path, clock, platform="zos", runtime=runtime, membership=self._shared
        )
        self.name, self.clock = name, self.engine.clock
        #: Returns the time of the group, which is that of its members.
        self.now_ms = self.engine.now_ms

    @property
    def is_stopped(self) -> bool:
        """Whether the group was closed, or its store has failed."""
        return self.engine.is_stopped

    def membership(self, name: str, clock: Clock | None) -> GroupMembership:
        """Return the membership for a queue manager that is about to be opened.

        ``clock`` is its clock, None for that of the group. Raises ValueError for another clock than
        the group's, and for a name in use.
        """
        if clock is not None and clock is not self.clock:
            raise ValueError(f"clock: {name} has that of its queue-sharing group {self.name}")
        if name in self._shared.directory.members or name == self.name:
            raise ValueError(f"name {name!r} is in use in queue-sharing group {self.name}")
        return GroupMembership(self._shared)

    def members(self) -> list[MemberStatus]:
        """Return the open members, and closed ones with unapplied units of work, by name.

        Raises MQRC_CONNECTION_BROKEN after a store failure, and MQRC_Q_MGR_STOPPING once closed.
        """
        with self.engine.engine_lock:
            self.engine.check_running()
            return self._shared.directory.status()

    def remove_member(self, name: str) -> int:
        """Delete the committed units of work that wait for a member that will never open again.

        Returns their number, 0 for an unknown name; they are never applied to the member's store.
        The member's folder may not join again, as its messages may be on other queues by now; a new
        queue manager of the same name may. Raises ValueError while the member is open,
        MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN and MQRC_Q_MGR_STOPPING.
        """
        engine = self.engine
        with engine.engine_lock:
            engine.check_running()
            if name in self._shared.directory.members:
                raise ValueError(f"name {name!r} is open in queue-sharing group {self.name}")
            count = prepare_record_counts(engine.store.persistent).get(name, 0)
            unit = Unit()
            unit.statements += remove_member(name, engine.store.sequence.next())
        engine.store.group.commit(unit)
        _LOG.warning("%s was removed from %s; %d units forgotten", name, self.name, count)
        return count

    def session(self, *_given: object, **_named: object) -> Session:
        """Always raise MQRC_FUNCTION_NOT_SUPPORTED: programs connect to a member instead."""
        raise mq_error(rc.MQRC_FUNCTION_NOT_SUPPORTED, f"{self.name}: connect to a member of it")

    def verify(self) -> Verification:
        """Count the messages on the shared queues again, and compare with the counters.

        The result has ``.ok`` and ``.problems``.
        """
        return verify(self.engine)

    def close(self) -> None:
        """Close the members, then the store of the shared queues."""
        self.engine.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.engine.label}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class SharedQueues(Membership[Engine]):
    """The group's side of a queue-sharing group: the engine that stores the shared queues."""

    engine: Engine
    transactions: TwoPhaseCommit
    directory: GroupDirectory

    def join(self, engine: Engine) -> None:
        """Set up the engine that is being opened for shared queues and two-phase commit.

        Raises StoreError when its folder belongs to a member of a group.
        """
        super().join(engine)
        self.engine = engine
        engine.registry.numbers = range(FIRST_SHARED, LARGEST_QUEUE_NUMBER + 1)
        self.transactions = TwoPhaseCommit(engine)
        engine.committer.multi_store = Participant(self.transactions, engine)
        self.directory = GroupDirectory(engine, self.transactions.done_counts)
        engine.before_close.append(self._close_members)

    def may_bring(self, end_ms: int) -> bool:
        """Return True if a member may release a delayed message to a shared queue by ``end_ms``."""
        members = self.directory.members.values()
        releases = (m.due_work.release_due_ms() for m in members if m.is_usable)
        return any(due_ms is not None and due_ms <= end_ms for due_ms in releases)

    def dismiss(self, member: Engine) -> None:
        """Remove a member that has closed, and delete the prepare records that are done.

        A prepare record, in the group's store, is a member's part of a committed transaction. The
        records stay while the group is not usable.
        """
        with self.engine.engine_lock:
            self.directory.dismiss(member)
        if self.engine.is_usable:
            self.transactions.clean_up()

    def _close_members(self) -> None:
        """Close all open members of the group."""
        for member in list(self.directory.members.values()):
            member.close()


class GroupMembership(Membership[Engine]):
    """The member's side of a queue-sharing group: gives one queue manager the shared queues.

    Each member has a staging queue: a delayed message for a shared queue waits on the queue manager
    through which it was put (D29).
    """

    def __init__(self, shared: SharedQueues) -> None:
        """Create the membership of one member; :meth:`join` connects its engine."""
        self._shared = shared

    @property
    def clock(self) -> Clock:
        """The clock of the group, which all its members use."""
        return self._shared.engine.clock

    @property
    def has_unfinished(self) -> bool:
        """Whether committed units of work wait for disk space in the member's store."""
        return bool(self._participant.unfinished)

    def lock(self, runtime: Runtime) -> EngineLock:
        """Return the engine lock that the group and its members share, whatever ``runtime`` is."""
        return self._shared.engine.engine_lock

    def join(self, engine: Engine) -> None:
        """Connect an engine to its group: lock, time, directory and waiting gets.

        Call it before the engine loads anything. Raises StoreError when its folder belongs to a
        member of another group.
        """
        shared, group = self._shared, self._shared.engine
        self._take_store(engine)
        self._agree_on_time(engine)
        self._engine, self._participant = engine, Participant(shared.transactions, engine)
        engine.group, engine.committer.multi_store = group, self._participant
        engine.registry.directory = shared.directory
        engine.registry.numbers = range(1, FIRST_SHARED)
        engine.waits = MemberWaits(group.waits)
        # Any member ends sessions that were dropped: they may hold the message that it looks for.
        engine.left_behind.share(group.left_behind)

    def _take_store(self, member: Engine) -> None:
        """Record in a member's store, on disk, that it belongs to the group.

        Does nothing when the store says so already. Raises StoreError for the folder of another
        group's member.
        """
        group, folder = self._shared.engine, member.store.folder
        with group.engine_lock:
            known = group_of(member.store.persistent)
            if known == group.name:
                return
            if known and folder is not None:
                raise StoreError(
                    f"{member.name} is a member of queue-sharing group {known}: open it with that",
                    folder,
                )
            number = group.store.sequence.next()
        unit = Unit()
        unit.statements += join_group(group.name, number)
        member.store.group.commit(unit)

    def _agree_on_time(self, member: Engine) -> None:
        """Set the clocks of all members, the new one included, to the latest time."""
        shared = self._shared
        with shared.engine.engine_lock:
            engines = [shared.engine, member, *shared.directory.members.values()]
            ahead_ms = max(engine.ahead_ms for engine in engines)
            for engine in engines:
                engine.ahead_ms = ahead_ms

    def recover(self) -> None:
        """Apply the prepare records of this member to its store, before any message is read.

        A prepare record holds changes of a transaction that the group has committed but the member
        has not. Records that are applied are deleted. Raises StoreError for the folder of a member
        that was removed from the group.
        """
        engine, group = self._engine, self._shared.engine
        with group.engine_lock:
            records = prepare_records_of(group.store.persistent, engine.name)
            done = carried_out(engine.store.persistent)
            # Read after the prepare records, so that no removal comes in between.
            removed = removed_at(group.store.persistent, engine.name)
            folder = engine.store.folder
            if folder is not None and joined_at(engine.store.persistent) < removed:
                raise StoreError(f"{engine.name} was removed from {group.name}", folder)
        for number, unit in records:
            # A store in memory is another one now, which these do not concern.
            if number not in done and folder is not None:
                unit.statements.append(carry_out(number))
                engine.store.group.commit(unit)
        if records or done:
            numbers = [number for number, _unit in records]
            forgetting, unit = Unit(), Unit()
            forgetting.statements.append(forget_prepare_records(numbers))
            group.store.group.commit(forgetting)
            unit.statements.append(forget_carried_out({*done, *numbers}))
            engine.store.group.commit(unit)

    def admit(self) -> None:
        """Add the open engine to the group's directory, so that other members find its queues."""
        # A wait on a shared queue ends with the group.
        self._engine.on_wake.append(self._shared.engine.wake)
        with self._engine.engine_lock:
            self._shared.directory.admit(self._engine)

    def finish(self) -> None:
        """Apply committed units of work that waited for disk space; does nothing without any.

        Raises MQRC_STORAGE_MEDIUM_FULL when the disk is still full.
        """
        self._participant.finish()

    def end_waits(self) -> None:
        """Wake the group's engine, so that it ends waiting gets whose wait interval is over."""
        self._shared.engine.wake()

    def end(self) -> None:
        """Remove the engine from its group; its delayed messages wait until it opens again."""
        self._shared.dismiss(self._engine)


class GroupDirectory:
    """The shared queues of one group and its open members; guarded by the lock they share."""

    def __init__(self, group: Engine, done_counts: Callable[[], Counter[str]]) -> None:
        """Create a directory without members.

        ``done_counts`` returns, by member name, how many prepare records are applied but not
        deleted. A prepare record, in the group's store, is a member's part of a committed
        transaction.
        """
        self._done_counts = done_counts
        self.group = group
        self.members: dict[str, Engine] = {}

    def admit(self, member: Engine) -> None:
        """Add a member, so that other members find its queues by name."""
        registries = [self.group.registry, *(m.registry for m in self.members.values())]
        for registry in registries:
            registry.followers.append(member.registry)
        member.registry.followers = registries[1:]
        self.members[member.name] = member
        self.group.committer.followers.append(member.committer)
        self.group.registry.changed()

    def dismiss(self, member: Engine) -> None:
        """Remove a member that has closed; does nothing when it is not in the directory."""
        if self.members.get(member.name) is member:
            del self.members[member.name]
            self.group.committer.followers.remove(member.committer)
            for registry in (self.group.registry, *(m.registry for m in self.members.values())):
                registry.followers.remove(member.registry)
            self.group.registry.changed()

    def status(self) -> list[MemberStatus]:
        """Return the open members, and closed ones with unapplied units of work, by name.

        The caller holds the lock.
        """
        group = self.group
        assert group.engine_lock.is_held()
        counts = Counter(prepare_record_counts(group.store.persistent)) - self._done_counts()
        is_open = {name for name, member in self.members.items() if member.is_usable}
        return [MemberStatus(n, n in is_open, counts[n]) for n in sorted(is_open | set(counts))]

    def find(self, name: str) -> QueueDefinition | None:
        """Return the definition of a shared queue, None when no shared queue has the name."""
        definition = self.group.registry.find(name)
        is_shared = definition is not None and _is_shared(definition)
        return definition if is_shared else None

    def definitions(self) -> dict[str, QueueDefinition]:
        """Return the definitions of all shared queues, by name."""
        return {d.name: d for d in self.group.registry.definitions() if _is_shared(d)}

    def queue(self, name: str) -> LocalQueue | None:
        """Return the shared queue with this name, None without one."""
        return None if self.find(name) is None else self.group.registry.by_name(name)

    def path(self, asker: Registry, name: str) -> ResolvedQueue | None:
        """Resolve ``QUEUE@MANAGER`` for ``asker`` if that manager is in the group, else None.

        A shared queue is the same under every member's name and the group's name. Other queues
        belong to the member; the result is None while it is not open, or when the name leads to a
        remote queue. None also for the asker itself. Raises MQRC_UNKNOWN_OBJECT_NAME when the
        member has no such queue.
        """
        queue_name, _, manager = name.partition("@")
        member = self.members.get(manager)
        if manager != self.group.name and (member is None or member.registry is asker):
            return None
        shared = self.queue(queue_name)
        if shared is not None:
            return ResolvedQueue(asker, queue_name, [shared.definition], shared, None)
        if member is None or not member.is_usable:
            return None
        there = member.registry.resolve_target(queue_name)
        if there.remote is not None:
            return None
        passed = [d for n in there.names if (d := member.registry.find(n)) is not None]
        return ResolvedQueue(asker, there.name, passed, there.queue, None)

    def has(self, queue: LocalQueue) -> bool:
        """Return True if a queue is a shared one."""
        return queue.owner is self.group

    def refreshed(self, asker: Registry, path: ResolvedQueue) -> ResolvedQueue:
        """Resolve a path to another member's queue again, with the present definitions.

        Raises MQRC_Q_DELETED when the queue was deleted or replaced, or its member is closed.
        """
        queue_owner = path.queue.owner
        again = self.path(asker, f"{path.name}@{queue_owner.name}")
        if again is None or again.queue is not path.queue:
            raise mq_error(rc.MQRC_Q_DELETED, f"{path.name} of another member is gone")
        return again


def _is_shared(definition: QueueDefinition) -> bool:
    """Return True for a definition with QSGDISP(SHARED)."""
    return definition.qsgdisp == MQQSGD_SHARED


class MemberWaits(Waits):
    """The waiting gets of one member by queue number; the group keeps those on shared queues."""

    def __init__(self, shared: Waits) -> None:
        """Create an empty collection; ``shared`` are the waiting gets of the group."""
        super().__init__()
        self._shared = shared
        #: The waits there that came by way of this member.
        self._own: WeakSet[Waiter] = WeakSet()

    def add(self, queue_number: int, waiter: Waiter) -> None:
        """Add a waiting get for a queue, to the group's waits when the queue is shared."""
        if queue_number < FIRST_SHARED:
            super().add(queue_number, waiter)
        else:
            self._own.add(waiter)
            self._shared.add(queue_number, waiter)

    def is_waited_on(self, queue_number: int) -> bool:
        """Return True if a get waits on a queue; for a shared queue, a get of any member."""
        if queue_number < FIRST_SHARED:
            return super().is_waited_on(queue_number)
        return self._shared.is_waited_on(queue_number)

    def offer(self, queue_number: int) -> None:
        """Let the gets that wait on a queue try again; for a shared queue, those of all members."""
        if queue_number < FIRST_SHARED:
            super().offer(queue_number)
        else:
            self._shared.offer(queue_number)

    def offer_all(self) -> None:
        """Let all waiting gets of the member and the group try again."""
        super().offer_all()
        self._shared.offer_all()

    def withdraw(self, waiter: Waiter) -> None:
        """Remove a waiting get from the member's waits, or from the group's for a shared queue."""
        if waiter.queue_number < FIRST_SHARED:
            super().withdraw(waiter)
        else:
            self._shared.withdraw(waiter)

    def fail(self, error: MQError, queue_number: int | None = None) -> None:
        """End all waiting gets of the member, or those on one of its queues, with an error.

        With ``queue_number`` None, its gets on shared queues end too; those of other members stay.
        """
        super().fail(error, queue_number)
        if queue_number is None:
            for waiter in list(self._own):
                waiter.fail(error)
                self._shared.withdraw(waiter)

    def fail_owner(self, owner: object, error: MQError) -> None:
        """End all waiting gets of one owner, such as a session, with an error."""
        super().fail_owner(owner, error)
        self._shared.fail_owner(owner, error)
