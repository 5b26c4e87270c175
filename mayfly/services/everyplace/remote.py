"""Queues of other queue managers: synchronous and asynchronous ones, and home-server queues.

A synchronous remote queue passes each call through the link at once. An asynchronous one keeps
messages here and sends them in two stages (M12). After the first the other side holds the message
unseen. The second makes it available there and removes it here. Each stage may be repeated until
its answer comes. A home-server queue fetches what another queue manager keeps for this one (M6,
M7), in two steps. The server locks and shows a message. It removes the message when it hears that
it has been stored here.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from typing import Never

from mayfly.mqi.reasons import MQRC_OBJECT_ALREADY_EXISTS, MQRC_OPTION_NOT_VALID_FOR_TYPE
from mayfly.services.everyplace import requests
from mayfly.services.everyplace.errors import (
    EveryplaceError,
    LinkDown,
    RuleRefused,
    may_be_under_way,
)
from mayfly.services.everyplace.fields import MessageFields, MessageUid
from mayfly.services.everyplace.journal import (
    ASYNCHRONOUS,
    FORGET_HOME,
    FORGET_WITHDRAWN,
    SAVE_HOME,
    SAVE_WITHDRAWN,
    SYNCHRONOUS,
    Statement,
)
from mayfly.services.everyplace.links import Exchange
from mayfly.services.everyplace.queues import Held, MessageQueue, QueueAttributes, Site
from mayfly.services.everyplace.requests import Admit, Call, HoldMessage, Offer, R, Stored, Withdraw
from mayfly.services.everyplace.rules import (
    MessageState,
    QueueEntry,
    QueueRule,
    check_given,
    consult,
)


class SynchronousQueue:
    """A queue of another queue manager; nothing is held here, so nothing expires here.

    The rule of its definition here is asked before a put; all others are asked where the queue is.
    """

    kind = SYNCHRONOUS

    def __init__(self, site: Site, name: str, partner: str, rule: QueueRule | None) -> None:
        """Stand for queue ``name`` at ``partner``."""
        self.site = site
        self.name = name
        self.partner = partner
        self.rule = rule or QueueRule()
        #: The class of the rule that it had before a restart and has not been given again.
        self.awaited_rule = ""

    def limits(self) -> dict[str, int | None]:
        return {}

    def add(self, message: MessageFields, confirm_id: int = 0) -> None:
        check_given(self.name, self.awaited_rule)
        now_ms = self.site.clock.now_ms()
        state = MessageState.PUT_UNCONFIRMED if confirm_id else MessageState.AVAILABLE
        owner = self.site.rule_owner
        entry = QueueEntry(owner, self.name, message.uid, state, now_ms, None, confirm_id)
        consult(self.rule.put_message, entry, message)
        self._there(requests.Add(self.name, message, confirm_id))

    def confirm_put(self, uid: MessageUid) -> None:
        self._there(requests.ConfirmPut(self.name, uid))

    def take(self, confirm_id: int = 0) -> MessageFields | None:
        return self._there(requests.Take(self.name, confirm_id))

    def confirm_get(self, uid: MessageUid) -> None:
        self._there(requests.ConfirmGet(self.name, uid))

    def undo(self, confirm_id: int) -> int:
        return self._there(requests.Undo(self.name, confirm_id)) or 0

    def delete(self, uid: MessageUid) -> None:
        self._there(requests.Delete(self.name, uid))

    def browse(self) -> list[MessageFields]:
        return self._there(requests.Browse(self.name)) or []

    def size(self) -> int:
        """Ask for the size there, where what has expired is removed first (M10)."""
        return self._there(requests.Size(self.name)) or 0

    def delete_there(self) -> None:
        """Delete the queue there, as its own queue manager would (M9)."""
        self._there(requests.DeleteQueue(self.name))

    def _there(self, call: Call[R]) -> R | None:
        """Return the answer; None when the call has been done, or given up, before."""
        peers = self.site.peers
        exchange = peers.begin(self.partner)
        try:
            return peers.carry(exchange, call)
        finally:
            peers.end(exchange)


_LOG = logging.getLogger("mayfly.everyplace")


class AsynchronousQueue(MessageQueue):
    """Messages on their way to a queue of the same name at another queue manager."""

    kind = ASYNCHRONOUS

    def __init__(
        self,
        site: Site,
        name: str,
        partner: str,
        attributes: QueueAttributes,
        rule: QueueRule | None,
    ) -> None:
        """Begin empty; the queue manager calls this."""
        super().__init__(site, name, attributes, rule)
        self.partner = partner
        #: Begun, and expired here: the other side waits in vain for the second stage.
        self._withdrawn: OrderedDict[Exchange, None] = OrderedDict()

    def take(self, confirm_id: int = 0) -> Never:
        """Refuse: a message on its way to another queue manager is got there."""
        raise EveryplaceError(
            MQRC_OPTION_NOT_VALID_FOR_TYPE, f"get from asynchronous remote queue {self.name}"
        )

    def transmit_put(self) -> int:
        """Send available messages, first stage; return the number known to have arrived.

        Expired messages are removed instead. A message whose rule holds it back, or that the other
        side refuses, stays for the next time; without an answer so do all that follow.
        """
        self._withdraw()
        sent_count = 0
        for held in self.in_order():
            if self._is_gone(held) or not self._may_send(held):
                continue
            exchange = held.exchange or self.site.peers.begin(self.partner)
            try:
                self._send(held, exchange)
            except LinkDown as error:
                _LOG.warning("queue %s waits: %s", self.name, error)
                break
            except EveryplaceError as error:
                _LOG.warning("%s keeps %s: %s", self.name, held.message.uid, error)
                continue
            sent_count += 1
        return sent_count

    def transmit_confirm(self) -> int:
        """Let arrived messages in at the other side; return the number done.

        A message that has expired since the first stage is removed here and not let in there: the
        other side meets its copy at its own next check (M13).
        """
        self._withdraw()
        done_count = 0
        for held in self.in_order():
            if self._is_gone(held) or not held.is_acknowledged:
                continue
            exchange = held.exchange
            assert exchange is not None
            try:
                self.site.peers.carry(exchange, Admit(self.name))
            except EveryplaceError as error:
                _LOG.warning("queue %s waits: %s", self.name, error)
                break
            self.site.peers.end(exchange)
            # A listener at the other side may have called this queue manager.
            if self.is_here(held):
                self.remove(held)
                done_count += 1
        return done_count

    def is_settled(self) -> bool:
        """Withdraw what the other side holds in vain; False when it cannot be told so."""
        self._withdraw()
        return not self._withdrawn

    def leave_exchange(self, held: Held, exchange: Exchange) -> None:
        """The other side may have a copy, whose own end a rule there may have taken away."""
        if exchange.beginner != self.site.name or exchange.partner != self.partner:
            super().leave_exchange(held, exchange)
        else:
            self._withdrawn[exchange] = None
            self._note_withdrawn(exchange)

    def _is_gone(self, held: Held) -> bool:
        # A message that another queue manager is pulling is left to that pull.
        return held.state is not MessageState.GET_UNCONFIRMED and self.expire_if_due(held)

    def _may_send(self, held: Held) -> bool:
        if held.state is MessageState.AVAILABLE:
            # The rule may have deleted it.
            return self._rule_lets_go(held) and self._is_free(held)
        return held.state is MessageState.SENDING and not held.is_acknowledged

    def _rule_lets_go(self, held: Held) -> bool:
        try:
            return consult(self.rule.transmit, self.entry(held), held.message.copy()) is not False
        except RuleRefused:
            # Only this one stays: those behind it are not held up.
            return False

    def _send(self, held: Held, exchange: Exchange) -> None:
        is_first_try, held.exchange = held.exchange is None, exchange
        self.mark(held, MessageState.SENDING)
        # As it is now, whenever it arrives: a rule may change what has expired here.
        sent = held.message.copy()
        try:
            self.site.peers.carry(exchange, HoldMessage(self.name, sent))
        except EveryplaceError as error:
            if is_first_try and not may_be_under_way(error) and self.is_here(held):
                # It is here alone, and may be browsed and deleted again.
                held.exchange = None
                self.mark(held, MessageState.AVAILABLE)
                self.site.peers.end(exchange)
            raise
        held.is_acknowledged = True
        self.note(held)

    def _withdraw(self) -> None:
        while self._withdrawn:
            exchange = next(iter(self._withdrawn))
            try:
                self.site.peers.carry(exchange, Withdraw(self.name))
            except EveryplaceError as error:
                _LOG.warning("queue %s waits: %s", self.name, error)
                return
            # A rule at the other side may have brought this queue to tell it meanwhile.
            self._withdrawn.pop(exchange, None)
            self._note_withdrawn(exchange)
            self.site.peers.end(exchange)

    def take_back_withdrawn(self, exchange: Exchange) -> None:
        """Know of a withdrawal that was not told before a restart."""
        self._withdrawn[exchange] = None

    def _note_withdrawn(self, exchange: Exchange) -> None:
        journal = self.site.journal
        if journal is not None:
            journal.note(
                ("withdrawn", exchange),
                lambda: self._saved_withdrawn(exchange),
            )

    def _saved_withdrawn(self, exchange: Exchange) -> list[Statement]:
        """Return what writes whether the other side has yet to be told of a withdrawal."""
        text = json.dumps(exchange)
        if exchange in self._withdrawn:
            return [(SAVE_WITHDRAWN, (self.name, self.partner, text))]
        return [(FORGET_WITHDRAWN, (text,))]


class HomeServerQueue:
    """The definition of where the messages of one local queue are kept meanwhile."""

    def __init__(self, site: Site, name: str, partner: str) -> None:
        self.name = name
        self.partner = partner
        #: Asked for and not answered: asked again, it is the same message.
        self.asked: Exchange | None = None
        #: Stored here, which the server does not know yet.
        self.stored: list[Exchange] = []
        #: Whether the queue manager has this definition.
        self.is_defined = False
        self._site = site

    def pull(self, target: MessageQueue) -> int:
        """Fetch everything that is there; return how many messages came.

        Without an answer it stops; the next pull goes on where it was. Raises EveryplaceError when
        the server keeps nothing for such a queue, or the target cannot take a message; that one
        then stays locked at the server for the next pull.
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

    def is_settled(self) -> bool:
        """Return True if the server holds no message for an unfinished pull."""
        try:
            self._confirm()
        except LinkDown:
            return False
        return self.asked is None

    def note(self) -> None:
        """Have it written; the next transmission must not leave before."""
        if self._site.journal is not None:
            self._site.journal.note(self, self._row, before_sending=True)

    def _row(self) -> list[Statement]:
        if not self.is_defined:
            return [(FORGET_HOME, (self.name,))]
        asked = None if self.asked is None else json.dumps(self.asked)
        return [(SAVE_HOME, (self.name, self.partner, asked, json.dumps(self.stored)))]

    def _fetch(self, target: MessageQueue) -> bool:
        """Ask for the next message and store it; False when there is none."""
        peers = self._site.peers
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
        self.asked = None
        self.note()
        self._site.peers.end(exchange)

    def _store(self, target: MessageQueue, message: MessageFields, exchange: Exchange) -> None:
        def taken_over() -> None:
            # Nobody hears of the message before: a rule may send, and so part this verb.
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
        while self.stored:
            exchange = self.stored[0]
            self._site.peers.carry(exchange, Stored(self.name))
            if exchange in self.stored:
                self.stored.remove(exchange)
                self.note()
            self._site.peers.end(exchange)
