"""Where names lead in a queue-sharing group: to shared queues, and to those of other members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from mayfly.engine.attributes.of_queues import QueueDefinition
from mayfly.engine.engine import Engine
from mayfly.engine.objects.registry import Path, Registry
from mayfly.engine.queues import LocalQueue
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQQSGD_SHARED
from mayfly.mqi.errors import mq_error
from mayfly.store.intents import intent_counts


class MemberStatus(NamedTuple):
    """A member of a group; ``decided_count`` units wait for it to change its store."""

    name: str
    is_open: bool
    decided_count: int


class GroupDirectory:
    """The shared queues of a group and its open members; guarded by the lock they share."""

    def __init__(self, group: Engine, done_counts: Callable[[], Counter[str]]) -> None:
        """Begin without members; ``done_counts`` tells what each has done of what was decided."""
        self._done_counts = done_counts
        self.group = group
        self.members: dict[str, Engine] = {}

    def admit(self, member: Engine) -> None:
        """Let the names of a member lead to it."""
        registries = [self.group.registry, *(m.registry for m in self.members.values())]
        for registry in registries:
            registry.followers.append(member.registry)
        member.registry.followers = registries[1:]
        self.members[member.name] = member
        self.group.committer.followers.append(member.committer)
        self.group.registry.changed()

    def dismiss(self, member: Engine) -> None:
        """Forget a member that has ended."""
        if self.members.get(member.name) is member:
            del self.members[member.name]
            self.group.committer.followers.remove(member.committer)
            for registry in (self.group.registry, *(m.registry for m in self.members.values())):
                registry.followers.remove(member.registry)
            self.group.registry.changed()

    def status(self) -> list[MemberStatus]:
        """Return the members that are open, and those that something decided waits for, by name."""
        group = self.group
        assert group.engine_lock.is_held()
        counts = Counter(intent_counts(group.store.persistent)) - self._done_counts()
        is_open = {name for name, member in self.members.items() if member.is_usable}
        return [MemberStatus(n, n in is_open, counts[n]) for n in sorted(is_open | set(counts))]

    def find(self, name: str) -> QueueDefinition | None:
        """Return the definition of a shared queue."""
        definition = self.group.registry.find(name)
        is_shared = definition is not None and _is_shared(definition)
        return definition if is_shared else None

    def definitions(self) -> dict[str, QueueDefinition]:
        """Return those of all shared queues, by name."""
        return {d.name: d for d in self.group.registry.definitions() if _is_shared(d)}

    def queue(self, name: str) -> LocalQueue | None:
        """Return a shared queue."""
        return None if self.find(name) is None else self.group.registry.by_name(name)

    def path(self, asker: Registry, name: str) -> Path | None:
        """Return what QUEUE@MANAGER leads to when the manager is of the group, else None.

        A shared queue is meant itself, whichever member is named; otherwise it is a queue of that
        member, which must be open. Raises MQRC_UNKNOWN_OBJECT_NAME when that has none of the name.
        """
        queue_name, _, manager = name.partition("@")
        member = self.members.get(manager)
        if manager != self.group.name and (member is None or member.registry is asker):
            return None
        shared = self.queue(queue_name)
        if shared is not None:
            return Path(asker, queue_name, [shared.definition], shared, None)
        if member is None or not member.is_usable:
            return None
        there = member.registry.resolve_target(queue_name)
        if there.remote is not None:
            return None
        passed = [d for n in there.names if (d := member.registry.find(n)) is not None]
        return Path(asker, there.name, passed, there.queue, None)

    def has(self, queue: LocalQueue) -> bool:
        """Return True if a queue is a shared one."""
        return queue.home is self.group

    def refreshed(self, asker: Registry, path: Path) -> Path:
        """Return a path to a queue of another member as its definitions stand now.

        Raises MQRC_Q_DELETED when the queue is gone, or the member that has it.
        """
        home = path.queue.home
        again = self.path(asker, f"{path.name}@{home.name}")
        if again is None or again.queue is not path.queue:
            raise mq_error(rc.MQRC_Q_DELETED, f"{path.name} of another member is gone")
        return again


def _is_shared(definition: QueueDefinition) -> bool:
    return definition.qsgdisp == MQQSGD_SHARED
