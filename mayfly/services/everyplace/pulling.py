"""Home-server queues: they fetch what another queue manager keeps for this one (M6, M7).

Each message is fetched in two steps, like a transmission the other way round: the server locks and
shows it, and removes it when it hears that it has been stored here.
"""

from __future__ import annotations

import logging

from mayfly.mqi.reasons import MQRC_OBJECT_ALREADY_EXISTS
from mayfly.services.everyplace.errors import EveryplaceError
from mayfly.services.everyplace.exchanges import Exchange
from mayfly.services.everyplace.fields import MessageFields
from mayfly.services.everyplace.links import LinkDown, may_be_under_way
from mayfly.services.everyplace.queues import MessageQueue
from mayfly.services.everyplace.records import forget_home, save_home
from mayfly.services.everyplace.requests import Offer, Stored
from mayfly.services.everyplace.site import Site
from mayfly.services.everyplace.tables import Statement

_LOG = logging.getLogger("mayfly.everyplace")


class HomeServerQueue:
    """The definition of where the messages of one local queue are kept meanwhile."""

    def __init__(self, site: Site, name: str, partner: str) -> None:
        """Fetch nothing yet."""
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
            return forget_home(self.name)
        return save_home(self.name, self.partner, self.asked, self.stored)

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
