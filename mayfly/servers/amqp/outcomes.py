"""Outcomes of messages that a client holds on one link: settlement, and pauses before a retry."""

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
from mayfly.servers.amqp.conversations import ClientConversations, OnEnd, SettlementAtEnd
from mayfly.servers.amqp.errors import AmqpError, amqp_error
from mayfly.servers.amqp.links import LinkHost
from mayfly.servers.amqp.service import Call
from mayfly.servers.amqp.transactions import DeliveryOutcome
from mayfly.servers.amqp.transfers import Raw
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery, Settlement

_LOG = logging.getLogger("mayfly.amqp")
#: The reason code in the dead letter of a rejected message.
REJECTED_REASON: Final = rc.MQRC_BACKOUT_THRESHOLD_REACHED
#: The most messages that are settled together.
_MAX_SETTLED: Final = 500
_FIRST_PAUSE_MS: Final = SECOND_MS
_LONGEST_PAUSE_MS: Final = 60 * SECOND_MS
#: Failures are logged together, once in this time.
_LOG_INTERVAL_MS: Final = 60 * SECOND_MS
#: The most postponed messages; the oldest is forgotten, and tried again at once.
_MAX_MESSAGES: Final = 10_000


class _Pause(NamedTuple):
    """A pause before a message is tried again: its end in ms since 1970, and its length in ms."""

    until_ms: int
    length_ms: int


class Postponed:
    """Messages of one link that no queue accepts: each waits for a pause that grows.

    Moments are those of the queue manager's clock.
    """

    def __init__(
        self, source: str, soon: Callable[[Call], object], now_ms: Callable[[], int]
    ) -> None:
        """Take ``source``, the name of the messages' queue.

        ``soon`` runs a function in the event loop. ``now_ms`` returns the queue manager's time.
        """
        self._source, self._soon, self._now_ms = source, soon, now_ms
        self._pauses: dict[bytes, _Pause] = {}
        self._try_count = 0
        self._logged_ms: int | None = None
        self._is_log_due = False

    def has(self, msg_id: bytes) -> bool:
        """Return True while a message waits for its next try; False for an unknown message."""
        pause = self._pauses.get(msg_id) if self._pauses else None
        return pause is not None and pause.until_ms > self._now_ms()

    def note(self, msg_id: bytes, why: MQError) -> None:
        """Begin the next pause before a message is tried again: 1 s, then doubled, at most 60 s.

        The failures are logged together, once a minute; ``why`` is the error for the log.
        """
        pause, now_ms = self._pauses.pop(msg_id, None), self._now_ms()
        length_ms = _FIRST_PAUSE_MS if pause is None else pause.length_ms * 2
        length_ms = min(length_ms, _LONGEST_PAUSE_MS)
        if len(self._pauses) >= _MAX_MESSAGES:
            del self._pauses[next(iter(self._pauses))]
        self._pauses[msg_id] = _Pause(now_ms + length_ms, length_ms)
        self._try_count += 1
        was_logged = self._logged_ms is not None and now_ms - self._logged_ms < _LOG_INTERVAL_MS
        if not was_logged and not self._is_log_due:
            self._is_log_due = True
            # Later, so that the count includes the others of this pass.
            self._soon(lambda: self._log_failures(why))

    def forget(self, msg_id: bytes) -> None:
        """Forget that a message waits to be tried again; ignored if it does not wait."""
        self._pauses.pop(msg_id, None)

    def _log_failures(self, why: MQError) -> None:
        """Log how many messages wait to be tried again, how often they were tried, and why.

        It counts the tries since the last log.
        """
        self._is_log_due, self._logged_ms = False, self._now_ms()
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


class _Unacked(NamedTuple):
    """A message that the client holds: the number of its delivery, and its MsgId."""

    number: int
    msg_id: bytes
    #: Whether its end goes to the disk.
    is_durable: bool


class Unsettled:
    """The messages sent on one link that its client has not settled."""

    def __init__(
        self,
        host: LinkHost,
        conversations: ClientConversations,
        source: str,
        continue_sending: Callable[[], object],
        fail: Callable[[AmqpError], object],
    ) -> None:
        """Begin without messages; ``source`` is the name of the queue that they come from.

        ``continue_sending`` sends more messages after a settlement; ``fail`` ends the link with an
        error.
        """
        self._host, self._calls, self._conversations = host, host.calls, conversations
        self._continue_sending, self._fail = continue_sending, fail
        self._connection = conversations.main
        #: Messages that no queue accepts.
        self.postponed = Postponed(source, self._calls.soon, self._connection.now_ms)
        self._held: dict[Raw, _Unacked] = {}
        #: Accepted in this pass of the loop: they are settled together at its end.
        self._accepted: list[tuple[Raw | None, int]] = []
        #: Accepted and settled by the client, which waits for no answer.
        self._settled_by_client: list[int] = []
        #: Deliveries whose outcome is being applied, which then settles them.
        self._outcomes: set[Raw] = set()
        self._is_over = False
        #: Whether more messages are sent at the end of this pass.
        self._is_continuing = False
        #: MsgIds of messages that the client does not want again.
        self.unwanted: set[bytes] = set()

    def __len__(self) -> int:
        """Return how many messages the client holds without an outcome."""
        return len(self._held)

    @property
    def is_empty(self) -> bool:
        """Whether the client holds no message, and no outcome is being applied."""
        return not (self._held or self._outcomes or self._accepted or self._settled_by_client)

    def sent(self, transfer: Raw, held: Delivery) -> None:
        """Note a message that was sent and waits for its outcome.

        ``transfer`` is the AMQP delivery.
        """
        message = held.result.message
        self._held[transfer] = _Unacked(held.number, message.msg_id, message.persistent)

    def take(self, number: int) -> None:
        """Settle delivery ``number``, sent settled: it leaves its queue at the end of this pass."""
        self._accept(None, number)

    def give_back(self, numbers: list[int]) -> None:
        """Return messages to their places on the queue, with unchanged backout counts.

        ``numbers`` are delivery numbers; [] does nothing. An error is logged.
        """
        if numbers:
            self._settle(numbers, Settlement.RETURNED, then=_log_error)

    def set_aside(self, held: Delivery, reason: int) -> None:
        """Begin to move a message that no client can read to the backout or dead-letter queue.

        ``reason`` is the MQRC_* for the dead letter. If no queue accepts the message, it returns to
        its place, and is tried again after a pause.
        """
        done = partial(self._end_set_aside, held)
        self._settle([held.number], Settlement.SET_ASIDE, reason=reason, then=done)

    def _end_set_aside(self, held: Delivery, outcome: MQError | None) -> None:
        """Finish :meth:`set_aside`: after an error return the message, to be tried again later."""
        msg_id = held.result.message.msg_id
        if outcome is None:
            self.postponed.forget(msg_id)
        else:
            self.postponed.note(msg_id, outcome)
            self.give_back([held.number])

    def end(self) -> None:
        """Return all messages to their queue, because the link has ended.

        Their backout counts do not change. Messages that the client has accepted and settled leave
        the queue.
        """
        numbers = [held.number for held in self._held.values()]
        self.lost()
        self.give_back(numbers)

    def lost(self) -> None:
        """Forget all messages, because the connection has ended.

        Messages that the client has accepted and settled leave the queue. The end of the connection
        backs the others out.
        """
        self._is_over = True
        self._settle_for_clients()
        self._held.clear()

    def update(self, delivery: Raw) -> None:
        """Apply the outcome that the client has sent for a delivery.

        Ignored for a delivery that waits for no outcome, or without a new state. A transaction that
        is not open ends the link with an error.
        """
        held = self._held.get(delivery)
        if held is None:
            if transfers.is_settled(delivery) and delivery not in self._outcomes:
                transfers.settle(delivery)
            return
        if not transfers.is_updated(delivery):
            return
        state = transfers.remote_state(delivery)
        if state == Transfer.ACCEPTED:
            del self._held[delivery]
            if held.is_durable and transfers.is_settled(delivery):
                transfers.settle(delivery)
                self._note_settled_by_client(held.number)
                return
            self._outcomes.add(delivery)
            self._accept(delivery, held.number)
        elif state == transactions.TRANSACTIONAL_STATE:
            try:
                self._settle_in_transaction(delivery, held)
            except AmqpError as error:
                self._fail(error)
        elif transfers.is_settled(delivery) or (state and state != Transfer.RECEIVED):
            self._by_outcome(delivery, held, state)

    def _note_settled_by_client(self, number: int) -> None:
        """Note an accepted message whose client waits for no answer, to settle it with others.

        They are settled with the next sync of the store, or at once if there are 500.
        """
        if not self._settled_by_client:
            self._host.service.deferred_settlements.add(self._settle_for_clients)
        if not self._is_continuing:
            self._is_continuing = True
            self._calls.after_end(self._continue_if_open)
        self._settled_by_client.append(number)
        if len(self._settled_by_client) >= _MAX_SETTLED:
            self._settle_for_clients()

    def _continue_if_open(self) -> None:
        """Send more messages, unless the link has ended."""
        self._is_continuing = False
        if not self._is_over:
            self._continue_sending()

    def _settle_for_clients(self) -> None:
        """Settle all messages that clients have accepted and settled; does nothing without any."""
        over, self._settled_by_client = self._settled_by_client, []
        if over:
            self._settle(over, Settlement.TAKEN, then=self._continue)

    def _accept(self, delivery: Raw | None, number: int) -> None:
        """Note an accepted message, to settle it at the end of this pass of the event loop.

        ``delivery`` is None for a message that was sent settled.
        """
        if not self._accepted:
            self._calls.at_end(self._settle_accepted)
        self._accepted.append((delivery, number))

    def _settle_accepted(self) -> None:
        """Begin to settle, in one request, the messages accepted in this pass of the event loop."""
        accepted, self._accepted = self._accepted, []
        numbers = [number for _delivery, number in accepted]
        self._settle(numbers, Settlement.TAKEN, then=partial(self._end_accepted, accepted))

    def _end_accepted(
        self, accepted: list[tuple[Raw | None, int]], outcome: MQError | None
    ) -> None:
        """Tell the client that accepted messages are settled, or end the link after an error."""
        for delivery, _number in accepted:
            self._outcomes.discard(delivery)
            if delivery is not None and outcome is None and not self._is_over:
                transfers.answer(delivery, Transfer.ACCEPTED)
        self._continue(outcome)

    def _by_outcome(self, delivery: Raw, held: _Unacked, state: int) -> None:
        """Begin to apply an outcome other than accepted, such as rejected or released.

        ``held`` is the message of ``delivery``, and ``state`` the AMQP code of the outcome, 0 for
        none.
        """
        del self._held[delivery]
        self._outcomes.add(delivery)
        outcome = DeliveryOutcome(state)
        if state == Transfer.MODIFIED:
            remote = transfers.wrapped(delivery).remote
            outcome = DeliveryOutcome(
                state, remote.failed, remote.undeliverable, remote.annotations
            )
        settlement, reason = self._settlement_by(outcome, held)
        done = partial(self._end_outcome, delivery, held, settlement)
        self._settle([held.number], settlement, reason=reason, then=done)

    def _settlement_by(self, outcome: DeliveryOutcome, held: _Unacked) -> tuple[Settlement, int]:
        """Return the settlement for a client's outcome, and the MQRC_* for a dead letter (else 0).

        Rejected gives DEAD_LETTERED. Released gives RETURNED. Modified gives RETURNED, with
        delivery-failed BACKED_OUT. A delivery settled without an outcome gives BACKED_OUT.
        Annotations of *modified* are stored for later deliveries. With undeliverable-here this
        client is not sent the message again.
        """
        if outcome.is_undeliverable:
            self.unwanted.add(held.msg_id)
        if outcome.annotations:
            self._host.service.annotations.add(
                self._connection.name, held.msg_id, outcome.annotations
            )
        if outcome.state == Transfer.REJECTED:
            return Settlement.DEAD_LETTERED, REJECTED_REASON
        if outcome.state == Transfer.RELEASED:
            return Settlement.RETURNED, 0
        if outcome.state == Transfer.MODIFIED and not outcome.has_failed:
            return Settlement.RETURNED, 0
        return Settlement.BACKED_OUT, 0

    def _end_outcome(
        self, delivery: Raw, held: _Unacked, settlement: Settlement, outcome: MQError | None
    ) -> None:
        """Answer the client that its outcome is applied, or end the link after an error.

        ``outcome`` is None or the error of the settlement. A message that no queue takes as dead
        letter is backed out, and is sent again after a pause.
        """
        self._outcomes.discard(delivery)
        if outcome is not None and settlement is Settlement.DEAD_LETTERED:
            # No queue accepts the dead letter: the message is backed out.
            self.postponed.note(held.msg_id, outcome)
            self._settle([held.number], Settlement.BACKED_OUT, then=_log_error)
            outcome = None
        if outcome is None and not self._is_over:
            transfers.answer(delivery, transfers.remote_state(delivery))
        self._continue(outcome)

    def _settle_in_transaction(self, delivery: Raw, held: _Unacked) -> None:
        """Note an outcome that takes effect when its transaction is committed, and answer it.

        An accepted message leaves its queue within the transaction. Raises AmqpError if this fails,
        if the transaction is not open, or if the state is malformed.
        """
        wrapped = transfers.wrapped(delivery)
        name, outcome = transactions.name_in(wrapped), transactions.outcome_in(wrapped)
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
            # It takes effect when the transaction is discharged.
            settlement, reason = self._settlement_by(outcome, held)
            refused = partial(self.postponed.note, held.msg_id)
            calls = self._calls
            self._conversations.settle_at_end(
                name,
                SettlementAtEnd(
                    held.number,
                    settlement,
                    reason,
                    lambda error: calls.soon(partial(refused, error)),
                ),
            )
        if not wrapped.settled:
            transactions.accept(wrapped, name)
        wrapped.settle()
        self._continue_sending()

    def _continue(self, outcome: MQError | None) -> None:
        """Send more messages, or end the link after an error; does nothing if it has ended."""
        if self._is_over:
            return
        if outcome is None:
            self._continue_sending()
        else:
            self._fail(amqp_error(outcome))

    def _settle(
        self,
        numbers: list[int],
        settlement: Settlement,
        *,
        reason: int = 0,
        then: OnEnd,
    ) -> None:
        """Begin to settle messages by delivery number; ``reason`` is the MQRC_* of a dead letter.

        ``then`` is called in the event loop with None or an error, unless the connection has ended.
        """
        calls = self._calls
        self._conversations.begin(
            self._connection,
            ask.Settle(list(numbers), settlement, reason=reason),
            lambda outcome: calls.soon(partial(then, outcome)),
        )


def _log_error(outcome: MQError | None) -> None:
    """Log the error of a settlement; does nothing for None."""
    if outcome is not None:
        _LOG.warning("settling a message: %s", outcome)
