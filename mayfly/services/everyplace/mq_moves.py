"""A move between a queue here and an MQ queue: done once, or not at all, whatever is killed.

A move is numbered, and held here under its number before MQ commits. MQ writes the number in the
transaction that puts or gets the message. A move still held after a crash is settled by a question
to MQ: was its number the last one?
"""

from __future__ import annotations

from typing import NamedTuple

from mayfly.engine import Session
from mayfly.engine.face.transit import MoveNumbers
from mayfly.mqi.errors import MQError
from mayfly.services.everyplace.directory import awake
from mayfly.services.everyplace.exchanges import Exchange
from mayfly.services.everyplace.held import Held
from mayfly.services.everyplace.manager import EveryplaceQueueManager
from mayfly.services.everyplace.queues import MessageQueue
from mayfly.services.everyplace.rules import MessageState


class Moves(NamedTuple):
    """The moves between a queue manager here and one of MQ."""

    manager: EveryplaceQueueManager
    numbers: MoveNumbers

    def begin(self) -> Exchange:
        """Number a new one; names of MQ queue managers may be taken twice, instances are not."""
        return self.manager.peers.begin_move(self.numbers.instance_id)

    def write(self, exchange: Exchange, unit: Session) -> None:
        """Let MQ note the number with what it commits; in memory nobody would ask for it."""
        if self.manager.journal is not None:
            self.numbers.note(unit, _name_of(exchange), exchange.number)

    def settle_after(self, error: BaseException) -> None:
        """Settle at once what has failed, unless nobody knows yet whether MQ has done it."""
        is_known = isinstance(error, MQError) and not self.numbers.is_stopped
        if is_known or self.manager.journal is None:
            self.settle()

    def settle(self) -> None:
        """Finish what MQ has done and take back what it has not; raises as a call on the queue."""
        instance_id = self.numbers.instance_id
        if self.manager.peers.begun_with(instance_id).is_any_open():
            for queue in self.manager.directory.holding():
                for exchange, held in queue.in_exchange():
                    if exchange.partner == instance_id:
                        self.end(queue, exchange, is_done=self._is_done(exchange), held=held)

    def end(
        self, queue: MessageQueue, exchange: Exchange, held: Held | None, *, is_done: bool
    ) -> None:
        """End a move: here the message is in the hands of its queue, of MQ, or was never there."""
        with self.manager.unit():
            if held is not None and held.state is MessageState.PUT_UNCONFIRMED and is_done:
                # Its activation may find that it has expired.
                if awake(queue).is_here(held):
                    queue.let_in(held)
            elif held is not None and held.state is MessageState.GET_UNCONFIRMED and not is_done:
                queue.let_go(held)
            elif held is not None:
                queue.remove(held)
            self.manager.peers.end(exchange)

    def _is_done(self, exchange: Exchange) -> bool:
        # The last is the only one that can be open: each begins by settling those before it.
        return self.numbers.last(_name_of(exchange)) == exchange.number


def _name_of(exchange: Exchange) -> str:
    return f"everyplace {exchange.era}"
