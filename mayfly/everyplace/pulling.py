"""Home-server queues: they fetch what another queue manager keeps for this one (M6, M7).

Each message is fetched in two steps, like a transmission the other way round: the server locks and
shows it, and removes it when it hears that it has been stored here.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mayfly.everyplace.errors import EveryplaceError
from mayfly.everyplace.exchanges import Exchange
from mayfly.everyplace.fields import MessageFields
from mayfly.everyplace.links import LinkDown
from mayfly.everyplace.queues import MessageQueue
from mayfly.mqi.reasons import MQRC_OBJECT_ALREADY_EXISTS

if TYPE_CHECKING:
    from mayfly.everyplace.manager import EveryplaceQueueManager

_LOG = logging.getLogger("mayfly.everyplace")


class HomeServerQueue:
    """The definition of where the messages of one local queue are kept meanwhile."""

    def __init__(self, owner: EveryplaceQueueManager, name: str, partner: str) -> None:
        """Fetch nothing yet."""
        self._owner = owner
        self._name = name
        self._partner = partner
        #: Asked for and not answered: asked again, it is the same message.
        self._asked: Exchange | None = None
        #: Stored here, which the server does not know yet.
        self._stored: list[Exchange] = []

    def pull(self, target: MessageQueue) -> int:
        """Fetch everything that is there; return how many messages came.

        Without an answer it stops; the next pull goes on where it was. Raises EveryplaceError when
        the server keeps nothing for such a queue, or the target cannot take a message; that one
        then stays locked at the server for the next pull.
        """
        pulled_count = 0
        try:
            self._confirm()
            while (exchange := self._fetch(target)) is not None:
                pulled_count += 1
                self._stored.append(exchange)
                self._confirm()
        except LinkDown as error:
            _LOG.warning("pull of %s stops: %s", self._name, error)
        return pulled_count

    def is_settled(self) -> bool:
        """Tell whether the server holds nothing back for a pull that was not finished."""
        try:
            self._confirm()
        except LinkDown:
            return False
        return self._asked is None

    def _fetch(self, target: MessageQueue) -> Exchange | None:
        begun = self._owner.peers.begun_with(self._partner)
        asked_before, exchange = self._asked, self._asked or begun.begin()
        self._asked = exchange
        try:
            message = self._owner.peers.carry(
                exchange, lambda other, its: offer(other, its, self._name)
            )
        except LinkDown:
            raise
        except EveryplaceError:
            if asked_before is None:
                # Nothing is held back for it: no other question of this number is under way.
                self._asked = None
                begun.end(exchange)
            raise
        if message is not None:
            self._store(target, message)
        self._asked = None
        if message is None:
            begun.end(exchange)
            # What was asked for before may have expired there; others may still be there.
            return None if asked_before is None else self._fetch(target)
        return exchange

    def _store(self, target: MessageQueue, message: MessageFields) -> None:
        try:
            target.add(message)
        except EveryplaceError as error:
            if error.reason != MQRC_OBJECT_ALREADY_EXISTS:
                raise
            _LOG.warning("pull of %s: %s", self._name, error)

    def _confirm(self) -> None:
        while self._stored:
            exchange = self._stored[0]
            self._owner.peers.carry(
                exchange, lambda other, its: receive_stored(other, its, self._name)
            )
            self._stored.pop(0)
            self._owner.peers.begun_with(self._partner).end(exchange)


def offer(server: EveryplaceQueueManager, exchange: Exchange, name: str) -> MessageFields | None:
    """Lock and return the next message kept for who asks; the same when it is asked again."""
    finished = server.peers.finished_of(exchange.beginner)
    if exchange in finished:
        return None
    kept = server.kept_for(exchange.beginner, name)
    for queue in kept:
        if (held := queue.of_exchange(exchange)) is not None:
            return held.message.copy()
    message = kept[0].hold_back(exchange)
    if message is None:
        finished.add(exchange)
    return message


def receive_stored(server: EveryplaceQueueManager, exchange: Exchange, name: str) -> None:
    """Remove the message that the other queue manager has stored now."""
    finished = server.peers.finished_of(exchange.beginner)
    if exchange in finished:
        return
    finished.add(exchange)
    for queue in server.kept_for(exchange.beginner, name):
        if (held := queue.of_exchange(exchange)) is not None:
            queue.remove(held)
