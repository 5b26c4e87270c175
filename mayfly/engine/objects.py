"""Definitions of queues and the queue manager, and the resolution of a name to a queue."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mayfly.engine.attributes import defaults_of
from mayfly.engine.attributes.attribute import QALIAS, QLOCAL, QMGR, QMODEL, QREMOTE
from mayfly.engine.attributes.of_queues import TTL_FROM_SEND
from mayfly.engine.authority.records import AuthorityRecords
from mayfly.engine.definitions import Definition
from mayfly.engine.pubsub.subscriptions import Subscriptions
from mayfly.engine.pubsub.topics import TopicTree
from mayfly.engine.queues import LocalQueue
from mayfly.lifetime.window import lowest_cap_ms
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import (
    MQBND_BIND_NOT_FIXED,
    MQMDS_FIFO,
    MQOT_TOPIC,
    MQQA_GET_INHIBITED,
    MQQA_PUT_INHIBITED,
)
from mayfly.mqi.errors import mq_error
from mayfly.mqi.selectors import MQPROP_COMPATIBILITY
from mayfly.store.keys import LARGEST_QUEUE_NUMBER, STAGING_NUMBER

STAGING_QUEUE = "SYSTEM.DDELAY.LOCAL.QUEUE"
DEAD_LETTER_QUEUE = "SYSTEM.DEAD.LETTER.QUEUE"
DEFAULT_OBJECTS: dict[str, str] = {
    QLOCAL: "SYSTEM.DEFAULT.LOCAL.QUEUE",
    QALIAS: "SYSTEM.DEFAULT.ALIAS.QUEUE",
    QREMOTE: "SYSTEM.DEFAULT.REMOTE.QUEUE",
    QMODEL: "SYSTEM.DEFAULT.MODEL.QUEUE",
}
_NAME = re.compile(r"[A-Za-z0-9./_%]{1,48}")


class Path:
    """What a name resolves to: the objects passed and the queue at the end.

    Priority and persistence defaults come from the first object (P7, D16); an inhibit on any object
    counts (C5); the lowest cap wins (X3).
    """

    __slots__ = (
        "cap_ms",
        "default_persistence",
        "default_priority",
        "fifo_priority",
        "fixes_binding",
        "get_inhibited",
        "max_depth",
        "max_message_bytes",
        "name",
        "names",
        "property_control",
        "put_inhibited",
        "queue",
        "ttl_from_release",
        "version",
    )

    def __init__(self, objects: list[Definition], queue: LocalQueue, version: int) -> None:
        """Derive the values that every call needs from the definitions as they stand."""
        first, last = objects[0], objects[-1]
        self.names = [o.name for o in objects]
        self.version = version
        self.name = first.name
        self.queue = queue
        self.cap_ms = lowest_cap_ms(o.cap_tenths for o in objects)
        self.default_priority = first.number("DEFPRTY")
        self.default_persistence = first.number("DEFPSIST")
        self.put_inhibited = any(o.number("PUT") == MQQA_PUT_INHIBITED for o in objects)
        self.get_inhibited = any(o.attributes.get("GET") == MQQA_GET_INHIBITED for o in objects)
        self.max_depth = last.number("MAXDEPTH")
        self.max_message_bytes = last.number("MAXMSGL")
        #: On a FIFO queue all messages stand in one priority slot, that of the default, where they
        #: also stay when the queue becomes a PRIORITY queue (G1); None on a PRIORITY queue.
        self.fifo_priority: int | None = (
            last.number("DEFPRTY") if last.number("MSGDLVSQ") == MQMDS_FIFO else None
        )
        #: A clustered destination that is not bound anew for each message (D6).
        self.fixes_binding = any(
            o.attributes.get("CLUSTER") and o.number("DEFBIND") != MQBND_BIND_NOT_FIXED
            for o in objects
        )
        self.ttl_from_release = last.number("TTLFROM") != TTL_FROM_SEND
        control = first.attributes.get("PROPCTL", MQPROP_COMPATIBILITY)
        assert isinstance(control, int)
        self.property_control = control


class Registry:
    """All definitions of a queue manager and the queues they stand for; guarded by the latch.

    ``version`` rises with every change, so that whoever keeps a Path knows when to ask again.
    """

    def __init__(self, manager_name: str) -> None:
        """Begin with the queue manager object alone."""
        self.queue_manager = Definition(QMGR, manager_name, defaults_of(QMGR))
        self.version = 0
        self._definitions: dict[str, Definition] = {}
        self._queues: dict[str, LocalQueue] = {}
        self._numbers: dict[int, LocalQueue] = {}
        #: Deleted queues for which messages are still staged; nobody else takes their number.
        self._departed: dict[int, LocalQueue] = {}
        self._paths: dict[str, Path] = {}
        self.authority = AuthorityRecords()
        self.topics = TopicTree()
        self.subscriptions = Subscriptions()
        #: What is neither queue nor topic, by kind and name: processes, channels.
        self.named: dict[tuple[str, str], Definition] = {}
        #: Topic string -> key and side of its retained publication (engine/pubsub/retained.py).
        self.retained: dict[str, tuple[int, int]] = {}

    def find(self, name: str) -> Definition | None:
        """Return the definition of a queue, None when there is none."""
        return self._definitions.get(name)

    def definitions(self) -> list[Definition]:
        """Return all queue definitions by name."""
        return [self._definitions[name] for name in sorted(self._definitions)]

    def queues(self) -> list[LocalQueue]:
        """Return all local queues."""
        return list(self._queues.values())

    def queue(self, name: str) -> LocalQueue:
        """Return a local queue by its own name; raises MQRC_UNKNOWN_OBJECT_NAME."""
        queue = self._queues.get(name)
        if queue is None:
            raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"{name!r} is not a local queue here")
        return queue

    def by_name(self, name: str) -> LocalQueue | None:
        """Return a local queue by its own name, None when there is none."""
        return self._queues.get(name)

    def by_number(self, number: int) -> LocalQueue | None:
        """Return the queue that owns a number."""
        return self._numbers.get(number)

    def target(self, number: int) -> LocalQueue | None:
        """Return the queue of a number for which messages are staged, even a deleted one."""
        return self._numbers.get(number) or self._departed.get(number)

    def staging(self) -> LocalQueue | None:
        """Return the staging queue, None where it is not defined."""
        return self._numbers.get(STAGING_NUMBER)

    def resolve(self, name: str) -> Path:
        """Return what a queue or alias name leads to.

        Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_UNKNOWN_ALIAS_BASE_Q when an alias leads nowhere,
        MQRC_ALIAS_BASE_Q_TYPE_ERROR when it leads to something else than a local queue, and
        MQRC_OPTION_NOT_VALID_FOR_TYPE when it leads to a topic.
        """
        path = self._paths.get(name)
        # Names are resolved without the latch: a change meanwhile leaves an old path here.
        if path is None or path.version != self.version:
            path = self._paths[name] = self._resolve(name)
        return path

    def refreshed(self, path: Path) -> Path:
        """Return a path as its definitions stand now, the queue at its end staying the same.

        Raises MQRC_Q_DELETED when that queue or the name's object is gone.
        """
        if path.version == self.version:
            return path
        objects = [self._definitions.get(name) for name in path.names]
        queue = self._queues.get(path.queue.name)
        if queue is not path.queue or None in objects:
            raise mq_error(rc.MQRC_Q_DELETED, f"{path.name} was deleted")
        return Path([o for o in objects if o is not None], queue, self.version)

    def add(
        self, definition: Definition, number: int | None = None, queue: LocalQueue | None = None
    ) -> LocalQueue | None:
        """Enter a new definition; a local queue takes the lowest free number if none is given."""
        self._definitions[definition.name] = definition
        self.changed()
        if definition.kind != QLOCAL:
            return None
        if number is None:
            number = self.number_for(definition.name)
        if queue is None:
            queue = self._departed.pop(number, None) or LocalQueue(definition, number)
            queue.definition = definition
        self._queues[definition.name] = self._numbers[number] = queue
        return queue

    def number_for(self, name: str) -> int:
        """Return the number a new queue of this name takes."""
        if name == STAGING_QUEUE:
            return STAGING_NUMBER
        self._departed = {n: queue for n, queue in self._departed.items() if queue.staged_for}
        for number, queue in self._departed.items():
            # Staged messages find their way by name: they are for the new queue now.
            if queue.name == name:
                return number
        for number in range(1, LARGEST_QUEUE_NUMBER + 1):
            if number not in self._numbers and number not in self._departed:
                return number
        raise mq_error(rc.MQRC_RESOURCE_PROBLEM, f"more than {LARGEST_QUEUE_NUMBER} queues")

    def remove(self, name: str) -> None:
        """Forget a definition and its queue."""
        del self._definitions[name]
        queue = self._queues.pop(name, None)
        if queue is not None:
            del self._numbers[queue.number]
            if queue.staged_for:
                self.depart(queue)
        self.changed()

    def depart(self, queue: LocalQueue) -> None:
        """Keep the number of a deleted queue while messages are staged for it."""
        self._departed[queue.number] = queue

    def changed(self) -> None:
        """Note that a definition has changed."""
        self.version += 1
        self._paths.clear()

    def _resolve(self, name: str) -> Path:
        objects = list(self._walk(name))
        return Path(objects, self.queue(objects[-1].name), self.version)

    def _walk(self, name: str) -> Iterator[Definition]:
        definition = self._definitions.get(name)
        if definition is None or definition.kind == QMODEL:
            raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"queue {name!r} is not defined")
        yield definition
        if definition.kind == QALIAS:
            target = definition.text("TARGET")
            if definition.number("TARGTYPE") == MQOT_TOPIC:
                raise mq_error(
                    rc.MQRC_OPTION_NOT_VALID_FOR_TYPE,
                    f"alias {name} leads to topic {target}: it can only be put to",
                )
            base = self._definitions.get(target)
            if base is None:
                raise mq_error(
                    rc.MQRC_UNKNOWN_ALIAS_BASE_Q, f"alias {name}: TARGET {target!r} is not defined"
                )
            if base.kind != QLOCAL:
                raise mq_error(
                    rc.MQRC_ALIAS_BASE_Q_TYPE_ERROR, f"alias {name}: TARGET {target} is {base.kind}"
                )
            yield base


def topic_alias(registry: Registry, name: str) -> Definition | None:
    """Return the queue alias of a name if it leads to a topic: what is put is published."""
    definition = registry.find(name)
    if definition is None or definition.kind != QALIAS:
        return None
    return definition if definition.number("TARGTYPE") == MQOT_TOPIC else None


def check_name(name: str) -> None:
    """Raise MQRC_OBJECT_NAME_ERROR unless a name is 1 to 48 of A-Z a-z 0-9 . / _ %."""
    if not _NAME.fullmatch(name):
        raise mq_error(
            rc.MQRC_OBJECT_NAME_ERROR, f"{name!r} is not 1 to 48 characters of A-Z a-z 0-9 . / _ %"
        )
