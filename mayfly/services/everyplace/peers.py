"""The queue managers that one is connected to: the links, what was begun, and what is over."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from mayfly.mqi import reasons as rc
from mayfly.services.everyplace.errors import EveryplaceError
from mayfly.services.everyplace.exchanges import Begun, Exchange, Finished
from mayfly.services.everyplace.journal import Journal
from mayfly.services.everyplace.links import End, Link, LinkCut
from mayfly.services.everyplace.records import (
    save_begun,
    save_finished,
    save_new_finished,
    save_number,
)
from mayfly.services.everyplace.requests import R, Request
from mayfly.services.everyplace.turns import Turns


class Peer(End, Protocol):
    """A queue manager that can be connected to another one."""

    peers: Peers
    turns: Turns


class Peers:
    """The exchanges of a queue manager with others, by their names.

    ``era`` distinguishes it from others that had its name; a journal makes numbers last.
    """

    def __init__(self, name: str, era: int, journal: Journal | None) -> None:
        """Know nobody."""
        self._name = name
        self.era = era
        self._journal = journal
        self._links: dict[str, Link] = {}
        self._begun: dict[str, Begun] = {}
        self._finished: dict[str, Finished] = {}

    def connect(self, one: Peer, other: Peer) -> Link:
        """Return the link between its owner and another one; both know it then."""
        if other.name == self._name:
            raise EveryplaceError(rc.MQRC_OBJECT_Q_MGR_NAME_ERROR, f"both are named {self._name}")
        if not one.turns.is_shared_with(other.turns):
            # A trickle would enter verbs of the other one without waiting for its threads.
            raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"{other.name} has another runtime")
        link = self._links.get(other.name) or other.peers._links.get(self._name)
        if link is None:
            link = Link(one, other)
        elif not link.seat(one, other):
            raise EveryplaceError(
                rc.MQRC_OBJECT_ALREADY_EXISTS,
                f"the link between {self._name} and {other.name} leads to others of these names",
            )
        self._links[other.name] = other.peers._links[self._name] = link
        self._meet(other.name, other.peers.era)
        other.peers._meet(self._name, self.era)
        return link

    def is_linked(self, partner: str) -> bool:
        """Return True if there is a link to another queue manager, even one that is cut."""
        return partner in self._links

    # Exchanges begun here

    def begin(self, partner: str) -> Exchange:
        """Number a new exchange with another queue manager, which must be connected."""
        if partner not in self._links:
            raise EveryplaceError(
                rc.MQRC_UNKNOWN_REMOTE_Q_MGR, f"{self._name} has no link to {partner!r}"
            )
        return self.begin_move(partner)

    def begin_move(self, partner: str) -> Exchange:
        """Number a new exchange with whoever goes by this name."""
        begun = self.begun_with(partner)
        if self._journal is not None:
            self._journal.note(begun, lambda: save_begun(partner, begun), before_sending=True)
        return begun.begin()

    def end(self, exchange: Exchange) -> None:
        """Nothing will be sent, nor is an answer wanted, under this number again."""
        self.begun_with(exchange.partner).end(exchange)

    def begun_with(self, partner: str, next_number: int = 1) -> Begun:
        """Return the exchanges begun with another one."""
        begun = self._begun.get(partner)
        if begun is None:
            begun = self._begun[partner] = Begun(self._name, partner, self.era, next_number)
        return begun

    def carry(self, exchange: Exchange, request: Request[R]) -> R:
        """Bring a request to another queue manager; raises LinkDown when no answer comes."""
        link = self._links.get(exchange.partner)
        if link is None:
            raise LinkCut(f"{self._name} has no link to {exchange.partner!r} yet")
        link.check_up(exchange)
        lowest_open = self.begun_with(exchange.partner).lowest_open()
        with self.sending():
            return link.carry(exchange, lowest_open, request)

    def sending(self) -> AbstractContextManager[None]:
        """Return a context for a transmission: its data are written before it leaves."""
        return self._journal.sending() if self._journal else nullcontext()

    # Exchanges finished here

    def is_over(self, exchange: Exchange) -> bool:
        """Return True if its transmission comes too late."""
        return exchange in self._finished[exchange.beginner]

    def finish(self, exchange: Exchange) -> None:
        """Note that an exchange that another has begun is over here."""
        beginner, number = exchange.beginner, exchange.number
        finished = self._finished[beginner]
        finished.add(exchange)
        if self._journal is not None:
            self._journal.note(exchange, lambda: save_number(beginner, finished, number))

    def forget_below(self, exchange: Exchange, number: int) -> None:
        """Its beginner has none open below this number."""
        finished = self._finished[exchange.beginner]
        below = finished.below
        finished.forget_below(exchange.era, number)
        if self._journal is not None and finished.below > below:
            beginner = exchange.beginner
            self._journal.note((finished, below), lambda: save_finished(beginner, finished))

    def finished_of(self, beginner: str) -> Finished:
        """Return which exchanges that another has begun are over here."""
        return self._finished[beginner]

    def _meet(self, name: str, era: int) -> None:
        known = self._finished.get(name)
        if known is None or known.era != era:
            # Of the one that had the name before nothing can come any more.
            finished = self._finished[name] = Finished(era)
            if self._journal is not None:
                self._journal.note(finished, lambda: save_new_finished(name, finished))

    def take_back(self, begun: dict[str, int], finished: dict[str, Finished]) -> None:
        """Know what was numbered before a restart: the next numbers, and what is over."""
        for partner, next_number in begun.items():
            self.begun_with(partner, next_number)
        self._finished |= finished
