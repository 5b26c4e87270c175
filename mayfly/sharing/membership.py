"""The membership of a queue manager in a queue-sharing group."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mayfly.engine import Manager
from mayfly.engine.membership import Membership
from mayfly.mqi.errors import StoreError
from mayfly.runtime import EngineLock, Runtime
from mayfly.sharing.group import QueueSharingGroup
from mayfly.sharing.joint import Participant
from mayfly.sharing.waits import FIRST_SHARED, MemberWaits
from mayfly.store.intents import carry_out, forget_carried_out, group_of
from mayfly.store.units import Unit


class GroupMembership(Membership[Manager]):
    """What makes a queue manager a member: it has the queues of the group, too.

    Its staging queue stays its own: who delays a message for a shared queue needs the queue manager
    it was put through (D29).
    """

    def __init__(self, group: QueueSharingGroup) -> None:
        """Begin with nobody; the queue manager joins while it opens."""
        self._group = group

    @property
    def has_unfinished(self) -> bool:
        """Whether decided transactions wait until the disk has room."""
        return bool(self._participant.unfinished)

    def lock(self, runtime: Runtime) -> EngineLock:
        """Return the lock that the group and all its members share."""
        return self._group.engine_lock

    def join(self, manager: Manager) -> None:
        """Give a queue manager the group's time, directory and waits, before it loads anything.

        Raises StoreError for the folder of another group, or one that was removed from this one.
        """
        group = self._group
        known, folder = group_of(manager.store.persistent), manager.store.folder
        if known not in ("", group.name) and folder is not None:
            said = f"{manager.name} is a member of queue-sharing group {known}: open it with that"
            raise StoreError(said, folder)
        group.join(manager)
        group.agree_on_time(manager)
        self._manager, self._participant = manager, Participant(group.joint, manager)
        manager.group, manager.committer.across = group, self._participant
        manager.registry.directory = group.directory
        manager.registry.numbers = range(1, FIRST_SHARED)
        manager.waits = MemberWaits(group.waits)
        # Whoever comes first ends sessions that were dropped: they may hold what it looks for.
        manager.left_behind.share(group.left_behind)

    def recover(self) -> None:
        """Do what was decided while it was closed, before anybody looks at a message."""
        manager, group = self._manager, self._group
        intents, done = group.intents_of(manager.name), group.carried_out_by(manager)
        # Asked later, so that a removal cannot come between.
        group.check_belongs(manager)
        for number, unit in intents:
            # A store in memory is another one now, which these do not concern.
            if number not in done and manager.store.folder is not None:
                unit.statements.append(carry_out(number))
                manager.store.group.commit(unit)
        if intents or done:
            group.forget([number for number, _unit in intents])
            unit = Unit()
            unit.statements.append(forget_carried_out({*done, *(n for n, _unit in intents)}))
            manager.store.group.commit(unit)

    def admit(self) -> None:
        """Let names of the group lead to the queue manager, which is open now."""
        manager = self._manager
        manager.wake = partial(_wake_both, manager.wake, self._group)
        with manager.engine_lock:
            self._group.directory.admit(manager)

    def finish(self) -> None:
        """Do what was decided and a full disk has kept from being done."""
        self._participant.finish()

    def end_waits(self) -> None:
        """Let the group end the waits that have waited for this round of due work."""
        self._group.wake()

    def end(self) -> None:
        """Leave the directory; what waits on the staging queue waits until it is opened again."""
        with self._manager.engine_lock:
            self._group.directory.dismiss(self._manager)
        self._group.tidy()


def _wake_both(wake: Callable[[], None], group: QueueSharingGroup) -> None:
    """Let the clock look at a member, and at the group: a wait on a shared queue ends there."""
    wake()
    group.wake()
