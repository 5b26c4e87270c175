"""The messages that a client holds on one link, and their settlement by its outcomes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from proton import Delivery as Transfer

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.servers.amqp import transactions, transfers
from mayfly.servers.amqp.amended import Amended
from mayfly.servers.amqp.calls import Calls
from mayfly.servers.amqp.conversations import AtEnd, Conversations
from mayfly.servers.amqp.errors import AmqpError, of_mq
from mayfly.servers.amqp.poison import Postponed
from mayfly.servers.amqp.transactions import Outcome
from mayfly.servers.amqp.transfers import Raw
from mayfly.servers.amqp.unhurried import Unhurried
from mayfly.verbs.messages import Delivery, Settlement

_LOG = logging.getLogger("mayfly.amqp")
#: A rejected message is dead-lettered for this reason.
REJECTED_REASON: Final = rc.MQRC_BACKOUT_THRESHOLD_REACHED
#: No more are settled together.
_MOST_OVER: Final = 500


class Holder(Protocol):
    """The link whose messages are held."""

    calls: Calls
    unhurried: Unhurried
    amended: Amended
    postponed: Postponed

    def made_room(self) -> None:
        """Send more messages: outcomes have made room for them."""

    def fail(self, error: AmqpError) -> None:
        """End the link with a condition."""


class _Held(NamedTuple):
    """A message that the client holds: the number of its delivery, and its MsgId."""

    number: int
    msg_id: bytes
    #: Whether its end goes to the disk.
    is_durable: bool


class Outcomes:
    """The messages that a client holds of one link."""

    def __init__(self, holder: Holder, conversations: Conversations) -> None:
        """Begin with none."""
        self._holder, self._conversations = holder, conversations
        self._connection = conversations.main
        self._held: dict[Raw, _Held] = {}
        #: Accepted in this pass of the loop: they are settled together at its end.
        self._accepted: list[tuple[Raw | None, int]] = []
        #: Accepted and settled by the client, who waits for no answer.
        self._over: list[int] = []
        #: Those whose outcome is under way; the outcome alone settles them.
        self._ending: set[Raw] = set()
        self._is_over = False
        #: Whether the holder is told at the end of this pass that there is room.
        self._has_made_room = False
        #: MsgIds of messages that the client does not want again.
        self.unwanted: set[bytes] = set()

    def __len__(self) -> int:
        """Return how many messages the client holds."""
        return len(self._held)

    @property
    def is_empty(self) -> bool:
        """Whether the client holds no message, and no outcome is under way."""
        return not (self._held or self._ending or self._accepted or self._over)

    def sent(self, transfer: Raw, held: Delivery) -> None:
        """Note a message that has been sent and is to be settled by the client."""
        message = held.result.message
        self._held[transfer] = _Held(held.number, message.msg_id, message.persistent)

    def take(self, number: int) -> None:
        """Take a message that has been sent settled."""
        self._accept(None, number)

    def give_back(self, numbers: list[int]) -> None:
        """Let messages go back to their places, as if nobody had got them."""
        if numbers:
            self._settle(numbers, Settlement.RETURNED, then=_noted)

    def set_aside(self, held: Delivery, reason: int) -> None:
        """Move a message that no client can have; one that no queue takes is left alone."""
        done = partial(self._end_set_aside, held)
        self._settle([held.number], Settlement.SET_ASIDE, reason=reason, then=done)

    def _end_set_aside(self, held: Delivery, outcome: MQError | None) -> None:
        msg_id = held.result.message.msg_id
        if outcome is None:
            self._holder.postponed.forget(msg_id)
        else:
            self._holder.postponed.note(msg_id, outcome)
            self.give_back([held.number])

    def end(self) -> None:
        """Give back all: the link has ended."""
        numbers = [held.number for held in self._held.values()]
        self.lost()
        self.give_back(numbers)

    def lost(self) -> None:
        """Forget all: the conversation ends, which gives back what it holds, counted."""
        self._is_over = True
        self._settle_over()
        self._held.clear()

    def update(self, delivery: Raw) -> None:
        """Take the client's outcome of a message."""
        held = self._held.get(delivery)
        if held is None:
            if transfers.is_settled(delivery) and delivery not in self._ending:
                transfers.settle(delivery)
            return
        if not transfers.is_updated(delivery):
            return
        state = transfers.remote_state(delivery)
        if state == Transfer.ACCEPTED:
            del self._held[delivery]
            if held.is_durable and transfers.is_settled(delivery):
                transfers.settle(delivery)
                self._note_over(held.number)
                return
            self._ending.add(delivery)
            self._accept(delivery, held.number)
        elif state == transactions.TRANSACTIONAL_STATE:
            try:
                self._settle_in_transaction(delivery, held)
            except AmqpError as error:
                self._holder.fail(error)
        elif transfers.is_settled(delivery) or (state and state != Transfer.RECEIVED):
            self._by_outcome(delivery, held, state)

    def _note_over(self, number: int) -> None:
        if not self._over:
            self._holder.unhurried.add(self._settle_over)
        if not self._has_made_room:
            self._has_made_room = True
            self._holder.calls.behind_end(self._use_room)
        self._over.append(number)
        if len(self._over) >= _MOST_OVER:
            self._settle_over()

    def _use_room(self) -> None:
        self._has_made_room = False
        if not self._is_over:
            self._holder.made_room()

    def _settle_over(self) -> None:
        over, self._over = self._over, []
        if over:
            self._settle(over, Settlement.TAKEN, then=self._go_on)

    def _accept(self, delivery: Raw | None, number: int) -> None:
        if not self._accepted:
            self._holder.calls.at_end(self._settle_accepted)
        self._accepted.append((delivery, number))

    def _settle_accepted(self) -> None:
        accepted, self._accepted = self._accepted, []
        numbers = [number for _delivery, number in accepted]
        self._settle(numbers, Settlement.TAKEN, then=partial(self._end_accepted, accepted))

    def _end_accepted(
        self, accepted: list[tuple[Raw | None, int]], outcome: MQError | None
    ) -> None:
        for delivery, _number in accepted:
            self._ending.discard(delivery)
            if delivery is not None and outcome is None and not self._is_over:
                transfers.answer(delivery, Transfer.ACCEPTED)
        self._go_on(outcome)

    def _by_outcome(self, delivery: Raw, held: _Held, state: int) -> None:
        del self._held[delivery]
        self._ending.add(delivery)
        outcome = Outcome(state)
        if state == Transfer.MODIFIED:
            remote = transfers.wrapped(delivery).remote
            outcome = Outcome(state, remote.failed, remote.undeliverable, remote.annotations)
        settlement, reason = self._settlement_by(outcome, held)
        done = partial(self._end_outcome, delivery, held, settlement)
        self._settle([held.number], settlement, reason=reason, then=done)

    def _settlement_by(self, outcome: Outcome, held: _Held) -> tuple[Settlement, int]:
        """Return the settlement of a message, and the reason for a dead letter."""
        if outcome.is_undeliverable:
            self.unwanted.add(held.msg_id)
        if outcome.annotations:
            self._holder.amended.add(self._connection.name, held.msg_id, outcome.annotations)
        if outcome.state == Transfer.REJECTED:
            return Settlement.DEAD_LETTERED, REJECTED_REASON
        if outcome.state == Transfer.RELEASED:
            return Settlement.RETURNED, 0
        if outcome.state == Transfer.MODIFIED and not outcome.has_failed:
            return Settlement.RETURNED, 0
        return Settlement.BACKED_OUT, 0

    def _end_outcome(
        self, delivery: Raw, held: _Held, settlement: Settlement, outcome: MQError | None
    ) -> None:
        self._ending.discard(delivery)
        if outcome is not None and settlement is Settlement.DEAD_LETTERED:
            # Nobody takes the dead letter: the message stays, counted.
            self._holder.postponed.note(held.msg_id, outcome)
            self._settle([held.number], Settlement.BACKED_OUT, then=_noted)
            outcome = None
        if outcome is None and not self._is_over:
            transfers.answer(delivery, transfers.remote_state(delivery))
        self._go_on(outcome)

    def _settle_in_transaction(self, delivery: Raw, held: _Held) -> None:
        told = transfers.wrapped(delivery)
        name, outcome = transactions.name_in(told), transactions.outcome_in(told)
        connection = self._conversations.of_transaction(name)
        del self._held[delivery]
        if outcome.state == Transfer.ACCEPTED:
            try:
                self._connection.asynchronous.settle(
                    [held.number], Settlement.TAKEN, within=connection.number
                )
            except MQError as error:
                raise of_mq(error) from error
        else:
            # It takes effect when the transaction is discharged, as those that are accepted.
            settlement, reason = self._settlement_by(outcome, held)
            refused = partial(self._holder.postponed.note, held.msg_id)
            calls = self._holder.calls
            self._conversations.settle_at_end(
                name,
                AtEnd(
                    held.number,
                    settlement,
                    reason,
                    lambda error: calls.soon(partial(refused, error)),
                ),
            )
        if not told.settled:
            transactions.accept(told, name)
        told.settle()
        self._holder.made_room()

    def _go_on(self, outcome: MQError | None) -> None:
        if self._is_over:
            return
        if outcome is None:
            self._holder.made_room()
        else:
            self._holder.fail(of_mq(outcome))

    def _settle(
        self,
        numbers: list[int],
        settlement: Settlement,
        *,
        reason: int = 0,
        then: Callable[[MQError | None], object],
    ) -> None:
        """Settle messages; ``then`` is called in the loop, unless the connection has ended."""
        calls = self._holder.calls
        self._connection.asynchronous.settle(
            numbers,
            settlement,
            reason=reason,
            on_done=self._conversations.awaited(lambda outcome: calls.soon(partial(then, outcome))),
        )


def _noted(outcome: MQError | None) -> None:
    if outcome is not None:
        _LOG.warning("settling a message: %s", outcome)
