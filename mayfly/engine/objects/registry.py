"""Definitions of queues and of the queue manager, and the resolution of a name to a queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Protocol

from mayfly.engine.attributes import (
    PUT_ASYNC,
    QALIAS,
    QLOCAL,
    QMGR,
    QMODEL,
    QREMOTE,
    READ_AHEAD,
    READ_AHEAD_DISABLED,
    TTL_FROM_SEND,
    Definition,
    ManagerDefinition,
    QueueDefinition,
)
from mayfly.engine.authority.records import AuthorityRecords
from mayfly.engine.descriptors import Context, Prepared
from mayfly.engine.pubsub.topics import RetainedPlace, Subscriptions, TopicTree
from mayfly.engine.queues import LocalQueue, QueueOwner
from mayfly.engine.remote_queues import Remote, route
from mayfly.lifetime.window import lowest_cap_ms
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import (
    MQBND_BIND_NOT_FIXED,
    MQCEX_NOLIMIT,
    MQMDS_FIFO,
    MQOT_TOPIC,
    MQQA_GET_INHIBITED,
    MQQA_PUT_INHIBITED,
    MQQDT_TEMPORARY_DYNAMIC,
    MQUS_TRANSMISSION,
)
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error
from mayfly.store.keys import LARGEST_QUEUE_NUMBER, STAGING_NUMBER

DEAD_LETTER_QUEUE = "SYSTEM.DEAD.LETTER.QUEUE"
DEFAULT_OBJECTS: dict[str, str] = {
    QLOCAL: "SYSTEM.DEFAULT.LOCAL.QUEUE",
    QALIAS: "SYSTEM.DEFAULT.ALIAS.QUEUE",
    QREMOTE: "SYSTEM.DEFAULT.REMOTE.QUEUE",
    QMODEL: "SYSTEM.DEFAULT.MODEL.QUEUE",
}
#: Names that are known resolved, at the most.
MAX_PATHS = 10_000


class ResolvedQueue:
    """The result of resolving a queue name: all objects on the way, and the local queue at the end.

    Default priority and persistence come from the first object (P7, D16), as do the defaults of put
    response and read ahead. An inhibit on any object
    applies (C5), and so does the lowest expiry cap, CAPEXPRY (X3).
    """

    __slots__ = (
        "answers_later",
        "cap_ms",
        "capped_by",
        "default_persistence",
        "default_priority",
        "fixes_binding",
        "forbids_read_ahead",
        "get_inhibited",
        "is_temporary",
        "largest_bytes",
        "max_depth",
        "max_message_bytes",
        "name",
        "names",
        "prepared",
        "property_control",
        "put_inhibited",
        "queue",
        "reads_ahead",
        "remote",
        "slots",
        "transmits",
        "ttl_from_release",
        "version",
    )

    def __init__(
        self,
        registry: Registry,
        name: str,
        objects: list[QueueDefinition],
        queue: LocalQueue,
        remote: Remote | None,
    ) -> None:
        """Take limits and attributes from ``objects``: the named one first, the local queue last.

        ``remote`` is the queue of another queue manager; the local queue is then its transmission
        queue.
        """
        # The version comes first: where definitions change meanwhile, the path is made again.
        self.version = registry.version
        first, last = objects[0], objects[-1]
        self.names = [o.name for o in objects]
        self.name = name
        self.queue = queue
        #: The queue of another queue manager; the one here is then its transmission queue.
        self.remote = remote
        self.transmits = last.usage == MQUS_TRANSMISSION
        self.cap_ms = lowest_cap_ms(o.cap_tenths for o in objects)
        capping = [o for o in objects if o.cap_tenths != MQCEX_NOLIMIT]
        #: The lowest cap in words, None without one.
        self.capped_by = min(capping, key=lambda o: o.cap_tenths).cap_text if capping else None
        self.default_priority = first.defprty
        self.default_persistence = first.defpsist
        self.answers_later = first.defpresp == PUT_ASYNC
        self.reads_ahead = first.defreada == READ_AHEAD
        self.forbids_read_ahead = any(o.defreada == READ_AHEAD_DISABLED for o in objects)
        self.put_inhibited = any(o.put == MQQA_PUT_INHIBITED for o in objects)
        self.get_inhibited = any(o.get == MQQA_GET_INHIBITED for o in objects)
        self.max_depth = last.maxdepth
        self.max_message_bytes = last.maxmsgl
        #: The longest message that both the queue and the queue manager take.
        self.largest_bytes = min(last.maxmsgl, registry.queue_manager.maxmsgl)
        self.is_temporary = last.definition_type == MQQDT_TEMPORARY_DYNAMIC
        #: The lowest key of a message by its priority. On a FIFO queue all messages have keys of
        #: the default priority, which they keep when the queue becomes a PRIORITY queue (G1).
        self.slots = queue.slots
        if last.msgdlvsq == MQMDS_FIFO:
            self.slots = (queue.slots[last.defprty],) * len(queue.slots)
        #: Whether a clustered destination is bound once, not for each message (D6).
        self.fixes_binding = any(o.cluster and o.defbind != MQBND_BIND_NOT_FIXED for o in objects)
        self.ttl_from_release = last.ttlfrom != TTL_FROM_SEND
        self.property_control = first.propctl
        #: The descriptor that was put last by this path, whose context it got, and what it became:
        #: nothing in it is to be looked at when the next message is put. None for one that needs
        #: more, like a look at the data. A tuple, so that no thread reads halves of two puts.
        self.prepared: tuple[Descriptor, Context, Prepared] | None = None


class SharedDirectory(Protocol):
    """The shared queues of a queue-sharing group, and the queues of its other members."""

    def status(self) -> Sequence[tuple[str, bool, int]]:
        """Return each member's name, whether it is open, and how many commits wait for it."""

    def find(self, name: str) -> QueueDefinition | None:
        """Return the definition of a shared queue, None without one."""

    def definitions(self) -> dict[str, QueueDefinition]:
        """Return the definitions of all shared queues, by name."""

    def queue(self, name: str) -> LocalQueue | None:
        """Return a shared queue, None without one."""

    def path(self, asker: Registry, name: str) -> ResolvedQueue | None:
        """Return the path of ``QUEUE@MANAGER`` for ``asker``, the registry of another member.

        None when that manager is not in the group.
        """

    def has(self, queue: LocalQueue) -> bool:
        """Return True if a queue is a shared queue of the group."""

    def refreshed(self, asker: Registry, path: ResolvedQueue) -> ResolvedQueue:
        """Resolve a path to another member's queue again, with the present definitions.

        ``asker`` is the registry of the member that asks. Raises MQRC_Q_DELETED when the queue was
        deleted or replaced, or its member is closed.
        """


class Registry:
    """All definitions of a queue manager, and its queues; the engine lock guards it.

    ``version`` rises with every change: a name resolved at an earlier one must be resolved again.
    """

    def __init__(self, queue_owner: QueueOwner) -> None:
        """Begin without definitions.

        ``queue_owner`` is the queue manager or the queue-sharing group.
        """
        self.queue_manager = ManagerDefinition(QMGR, queue_owner.name)
        self.version = 0
        #: The queues of its queue-sharing group that are not defined here; None without a group.
        self.directory: SharedDirectory | None = None
        self.owner = queue_owner
        #: Others of the group, whose names may lead here.
        self.followers: list[Registry] = []
        #: Called when a definition was made, altered or deleted; the state sets it.
        self.on_change: Callable[[], None] = lambda: None
        #: Those that queues here may have; in a group the keys of no two queues it sees are equal.
        self.numbers = range(1, LARGEST_QUEUE_NUMBER + 1)
        #: The number that was given last: the next free one is mostly the one after it.
        self._latest_number = 0
        self._definitions: dict[str, QueueDefinition] = {}
        self._queues: dict[str, LocalQueue] = {}
        self._numbers: dict[int, LocalQueue] = {}
        #: Deleted queues for which messages are still staged; their numbers stay in use.
        self.deleted_with_delayed: dict[int, LocalQueue] = {}
        self._paths: dict[str, ResolvedQueue] = {}
        self.authority = AuthorityRecords()
        self.topics = TopicTree()
        self.subscriptions = Subscriptions()
        #: Objects that are neither queue nor topic, by kind and name: processes, channels.
        self.named: dict[tuple[str, str], Definition] = {}
        #: Topic string -> its retained publication (pubsub/publish.py).
        self.retained: dict[str, RetainedPlace] = {}

    def find(self, name: str) -> QueueDefinition | None:
        """Return the definition of a queue of any kind, shared ones included; None without one.

        Raises TypeError when the name is no str.
        """
        definition = self._definitions.get(name)
        if definition is None:
            _check_text(name)
            return None if self.directory is None else self.directory.find(name)
        return definition

    def definitions(self) -> list[QueueDefinition]:
        """Return all queue definitions, shared ones included, sorted by name."""
        shared = {} if self.directory is None else self.directory.definitions()
        every = {**shared, **self._definitions}
        return [every[name] for name in sorted(every)]

    def queues(self) -> list[LocalQueue]:
        """Return all local queues."""
        return list(self._queues.values())

    def queue(self, name: str) -> LocalQueue:
        """Return a local or shared queue by name, not by alias; raises MQRC_UNKNOWN_OBJECT_NAME."""
        queue = self._queues.get(name)
        if queue is None and self.directory is not None and name not in self._definitions:
            queue = self.directory.queue(name)
        if queue is None:
            raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"{name!r} is not a local queue here")
        return queue

    def by_name(self, name: str) -> LocalQueue | None:
        """Return a local queue by name, None when no local queue has this name."""
        return self._queues.get(name)

    def by_number(self, number: int) -> LocalQueue | None:
        """Return a local queue by its number, None when no local queue has this number."""
        return self._numbers.get(number)

    def target(self, number: int) -> LocalQueue | None:
        """Return the queue with a number, also one deleted while messages were delayed for it.

        None when no queue has this number.
        """
        return self._numbers.get(number) or self.deleted_with_delayed.get(number)

    def staging(self) -> LocalQueue | None:
        """Return the staging queue, None when it is not defined."""
        return self._numbers.get(STAGING_NUMBER)

    def resolve(self, name: str) -> ResolvedQueue:
        """Return a name resolved: the objects on the way, and the local queue to get from.

        Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_UNKNOWN_ALIAS_BASE_Q when the target of an alias is
        not defined, MQRC_ALIAS_BASE_Q_TYPE_ERROR when it is no queue, and
        MQRC_OPTION_NOT_VALID_FOR_TYPE when the name resolves to a topic or to another queue manager
        (C3).
        """
        path = self._paths.get(name)
        if path is None or path.version != self.version:
            path = self.resolve_target(name)
        if path.remote is not None:
            raise mq_error(
                rc.MQRC_OPTION_NOT_VALID_FOR_TYPE,
                f"{name} leads to {path.remote.manager}: it can only be put to",
            )
        return path

    def resolve_target(self, name: str) -> ResolvedQueue:
        """Return a name resolved for a put: the objects on the way, and the local queue (C2).

        For ``QUEUE@MANAGER``, a queue of another queue manager, that is a transmission queue.
        Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_UNKNOWN_ALIAS_BASE_Q, MQRC_UNKNOWN_REMOTE_Q_MGR and
        the other errors of ``remote.resolution.route``.
        """
        path = self._paths.get(name)
        # Names are resolved without the lock: a change meanwhile leaves an old path here.
        if path is None or path.version != self.version:
            if len(self._paths) >= MAX_PATHS:
                # There is no end of queues elsewhere, each reply may go to another one.
                self._paths.clear()
            path = self._paths[name] = self._resolve(name)
        return path

    def refreshed(self, path: ResolvedQueue) -> ResolvedQueue:
        """Return a path with the present definitions, to the same queue.

        Only a path to another queue manager may end at another transmission queue. Raises
        MQRC_Q_DELETED when the queue or an object of the path is gone. Raises MQRC_OBJECT_CHANGED
        (C6) when an alias has another target, or when the queue has become, or stopped being, a
        transmission queue.
        """
        if path.version == self.version:
            return path
        if path.remote is not None:
            return self.resolve_target(path.name)
        is_elsewhere = path.queue.owner is not self.owner
        if is_elsewhere and self.directory is not None and not self.directory.has(path.queue):
            return self.directory.refreshed(self, path)
        objects = [self.find(name) for name in path.names]
        if None in objects or self.find(path.queue.name) is not path.queue.definition:
            raise mq_error(rc.MQRC_Q_DELETED, f"{path.name} was deleted")
        known = [o for o in objects if o is not None]
        renewed = ResolvedQueue(self, path.name, known, path.queue, None)
        if renewed.transmits != path.transmits or not _lead_on(known):
            raise mq_error(rc.MQRC_OBJECT_CHANGED, f"{path.name} was altered: open it again")
        return renewed

    def add(
        self,
        definition: QueueDefinition,
        number: int | None = None,
        queue: LocalQueue | None = None,
    ) -> LocalQueue | None:
        """Add a queue definition in memory, with its local queue.

        Returns the local queue, None for other kinds of queues. It is ``queue`` if passed; else a
        deleted queue with this number for which messages are still delayed; else a new one. Without
        a ``number`` the queue takes a free one; raises MQRC_RESOURCE_PROBLEM when none is free.
        """
        self._definitions[definition.name] = definition
        self.changed()
        if definition.kind != QLOCAL:
            return None
        if number is None:
            number = self.number_for(definition.name)
        if queue is None:
            queue = self.deleted_with_delayed.pop(number, None) or LocalQueue(
                definition, number, self.owner
            )
            queue.definition = definition
        self._queues[definition.name] = self._numbers[number] = queue
        return queue

    def number_for(self, name: str) -> int:
        """Return the number for a new queue of this name.

        Raises MQRC_RESOURCE_PROBLEM when no number is free.
        """
        if name == STAGING_QUEUE:
            return STAGING_NUMBER
        self.deleted_with_delayed = {
            n: queue for n, queue in self.deleted_with_delayed.items() if queue.staged_for
        }
        for number, queue in self.deleted_with_delayed.items():
            # Staged messages find their way by name: they are for the new queue now.
            if queue.name == name:
                return number
        begin = max(self._latest_number + 1, self.numbers.start)
        for number in chain(range(begin, self.numbers.stop), self.numbers):
            if number not in self._numbers and number not in self.deleted_with_delayed:
                self._latest_number = number
                return number
        raise mq_error(rc.MQRC_RESOURCE_PROBLEM, f"more than {len(self.numbers)} queues")

    def remove(self, name: str) -> None:
        """Remove a queue definition and its local queue from memory.

        Raises KeyError for an unknown name. The number of the queue stays in use while messages are
        delayed for it.
        """
        del self._definitions[name]
        queue = self._queues.pop(name, None)
        if queue is not None:
            del self._numbers[queue.number]
            if queue.staged_for:
                self.deleted_with_delayed[queue.number] = queue
        self.changed()

    def changed(self) -> None:
        """Drop all resolved paths, here and in group members: definitions have changed."""
        for registry in (self, *self.followers):
            registry.version += 1
            registry._paths.clear()
            registry.on_change()

    def _resolve(self, name: str) -> ResolvedQueue:
        """Resolve a name anew, without the cache.

        Raises MQRC_UNKNOWN_OBJECT_NAME and the other errors of :meth:`resolve_target`.
        """
        _check_text(name)
        if self.directory is not None and "@" in name:
            path = self.directory.path(self, name)
            if path is not None:
                return path
        objects, remote = route(self.find, self.queue_manager, name)
        own_name = name if remote is not None else name.partition("@")[0]
        return ResolvedQueue(self, own_name, objects, self.queue(objects[-1].name), remote)


def _check_text(name: object) -> None:
    """Raise TypeError unless a queue name is a str."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a queue is a str, not {name!r}")


def _lead_on(objects: list[QueueDefinition]) -> bool:
    """Return True if each alias of a path still has the next object as its target queue."""
    return all(
        alias.kind != QALIAS or (alias.target == target.name and alias.targtype != MQOT_TOPIC)
        for alias, target in pairwise(objects)
    )


def topic_alias(registry: Registry, name: str) -> QueueDefinition | None:
    """Return the definition of a queue alias whose target is a topic; None for any other name."""
    definition = registry.find(name)
    if definition is None or definition.kind != QALIAS:
        return None
    return definition if definition.targtype == MQOT_TOPIC else None


def path_of_put(registry: Registry, name: str) -> ResolvedQueue | None:
    """Return a name resolved for a put; None for an alias of a topic, to which puts publish.

    Raises MQRC_UNKNOWN_OBJECT_NAME and the other errors of ``Registry.resolve_target``.
    """
    path = registry._paths.get(name)
    if path is not None and path.version == registry.version:
        # The alias of a topic never has a path.
        return path
    return registry.resolve_target(name) if topic_alias(registry, name) is None else None
