"""Which queue a name means: the definitions of a queue manager."""

from __future__ import annotations

from typing import TypeAlias

from mayfly.mqi import reasons as rc
from mayfly.services.everyplace.arguments import check_rule, checked_name
from mayfly.services.everyplace.errors import EveryplaceError
from mayfly.services.everyplace.held import QueueAttributes
from mayfly.services.everyplace.pulling import HomeServerQueue
from mayfly.services.everyplace.queues import MessageQueue
from mayfly.services.everyplace.records import save_queue
from mayfly.services.everyplace.remote import SynchronousQueue
from mayfly.services.everyplace.rules import QueueRule, tell
from mayfly.services.everyplace.site import Site
from mayfly.services.everyplace.transmission import AsynchronousQueue

AnyQueue: TypeAlias = MessageQueue | SynchronousQueue

#: There without being created, from the first put on.
DEAD_LETTER_QUEUE_NAME = "DeadLetterQ"


class Directory:
    """Queues by name: those that are here, and those of other queue managers."""

    def __init__(self, site: Site) -> None:
        """Define none."""
        self._site = site
        self._local: dict[str, MessageQueue] = {}
        self._remote: dict[tuple[str, str], AnyQueue] = {}
        self.home: dict[str, HomeServerQueue] = {}

    # Defining

    def create_local(self, name: str, attributes: QueueAttributes, rule: QueueRule | None) -> None:
        """Create a local queue, and activate it."""
        check_rule(rule)
        queue = MessageQueue(self._site, name, attributes, rule)
        self.add(queue)
        queue.activate()

    def add(self, queue: AnyQueue) -> None:
        """Know a queue from now on."""
        self.take_back(queue)
        self.note(queue)

    def take_back(self, queue: AnyQueue) -> None:
        """Know a queue that was known before a restart."""
        if queue.partner:
            self._remote[queue.name, queue.partner] = queue
        else:
            assert isinstance(queue, MessageQueue)
            self._local[queue.name] = queue

    def add_home(self, home: HomeServerQueue) -> None:
        """Know a home-server queue from now on."""
        self.take_back_home(home)
        home.note()

    def take_back_home(self, home: HomeServerQueue) -> None:
        """Know a home-server queue that was known before a restart."""
        self.home[home.name] = home
        home.is_defined = True

    def delete(self, queue: AnyQueue) -> None:
        """Delete a queue that is defined here, and is empty without what has expired (M9).

        Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_Q_NOT_EMPTY, and MQRC_OBJECT_IN_USE while an
        unfinished transmission or pull would leave a message locked elsewhere for ever.
        """
        if not isinstance(queue, MessageQueue):
            self._forget(queue)
            return
        if count := queue.size():
            raise EveryplaceError(rc.MQRC_Q_NOT_EMPTY, f"queue {queue.name} holds {count} messages")
        home = None if queue.partner else self.home.get(queue.name)
        if not (queue.is_settled() and (home is None or home.is_settled())):
            detail = f"queue {queue.name}: another queue manager may hold a message for it"
            raise EveryplaceError(rc.MQRC_OBJECT_IN_USE, detail)
        self._forget(queue)
        queue.deactivate()
        tell(queue.rule.queue_removed, queue.name)

    def _forget(self, queue: AnyQueue) -> None:
        """Know a queue no more, nor what is fetched for it."""
        if not self.knows(queue):
            raise EveryplaceError(
                rc.MQRC_UNKNOWN_OBJECT_NAME,
                f"queue {queue.name!r} is not defined at {self._site.name}",
            )
        if queue.partner:
            del self._remote[queue.name, queue.partner]
        else:
            del self._local[queue.name]
            home = self.home.pop(queue.name, None)
            if home is not None:
                home.is_defined = False
                home.note()
        self.note(queue)

    def note(self, queue: AnyQueue) -> None:
        """Have the change of a definition written at the end of the verb."""
        journal = self._site.journal
        if journal is not None:
            journal.note(queue, lambda: save_queue(queue, is_known=self.knows(queue)))

    def check_new(self, name: str, manager: str | None) -> None:
        """Raise MQRC_OBJECT_ALREADY_EXISTS for a name that is taken."""
        checked_name("queue", name)
        if name in self._local if manager is None else (name, manager) in self._remote:
            raise EveryplaceError(rc.MQRC_OBJECT_ALREADY_EXISTS, f"queue {name}")

    def check_other(self, name: str, manager: str) -> None:
        """Raise MQRC_OBJECT_Q_MGR_NAME_ERROR unless it names another queue manager."""
        if checked_name("queue manager", manager) == self._site.name:
            raise EveryplaceError(
                rc.MQRC_OBJECT_Q_MGR_NAME_ERROR, f"queue {name}: {manager} is this queue manager"
            )

    # Finding

    def has(self, name: str) -> bool:
        """Return True if there is a local queue of this name."""
        return name in self._local

    def knows(self, queue: AnyQueue) -> bool:
        """Return True if its name leads to this very queue."""
        if queue.partner:
            return self._remote.get((queue.name, queue.partner)) is queue
        return self._local.get(queue.name) is queue

    def is_elsewhere(self, queue: AnyQueue) -> bool:
        """Return True if a queue is defined at its own queue manager alone, and that is linked."""
        return not self.knows(queue) and self._site.peers.is_linked(queue.partner)

    def route(self, queue: str, queue_manager: str | None) -> AnyQueue:
        """Return the queue of a name for a call on it: active, if it is here."""
        if queue_manager is None and type(queue) is str:
            local = self._local.get(queue)
            if local is not None and local.is_active:
                return local
        found = self.find(queue, queue_manager)
        return awake(found) if isinstance(found, MessageQueue) else found

    def find(self, queue: str, queue_manager: str | None) -> AnyQueue:
        """Return the queue of a name as it is, active or not."""
        return self._remote_of(queue, queue_manager) or self._local_of(queue)

    def held_here(self, queue: str, queue_manager: str | None = None) -> MessageQueue:
        """Return a queue that holds messages here, active or not: local, or asynchronous."""
        found = self.find(queue, queue_manager)
        if not isinstance(found, MessageQueue):
            raise EveryplaceError(
                rc.MQRC_OPTION_NOT_VALID_FOR_TYPE,
                f"{queue} holds no messages at {self._site.name}",
            )
        return found

    def local_queue(self, name: str) -> MessageQueue:
        """Return a local queue, active."""
        return awake(self._local_of(checked_name("queue", name)))

    def kept_for(self, partner: str, queue: str) -> list[MessageQueue]:
        """Return the queues, active, that keep messages for a queue of another queue manager."""
        kept = [self._remote.get((queue, partner)), self._local.get(queue)]
        return [awake(each) for each in kept if isinstance(each, MessageQueue)]

    def asynchronous(self, queue: str, queue_manager: str | None) -> AsynchronousQueue:
        """Return the asynchronous remote queue of a name, active."""
        checked_name("queue", queue)
        named = [
            target
            for (name, manager), target in self._remote.items()
            if name == queue
            and queue_manager in (None, manager)
            and isinstance(target, AsynchronousQueue)
        ]
        if len(named) != 1:
            raise EveryplaceError(
                rc.MQRC_UNKNOWN_OBJECT_NAME,
                f"{len(named)} asynchronous remote queues {queue!r} at {self._site.name}",
            )
        awake(named[0])
        return named[0]

    def sending(self) -> list[AsynchronousQueue]:
        """Return the asynchronous remote queues, active or not."""
        return [each for each in self._remote.values() if isinstance(each, AsynchronousQueue)]

    def holding(self) -> list[MessageQueue]:
        """Return all queues that hold messages here, active or not."""
        every = [*self._local.values(), *self._remote.values()]
        return [queue for queue in every if isinstance(queue, MessageQueue)]

    def _remote_of(self, queue: str, queue_manager: str | None) -> AnyQueue | None:
        checked_name("queue", queue)
        if queue_manager is not None:
            checked_name("queue manager", queue_manager)
        if queue_manager == self._site.name or (queue_manager is None and queue in self._local):
            return None
        if queue_manager is not None:
            found = self._remote.get((queue, queue_manager))
            return found or SynchronousQueue(self._site, queue, queue_manager, None)
        named = [target for (name, _), target in self._remote.items() if name == queue]
        if len(named) > 1:
            raise EveryplaceError(
                rc.MQRC_UNKNOWN_OBJECT_NAME, f"several queue managers have {queue!r}: name one"
            )
        return named[0] if named else None

    def _local_of(self, name: str) -> MessageQueue:
        if name == DEAD_LETTER_QUEUE_NAME and name not in self._local:
            self.create_local(name, QueueAttributes(), None)
        if name not in self._local:
            raise EveryplaceError(
                rc.MQRC_UNKNOWN_OBJECT_NAME,
                f"queue manager {self._site.name} has no queue {name!r}",
            )
        return self._local[name]


def awake(queue: MessageQueue) -> MessageQueue:
    """Return a queue that is active, and was checked if it was not (M8)."""
    if not queue.is_active:
        queue.activate()
    return queue
