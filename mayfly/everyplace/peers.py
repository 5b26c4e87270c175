"""The queue managers that one is connected to: the links, what was begun, and what is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from mayfly.everyplace.errors import EveryplaceError
from mayfly.everyplace.exchanges import Begun, Exchange, Finished
from mayfly.everyplace.links import Link
from mayfly.mqi import reasons as rc

if TYPE_CHECKING:
    from mayfly.everyplace.manager import EveryplaceQueueManager

R = TypeVar("R")


class Peers:
    """What a queue manager has to do with others, by their names."""

    def __init__(self, name: str) -> None:
        """Know nobody."""
        self._name = name
        self._links: dict[str, Link] = {}
        self._begun: dict[str, Begun] = {}
        self._finished: dict[str, Finished] = {}

    def connect(self, one: EveryplaceQueueManager, other: EveryplaceQueueManager) -> Link:
        """Return the link between its owner and another one; both know it then."""
        if other.name == self._name:
            raise EveryplaceError(rc.MQRC_OBJECT_Q_MGR_NAME_ERROR, f"both are named {self._name}")
        link = self._links.get(other.name) or other.peers._links.get(self._name)
        if link is None:
            link = Link(one, other)
            self._links[other.name] = other.peers._links[self._name] = link
        elif not link.joins(one, other):
            # What is numbered goes by names: a second one would take old numbers for its own.
            raise EveryplaceError(
                rc.MQRC_OBJECT_ALREADY_EXISTS,
                f"the link between {self._name} and {other.name} leads to others of these names",
            )
        return link

    def carry(self, exchange: Exchange, work: Callable[[EveryplaceQueueManager, Exchange], R]) -> R:
        """Do something at another queue manager; raises LinkDown when no answer comes."""
        lowest_open = self.begun_with(exchange.partner).lowest_open()
        return self._links[exchange.partner].carry(exchange, lowest_open, work)

    def begun_with(self, partner: str) -> Begun:
        """Return the exchanges begun with another queue manager, which must be connected."""
        if partner not in self._links:
            raise EveryplaceError(
                rc.MQRC_UNKNOWN_REMOTE_Q_MGR, f"{self._name} has no link to {partner!r}"
            )
        return self._begun.setdefault(partner, Begun(self._name, partner))

    def finished_of(self, beginner: str) -> Finished:
        """Return which exchanges that another has begun are over here."""
        return self._finished.setdefault(beginner, Finished())
