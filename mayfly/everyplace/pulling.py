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
from mayfly.everyplace.links import LinkDown, may_be_under_way
from mayfly.everyplace.queues import MessageQueue
from mayfly.everyplace.records import save_home
from mayfly.mqi.reasons import MQRC_OBJECT_ALREADY_EXISTS, MQRC_UNKNOWN_OBJECT_NAME

if TYPE_CHECKING:
    from mayfly.everyplace.manager import EveryplaceQueueManager

_LOG = logging.getLogger("mayfly.everyplace")


class HomeServerQueue:
    """The definition of where the messages of one local queue are kept meanwhile."""

    def __init__(self, owner: EveryplaceQueueManager, name: str, partner: str) -> None:
        """Fetch nothing yet."""
        self.name = name
        self.partner = partner
        #: Asked for and not answered: asked again, it is the same message.
        self.asked: Exchange | None = None
        #: Stored here, which the server does not know yet.
        self.stored: list[Exchange] = []
        self._owner = owner

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
        """Tell whether the server holds nothing back for a pull that was not finished."""
        try:
            self._confirm()
        except LinkDown:
            return False
        return self.asked is None

    def note(self) -> None:
        """Have it written; the next transmission must not leave before."""
        journal, directory = self._owner.journal, self._owner.directory
        if journal is not None:
            journal.note(self, lambda: save_home(directory, self), before_sending=True)

    def _fetch(self, target: MessageQueue) -> bool:
        """Ask for the next message and store it; False when there is none."""
        peers = self._owner.peers
        asked_before = self.asked
        exchange = self.asked = asked_before or peers.begin(self.partner)
        self.note()
        try:
            message = peers.carry(exchange, lambda other, its: offer(other, its, self.name))
        except EveryplaceError as error:
            if asked_before is None and not may_be_under_way(error):
                # Nothing is held back for it: no other question of this number is under way.
                self._end_question(exchange)
            raise
        if message is not None:
            self._store(target, message, exchange)
            return True
        self._end_question(exchange)
        # What was asked for before may have expired there; others may still be there.
        return asked_before is not None and self._fetch(target)

    def _end_question(self, exchange: Exchange) -> None:
        self.asked = None
        self.note()
        self._owner.peers.end(exchange)

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
            self._owner.peers.carry(
                exchange, lambda other, its: receive_stored(other, its, self.name)
            )
            if exchange in self.stored:
                self.stored.remove(exchange)
                self.note()
            self._owner.peers.end(exchange)


def offer(server: EveryplaceQueueManager, exchange: Exchange, name: str) -> MessageFields | None:
    """Lock and return the next message kept for who asks; the same when it is asked again."""
    if server.peers.is_over(exchange):
        return None
    kept = server.directory.kept_for(exchange.beginner, name)
    if server.peers.is_over(exchange):
        # Its message has expired: the activation has met it just now.
        return None
    if not kept:
        raise EveryplaceError(
            MQRC_UNKNOWN_OBJECT_NAME,
            f"{server.name} keeps nothing for {name!r} of {exchange.beginner}",
        )
    for queue in kept:
        if (held := queue.of_exchange(exchange)) is not None:
            return held.message.copy()
    taken = kept[0].hold_back(lambda: exchange)
    if taken is None:
        server.peers.finish(exchange)
        return None
    return taken[1].message.copy()


def receive_stored(server: EveryplaceQueueManager, exchange: Exchange, name: str) -> None:
    """Remove the message that the other queue manager has stored now."""
    if server.peers.is_over(exchange):
        return
    # What their activation leads to may be written before the rest: the end is noted behind it.
    kept = server.directory.kept_for(exchange.beginner, name)
    server.peers.finish(exchange)
    for queue in kept:
        if (held := queue.of_exchange(exchange)) is not None:
            queue.remove(held)
