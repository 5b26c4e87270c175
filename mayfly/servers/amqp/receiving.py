"""A client that receives: messages it gives credit for, each held until it is settled."""

from __future__ import annotations

import logging
from asyncio import TimerHandle
from functools import partial
from itertools import count
from typing import Final

from proton import Delivery as Transfer
from proton import Link, Session

from mayfly.connection import Connection, Delivery, Message, Settlement, UnderWay
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.servers.amqp import transactions
from mayfly.servers.amqp.conversations import Conversations, close_quietly
from mayfly.servers.amqp.errors import AmqpError, of_mq
from mayfly.servers.amqp.host import LinkHost, key_of
from mayfly.servers.amqp.outgoing import outgoing
from mayfly.servers.amqp.poison import move_away
from mayfly.servers.amqp.sources import Source, opened_source

_LOG = logging.getLogger("mayfly.amqp")
_WAIT: Final = c.MQGMO_WAIT | c.MQGMO_FAIL_IF_QUIESCING
_NO_WAIT: Final = c.MQGMO_FAIL_IF_QUIESCING
_BROWSE: Final = c.MQGMO_BROWSE_NEXT | c.MQGMO_FAIL_IF_QUIESCING
#: A link that is not told of what it waits for looks so often: one that copies, one whose client
#: does not want the message in front, one whose client is slow to read.
_AGAIN_SECONDS: Final = 0.25
#: Bytes of one session that may wait for the client to read them.
_OUTGOING_BYTES: Final = 4 * 1024 * 1024
_SETTLED_MODE = Link.SND_SETTLED
#: A rejected message is dead-lettered for this reason.
REJECTED_REASON: Final = rc.MQRC_BACKOUT_THRESHOLD_REACHED


class ReceivingClient:
    """One link on which a client receives from a queue or a subscription."""

    def __init__(
        self, host: LinkHost, link: Link, conversations: Conversations, source: Source
    ) -> None:
        """Take a source that is open."""
        self.link, self.key = link, key_of(link)
        self._host, self._conversations, self._source = host, conversations, source
        self._connection: Connection = conversations.main
        self._getting: UnderWay | None = None
        self._held: dict[int, tuple[Transfer, Delivery]] = {}
        #: Messages that the client does not want again: position of each, by its MsgId.
        self._unwanted: set[bytes] = set()
        #: Unwanted ones that are held until the one behind them has been looked for.
        self._aside: list[int] = []
        self._tags = count(1)
        self._is_over = self._is_waiting = False
        #: The one timer by which the link looks again.
        self._timer: TimerHandle | None = None
        link.target.copy(link.remote_target)
        link.snd_settle_mode = link.remote_snd_settle_mode
        link.rcv_settle_mode = link.remote_rcv_settle_mode
        link.open()

    @classmethod
    def attached(cls, host: LinkHost, link: Link, conversations: Conversations) -> ReceivingClient:
        """Open the source; raises AmqpError or MQError."""
        container = link.connection.remote_container or ""
        return cls(host, link, conversations, opened_source(conversations.main, link, container))

    def session_is(self, session: Session) -> bool:
        """Tell whether it belongs to a session."""
        return bool(self.link.session == session)

    # Messages for the client.

    def flow(self) -> None:
        """Get as many messages as there is credit for; with drain, those that are there."""
        if self._is_over:
            return
        if self._source.is_browse:
            self._browse()
            return
        getting = self._getting
        if getting is not None and self._is_waiting and self._has_to_stop():
            if not getting.cancel():
                # A message is on its way; what comes next is decided then.
                return
            self._getting = None
        self._ask()

    def _has_to_stop(self) -> bool:
        return bool(self.link.credit <= 0 or self.link.drain_mode)

    def _ask(self) -> None:
        link = self.link
        if self._getting is not None or link.credit <= 0:
            return
        if self._is_full():
            # Outcomes and bytes that leave make room; the latter tell nobody.
            self._look_again()
            return
        self._is_waiting = not (link.drain_mode or self._aside)
        self._getting = self._connection.asynchronous.get_any(
            [self._source.handle],
            _WAIT if self._is_waiting else _NO_WAIT,
            on_done=lambda outcome: self._host.soon(partial(self._got, outcome)),
            on_refused=self._refused if self._is_waiting else None,
        )

    def _is_full(self) -> bool:
        limits = self._host.service.limits
        is_behind = self.link.session.outgoing_bytes > _OUTGOING_BYTES
        return len(self._held) >= limits.unsettled or is_behind

    def _got(self, outcome: Delivery | MQError) -> None:
        self._getting = None
        if isinstance(outcome, MQError):
            self._without_message(outcome)
            return
        if self._is_over:
            self._give_back([outcome.number], Settlement.RETURNED)
            return
        message = outcome.result.message
        threshold = self._source.threshold
        if 0 < threshold <= message.backout_count:
            move_away(self._conversations, self._source, outcome)
        elif message.msg_id in self._unwanted:
            # Another link may want it; this one has said that it does not, and wants those behind.
            self._aside.append(outcome.number)
            self._ask()
            return
        else:
            self._send(message, outcome)
        self._return_aside()
        self._ask()

    def _return_aside(self) -> bool:
        aside, self._aside = self._aside, []
        self._give_back(aside, Settlement.RETURNED)
        return bool(aside)

    def _without_message(self, error: MQError) -> None:
        had_aside = self._return_aside()
        if error.reason == rc.MQRC_NO_MSG_AVAILABLE:
            if self.link.drain_mode:
                self.link.drained()
            elif had_aside:
                self._look_again()
            elif not self._is_over:
                self._ask()
        elif not self._is_over and error.reason != rc.MQRC_HCONN_ERROR:
            self._host.close_link(self, of_mq(error))

    def _refused(self, _handle: int, error: MQError) -> None:
        _LOG.info("link %s waits: %s", self.link.name, error)

    def _look_again(self) -> None:
        if self._timer is None:
            self._timer = self._host.service.loop.call_later(_AGAIN_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._is_over and self.link.credit > 0:
            self.flow()
            self._host.pump()

    def _send(self, message: Message, held: Delivery | None) -> None:
        link = self.link
        transfer = link.delivery(f"{next(self._tags)}")
        link.send(
            outgoing(message, destination=self._source.address, manager=self._connection.name)
        )
        link.advance()
        if held is None or not held.number:
            transfer.settle()
        elif link.remote_snd_settle_mode == _SETTLED_MODE:
            transfer.settle()
            self._settle([held.number], Settlement.TAKEN)
        else:
            self._held[hash(transfer)] = transfer, held

    # Browsing.

    def _browse(self) -> None:
        link = self.link
        while link.credit > 0 and not self._is_full() and not self._is_over:
            try:
                result = self._connection.get(self._source.handle, _BROWSE)
            except MQError as error:
                if error.reason != rc.MQRC_NO_MSG_AVAILABLE:
                    self._host.close_link(self, of_mq(error))
                elif link.drain_mode:
                    link.drained()
                else:
                    self._look_again()
                return
            self._send(result.message, None)
        if link.credit > 0:
            self._look_again()

    # Outcomes from the client.

    def delivery(self, delivery: Transfer) -> None:
        """Take the outcome of a message."""
        found = self._held.get(hash(delivery))
        if found is None:
            if delivery.settled:
                delivery.settle()
            return
        held = found[1]
        if not delivery.updated:
            return
        try:
            name = transactions.name_in(delivery)
            if name is not None:
                self._settle_in_transaction(delivery, held, name)
                return
        except AmqpError as error:
            self._host.close_link(self, error)
            return
        if not delivery.settled and not delivery.remote_state:
            return
        state = delivery.remote_state
        if state == Transfer.RECEIVED and not delivery.settled:
            return
        self._by_outcome(delivery, held, state)

    def _by_outcome(self, delivery: Transfer, held: Delivery, state: int) -> None:
        del self._held[hash(delivery)]
        settlement, reason = Settlement.BACKED_OUT, 0
        if state == Transfer.ACCEPTED:
            settlement = Settlement.TAKEN
        elif state == Transfer.RELEASED:
            settlement = Settlement.RETURNED
        elif state == Transfer.REJECTED:
            settlement, reason = Settlement.DEAD_LETTERED, REJECTED_REASON
        elif state == Transfer.MODIFIED:
            if not delivery.remote.failed:
                settlement = Settlement.RETURNED
            if delivery.remote.undeliverable:
                self._unwanted.add(held.result.message.msg_id)
        done = partial(self._settled, delivery, held, settlement)
        self._connection.asynchronous.settle(
            [held.number],
            settlement,
            reason=reason,
            on_done=lambda outcome: self._host.soon(partial(done, outcome)),
        )

    def _settled(
        self, delivery: Transfer, held: Delivery, settlement: Settlement, outcome: MQError | None
    ) -> None:
        if outcome is not None:
            if settlement is Settlement.DEAD_LETTERED:
                # Nobody takes the dead letter: the message stays, counted.
                _LOG.warning("a rejected message stays on its queue: %s", outcome)
                self._settle([held.number], Settlement.BACKED_OUT)
            elif not self._is_over:
                self._host.close_link(self, of_mq(outcome))
                return
        if not delivery.settled:
            delivery.update(delivery.remote_state)
        delivery.settle()
        self._ask()

    def _settle_in_transaction(self, delivery: Transfer, held: Delivery, name: bytes) -> None:
        connection = self._conversations.of_transaction(name)
        outcome = transactions.outcome_in(delivery)
        del self._held[hash(delivery)]
        if outcome == Transfer.ACCEPTED:
            try:
                self._connection.asynchronous.settle(
                    [held.number], Settlement.TAKEN, within=connection.number
                )
            except MQError as error:
                self._host.close_link(self, of_mq(error))
                return
        else:
            back = Settlement.RETURNED
            if outcome == Transfer.REJECTED or outcome == Transfer.MODIFIED:
                back = Settlement.BACKED_OUT
            self._settle([held.number], back)
        if not delivery.settled:
            transactions.accept(delivery, name)
        delivery.settle()
        self._ask()

    # The end.

    def end(self, *, is_closed: bool) -> None:
        """Give back what is not settled, and close the source; a detached durable one stays."""
        self._stop()
        numbers = [held.number for _transfer, held in self._held.values()] + self._aside
        self._held.clear()
        self._give_back(numbers, Settlement.RETURNED)
        source, connection = self._source, self._connection
        if not source.subscription:
            close_quietly(connection, source.handle)
            return
        # First: a subscription that is removed takes its queue along.
        close_quietly(connection, source.handle)
        try:
            connection.topics.close(source.subscription, remove=is_closed)
        except MQError as error:
            _LOG.info("closing the subscription of link %s: %s", self.link.name, error)

    def lost(self) -> None:
        """End with the connection: the conversation gives back what it holds, counted."""
        self._stop()
        self._held.clear()

    def _stop(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        getting, self._getting = self._getting, None
        if getting is not None:
            getting.cancel()

    def _give_back(self, numbers: list[int], settlement: Settlement) -> None:
        if numbers:
            self._settle(numbers, settlement)

    def _settle(self, numbers: list[int], settlement: Settlement) -> None:
        self._connection.asynchronous.settle(numbers, settlement, on_done=_noted)


def _noted(outcome: MQError | None) -> None:
    if outcome is not None:
        _LOG.warning("settling a message: %s", outcome)
