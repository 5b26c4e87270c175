"""The queues that a queue manager defines, and how they are read from its folder."""

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
from mayfly.services.everyplace.links import Exchange, FinishedExchanges, exchange_of
from mayfly.services.everyplace.queues import (
    AsynchronousQueue,
    HomeServerQueue,
    MessageQueue,
    OwnerContext,
    QueueAttributes,
    QueuedMessage,
    SynchronousQueue,
)
from mayfly.services.everyplace.rules import MessageState, QueueRule, check_rule, class_of, notify

AnyQueue: TypeAlias = MessageQueue | SynchronousQueue

#: There without being created, from the first put on.
DEAD_LETTER_QUEUE_NAME = "DeadLetterQ"


class QueueDefinitions:
    """The queue definitions of a queue manager: local, remote and home-server queues, by name."""

    def __init__(self, owner: OwnerContext) -> None:
        """Begin without queues; ``owner`` is the queue manager."""
        self._owner = owner
        self._local: dict[str, MessageQueue] = {}
        self._remote: dict[tuple[str, str], AnyQueue] = {}
        self.home_servers: dict[str, HomeServerQueue] = {}

    # Defining

    def create_local(self, name: str, attributes: QueueAttributes, rule: QueueRule | None) -> None:
        """Create a local queue and activate it; raises MQRC_OPTIONS_ERROR for a wrong rule."""
        check_rule(rule)
        queue = MessageQueue(self._owner, name, attributes, rule)
        self.add(queue)
        queue.activate()

    def add(self, queue: AnyQueue) -> None:
        """Add the definition of a queue.

        The end of the present verb (call) writes it to the folder.
        """
        self.restore(queue)
        self.note(queue)

    def restore(self, queue: AnyQueue) -> None:
        """Add a queue, in memory only, that was read from the folder."""
        if queue.partner:
            self._remote[queue.name, queue.partner] = queue
        else:
            assert isinstance(queue, MessageQueue)
            self._local[queue.name] = queue

    def add_home_server(self, home_server: HomeServerQueue) -> None:
        """Add the definition of a home-server queue, to be written at the end of the verb."""
        self.restore_home_server(home_server)
        home_server.note()

    def restore_home_server(self, home_server: HomeServerQueue) -> None:
        """Add the definition of a home-server queue that was read from the folder."""
        self.home_servers[home_server.name] = home_server
        home_server.is_defined = True

    def delete(self, queue: AnyQueue) -> None:
        """Remove expired messages from a queue defined here, then delete the queue if it is empty.

        Its home-server definition goes with it. Raises EveryplaceError with
        MQRC_UNKNOWN_OBJECT_NAME, MQRC_Q_NOT_EMPTY, or MQRC_OBJECT_IN_USE. The last means that a
        transmission or pull is unfinished, and that the other queue manager would keep a message
        locked for ever.
        """
        if not isinstance(queue, MessageQueue):
            self._forget(queue)
            return
        if count := queue.size():
            raise EveryplaceError(rc.MQRC_Q_NOT_EMPTY, f"queue {queue.name} holds {count} messages")
        home_server = None if queue.partner else self.home_servers.get(queue.name)
        if not (
            queue.finish_exchanges() and (home_server is None or home_server.finish_exchanges())
        ):
            detail = f"queue {queue.name}: another queue manager may hold a message for it"
            raise EveryplaceError(rc.MQRC_OBJECT_IN_USE, detail)
        self._forget(queue)
        queue.deactivate()
        notify(queue.rule.queue_removed, queue.name)

    def _forget(self, queue: AnyQueue) -> None:
        """Remove the definition of a queue, and the home-server definition for it.

        Raises EveryplaceError with MQRC_UNKNOWN_OBJECT_NAME when the queue is not defined here.
        """
        if not self.knows(queue):
            raise EveryplaceError(
                rc.MQRC_UNKNOWN_OBJECT_NAME,
                f"queue {queue.name!r} is not defined at {self._owner.name}",
            )
        if queue.partner:
            del self._remote[queue.name, queue.partner]
        else:
            del self._local[queue.name]
            home_server = self.home_servers.pop(queue.name, None)
            if home_server is not None:
                home_server.is_defined = False
                home_server.note()
        self.note(queue)

    def note(self, queue: AnyQueue) -> None:
        """Register a changed queue definition, or its removal.

        The end of the present verb (call) writes it to the folder. Does nothing for a queue manager
        in memory.
        """
        journal = self._owner.journal
        if journal is not None:
            journal.note(queue, lambda: self._saved(queue))

    def _saved(self, queue: AnyQueue) -> list[Statement]:
        """Return the statement that writes the definition, or deletes that of a deleted queue."""
        if not self.knows(queue):
            return [(FORGET_QUEUE, (queue.name, queue.partner))]
        rule = queue.awaited_rule or class_of(queue.rule)
        row = (queue.name, queue.partner, queue.kind, json.dumps(queue.limits()), rule)
        return [(SAVE_QUEUE, row)]

    def check_new(self, name: str, manager: str | None) -> None:
        """Raise MQRC_OBJECT_ALREADY_EXISTS if a queue with these names is defined.

        ``manager`` None means a local queue. Raises MQRC_OBJECT_NAME_ERROR for a wrong name.
        """
        checked_name("queue", name)
        if name in self._local if manager is None else (name, manager) in self._remote:
            raise EveryplaceError(rc.MQRC_OBJECT_ALREADY_EXISTS, f"queue {name}")

    def check_other(self, name: str, manager: str) -> None:
        """Raise MQRC_OBJECT_Q_MGR_NAME_ERROR if ``manager`` is the name of this queue manager.

        Raises MQRC_OBJECT_NAME_ERROR for a wrong name.
        """
        if checked_name("queue manager", manager) == self._owner.name:
            raise EveryplaceError(
                rc.MQRC_OBJECT_Q_MGR_NAME_ERROR, f"queue {name}: {manager} is this queue manager"
            )

    # Finding

    def has(self, name: str) -> bool:
        """Return True if a local queue of this name is defined."""
        return name in self._local

    def knows(self, queue: AnyQueue) -> bool:
        """Return True if this very object is defined under its name; False for a deleted queue."""
        if queue.partner:
            return self._remote.get((queue.name, queue.partner)) is queue
        return self._local.get(queue.name) is queue

    def is_elsewhere(self, queue: AnyQueue) -> bool:
        """Return True if a remote queue is not defined here, but its queue manager is linked."""
        return not self.knows(queue) and self._owner.peers.is_linked(queue.partner)

    def route(self, queue: str, queue_manager: str | None) -> AnyQueue:
        """Return the queue for a call with these names.

        A queue that keeps messages here is activated. ``queue_manager`` None means a local queue,
        else the only remote queue of that name. Raises EveryplaceError with
        MQRC_UNKNOWN_OBJECT_NAME or MQRC_OBJECT_NAME_ERROR.
        """
        if queue_manager is None and type(queue) is str:
            local = self._local.get(queue)
            if local is not None and local.is_active:
                return local
        found = self.find(queue, queue_manager)
        return activated(found) if isinstance(found, MessageQueue) else found

    def find(self, queue: str, queue_manager: str | None) -> AnyQueue:
        """Return the queue with these names, without activating it.

        The rules and errors for the names are those of :meth:`route`.
        """
        return self._remote_of(queue, queue_manager) or self._local_of(queue)

    def queue_with_messages(self, queue: str, queue_manager: str | None = None) -> MessageQueue:
        """Return a local or asynchronous remote queue, without activating it.

        Raises EveryplaceError with MQRC_OPTION_NOT_VALID_FOR_TYPE for a synchronous remote queue,
        and the errors of :meth:`route`.
        """
        found = self.find(queue, queue_manager)
        if not isinstance(found, MessageQueue):
            raise EveryplaceError(
                rc.MQRC_OPTION_NOT_VALID_FOR_TYPE,
                f"{queue} holds no messages at {self._owner.name}",
            )
        return found

    def local_queue(self, name: str) -> MessageQueue:
        """Return a local queue, activated; the dead-letter queue is created when missing.

        Raises MQRC_UNKNOWN_OBJECT_NAME if no such queue is defined.
        """
        return activated(self._local_of(checked_name("queue", name)))

    def queues_for(self, partner: str, queue: str) -> list[MessageQueue]:
        """Activate and return the queues that keep messages here for ``queue`` of ``partner``.

        They are the asynchronous remote queue of that name and the local queue ``queue``, if they
        exist.
        """
        queues = [self._remote.get((queue, partner)), self._local.get(queue)]
        return [activated(each) for each in queues if isinstance(each, MessageQueue)]

    def asynchronous(self, queue: str, queue_manager: str | None) -> AsynchronousQueue:
        """Return an asynchronous remote queue, activated.

        Raises MQRC_UNKNOWN_OBJECT_NAME when no such queue, or more than one, is defined.
        """
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
                f"{len(named)} asynchronous remote queues {queue!r} at {self._owner.name}",
            )
        activated(named[0])
        return named[0]

    def sending(self) -> list[AsynchronousQueue]:
        """Return the asynchronous remote queues, active or not."""
        return [each for each in self._remote.values() if isinstance(each, AsynchronousQueue)]

    def message_queues(self) -> list[MessageQueue]:
        """Return the local and the asynchronous remote queues, active or not."""
        every = [*self._local.values(), *self._remote.values()]
        return [queue for queue in every if isinstance(queue, MessageQueue)]

    def _remote_of(self, queue: str, queue_manager: str | None) -> AnyQueue | None:
        """Return the remote queue with these names, None if they are the names of a local queue.

        Without a definition for ``queue_manager`` it returns a synchronous queue there. Raises
        MQRC_UNKNOWN_OBJECT_NAME when several queue managers have the queue.
        """
        checked_name("queue", queue)
        if queue_manager is not None:
            checked_name("queue manager", queue_manager)
        if queue_manager == self._owner.name or (queue_manager is None and queue in self._local):
            return None
        if queue_manager is not None:
            found = self._remote.get((queue, queue_manager))
            return found or SynchronousQueue(self._owner, queue, queue_manager, None)
        named = [target for (name, _), target in self._remote.items() if name == queue]
        if len(named) > 1:
            raise EveryplaceError(
                rc.MQRC_UNKNOWN_OBJECT_NAME, f"several queue managers have {queue!r}: name one"
            )
        return named[0] if named else None

    def _local_of(self, name: str) -> MessageQueue:
        """Return a local queue; the dead-letter queue is created when missing.

        Raises MQRC_UNKNOWN_OBJECT_NAME.
        """
        if name == DEAD_LETTER_QUEUE_NAME and name not in self._local:
            self.create_local(name, QueueAttributes(), None)
        if name not in self._local:
            raise EveryplaceError(
                rc.MQRC_UNKNOWN_OBJECT_NAME,
                f"queue manager {self._owner.name} has no queue {name!r}",
            )
        return self._local[name]


def activated(queue: MessageQueue) -> MessageQueue:
    """Activate a queue if it is not active, which removes its expired messages (M8); return it."""
    if not queue.is_active:
        queue.activate()
    return queue


def checked_name(kind: str, name: object) -> str:
    """Return a name after checking it; ``kind`` is for the error text.

    Raises MQRC_OBJECT_NAME_ERROR for a value that is no text, empty, or contains half of a
    surrogate pair.
    """
    if not isinstance(name, str) or not name or not _is_text(name):
        raise EveryplaceError(rc.MQRC_OBJECT_NAME_ERROR, f"{kind} name {name!r}")
    return name


def _is_text(name: str) -> bool:
    """Return False if a name contains half of a surrogate pair, which no table could store."""
    # Half of a surrogate pair is no character, and no table could hold it.
    return not any("\ud800" <= character <= "\udfff" for character in name)


def check_confirm_id(confirm_id: object) -> None:
    """Raise MQRC_OPTIONS_ERROR unless a confirm id is an int from 0 to 2**63 - 1."""
    if type(confirm_id) is not int or not 0 <= confirm_id <= LONG_RANGE[1]:
        raise EveryplaceError(
            rc.MQRC_OPTIONS_ERROR, f"confirm_id {confirm_id!r} is not within 0 .. {LONG_RANGE[1]}"
        )


def read_era(journal: Journal) -> int:
    """Return the era in the folder of a queue manager: a number that differs for each namesake."""
    [(era,)] = journal.connection.execute("SELECT era FROM manager").fetchall()
    assert isinstance(era, int)
    return era


def restore(owner: OwnerContext, definitions: QueueDefinitions, journal: Journal) -> None:
    """Read the definitions, messages and exchanges in a folder into a new queue manager.

    Raises StoreDamaged, and closes the journal, for content that cannot be read.
    """
    try:
        with journal:
            _FolderReader(owner, definitions, journal).read()
    except (apsw.Error, ValueError, TypeError, KeyError, EveryplaceError) as error:
        journal.close()
        folder = journal.folder
        raise StoreDamaged(f"{folder} holds what nobody writes: {error!r}", folder) from error


class _FolderReader:
    """Reads the tables of a folder into a new queue manager."""

    def __init__(
        self, owner: OwnerContext, definitions: QueueDefinitions, journal: Journal
    ) -> None:
        """Take the queue manager ``owner``, its ``definitions`` to fill, and its journal."""
        self._owner = owner
        self._definitions = definitions
        self._journal = journal
        self._queues: dict[tuple[str, str], AnyQueue] = {}
        #: Numbers of exchanges begun here that have not ended, by partner.
        self._open: dict[str, list[int]] = defaultdict(list)

    def read(self) -> None:
        """Read all tables, and add their queues, messages and exchanges to the queue manager.

        Raises an error for content that cannot be read.
        """
        peers = self._owner.peers
        finished = {row[0]: FinishedExchanges(*row[1:]) for row in self._rows("finished")}
        for beginner, number in self._rows("finished_number"):
            finished[beginner].numbers.add(number)
        peers.restore(dict(self._rows("begun")), finished)
        self._read_queues()
        self._read_messages()
        self._read_home_servers()
        for queue, partner, text in self._rows("withdrawn"):
            target = self._queues[queue, partner]
            assert isinstance(target, AsynchronousQueue)
            exchange = exchange_of(text)
            self._note_open(exchange)
            target.restore_withdrawn(exchange)
        for partner, numbers in self._open.items():
            peers.begun_with(partner).resume(numbers)

    def _read_queues(self) -> None:
        """Add the queues of the table ``queue``, without messages."""
        for name, partner, kind, attributes, rule in self._rows("queue"):
            queue = self._queue(name, partner, kind, json.loads(attributes))
            queue.awaited_rule = rule
            self._queues[name, partner] = queue
            self._definitions.restore(queue)

    def _queue(self, name: str, partner: str, kind: str, limits: dict[str, Any]) -> AnyQueue:
        """Return a queue of kind local, asynchronous or synchronous, without messages and rule.

        ``partner`` is its queue manager, ``limits`` are its attributes by name.
        """
        if kind == LOCAL:
            return MessageQueue(self._owner, name, QueueAttributes(**limits), None)
        if kind == ASYNCHRONOUS:
            attributes = QueueAttributes(**limits)
            return AsynchronousQueue(self._owner, name, partner, attributes, None)
        return SynchronousQueue(self._owner, name, partner, None)

    def _read_messages(self) -> None:
        """Add the messages of the table ``message`` to their queues, in their old order."""
        for row in self._rows("message ORDER BY rank, place"):
            row_id, name, partner, body, arrived_ms, state, confirm_id, text, *rest = row
            is_acknowledged, *place = rest
            exchange = None if text is None else exchange_of(text)
            queued = QueuedMessage(
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
            queue.restore(queued)
            self._journal.restore(row_id)
            if exchange is not None:
                self._note_open(exchange)

    def _read_home_servers(self) -> None:
        """Add the home-server definitions of the table ``home``, with their unfinished pulls."""
        for name, partner, asked, stored in self._rows("home"):
            home_server = HomeServerQueue(self._owner, name, partner)
            home_server.asked = None if asked is None else exchange_of(asked)
            home_server.stored = [Exchange(*text) for text in json.loads(stored)]
            for exchange in (home_server.asked, *home_server.stored):
                if exchange is not None:
                    self._note_open(exchange)
            self._definitions.restore_home_server(home_server)

    def _note_open(self, exchange: Exchange) -> None:
        """Record an exchange (numbered transmission) as open if this queue manager began it."""
        if exchange.beginner == self._owner.name:
            self._open[exchange.partner].append(exchange.number)

    def _rows(self, table: str) -> list[tuple[Any, ...]]:
        """Return all rows of a table; ``table`` may end with ORDER BY."""
        return self._journal.connection.execute(f"SELECT * FROM {table}").fetchall()
