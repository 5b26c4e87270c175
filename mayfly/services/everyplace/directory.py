"""Which queue a name means: the definitions of a queue manager, and their reading from a folder."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, TypeAlias

import apsw

from mayfly.lifetime.everyplace import LONG_RANGE
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import StoreDamaged
from mayfly.services.everyplace.errors import EveryplaceError
from mayfly.services.everyplace.fields import fields_of_row
from mayfly.services.everyplace.journal import (
    ASYNCHRONOUS,
    FORGET_QUEUE,
    LOCAL,
    SAVE_QUEUE,
    Journal,
    Statement,
)
from mayfly.services.everyplace.links import Exchange, Finished, exchange_of
from mayfly.services.everyplace.queues import Held, MessageQueue, QueueAttributes, Site
from mayfly.services.everyplace.remote import AsynchronousQueue, HomeServerQueue, SynchronousQueue
from mayfly.services.everyplace.rules import MessageState, QueueRule, check_rule, class_of, tell

AnyQueue: TypeAlias = MessageQueue | SynchronousQueue

#: There without being created, from the first put on.
DEAD_LETTER_QUEUE_NAME = "DeadLetterQ"


class Directory:
    """Queues by name: those that are here, and those of other queue managers."""

    def __init__(self, site: Site) -> None:
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
            journal.note(queue, lambda: self._saved(queue))

    def _saved(self, queue: AnyQueue) -> list[Statement]:
        """Return what writes a definition, or that it is gone."""
        if not self.knows(queue):
            return [(FORGET_QUEUE, (queue.name, queue.partner))]
        rule = queue.awaited_rule or class_of(queue.rule)
        row = (queue.name, queue.partner, queue.kind, json.dumps(queue.limits()), rule)
        return [(SAVE_QUEUE, row)]

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

    def queue_state(self) -> list[MessageQueue]:
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


def checked_name(kind: str, name: object) -> str:
    """Return the name of a queue or a queue manager: any text that is not empty."""
    if not isinstance(name, str) or not name or not _is_text(name):
        raise EveryplaceError(rc.MQRC_OBJECT_NAME_ERROR, f"{kind} name {name!r}")
    return name


def _is_text(name: str) -> bool:
    # Half of a surrogate pair is no character, and no table could hold it.
    return not any("\ud800" <= character <= "\udfff" for character in name)


def check_confirm_id(confirm_id: object) -> None:
    """Raise MQRC_OPTIONS_ERROR unless it is a long of 0 or more."""
    if type(confirm_id) is not int or not 0 <= confirm_id <= LONG_RANGE[1]:
        raise EveryplaceError(
            rc.MQRC_OPTIONS_ERROR, f"confirm_id {confirm_id!r} is not within 0 .. {LONG_RANGE[1]}"
        )


def era_of(journal: Journal) -> int:
    """Return what tells the queue manager of a folder from others of its name."""
    [(era,)] = journal.connection.execute("SELECT era FROM manager").fetchall()
    assert isinstance(era, int)
    return era


def take_back(site: Site, directory: Directory, journal: Journal) -> None:
    """Give a new queue manager what its folder holds; raises StoreDamaged and closes it."""
    try:
        with journal:
            _Opening(site, directory, journal).read()
    except (apsw.Error, ValueError, TypeError, KeyError, EveryplaceError) as error:
        journal.close()
        folder = journal.folder
        raise StoreDamaged(f"{folder} holds what nobody writes: {error!r}", folder) from error


class _Opening:
    def __init__(self, site: Site, directory: Directory, journal: Journal) -> None:
        self._site = site
        self._directory = directory
        self._journal = journal
        self._queues: dict[tuple[str, str], AnyQueue] = {}
        #: Numbers of exchanges begun here that have not ended, by partner.
        self._open: dict[str, list[int]] = defaultdict(list)

    def read(self) -> None:
        peers = self._site.peers
        finished = {row[0]: Finished(*row[1:]) for row in self._rows("finished")}
        for beginner, number in self._rows("finished_number"):
            finished[beginner].numbers.add(number)
        peers.take_back(dict(self._rows("begun")), finished)
        self._read_queues()
        self._read_messages()
        self._read_homes()
        for queue, partner, text in self._rows("withdrawn"):
            target = self._queues[queue, partner]
            assert isinstance(target, AsynchronousQueue)
            exchange = exchange_of(text)
            self._go_on(exchange)
            target.take_back_withdrawn(exchange)
        for partner, numbers in self._open.items():
            peers.begun_with(partner).go_on(numbers)

    def _read_queues(self) -> None:
        for name, partner, kind, attributes, rule in self._rows("queue"):
            queue = self._queue(name, partner, kind, json.loads(attributes))
            queue.awaited_rule = rule
            self._queues[name, partner] = queue
            self._directory.take_back(queue)

    def _queue(self, name: str, partner: str, kind: str, limits: dict[str, Any]) -> AnyQueue:
        if kind == LOCAL:
            return MessageQueue(self._site, name, QueueAttributes(**limits), None)
        if kind == ASYNCHRONOUS:
            attributes = QueueAttributes(**limits)
            return AsynchronousQueue(self._site, name, partner, attributes, None)
        return SynchronousQueue(self._site, name, partner, None)

    def _read_messages(self) -> None:
        for row in self._rows("message ORDER BY rank, place"):
            row_id, name, partner, body, arrived_ms, state, confirm_id, text, *rest = row
            is_acknowledged, *place = rest
            exchange = None if text is None else exchange_of(text)
            held = Held(
                fields_of_row(body),
                arrived_ms,
                MessageState(state),
                confirm_id,
                exchange,
                bool(is_acknowledged),
                (place[0], place[1]),
                row_id,
            )
            queue = self._queues[name, partner]
            assert isinstance(queue, MessageQueue)
            queue.take_back(held)
            self._journal.take_back(row_id)
            if exchange is not None:
                self._go_on(exchange)

    def _read_homes(self) -> None:
        for name, partner, asked, stored in self._rows("home"):
            home = HomeServerQueue(self._site, name, partner)
            home.asked = None if asked is None else exchange_of(asked)
            home.stored = [Exchange(*told) for told in json.loads(stored)]
            for exchange in (home.asked, *home.stored):
                if exchange is not None:
                    self._go_on(exchange)
            self._directory.take_back_home(home)

    def _go_on(self, exchange: Exchange) -> None:
        if exchange.beginner == self._site.name:
            self._open[exchange.partner].append(exchange.number)

    def _rows(self, table: str) -> list[tuple[Any, ...]]:
        return self._journal.connection.execute(f"SELECT * FROM {table}").fetchall()
