"""A queue manager that may be a member of a queue-sharing group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path as FilePath

from mayfly.engine.settings import SettingValue
from mayfly.lifetime.times import Clock
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import StoreError, mq_error
from mayfly.runtime import EngineLock, Runtime
from mayfly.sharing.group import QueueSharingGroup
from mayfly.sharing.joint import follow
from mayfly.sharing.sharer import Sharer
from mayfly.sharing.waits import FIRST_SHARED, MemberWaits
from mayfly.store.intents import carry_out, forget_carried_out, group_of
from mayfly.store.units import Unit


class Member(Sharer):
    """A queue manager; with a ``sharing_group`` it has the queues of that group, too.

    Its staging queue stays its own: who delays a message for a shared queue needs the queue manager
    it was put through (D29).
    """

    def __init__(
        self,
        name: str,
        path: str | FilePath | None = None,
        clock: Clock | None = None,
        *,
        platform: str | None = None,
        command_level: int | None = None,
        settings: Mapping[str, SettingValue] | None = None,
        user: str = "",
        runtime: Runtime | None = None,
        sharing_group: QueueSharingGroup | None = None,
    ) -> None:
        """Open as ``engine.manager.Manager``; a group gives its clock to all its members.

        Raises ValueError for another clock and for a name that is open in the group already, and
        StoreError for a folder that belongs to another group, or to one when none is given, or
        that was removed from its group.
        """
        if sharing_group is not None:
            clock = sharing_group.clock_for(name, clock)
        self._group = sharing_group
        self.unfinished, self.remembered = [], []
        super().__init__(
            name,
            path,
            clock,
            platform=platform,
            command_level=command_level,
            settings=settings,
            user=user,
            runtime=runtime,
        )
        if sharing_group is not None:
            self.wake = partial(_wake_both, self.wake, sharing_group)
            with self.engine_lock:
                sharing_group.directory.admit(self)

    def next_due_ms(self) -> int | None:
        """Return the clock's time of the next due work, None when nothing is to come."""
        due_ms = super().next_due_ms()
        if not self.unfinished:
            return due_ms
        retry_ms = self._postponed_to_ms - self.ahead_ms
        return retry_ms if due_ms is None else min(due_ms, retry_ms)

    def close(self) -> None:
        """End: backs out open units of work, records what a restart loses, closes the store.

        What waits on its staging queue for shared queues waits until it is opened again.
        """
        super().close()
        if self._group is not None:
            with self.engine_lock:
                self._group.directory.dismiss(self)
            self._group.tidy()

    def _new_lock(self, runtime: Runtime) -> EngineLock:
        return super()._new_lock(runtime) if self._group is None else self._group.engine_lock

    def _load(self) -> None:
        group, known = self._group, group_of(self.store.persistent)
        folder = self.store.folder
        if known and folder is not None and (group is None or group.name != known):
            said = f"{self.name} is a member of queue-sharing group {known}: open it with that"
            raise StoreError(said, folder)
        if group is not None:
            group.join(self)
            group.agree_on_time(self)
            self.group, self.committer.across = group, group.joint.through(self)
            self.registry.directory = group.directory
            self.registry.numbers = range(1, FIRST_SHARED)
            self.waits = MemberWaits(group.waits)
            # Whoever comes first ends sessions that were dropped: they may hold what it looks for.
            self.left_behind.share(group.left_behind)
        super()._load()

    def _recover_totals(self) -> None:
        if self._group is not None:
            self._carry_out_intents(self._group)
        super()._recover_totals()

    def _carry_out_intents(self, group: QueueSharingGroup) -> None:
        """Do what was decided while it could not any more; before anybody looks at a message."""
        intents, done = group.intents_of(self.name), group.carried_out_by(self)
        # Asked later, so that a removal cannot come between.
        group.check_belongs(self)
        for number, unit in intents:
            # A store in memory is another one now, which these do not concern.
            if number not in done and self.store.folder is not None:
                unit.statements.append(carry_out(number))
                self.store.group.commit(unit)
        if intents or done:
            group.forget([number for number, _unit in intents])
            unit = Unit()
            unit.statements.append(forget_carried_out({*done, *(n for n, _unit in intents)}))
            self.store.group.commit(unit)

    def _run_pass(self) -> bool:
        if self.unfinished and self._postponed_to_ms <= self.now_ms():
            self._try(self._finish)
        is_more = super()._run_pass()
        if self._group is not None:
            # What ends waits there may have waited for this.
            self._group.wake()
        return is_more

    def _finish(self) -> None:
        with self.engine_lock:
            unfinished, self.unfinished = self.unfinished, []
        assert self._group is not None
        for part, number in unfinished:
            with self.engine_lock:
                self.committer.enter([part])
            part.unit.error = None
            follow(self._group.joint, self, part, number)
        if self.unfinished and not self.is_stopped:
            raise mq_error(rc.MQRC_STORAGE_MEDIUM_FULL, f"{len(self.unfinished)} works are waiting")


def _wake_both(wake: Callable[[], None], group: QueueSharingGroup) -> None:
    """Let the clock look at a member, and at the group: a wait on a shared queue ends there."""
    wake()
    group.wake()
