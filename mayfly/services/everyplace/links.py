"""Links to other queue managers: exchanges, each of which happens once whatever the network does.

The beginner of an exchange numbers it. The other side remembers the numbers that it has finished.
Each transmission has the number below which none is open any more, so those are forgotten. A
transmission that comes twice, or late, finds its number finished and changes nothing. Numbers go by
the name of the queue manager and its era: one that has lost its memory, or stands on another
folder, begins anew under its old name.

A transmission is something to do at the other side. Its answer comes at once or not at all; the
sender then cannot know whether it was done. Faults are ordered for the next transmissions, so that
a test or a demonstration can tell them to the one.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from enum import StrEnum
from typing import NamedTuple, Protocol

from mayfly.mqi import reasons as rc
from mayfly.services.everyplace.errors import Ended, EveryplaceError, LinkCut, LinkDown
from mayfly.services.everyplace.journal import (
    FORGET_ALL_NUMBERS,
    FORGET_NUMBERS,
    SAVE_BEGUN,
    SAVE_FINISHED,
    SAVE_NUMBER,
    Journal,
    Statement,
)
from mayfly.services.everyplace.requests import R, Request
from mayfly.services.everyplace.verb_lock import VerbLock


class Exchange(NamedTuple):
    """One exchange: the queue manager that began it, the other one, its number and its era."""

    beginner: str
    partner: str
    number: int
    #: Which one of its name the beginner is.
    era: int


class Begun:
    """The exchanges that a queue manager has begun with one partner."""

    def __init__(self, beginner: str, partner: str, era: int, next_number: int = 1) -> None:
        """Begin none; numbers go on from ``next_number``."""
        self._names = beginner, partner
        self._era = era
        self.next_number = next_number
        #: In the order in which they were begun, so the first is the lowest; a plain dict would
        #: step over all that have ended to find it.
        self._open: OrderedDict[int, None] = OrderedDict()

    def begin(self) -> Exchange:
        """Number a new exchange."""
        number = self.next_number
        self.next_number += 1
        self._open[number] = None
        return Exchange(*self._names, number, self._era)

    def go_on(self, numbers: Iterable[int]) -> None:
        """Take up what was begun before a restart and has not ended."""
        self._open.update(dict.fromkeys(sorted(numbers)))

    def end(self, exchange: Exchange) -> None:
        """Nothing will be sent, nor is an answer wanted, under this number again."""
        self._open.pop(exchange.number, None)

    def is_any_open(self) -> bool:
        """Return True if an exchange of this number has not ended."""
        return bool(self._open)

    def lowest_open(self) -> int:
        """Return the number below which none is open."""
        return next(iter(self._open), self.next_number)


class Finished:
    """The exchanges of one partner, of one era, that are over for their receiver."""

    def __init__(self, era: int, below: int = 1, numbers: Iterable[int] = ()) -> None:
        """Know what is over: all below a number, and those above it that are named."""
        self.era = era
        self.below = below
        self.numbers = set(numbers)

    def __contains__(self, exchange: Exchange) -> bool:
        """Return True if its transmission comes too late; all of another era do."""
        is_over = exchange.number < self.below or exchange.number in self.numbers
        return is_over or exchange.era != self.era

    def add(self, exchange: Exchange) -> None:
        """Note that it is over."""
        if exchange not in self:
            self.numbers.add(exchange.number)

    def forget_below(self, era: int, number: int) -> None:
        """The partner has none open below this number."""
        if era == self.era and number > self.below:
            self.below = number
            self.numbers = {n for n in self.numbers if n >= number}


def exchange_of(text: str) -> Exchange:
    """Return the exchange that a text of the tables says."""
    return Exchange(*json.loads(text))


class Fault(StrEnum):
    """The faults of one transmission."""

    #: It does not arrive.
    DROP = "drop"
    #: It arrives, its answer does not.
    DROP_ANSWER = "drop_answer"
    #: It arrives twice.
    DUPLICATE = "duplicate"
    #: It arrives when ``deliver_delayed`` says so; its sender hears nothing.
    DELAY = "delay"


class Peer(Protocol):
    """A queue manager as its links know it: the EveryplaceQueueManager."""

    name: str
    peers: Peers
    verb_lock: VerbLock

    @property
    def is_open(self) -> bool:
        """Whether it takes calls."""

    def unit(self) -> AbstractContextManager[object]:
        """Return a context that is one verb, whatever is done in it."""

    def receive(self, exchange: Exchange, lowest_open: int, request: Request[R]) -> R:
        """Carry out a request of another queue manager and return the answer."""


class Link:
    """Carries transmissions between two queue managers, both ways."""

    def __init__(self, one: Peer, other: Peer) -> None:
        """Connect two; ``EveryplaceQueueManager.connect`` calls this."""
        self._ends = {one.name: one, other.name: other}
        self._faults: deque[Fault] = deque()
        self._delayed: list[Callable[[], object]] = []
        self.is_up = True

    def seat(self, one: Peer, other: Peer) -> bool:
        """Return True if it links these two; one may take the place of a closed namesake."""
        ends = {one.name: one, other.name: other}
        for name, sitting in self._ends.items():
            if sitting is not ends[name] and sitting.is_open:
                return False
        self._ends = ends
        return True

    def cut(self) -> None:
        """Let nothing through from now on; delayed transmissions stay delayed."""
        self.is_up = False

    def restore(self) -> None:
        """Let everything through again."""
        self.is_up = True

    def fail_next(self, *faults: Fault) -> None:
        """Order what happens to the next transmissions, one fault for each."""
        try:
            self._faults.extend([Fault(fault) for fault in faults])
        except ValueError:
            raise EveryplaceError(
                rc.MQRC_OPTIONS_ERROR, f"faults {faults!r}: each is one of {', '.join(Fault)}"
            ) from None

    def deliver_delayed(self) -> int:
        """Let what is delayed arrive, in its order, if the link is up; return how many did."""
        if not self.is_up:
            return 0
        delayed, self._delayed = self._delayed, []
        for arrive in delayed:
            # Nobody waits for the answer any more, nor for the refusal.
            try:
                arrive()
            except EveryplaceError:
                continue
        return len(delayed)

    def check_up(self, exchange: Exchange) -> None:
        """Raise LinkCut while it is cut."""
        if not self.is_up:
            between = f"{exchange.beginner} to {exchange.partner}"
            raise LinkCut(f"the link from {between} is cut")

    def carry(self, exchange: Exchange, lowest_open: int, request: Request[R]) -> R:
        """Bring a request to the other side and return the answer; LinkDown when none comes.

        ``exchange`` says who sends, whichever stage of it this is.
        """
        between = f"{exchange.beginner} to {exchange.partner}"

        def arrive() -> R:
            # The queue manager that has the name at that moment.
            partner = self._ends[exchange.partner]
            try:
                with partner.unit():
                    return partner.receive(exchange, lowest_open, request)
            except Ended as error:
                # The partner may have done the request without writing it, and cannot be asked.
                raise LinkDown(f"no answer on the link from {between}: {error}") from error

        fault = self._faults.popleft() if self._faults else None
        if fault is Fault.DELAY:
            self._delayed.append(arrive)
        if fault in (Fault.DROP, Fault.DELAY):
            raise LinkDown(f"no answer on the link from {between}")
        if fault is Fault.DROP_ANSWER:
            # Nor is a refusal heard.
            with suppress(EveryplaceError):
                arrive()
            raise LinkDown(f"no answer on the link from {between}")
        answer = arrive()
        if fault is Fault.DUPLICATE:
            arrive()
        return answer


class Peers:
    """The exchanges of a queue manager with others, by their names.

    ``era`` distinguishes it from others that had its name; a journal makes numbers last.
    """

    def __init__(self, name: str, era: int, journal: Journal | None) -> None:
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
        if not one.verb_lock.is_shared_with(other.verb_lock):
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
        """Number a new exchange with a partner that may have no link: a move to or from MQ."""
        begun = self.begun_with(partner)
        if self._journal is not None:
            self._journal.note(
                begun, lambda: [(SAVE_BEGUN, (partner, begun.next_number))], before_sending=True
            )
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
            self._journal.note(exchange, lambda: _save_number(beginner, finished, number))

    def forget_below(self, exchange: Exchange, number: int) -> None:
        """Its beginner has none open below this number."""
        finished = self._finished[exchange.beginner]
        below = finished.below
        finished.forget_below(exchange.era, number)
        if self._journal is not None and finished.below > below:
            beginner = exchange.beginner
            self._journal.note((finished, below), lambda: _save_finished(beginner, finished))

    def finished_of(self, beginner: str) -> Finished:
        """Return which exchanges that another has begun are over here."""
        return self._finished[beginner]

    def _meet(self, name: str, era: int) -> None:
        known = self._finished.get(name)
        if known is None or known.era != era:
            # Of the one that had the name before nothing can come any more.
            finished = self._finished[name] = Finished(era)
            if self._journal is not None:
                self._journal.note(finished, lambda: _save_new_finished(name, finished))

    def take_back(self, begun: dict[str, int], finished: dict[str, Finished]) -> None:
        """Know what was numbered before a restart: the next numbers, and what is over."""
        for partner, next_number in begun.items():
            self.begun_with(partner, next_number)
        self._finished |= finished


def _save_finished(beginner: str, finished: Finished) -> list[Statement]:
    """Return what writes below which number all is over."""
    return [
        (SAVE_FINISHED, (beginner, finished.era, finished.below)),
        (FORGET_NUMBERS, (beginner, finished.below)),
    ]


def _save_new_finished(beginner: str, finished: Finished) -> list[Statement]:
    """Return what writes that another one has the name now, of which nothing is over yet."""
    return [(FORGET_ALL_NUMBERS, (beginner,)), *_save_finished(beginner, finished)]


def _save_number(beginner: str, finished: Finished, number: int) -> list[Statement]:
    """Return what writes that one number is over, unless all around it are."""
    if number not in finished.numbers:
        return []
    return [(SAVE_NUMBER, (beginner, number))]
