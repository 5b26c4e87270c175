"""A queue manager of MQ Everyplace: its queues, its links, and the verbs on both; in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from mayfly.everyplace.arguments import (
    check_confirm_id,
    check_listener,
    check_message,
    check_rule,
    check_uid,
    checked_name,
)
from mayfly.everyplace.errors import EveryplaceError
from mayfly.everyplace.fields import MessageFields, MessageUid, checked_clock
from mayfly.everyplace.held import Listener, QueueAttributes, duplicate
from mayfly.everyplace.links import Link
from mayfly.everyplace.peers import Peers
from mayfly.everyplace.pulling import HomeServerQueue
from mayfly.everyplace.queues import MessageQueue
from mayfly.everyplace.remote import SynchronousQueue
from mayfly.everyplace.rules import QueueRule, consult, tell
from mayfly.everyplace.transmission import AsynchronousQueue
from mayfly.lifetime.everyplace import Timepiece
from mayfly.mqi import reasons as rc

AnyQueue: TypeAlias = MessageQueue | SynchronousQueue

#: There without being created, from the first put on.
DEAD_LETTER_QUEUE_NAME = "DeadLetterQ"


class EveryplaceQueueManager:
    """Queues by name, and links to other queue managers; used by one thread at a time.

    ``queue_manager`` None means here: a local queue, else the one remote queue of that name; the
    name of another queue manager goes by the definition of the remote queue, and through the link
    at once where there is none. Calls raise EveryplaceError, and nothing has happened then.
    """

    def __init__(self, name: str, clock: Timepiece | None = None) -> None:
        """Begin without queues; a clock of its own, as each machine has one; None is this one's."""
        self.name = checked_name("queue manager", name)
        self.clock = checked_clock(clock)
        self._local: dict[str, MessageQueue] = {}
        self._remote: dict[tuple[str, str], AnyQueue] = {}
        self._home: dict[str, HomeServerQueue] = {}
        self.peers = Peers(self.name)

    # Definitions

    def connect(self, other: EveryplaceQueueManager) -> Link:
        """Return the link to another queue manager, which serves both ways; one for each pair.

        A queue manager is connected to one of each name.
        """
        if not isinstance(other, EveryplaceQueueManager):
            raise EveryplaceError(
                rc.MQRC_OBJECT_Q_MGR_NAME_ERROR, f"other {other!r} is no EveryplaceQueueManager"
            )
        return self.peers.connect(self, other)

    def create_queue(
        self,
        name: str,
        expiry_ms: int | None = None,
        rule: QueueRule | None = None,
        max_depth: int | None = None,
    ) -> None:
        """Create a local queue; ``expiry_ms`` counts from a message's arrival on it (M1)."""
        self._check_new(name, None)
        self._create_local(name, QueueAttributes(expiry_ms, max_depth), rule)

    def create_remote_queue(
        self,
        name: str,
        manager: str,
        asynchronous: bool = False,
        rule: QueueRule | None = None,
        expiry_ms: int | None = None,
    ) -> None:
        """Define queue ``name`` of another queue manager, which need not be connected yet.

        An asynchronous one keeps messages here until they are transmitted, and may have an
        interval of its own; a synchronous one passes each call on at once.
        """
        self._check_other(name, manager)
        self._check_new(name, manager)
        check_rule(rule)
        attributes = QueueAttributes(expiry_ms)
        if asynchronous:
            queue = AsynchronousQueue(self, name, manager, attributes, rule)
            queue.activate()
            self._remote[name, manager] = queue
        elif expiry_ms is not None:
            raise EveryplaceError(
                rc.MQRC_OPTIONS_ERROR, f"expiry_ms {expiry_ms}: nothing stays on {name} here"
            )
        else:
            self._remote[name, manager] = SynchronousQueue(self, name, manager, rule)

    def create_home_server_queue(
        self,
        name: str,
        manager: str,
        expiry_ms: int | None = None,
        rule: QueueRule | None = None,
    ) -> None:
        """Say that ``manager`` keeps messages for local queue ``name``, to be fetched by pull.

        The local queue is created unless it is there; interval and rule are for the new one.
        """
        checked_name("queue", name)
        self._check_other(name, manager)
        if name in self._home:
            raise EveryplaceError(rc.MQRC_OBJECT_ALREADY_EXISTS, f"home-server queue {name}")
        if name not in self._local:
            self.create_queue(name, expiry_ms, rule)
        elif expiry_ms is not None or rule is not None:
            raise EveryplaceError(
                rc.MQRC_OBJECT_ALREADY_EXISTS, f"queue {name} has its own interval and rule"
            )
        self._home[name] = HomeServerQueue(self, name, manager)

    def alter_queue(
        self, queue: str, queue_manager: str | None = None, **attributes: int | None
    ) -> None:
        """Change ``expiry_ms`` or ``max_depth``; what is there meets it at its next check.

        The rule is asked first and may refuse.
        """
        altered = self._awake(self.queue_held_here(queue, queue_manager))
        try:
            new = replace(altered.attributes, **attributes)
        except TypeError:
            raise EveryplaceError(
                rc.MQRC_OPTIONS_ERROR, f"{queue}: no attributes {', '.join(attributes)}"
            ) from None
        for attribute, value in attributes.items():
            consult(altered.rule.attribute_change, queue, attribute, value)
        altered.attributes = new

    def delete_queue(self, queue: str, queue_manager: str | None = None) -> None:
        """Delete a queue that is empty once what has expired is removed from it (M9).

        Raises MQRC_Q_NOT_EMPTY, and MQRC_OBJECT_IN_USE while a transmission or a pull is unfinished
        that would leave a message locked elsewhere for ever.
        """
        target = self._route(queue, queue_manager)
        if isinstance(target, MessageQueue):
            if count := target.size():
                raise EveryplaceError(rc.MQRC_Q_NOT_EMPTY, f"queue {queue} holds {count} messages")
            home = self._home.get(queue) if self._local.get(queue) is target else None
            if not (target.is_settled() and (home is None or home.is_settled())):
                detail = f"queue {queue}: another queue manager may hold a message for it"
                raise EveryplaceError(rc.MQRC_OBJECT_IN_USE, detail)
        self._forget(queue, target)
        if isinstance(target, MessageQueue):
            target.deactivate()
            tell(target.rule.queue_removed, queue)

    def activate_queue(self, queue: str, queue_manager: str | None = None) -> None:
        """Bring a queue into memory; what has expired is removed, whatever its state (M8)."""
        self.queue_held_here(queue, queue_manager).activate()

    def deactivate_queue(self, queue: str, queue_manager: str | None = None) -> None:
        """Let a queue go from memory; the next call on it brings it back, and checks it (M8)."""
        self.queue_held_here(queue, queue_manager).deactivate()

    def add_message_listener(self, queue: str, listener: Listener) -> None:
        """Call ``listener`` with a copy of each message that becomes available on a local queue."""
        check_listener(listener)
        target = self.local_queue(queue)
        consult(target.rule.add_listener, queue)
        target.listeners.append(listener)

    def remove_message_listener(self, queue: str, listener: Listener) -> None:
        """Stop calling it."""
        target = self.local_queue(queue)
        if listener not in target.listeners:
            raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"{listener!r} does not listen to {queue}")
        consult(target.rule.remove_listener, queue)
        target.listeners.remove(listener)

    # Messages

    def put_message(
        self,
        queue: str,
        fields: MessageFields,
        queue_manager: str | None = None,
        confirm_id: int = 0,
    ) -> MessageUid:
        """Put a copy of a message and return its identity.

        With a confirm id it is not available before ``confirm_put_message``. What is expired is
        removed on arrival and its rule called (M6). A message that was put before, here or
        anywhere, is refused as a duplicate unless it says Msg_Resend (M16).
        """
        target = self._route(queue, queue_manager)
        check_confirm_id(confirm_id)
        check_message(fields)
        if fields.was_put and not fields.is_resend:
            raise duplicate(fields, f"it was put before, queue {queue}")
        fields.name_origin(self.name)
        was_put, fields.was_put = fields.was_put, True
        try:
            target.add(fields.copy(), confirm_id)
        except EveryplaceError:
            fields.was_put = was_put
            raise
        return fields.uid

    def confirm_put_message(
        self, queue: str, uid: MessageUid, queue_manager: str | None = None
    ) -> None:
        """Make a message available that was put under a confirm id; its place is given now."""
        check_uid(uid)
        self._route(queue, queue_manager).confirm_put(uid)

    def get_message(
        self, queue: str, queue_manager: str | None = None, confirm_id: int = 0
    ) -> MessageFields | None:
        """Get the next message, None when there is none that is alive and available (M7).

        With a confirm id it is locked until ``confirm_get_message`` or ``undo``.
        """
        check_confirm_id(confirm_id)
        return self._route(queue, queue_manager).take(confirm_id)

    def confirm_get_message(
        self, queue: str, uid: MessageUid, queue_manager: str | None = None
    ) -> None:
        """Remove a message that was got under a confirm id; got in time, it may be late now."""
        check_uid(uid)
        self._route(queue, queue_manager).confirm_get(uid)

    def undo(self, queue: str, confirm_id: int, queue_manager: str | None = None) -> int:
        """Take back the unconfirmed puts and gets under an id; return how many there were."""
        check_confirm_id(confirm_id)
        if not confirm_id:
            raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, "confirm_id 0 has nothing to undo")
        return self._route(queue, queue_manager).undo(confirm_id)

    def delete_message(self, queue: str, uid: MessageUid, queue_manager: str | None = None) -> None:
        """Remove an available message by its identity."""
        check_uid(uid)
        self._route(queue, queue_manager).delete(uid)

    def browse_messages(self, queue: str, queue_manager: str | None = None) -> list[MessageFields]:
        """Return copies of the available messages; expired ones may be among them (M11)."""
        return self._route(queue, queue_manager).browse()

    def inquire_queue_size(self, queue: str, queue_manager: str | None = None) -> int:
        """Return how many messages a queue holds, locked and unconfirmed ones included (M10).

        What has expired is removed first.
        """
        return self._route(queue, queue_manager).size()

    def transmit_put(self, queue: str, queue_manager: str | None = None) -> int:
        """First stage of transmission (M12); return how many messages have arrived."""
        return self._asynchronous(queue, queue_manager).transmit_put()

    def transmit_confirm(self, queue: str, queue_manager: str | None = None) -> int:
        """Second stage of transmission (M12, M13); return how many messages are done."""
        return self._asynchronous(queue, queue_manager).transmit_confirm()

    def pull(self, queue: str) -> int:
        """Fetch what the home server keeps for a queue (M6); return how many messages came."""
        home = self._home.get(checked_name("queue", queue))
        if home is None:
            raise EveryplaceError(rc.MQRC_UNKNOWN_OBJECT_NAME, f"no home-server queue {queue!r}")
        return home.pull(self.local_queue(queue))

    # Between queue managers

    def kept_for(self, partner: str, queue: str) -> list[MessageQueue]:
        """Return the queues that keep messages for a queue of another queue manager."""
        kept = [self._remote.get((queue, partner)), self._local.get(queue)]
        found = [each for each in kept if isinstance(each, MessageQueue)]
        if not found:
            raise EveryplaceError(
                rc.MQRC_UNKNOWN_OBJECT_NAME, f"{self.name} keeps nothing for {queue!r} of {partner}"
            )
        return [self._awake(each) for each in found]

    def local_queue(self, name: str) -> MessageQueue:
        """Return a local queue, active."""
        checked_name("queue", name)
        if name == DEAD_LETTER_QUEUE_NAME and name not in self._local:
            self._create_local(name, QueueAttributes(), None)
        if name not in self._local:
            raise EveryplaceError(
                rc.MQRC_UNKNOWN_OBJECT_NAME, f"queue manager {self.name} has no queue {name!r}"
            )
        return self._awake(self._local[name])

    # Inside

    def _route(self, queue: str, queue_manager: str | None) -> AnyQueue:
        remote = self._remote_of(queue, queue_manager)
        if remote is None:
            return self.local_queue(queue)
        return self._awake(remote) if isinstance(remote, MessageQueue) else remote

    def _remote_of(self, queue: str, queue_manager: str | None) -> AnyQueue | None:
        checked_name("queue", queue)
        if queue_manager is not None:
            checked_name("queue manager", queue_manager)
        if queue_manager == self.name or (queue_manager is None and queue in self._local):
            return None
        if queue_manager is not None:
            found = self._remote.get((queue, queue_manager))
            return found or SynchronousQueue(self, queue, queue_manager, None)
        named = [target for (name, _), target in self._remote.items() if name == queue]
        if len(named) > 1:
            raise EveryplaceError(
                rc.MQRC_UNKNOWN_OBJECT_NAME, f"several queue managers have {queue!r}: name one"
            )
        return named[0] if named else None

    def queue_held_here(self, queue: str, queue_manager: str | None = None) -> MessageQueue:
        """Return a queue that holds messages here, active or not: local, or asynchronous."""
        target = self._remote_of(queue, queue_manager) or self._local.get(queue)
        target = target or self.local_queue(queue)
        if not isinstance(target, MessageQueue):
            raise EveryplaceError(
                rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, f"{queue} holds no messages at {self.name}"
            )
        return target

    def _forget(self, queue: str, target: AnyQueue) -> None:
        if self._local.get(queue) is target:
            del self._local[queue]
            self._home.pop(queue, None)
        elif target not in self._remote.values():
            raise EveryplaceError(
                rc.MQRC_UNKNOWN_OBJECT_NAME, f"queue {queue!r} is not defined at {self.name}"
            )
        else:
            self._remote = {key: kept for key, kept in self._remote.items() if kept is not target}

    def _asynchronous(self, queue: str, queue_manager: str | None) -> AsynchronousQueue:
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
                f"{len(named)} asynchronous remote queues {queue!r} at {self.name}",
            )
        if not named[0].is_active:
            named[0].activate()
        return named[0]

    def _awake(self, queue: MessageQueue) -> MessageQueue:
        if not queue.is_active:
            queue.activate()
        return queue

    def _create_local(self, name: str, attributes: QueueAttributes, rule: QueueRule | None) -> None:
        check_rule(rule)
        queue = MessageQueue(self, name, attributes, rule)
        self._local[name] = queue
        queue.activate()

    def _check_new(self, name: str, manager: str | None) -> None:
        checked_name("queue", name)
        if name in self._local if manager is None else (name, manager) in self._remote:
            raise EveryplaceError(rc.MQRC_OBJECT_ALREADY_EXISTS, f"queue {name}")

    def _check_other(self, name: str, manager: str) -> None:
        if checked_name("queue manager", manager) == self.name:
            raise EveryplaceError(
                rc.MQRC_OBJECT_Q_MGR_NAME_ERROR, f"queue {name}: {manager} is this queue manager"
            )
