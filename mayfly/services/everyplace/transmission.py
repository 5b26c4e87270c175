"""Asynchronous remote queues: they keep messages here and send them in two stages (M12).

After the first stage the other side holds the message where nobody sees it; the second lets it in
there and removes it here. Each stage may be repeated until its answer comes.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Never

from mayfly.mqi.reasons import MQRC_OPTION_NOT_VALID_FOR_TYPE
from mayfly.services.everyplace.errors import EveryplaceError, RuleRefused
from mayfly.services.everyplace.exchanges import Exchange
from mayfly.services.everyplace.held import Held, QueueAttributes
from mayfly.services.everyplace.links import LinkDown, may_be_under_way
from mayfly.services.everyplace.queues import MessageQueue
from mayfly.services.everyplace.records import ASYNCHRONOUS, save_withdrawn
from mayfly.services.everyplace.requests import HoldMessage, LetIn, Withdraw
from mayfly.services.everyplace.rules import MessageState, QueueRule, consult
from mayfly.services.everyplace.site import Site

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
                self.site.peers.carry(exchange, LetIn(self.name))
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
                lambda: save_withdrawn(self, exchange, exchange in self._withdrawn),
            )
