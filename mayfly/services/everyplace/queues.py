"""Queues: local ones with the states and expiry of their messages, and remote ones.

A message is checked when it is added and when it is removed. All messages are checked when the
queue is activated, deleted or asked for its size (M6 to M10). Nothing else removes expired messages
(M11).
"""

from __future__ import annotations

import bisect
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Never

from mayfly.lifetime.everyplace import Timepiece, check_interval_ms, deadline_ms, is_never_live
from mayfly.lifetime.moments import is_expired
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.mqi.reasons import MQRC_OBJECT_ALREADY_EXISTS, MQRC_OPTION_NOT_VALID_FOR_TYPE
from mayfly.services.everyplace.errors import (
    EveryplaceError,
    LinkDown,
    RuleRefused,
    may_be_under_way,
)
from mayfly.services.everyplace.fields import (
    MSG_EXPIRE_TIME,
    MessageFields,
    MessageUid,
    fields_as_body,
)
from mayfly.services.everyplace.journal import (
    ADD_MESSAGE,
    ASYNCHRONOUS,
    CHANGE_MESSAGE,
    FORGET_HOME_SERVER,
    FORGET_MESSAGE,
    FORGET_WITHDRAWN,
    LOCAL,
    SAVE_HOME_SERVER,
    SAVE_WITHDRAWN,
    SYNCHRONOUS,
    Journal,
    Statement,
)
from mayfly.services.everyplace.links import Exchange, LinkRequest, Peers, R
from mayfly.services.everyplace.rules import (
    MessageState,
    QueueEntry,
    QueueRule,
    RuleOwner,
    check_given,
    consult,
    notify,
)

_LOG = logging.getLogger("mayfly.everyplace")

Listener = Callable[[MessageFields], None]


@dataclass(frozen=True)
class OwnerContext:
    """The parts of a queue manager that its queues use; ``journal`` None writes nothing to disk."""

    name: str
    clock: Timepiece
    journal: Journal | None
    peers: Peers
    #: The queue manager that a rule is given to call.
    rule_owner: RuleOwner


@dataclass(eq=False)
class QueuedMessage:
    """A message on a queue, with its state; ``arrived_ms`` is the epoch ms of its arrival.

    ``exchange`` is the transmission or move that it belongs to, None without one.
    """

    message: MessageFields
    arrived_ms: int
    state: MessageState
    confirm_id: int = 0
    exchange: Exchange | None = None
    #: The first stage of its transmission is known to have arrived.
    is_acknowledged: bool = False
    #: Lower is got first; given when it joins the queue, whatever becomes of its fields.
    place: tuple[int, int] = (0, 0)
    #: Of its row in the tables of a durable queue manager; 0 for none.
    row_id: int = 0


class OrderedMessages:
    """Messages in get order: by ``place``, a pair of numbers that is unique on the queue."""

    def __init__(self) -> None:
        """Begin without messages."""
        self._placed: list[tuple[tuple[int, int], QueuedMessage]] = []

    def add(self, queued: QueuedMessage) -> None:
        """Insert a message in get order, by its attribute ``place``, a unique pair of numbers."""
        bisect.insort(self._placed, (queued.place, queued))

    def remove(self, queued: QueuedMessage) -> None:
        """Remove a message; the caller knows that it is contained."""
        del self._placed[bisect.bisect_left(self._placed, (queued.place,))]

    def __iter__(self) -> Iterator[QueuedMessage]:
        return (queued for _, queued in self._placed)

    def __len__(self) -> int:
        return len(self._placed)


@dataclass(frozen=True)
class QueueAttributes:
    """The attributes of a queue: its expiry interval in ms and its depth limit.

    None is no limit.
    """

    expiry_ms: int | None = None
    max_depth: int | None = None

    def __post_init__(self) -> None:
        """Raise MQRC_EXPIRY_ERROR for a wrong interval, MQRC_OPTIONS_ERROR for a wrong depth."""
        try:
            check_interval_ms(self.expiry_ms)
        except MQError as error:
            raise EveryplaceError(error.reason, error.detail) from error
        if self.max_depth is not None and not (type(self.max_depth) is int and self.max_depth > 0):
            raise EveryplaceError(
                rc.MQRC_OPTIONS_ERROR, f"max_depth {self.max_depth!r} is neither None nor positive"
            )


def duplicate(message: MessageFields, why: str) -> EveryplaceError:
    """Return (not raise) MQRC_OBJECT_ALREADY_EXISTS for a message that was put before.

    ``why`` says where, for the text.
    """
    return EveryplaceError(
        rc.MQRC_OBJECT_ALREADY_EXISTS, f"duplicate message {message.uid}: {why}; see Msg_Resend"
    )


def warn_of_width(queue: str, message: MessageFields) -> None:
    """Log a warning if the message's expire time was over before its creation (M15).

    The usual cause is an int field for a moment, or a long field for a duration.
    """
    expire_time = message.expire_time
    if expire_time is not None and is_never_live(message.created_ms, expire_time):
        _LOG.warning(
            "%s %d of a message put on %s is %s and over before the message was created;"
            " an int is relative to the creation, a long a moment",
            MSG_EXPIRE_TIME,
            expire_time.value,
            queue,
            "a moment" if expire_time.is_absolute else "relative",
        )


def check_listener(listener: object) -> None:
    """Raise MQRC_OPTIONS_ERROR unless the listener can be called."""
    if not callable(listener):
        raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"listener {listener!r} cannot be called")


#: States that a get looks at; a message that another getter holds is not in its way.
_SEEN_BY_GET = frozenset({MessageState.AVAILABLE, MessageState.PUT_UNCONFIRMED})


class MessageQueue:
    """A local queue: messages by priority, then in the order in which they became available."""

    kind = LOCAL
    #: The owner of the queue where that is another queue manager.
    partner = ""

    def __init__(
        self,
        owner: OwnerContext,
        name: str,
        attributes: QueueAttributes,
        rule: QueueRule | None,
    ) -> None:
        """Begin empty and not active; the queue manager ``owner`` calls this.

        ``rule`` None is no rule. The next call on the queue activates it.
        """
        self.owner = owner
        self._journal = owner.journal
        self.name = name
        self.attributes = attributes
        self.rule = rule or QueueRule()
        #: The class of the rule that it had before a restart and has not been given again.
        self.awaited_rule = ""
        self.is_active = False
        self.listeners: list[Listener] = []
        self._held = OrderedMessages()
        self._seen_by_get = OrderedMessages()
        self._by_uid: dict[MessageUid, QueuedMessage] = {}
        #: Messages held for another queue manager.
        self._by_exchange: dict[Exchange, QueuedMessage] = {}
        self._next_order = 0
        #: Expired messages whose rule is under way: a rule that puts one here again ends there.
        self._expiring: set[MessageUid] = set()

    # Adding

    def add(
        self,
        message: MessageFields,
        confirm_id: int = 0,
        exchange: Exchange | None = None,
        taken_over: Callable[[], object] = lambda: None,
        is_checked: bool = True,
    ) -> None:
        """Add a message that no other code refers to.

        With a confirm id or an exchange gets do not see it before :meth:`confirm_put` or
        :meth:`admit`. ``taken_over`` is called when the queue owns the message, before listeners
        and rules are called. ``is_checked`` False leaves the expiry check to :meth:`admit`. A
        message expired on arrival is removed at once and its rule called (M6). A message that is on
        the queue already raises MQRC_OBJECT_ALREADY_EXISTS; with Msg_Resend nothing is added.
        Raises MQRC_Q_FULL when the queue is full, and RuleRefused.
        """
        is_unconfirmed = bool(confirm_id or exchange)
        state = MessageState.PUT_UNCONFIRMED if is_unconfirmed else MessageState.AVAILABLE
        queued = QueuedMessage(message, self._now_ms(), state, confirm_id, exchange)
        # Before anything is looked at: the rule may put messages here itself.
        consult(self.rule.put_message, self.entry(queued), message)
        if message.uid in self._by_uid:
            notify(self.rule.duplicate_message, self.entry(queued), message)
            if message.is_resend:
                taken_over()
                return
            raise duplicate(message, f"queue {self.name} holds it")
        if is_checked and self._is_expired(queued):
            taken_over()
            warn_of_width(self.name, message)
            self._report_expired(queued)
            return
        limit = self.attributes.max_depth
        if limit is not None and len(self._held) >= limit:
            notify(self.rule.threshold_exceeded, self.entry(queued), message)
            raise EveryplaceError(rc.MQRC_Q_FULL, f"queue {self.name} holds {limit} messages")
        self._insert(queued)
        taken_over()
        if not is_unconfirmed:
            self._call_listeners(queued)

    def confirm_put(self, uid: MessageUid) -> None:
        """Make a message available that was put with a confirm id; if it has expired, remove it.

        Raises MQRC_NO_MSG_AVAILABLE when the queue has no such message.
        """
        queued = self._by_uid.get(uid)
        if (
            queued is None
            or queued.state is not MessageState.PUT_UNCONFIRMED
            or not queued.confirm_id
        ):
            raise self._not_there(f"put of {uid}")
        self.admit(queued)

    def admit(self, queued: QueuedMessage) -> None:
        """Make an unconfirmed message available, behind those of its priority.

        An expired one is removed instead.
        """
        if self._is_expired(queued):
            self.expire(queued)
            return
        self.remove(queued)
        queued.state, queued.confirm_id, queued.exchange = MessageState.AVAILABLE, 0, None
        self._insert(queued)
        self._call_listeners(queued)

    # Removing

    def take(self, confirm_id: int = 0) -> MessageFields | None:
        """Remove and return the next message; None when no unexpired message is available.

        Expired messages in front of it are removed. With a confirm id it stays on the queue,
        locked, until ``confirm_get`` or ``undo``. Raises RuleRefused.
        """
        queued = self._next_permitted()
        if queued is None:
            return None
        if confirm_id:
            self.mark(queued, MessageState.GET_UNCONFIRMED, confirm_id)
        else:
            self.remove(queued)
        return queued.message.copy()

    def lock_next(self, begin: Callable[[], Exchange]) -> tuple[Exchange, QueuedMessage] | None:
        """Lock the next message for a pull or move, and return it with its exchange.

        Returns None when no unexpired message is available (M7). ``begin`` makes the exchange that
        the message then belongs to. Raises RuleRefused.
        """
        queued = self._next_permitted()
        if queued is None:
            return None
        self.mark(queued, MessageState.GET_UNCONFIRMED)
        exchange = queued.exchange = begin()
        self._by_exchange[exchange] = queued
        return exchange, queued

    def release(self, queued: QueuedMessage) -> None:
        """Make a locked message available again, because its pull or move has certainly failed."""
        if queued.exchange is not None:
            del self._by_exchange[queued.exchange]
        queued.exchange = None
        self.mark(queued, MessageState.AVAILABLE)

    def confirm_get(self, uid: MessageUid) -> None:
        """Remove a message that was got with a confirm id, even if it has expired since the get.

        Raises MQRC_NO_MSG_AVAILABLE when the queue has no such message.
        """
        queued = self._by_uid.get(uid)
        if (
            queued is None
            or queued.state is not MessageState.GET_UNCONFIRMED
            or not queued.confirm_id
        ):
            raise self._not_there(f"get of {uid}")
        self.remove(queued)

    def undo(self, confirm_id: int) -> int:
        """Undo the unconfirmed puts and gets with this confirm id; return their number.

        Undone puts are removed, and may be put again. Undone gets become available at their old
        places. Raises RuleRefused, and nothing is undone then.
        """
        mine = [queued for queued in self._held if queued.confirm_id == confirm_id]
        for queued in mine:
            consult(self.rule.undo, self.entry(queued), queued.message.copy())
        for queued in filter(self.holds, mine):
            if queued.confirm_id != confirm_id:
                # The rule has done something else with it.
                continue
            if queued.state is MessageState.PUT_UNCONFIRMED:
                # With Msg_Resend it was put before, and that is not undone.
                queued.message.was_put = queued.message.is_resend
                self.remove(queued)
            else:
                self.mark(queued, MessageState.AVAILABLE)
        return len(mine)

    def delete(self, uid: MessageUid) -> None:
        """Remove an available message by its identity.

        Raises MQRC_NO_MSG_AVAILABLE when it is not there, not available or expired (M7), and
        RuleRefused.
        """
        queued = self._by_uid.get(uid)
        if queued is not None and self._is_free(queued) and not self.expire_if_due(queued):
            consult(self.rule.delete_message, self.entry(queued), queued.message.copy())
            # The rule may have taken it itself.
            if self._is_free(queued):
                self.remove(queued)
                return
        raise self._not_there(f"message {uid}")

    def _next_permitted(self) -> QueuedMessage | None:
        """Return the next available message whose get the rule permits; None without one.

        Raises RuleRefused.
        """
        while (queued := self._next_available()) is not None:
            consult(self.rule.get_message, self.entry(queued), queued.message.copy())
            # The rule may have taken it itself.
            if self._is_free(queued):
                break
        return queued

    def _next_available(self) -> QueuedMessage | None:
        """Return the next available message, None without one.

        Expired messages in front of it are removed.
        """
        while True:
            for queued in self._seen_by_get:
                if self.expire_if_due(queued):
                    break  # the rule may have changed the queue: look again from its head
                if queued.state is MessageState.AVAILABLE:
                    return queued
            else:
                return None

    # Looking

    def browse(self) -> list[MessageFields]:
        """Return copies of the available messages, expired ones included.

        A browse checks nothing (M11). Raises RuleRefused.
        """
        seen = [queued for queued in self._held if queued.state is MessageState.AVAILABLE]
        for queued in seen:
            consult(self.rule.browse_message, self.entry(queued), queued.message.copy())
        return [queued.message.copy() for queued in seen]

    def size(self) -> int:
        """Remove expired messages, then return the number of messages in any state (M10)."""
        self.expire_all()
        return len(self._held)

    def expire_all(self) -> None:
        """Remove all expired messages, also locked and unconfirmed ones (M8, M9)."""
        for queued in [queued for queued in self._held if self._is_expired(queued)]:
            if self.holds(queued):
                self.expire(queued)

    def finish_exchanges(self) -> bool:
        """Return True: no other queue manager waits to learn the end of a message."""
        return True

    def of_exchange(self, exchange: Exchange) -> QueuedMessage | None:
        """Return the message of an exchange (transmission, pull or move).

        None if it is not here.
        """
        return self._by_exchange.get(exchange)

    def in_order(self) -> Iterator[QueuedMessage]:
        """Yield the present messages in get order, except those removed during the iteration."""
        return filter(self.holds, list(self._held))

    def in_exchange(self) -> list[tuple[Exchange, QueuedMessage]]:
        """Return the messages that belong to an exchange (transmission, pull or move), with it."""
        return list(self._by_exchange.items())

    def activate(self) -> None:
        """Activate the queue, after removing expired messages (M8).

        Raises MQRC_ENVIRONMENT_ERROR when its rule was not set again after a restart.
        """
        check_given(self.name, self.awaited_rule)
        self.expire_all()
        if not self.is_active:
            self.is_active = True
            notify(self.rule.queue_activate, self.name)

    def deactivate(self) -> None:
        """Deactivate the queue; its messages stay. Does nothing for a queue that is not active."""
        if self.is_active:
            self.is_active = False
            notify(self.rule.queue_close, self.name)

    def entry(self, queued: QueuedMessage) -> QueueEntry:
        """Return the description of a message that a rule receives."""
        return QueueEntry(
            self.owner.rule_owner,
            self.name,
            queued.message.uid,
            queued.state,
            queued.arrived_ms,
            self._deadline_ms(queued),
            queued.confirm_id,
        )

    def mark(self, queued: QueuedMessage, state: MessageState, confirm_id: int = 0) -> None:
        """Change the state and confirm id of a message; its place in get order stays."""
        if self._journal is not None:
            self.note(queued)
        if queued.state in _SEEN_BY_GET:
            self._seen_by_get.remove(queued)
        queued.state, queued.confirm_id = state, confirm_id
        if state in _SEEN_BY_GET:
            self._seen_by_get.add(queued)

    def remove(self, queued: QueuedMessage) -> None:
        """Remove a message, which must be on the queue, without a check for expiry."""
        if self._journal is not None:
            self.note(queued)
        self._held.remove(queued)
        if queued.state in _SEEN_BY_GET:
            self._seen_by_get.remove(queued)
        del self._by_uid[queued.message.uid]
        if queued.exchange is not None:
            self._by_exchange.pop(queued.exchange, None)

    def expire(self, queued: QueuedMessage) -> None:
        """Remove an expired message, then call the rule (M2)."""
        self.remove(queued)
        self._report_expired(queued)

    def expire_if_due(self, queued: QueuedMessage) -> bool:
        """Remove a message and call its rule if it has expired; return True if it had."""
        if not self._is_expired(queued):
            return False
        self.expire(queued)
        return True

    def note(self, queued: QueuedMessage) -> None:
        """Register a message whose state has changed, to be written at the end of the verb."""
        journal = self._journal
        if journal is not None:
            journal.note(queued, lambda: self._saved(journal, queued))

    def _saved(self, journal: Journal, queued: QueuedMessage) -> list[Statement]:
        """Return the statements that insert, update or delete the row of a message.

        The fields of a message on a queue never change, so an update leaves them out. Returns []
        for a message that was added and removed before it was written.
        """
        row_id = queued.row_id
        if not self.holds(queued):
            queued.row_id = 0
            return [(FORGET_MESSAGE, (row_id,))] if row_id else []
        exchange = None if queued.exchange is None else json.dumps(queued.exchange)
        changing = (
            queued.state,
            queued.confirm_id,
            exchange,
            queued.is_acknowledged,
            *queued.place,
        )
        if row_id:
            return [(CHANGE_MESSAGE, (*changing, row_id))]
        queued.row_id = journal.new_id()
        fixed = (self.name, self.partner, fields_as_body(queued.message), queued.arrived_ms)
        return [(ADD_MESSAGE, (queued.row_id, *fixed, *changing))]

    def limits(self) -> dict[str, int | None]:
        """Return the attributes of the queue by name."""
        return asdict(self.attributes)

    def restore(self, queued: QueuedMessage) -> None:
        """Add a message that was read from the folder, at its old place."""
        self._place(queued)
        self._next_order = max(self._next_order, queued.place[1] + 1)

    def leave_exchange(self, queued: QueuedMessage, exchange: Exchange) -> None:
        """End the exchange (transmission or move) of an expired message."""
        if exchange.beginner == self.owner.name:
            self.owner.peers.end(exchange)
        else:
            self.owner.peers.finish(exchange)

    def _report_expired(self, queued: QueuedMessage) -> None:
        """Call the rule for an expired message that was removed, and end its exchange.

        The rule is not called again for a message that the rule itself puts back.
        """
        if queued.exchange is not None:
            self.leave_exchange(queued, queued.exchange)
        uid = queued.message.uid
        if uid in self._expiring:
            return
        self._expiring.add(uid)
        try:
            notify(self.rule.message_expired, self.entry(queued), queued.message)
        finally:
            self._expiring.remove(uid)

    def _call_listeners(self, queued: QueuedMessage) -> None:
        """Call the message listeners with copies of a message; their errors are logged."""
        for listener in list(self.listeners):
            notify(listener, queued.message.copy())

    def _insert(self, queued: QueuedMessage) -> None:
        """Insert a message behind all others of its priority."""
        if self._journal is not None:
            self.note(queued)
        queued.place = -queued.message.priority, self._next_order
        self._next_order += 1
        self._place(queued)

    def _place(self, queued: QueuedMessage) -> None:
        """Insert a message into the queue in get order, by its ``place``, and into the indexes."""
        self._by_uid[queued.message.uid] = queued
        if queued.exchange is not None:
            self._by_exchange[queued.exchange] = queued
        self._held.add(queued)
        if queued.state in _SEEN_BY_GET:
            self._seen_by_get.add(queued)

    def _is_free(self, queued: QueuedMessage) -> bool:
        """Return True if a message is on this queue and available."""
        return self.holds(queued) and queued.state is MessageState.AVAILABLE

    def holds(self, queued: QueuedMessage) -> bool:
        """Return True if this object, not only an equal message, is on the queue."""
        return self._by_uid.get(queued.message.uid) is queued

    def _is_expired(self, queued: QueuedMessage) -> bool:
        """Return True if a message has expired by the clock of the queue manager."""
        return is_expired(self._deadline_ms(queued), self._now_ms())

    def _deadline_ms(self, queued: QueuedMessage) -> int | None:
        """Return the epoch ms at which a message expires on this queue, None for never."""
        message = queued.message
        interval_ms = self.attributes.expiry_ms
        return deadline_ms(message.created_ms, queued.arrived_ms, message.expire_time, interval_ms)

    def _now_ms(self) -> int:
        """Return the present time of the queue manager's clock in epoch ms."""
        return self.owner.clock.now_ms()

    def _not_there(self, what: str) -> EveryplaceError:
        """Return (not raise) MQRC_NO_MSG_AVAILABLE for a message that is not on the queue.

        ``what`` describes the message, for the text.
        """
        return EveryplaceError(rc.MQRC_NO_MSG_AVAILABLE, f"{what}: not on queue {self.name}")


# Remote queues, of other queue managers: synchronous, asynchronous and home-server queues
#
# A synchronous remote queue sends each call over the link at once. An asynchronous one keeps
# messages here and transmits them in two stages (M12). After the first stage the other side holds
# the message, invisible to gets. The second stage makes it available there and removes it here.
# Each stage may be repeated until its answer comes. A home-server queue fetches what another queue
# manager keeps for this one (M6, M7), in two steps. The server locks a message and sends a copy. It
# removes the message when it learns that the copy was stored here.


# Requests to other queue managers, which `manager.py` carries out there


@dataclass(frozen=True)
class HoldMessage(LinkRequest[None]):
    """First stage of a transmission (M12): store a message that gets and browses do not see."""

    message: MessageFields


@dataclass(frozen=True)
class Admit(LinkRequest[None]):
    """Second stage (M12): make the message that this exchange has stored available."""


@dataclass(frozen=True)
class Withdraw(LinkRequest[None]):
    """Delete the message of this exchange, because it has expired at its sender (M13)."""


@dataclass(frozen=True)
class Offer(LinkRequest[MessageFields | None]):
    """First step of a pull (M6): lock the next message for the queue and answer a copy of it.

    None if no message is available.
    """


@dataclass(frozen=True)
class Stored(LinkRequest[None]):
    """Second step (M6): delete the message of this exchange, which the receiver has stored."""


@dataclass(frozen=True)
class QueueCall(LinkRequest[R]):
    """Call the queue and answer the result; a second arrival of it has no effect."""

    call: Callable[[MessageQueue], R]


@dataclass(frozen=True)
class DeleteQueue(LinkRequest[None]):
    """Delete the queue (M9) as a call of its own queue manager does."""


# The queues


class SynchronousQueue:
    """A queue of another queue manager; no message is stored here, so none expires here.

    The rule of the definition here is consulted before a put. The rule of the queue itself decides
    everything else. Each call raises LinkDown when no answer comes, MQRC_UNKNOWN_REMOTE_Q_MGR
    without a link, and the EveryplaceError of the other side.
    """

    kind = SYNCHRONOUS

    def __init__(
        self, owner: OwnerContext, name: str, partner: str, rule: QueueRule | None
    ) -> None:
        """Define, at queue manager ``owner``, queue ``name`` of queue manager ``partner``."""
        self.owner = owner
        self.name = name
        self.partner = partner
        self.rule = rule or QueueRule()
        #: The class of the rule that it had before a restart and has not been given again.
        self.awaited_rule = ""

    def limits(self) -> dict[str, int | None]:
        """Return an empty dict, because such a queue has no attributes here."""
        return {}

    def add(self, message: MessageFields, confirm_id: int = 0) -> None:
        """Put a message on the remote queue, after calling the rule of the definition here.

        With a confirm id other than 0 the message is available after :meth:`confirm_put`. Raises
        RuleRefused, and MQRC_ENVIRONMENT_ERROR when the rule was not set again after a restart.
        """
        check_given(self.name, self.awaited_rule)
        now_ms = self.owner.clock.now_ms()
        state = MessageState.PUT_UNCONFIRMED if confirm_id else MessageState.AVAILABLE
        owner = self.owner.rule_owner
        entry = QueueEntry(owner, self.name, message.uid, state, now_ms, None, confirm_id)
        consult(self.rule.put_message, entry, message)
        self._call_remote(lambda queue: queue.add(message.copy(), confirm_id))

    def confirm_put(self, uid: MessageUid) -> None:
        """Make a message available on the remote queue that was put with a confirm id.

        Raises MQRC_NO_MSG_AVAILABLE when the queue has no such message.
        """
        self._call_remote(lambda queue: queue.confirm_put(uid))

    def take(self, confirm_id: int = 0) -> MessageFields | None:
        """Get the next message of the remote queue; None if no message is available.

        With a confirm id other than 0 it stays there, locked, until :meth:`confirm_get` or
        :meth:`undo`. Raises RuleRefused if the rule of the remote queue refuses.
        """
        return self._call_remote(lambda queue: queue.take(confirm_id))

    def confirm_get(self, uid: MessageUid) -> None:
        """Delete a message of the remote queue that was got with a confirm id.

        Raises MQRC_NO_MSG_AVAILABLE when the queue has no such message.
        """
        self._call_remote(lambda queue: queue.confirm_get(uid))

    def undo(self, confirm_id: int) -> int:
        """Undo the remote unconfirmed puts and gets with this confirm id; return their number.

        Raises RuleRefused if the rule of the remote queue refuses.
        """
        return self._call_remote(lambda queue: queue.undo(confirm_id)) or 0

    def delete(self, uid: MessageUid) -> None:
        """Delete an available message of the remote queue.

        Raises MQRC_NO_MSG_AVAILABLE when it is not there, not available or expired, and
        RuleRefused.
        """
        self._call_remote(lambda queue: queue.delete(uid))

    def browse(self) -> list[MessageFields]:
        """Return copies of the available messages of the remote queue."""
        return self._call_remote(MessageQueue.browse) or []

    def size(self) -> int:
        """Return the number of messages on the remote queue, after removing expired ones (M10)."""
        return self._call_remote(MessageQueue.size) or 0

    def delete_remote(self) -> None:
        """Delete the queue at its queue manager, which refuses that unless it is empty (M9)."""
        self._send(DeleteQueue(self.name))

    def _call_remote(self, call: Callable[[MessageQueue], R]) -> R | None:
        """Run ``call`` on the queue at the other side and return its result.

        None if it has no result, or was carried out before. Raises the errors of :meth:`_send`.
        """
        return self._send(QueueCall(self.name, call))

    def _send(self, request: LinkRequest[R]) -> R | None:
        """Send a request and return its answer; None if it has none, or was carried out before."""
        peers = self.owner.peers
        exchange = peers.begin(self.partner)
        try:
            return peers.carry(exchange, request)
        finally:
            peers.end(exchange)


class AsynchronousQueue(MessageQueue):
    """Messages that wait here for transmission to the same queue of another queue manager."""

    kind = ASYNCHRONOUS

    def __init__(
        self,
        owner: OwnerContext,
        name: str,
        partner: str,
        attributes: QueueAttributes,
        rule: QueueRule | None,
    ) -> None:
        """Begin empty and not active; the queue manager ``owner`` calls this.

        The queue keeps messages for queue ``name`` of queue manager ``partner`` until they are
        transmitted. ``rule`` None is no rule.
        """
        super().__init__(owner, name, attributes, rule)
        self.partner = partner
        #: Begun, and expired here: the other side waits in vain for the second stage.
        self._withdrawn: OrderedDict[Exchange, None] = OrderedDict()

    def take(self, confirm_id: int = 0) -> Never:
        """Raise MQRC_OPTION_NOT_VALID_FOR_TYPE: the messages can be got at the other side only."""
        raise EveryplaceError(
            MQRC_OPTION_NOT_VALID_FOR_TYPE, f"get from asynchronous remote queue {self.name}"
        )

    def transmit_put(self) -> int:
        """Run the first stage for available messages; return how many are known to have arrived.

        Expired messages are removed instead. A message that its rule keeps, or that the other side
        refuses, stays for the next call. If no answer comes, all later messages stay, too. Errors
        are logged.
        """
        self._withdraw()
        sent_count = 0
        for queued in self.in_order():
            if self._is_gone(queued) or not self._may_send(queued):
                continue
            exchange = queued.exchange or self.owner.peers.begin(self.partner)
            try:
                self._send(queued, exchange)
            except LinkDown as error:
                _LOG.warning("queue %s waits: %s", self.name, error)
                break
            except EveryplaceError as error:
                _LOG.warning("%s keeps %s: %s", self.name, queued.message.uid, error)
                continue
            sent_count += 1
        return sent_count

    def transmit_confirm(self) -> int:
        """Run the second stage for arrived messages; return how many were made available there.

        A message that has expired since the first stage is removed here and stays invisible there.
        The other side detects the expiry of its copy at its next check (M13). The first error is
        logged and ends the stage.
        """
        self._withdraw()
        done_count = 0
        for queued in self.in_order():
            if self._is_gone(queued) or not queued.is_acknowledged:
                continue
            exchange = queued.exchange
            assert exchange is not None
            try:
                self.owner.peers.carry(exchange, Admit(self.name))
            except EveryplaceError as error:
                _LOG.warning("queue %s waits: %s", self.name, error)
                break
            self.owner.peers.end(exchange)
            # A listener at the other side may have called this queue manager.
            if self.holds(queued):
                self.remove(queued)
                done_count += 1
        return done_count

    def finish_exchanges(self) -> bool:
        """Send the pending withdrawals (deletions at the other side); return False if one fails."""
        self._withdraw()
        return not self._withdrawn

    def leave_exchange(self, queued: QueuedMessage, exchange: Exchange) -> None:
        """End the transmission of an expired message: its copy at the other side will be withdrawn.

        The exchange of a pull or move is only closed.
        """
        if exchange.beginner != self.owner.name or exchange.partner != self.partner:
            super().leave_exchange(queued, exchange)
        else:
            self._withdrawn[exchange] = None
            self._note_withdrawn(exchange)

    def _is_gone(self, queued: QueuedMessage) -> bool:
        """Remove a message if it has expired, unless another queue manager is pulling it.

        Returns True if it was removed.
        """
        # A message that another queue manager is pulling is left to that pull.
        return queued.state is not MessageState.GET_UNCONFIRMED and self.expire_if_due(queued)

    def _may_send(self, queued: QueuedMessage) -> bool:
        """Return True if the first stage is to be sent for a message now.

        Returns False if it has arrived already, is locked or unconfirmed, or its rule keeps it.
        """
        if queued.state is MessageState.AVAILABLE:
            # The rule may have deleted it.
            return self._rule_permits_sending(queued) and self._is_free(queued)
        return queued.state is MessageState.SENDING and not queued.is_acknowledged

    def _rule_permits_sending(self, queued: QueuedMessage) -> bool:
        """Return False if the rule keeps or refuses the message; True also if the rule fails."""
        try:
            return (
                consult(self.rule.transmit, self.entry(queued), queued.message.copy()) is not False
            )
        except RuleRefused:
            # Only this one stays: those behind it are not held up.
            return False

    def _send(self, queued: QueuedMessage, exchange: Exchange) -> None:
        """Send the first stage for a message; raises the EveryplaceError of the transmission.

        If it certainly did not arrive at the first try, the message is available here again.
        """
        is_first_try, queued.exchange = queued.exchange is None, exchange
        self.mark(queued, MessageState.SENDING)
        # As it is now, whenever it arrives: a rule may change what has expired here.
        sent = queued.message.copy()
        try:
            self.owner.peers.carry(exchange, HoldMessage(self.name, sent))
        except EveryplaceError as error:
            if is_first_try and not may_be_under_way(error) and self.holds(queued):
                # It is here alone, and may be browsed and deleted again.
                queued.exchange = None
                self.mark(queued, MessageState.AVAILABLE)
                self.owner.peers.end(exchange)
            raise
        queued.is_acknowledged = True
        self.note(queued)

    def _withdraw(self) -> None:
        """Send the pending withdrawals, in order, until one fails, which is logged.

        A withdrawal makes the other side delete a message that expired here.
        """
        while self._withdrawn:
            exchange = next(iter(self._withdrawn))
            try:
                self.owner.peers.carry(exchange, Withdraw(self.name))
            except EveryplaceError as error:
                _LOG.warning("queue %s waits: %s", self.name, error)
                return
            # A rule at the other side may have made this queue send it meanwhile.
            self._withdrawn.pop(exchange, None)
            self._note_withdrawn(exchange)
            self.owner.peers.end(exchange)

    def restore_withdrawn(self, exchange: Exchange) -> None:
        """Add a withdrawal that was pending before a restart."""
        self._withdrawn[exchange] = None

    def _note_withdrawn(self, exchange: Exchange) -> None:
        """Register a withdrawal to be written at the end of the verb, as pending or as sent."""
        journal = self.owner.journal
        if journal is not None:
            journal.note(
                ("withdrawn", exchange),
                lambda: self._saved_withdrawn(exchange),
            )

    def _saved_withdrawn(self, exchange: Exchange) -> list[Statement]:
        """Return the statement that writes a pending withdrawal, or deletes one that was sent."""
        text = json.dumps(exchange)
        if exchange in self._withdrawn:
            return [(SAVE_WITHDRAWN, (self.name, self.partner, text))]
        return [(FORGET_WITHDRAWN, (text,))]


class HomeServerQueue:
    """The definition of a home server: ``partner`` keeps the messages of local queue ``name``."""

    def __init__(self, owner: OwnerContext, name: str, partner: str) -> None:
        """Make the definition of queue ``name`` with home server ``partner``.

        It is not yet in use.
        """
        self.name = name
        self.partner = partner
        #: Asked for and not answered: asked again, it is the same message.
        self.asked: Exchange | None = None
        #: Stored here, which the server does not know yet.
        self.stored: list[Exchange] = []
        #: Whether the queue manager has this definition.
        self.is_defined = False
        self._owner = owner

    def pull(self, target: MessageQueue) -> int:
        """Fetch all messages that the server keeps; return how many came.

        Without an answer it stops, and the next pull continues there. Raises EveryplaceError when
        the server keeps no such queue, or the target refuses a message; that message stays locked
        at the server for the next pull.
        """
        pulled_count = 0
        try:
            self._confirm()
            while self._fetch(target):
                pulled_count += 1
                self._confirm()
        except LinkDown as error:
            _LOG.warning("pull of %s stops: %s", self.name, error)
        return pulled_count

    def finish_exchanges(self) -> bool:
        """Confirm stored messages; return True if the server has none locked for a pull."""
        try:
            self._confirm()
        except LinkDown:
            return False
        return self.asked is None

    def note(self) -> None:
        """Register the definition to be written before the next transmission is sent."""
        if self._owner.journal is not None:
            self._owner.journal.note(self, self._row, before_sending=True)

    def _row(self) -> list[Statement]:
        """Return the statement that writes this definition, or deletes it."""
        if not self.is_defined:
            return [(FORGET_HOME_SERVER, (self.name,))]
        asked = None if self.asked is None else json.dumps(self.asked)
        return [(SAVE_HOME_SERVER, (self.name, self.partner, asked, json.dumps(self.stored)))]

    def _fetch(self, target: MessageQueue) -> bool:
        """Request the next message and store it; return False when the server has no more.

        Raises LinkDown without an answer, and the EveryplaceError of the server or of the local
        queue.
        """
        peers = self._owner.peers
        asked_before = self.asked
        exchange = self.asked = asked_before or peers.begin(self.partner)
        self.note()
        try:
            message = peers.carry(exchange, Offer(self.name))
        except EveryplaceError as error:
            if asked_before is None and not may_be_under_way(error):
                # Nothing is held back for it: no other question of this number is under way.
                self._end_question(exchange)
            raise
        if message is not None:
            self._store(target, message, exchange)
            return True
        self._end_question(exchange)
        # The message of the earlier pull may have expired there; others may still be there.
        return asked_before is not None and self._fetch(target)

    def _end_question(self, exchange: Exchange) -> None:
        """End the exchange of a request that was never sent, or was answered without a message."""
        self.asked = None
        self.note()
        self._owner.peers.end(exchange)

    def _store(self, target: MessageQueue, message: MessageFields, exchange: Exchange) -> None:
        """Add a fetched message to the local queue, and record it as stored.

        A duplicate is dropped and counts as stored, so the server deletes it. Raises the error with
        which the queue refuses the message.
        """

        def taken_over() -> None:
            """Record that the message is stored here, before rules and listeners are called."""
            # Before rules and listeners are called: a rule may transmit, which divides this verb.
            self.asked = None
            self.stored.append(exchange)
            self.note()

        try:
            target.add(message, taken_over=taken_over)
        except EveryplaceError as error:
            if error.reason != MQRC_OBJECT_ALREADY_EXISTS:
                raise
            taken_over()
            _LOG.warning("pull of %s: %s", self.name, error)

    def _confirm(self) -> None:
        """Confirm each stored message to the server, which deletes it.

        Raises LinkDown without an answer; the messages left are confirmed by a later call.
        """
        while self.stored:
            exchange = self.stored[0]
            self._owner.peers.carry(exchange, Stored(self.name))
            if exchange in self.stored:
                self.stored.remove(exchange)
                self.note()
            self._owner.peers.end(exchange)
