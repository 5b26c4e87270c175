"""The messages that a client holds on one link: their settlement by its outcomes, and pauses."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from proton import Delivery as Transfer

from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.servers.amqp import transactions, transfers
from mayfly.servers.amqp.conversations import AtEnd, ClientConversations
from mayfly.servers.amqp.errors import AmqpError, amqp_error
from mayfly.servers.amqp.links import LinkHost
from mayfly.servers.amqp.service import Call
from mayfly.servers.amqp.transactions import DeliveryOutcome
from mayfly.servers.amqp.transfers import Raw
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery, Settlement

_LOG = logging.getLogger("mayfly.amqp")
#: A rejected message is dead-lettered for this reason.
REJECTED_REASON: Final = rc.MQRC_BACKOUT_THRESHOLD_REACHED
#: No more are settled together.
_MAX_OVER: Final = 500
_FIRST_PAUSE_MS: Final = SECOND_MS
_LONGEST_PAUSE_MS: Final = 60 * SECOND_MS
#: Failures are told together, once in this time.
_TELL_MS: Final = 60 * SECOND_MS
#: Those noted longest ago are forgotten, and tried again at once.
_MAX_MESSAGES: Final = 10_000


class _Pause(NamedTuple):
    """The moment until which a message is left alone, and the length of the pause before it."""

    until_ms: int
    length_ms: int


class Postponed:
    """Messages that no queue takes, of one link: each is left alone for a pause that grows.

    Moments are those of the queue manager's clock.
    """

    def __init__(
        self, source: str, soon: Callable[[Call], object], now_ms: Callable[[], int]
    ) -> None:
        """Take the name of their queue; ``soon`` makes a call later."""
        self._source, self._soon, self._now_ms = source, soon, now_ms
        self._pauses: dict[bytes, _Pause] = {}
        self._try_count = 0
        self._told_ms: int | None = None
        self._is_telling = False

    def has(self, msg_id: bytes) -> bool:
        """Return True if a message is to be left alone now."""
        pause = self._pauses.get(msg_id) if self._pauses else None
        return pause is not None and pause.until_ms > self._now_ms()

    def note(self, msg_id: bytes, why: MQError) -> None:
        """Begin the next pause of a message; the log tells of all, once in a minute."""
        pause, now_ms = self._pauses.pop(msg_id, None), self._now_ms()
        length_ms = _FIRST_PAUSE_MS if pause is None else pause.length_ms * 2
        length_ms = min(length_ms, _LONGEST_PAUSE_MS)
        if len(self._pauses) >= _MAX_MESSAGES:
            del self._pauses[next(iter(self._pauses))]
        self._pauses[msg_id] = _Pause(now_ms + length_ms, length_ms)
        self._try_count += 1
        is_told = self._told_ms is not None and now_ms - self._told_ms < _TELL_MS
        if not is_told and not self._is_telling:
            self._is_telling = True
            # The others of this turn are counted first.
            self._soon(lambda: self._tell(why))

    def forget(self, msg_id: bytes) -> None:
        self._pauses.pop(msg_id, None)

    def _tell(self, why: MQError) -> None:
        self._is_telling, self._told_ms = False, self._now_ms()
        _LOG.warning(
            "%d messages of %s go nowhere, %d tries since this was told: %s; each is tried again, "
            "after pauses of up to %d s",
            len(self._pauses),
            self._source,
            self._try_count,
            why,
            _LONGEST_PAUSE_MS // SECOND_MS,
        )
        self._try_count = 0


class _Held(NamedTuple):
    """A message that the client holds: the number of its delivery, and its MsgId."""

    number: int
    msg_id: bytes
    #: Whether its end goes to the disk.
    is_durable: bool


class Unsettled:
    """The messages that a client holds of one link."""

    def __init__(
        self,
        host: LinkHost,
        conversations: ClientConversations,
        source: str,
        made_room: Callable[[], object],
        fail: Callable[[AmqpError], object],
    ) -> None:
        """Take the name of the queue that the messages come from.

        ``made_room`` sends more messages, as outcomes have made room for them; ``fail`` ends the
        link with a condition.
        """
        self._host, self._calls, self._conversations = host, host.calls, conversations
        self._made_room, self._fail = made_room, fail
        self._connection = conversations.main
        #: Those that no queue takes.
        self.postponed = Postponed(source, self._calls.soon, self._connection.now_ms)
        self._held: dict[Raw, _Held] = {}
        #: Accepted in this pass of the loop: they are settled together at its end.
        self._accepted: list[tuple[Raw | None, int]] = []
        #: Accepted and settled by the client, which waits for no answer.
        self._over: list[int] = []
        #: Those whose outcome is under way; the outcome alone settles them.
        self._ending: set[Raw] = set()
        self._is_over = False
        #: Whether the holder is told at the end of this pass that there is room.
        self._has_made_room = False
        #: MsgIds of messages that the client does not want again.
        self.unwanted: set[bytes] = set()

    def __len__(self) -> int:
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
        """Return messages to their places, their backout counts as they were."""
        if numbers:
            self._settle(numbers, Settlement.RETURNED, then=_noted)

    def set_aside(self, held: Delivery, reason: int) -> None:
        """Move a message that no client can have; one that no queue takes is left alone."""
        done = partial(self._end_set_aside, held)
        self._settle([held.number], Settlement.SET_ASIDE, reason=reason, then=done)

    def _end_set_aside(self, held: Delivery, outcome: MQError | None) -> None:
        msg_id = held.result.message.msg_id
        if outcome is None:
            self.postponed.forget(msg_id)
        else:
            self.postponed.note(msg_id, outcome)
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
                self._fail(error)
        elif transfers.is_settled(delivery) or (state and state != Transfer.RECEIVED):
            self._by_outcome(delivery, held, state)

    def _note_over(self, number: int) -> None:
        if not self._over:
            self._host.service.unhurried.add(self._settle_over)
        if not self._has_made_room:
            self._has_made_room = True
            self._calls.behind_end(self._use_room)
        self._over.append(number)
        if len(self._over) >= _MAX_OVER:
            self._settle_over()

    def _use_room(self) -> None:
        self._has_made_room = False
        if not self._is_over:
            self._made_room()

    def _settle_over(self) -> None:
        over, self._over = self._over, []
        if over:
            self._settle(over, Settlement.TAKEN, then=self._go_on)

    def _accept(self, delivery: Raw | None, number: int) -> None:
        if not self._accepted:
            self._calls.at_end(self._settle_accepted)
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
        outcome = DeliveryOutcome(state)
        if state == Transfer.MODIFIED:
            remote = transfers.wrapped(delivery).remote
            outcome = DeliveryOutcome(
                state, remote.failed, remote.undeliverable, remote.annotations
            )
        settlement, reason = self._settlement_by(outcome, held)
        done = partial(self._end_outcome, delivery, held, settlement)
        self._settle([held.number], settlement, reason=reason, then=done)

    def _settlement_by(self, outcome: DeliveryOutcome, held: _Held) -> tuple[Settlement, int]:
        """Return the settlement of a message, and the reason for a dead letter."""
        if outcome.is_undeliverable:
            self.unwanted.add(held.msg_id)
        if outcome.annotations:
            self._host.service.amended.add(self._connection.name, held.msg_id, outcome.annotations)
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
            # No queue takes the dead letter: the message stays, counted.
            self.postponed.note(held.msg_id, outcome)
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
                self._connection.call(
                    ask.Settle([held.number], Settlement.TAKEN, within=connection.number)
                )
            except MQError as error:
                raise amqp_error(error) from error
        else:
            # It takes effect when the transaction is discharged, as those that are accepted.
            settlement, reason = self._settlement_by(outcome, held)
            refused = partial(self.postponed.note, held.msg_id)
            calls = self._calls
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
        self._made_room()

    def _go_on(self, outcome: MQError | None) -> None:
        if self._is_over:
            return
        if outcome is None:
            self._made_room()
        else:
            self._fail(amqp_error(outcome))

    def _settle(
        self,
        numbers: list[int],
        settlement: Settlement,
        *,
        reason: int = 0,
        then: Callable[[MQError | None], object],
    ) -> None:
        """Settle messages; ``then`` is called in the loop, unless the connection has ended."""
        calls = self._calls
        self._connection.begin(
            ask.Settle(list(numbers), settlement, reason=reason),
            self._conversations.awaited(lambda outcome: calls.soon(partial(then, outcome))),
        )


def _noted(outcome: MQError | None) -> None:
    if outcome is not None:
        _LOG.warning("settling a message: %s", outcome)
