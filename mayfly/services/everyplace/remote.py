"""Remote queues, of other queue managers: synchronous, asynchronous and home-server queues.

A synchronous remote queue sends each call over the link at once. An asynchronous one keeps messages
here and transmits them in two stages (M12). After the first stage the other side holds the message,
invisible to gets. The second stage makes it available there and removes it here. Each stage may be
repeated until its answer comes. A home-server queue fetches what another queue manager keeps for
this one (M6, M7), in two steps. The server locks a message and sends a copy. It removes the message
when it learns that the copy was stored here.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Never

from mayfly.mqi.reasons import MQRC_OBJECT_ALREADY_EXISTS, MQRC_OPTION_NOT_VALID_FOR_TYPE
from mayfly.services.everyplace.errors import (
    EveryplaceError,
    LinkDown,
    RuleRefused,
    may_be_under_way,
)
from mayfly.services.everyplace.fields import MessageFields, MessageUid
from mayfly.services.everyplace.journal import (
    ASYNCHRONOUS,
    FORGET_HOME_SERVER,
    FORGET_WITHDRAWN,
    SAVE_HOME_SERVER,
    SAVE_WITHDRAWN,
    SYNCHRONOUS,
    Statement,
)
from mayfly.services.everyplace.links import Exchange, LinkRequest, R
from mayfly.services.everyplace.queues import (
    MessageQueue,
    OwnerContext,
    QueueAttributes,
    QueuedMessage,
)
from mayfly.services.everyplace.rules import (
    MessageState,
    QueueEntry,
    QueueRule,
    check_given,
    consult,
)

_LOG = logging.getLogger("mayfly.everyplace")


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
        """Have the other side call its queue; the result is that of :meth:`_send`."""
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
        """End the exchange of a request whose answer was no message, or that was never sent."""
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
