"""Links to other queue managers, and exchanges, each of which takes effect exactly once.

The beginner of an exchange numbers it. The other side remembers the numbers it has finished. Each
transmission carries the lowest number still open, and the other side forgets all numbers below. A
transmission that arrives twice, or late, finds its number finished and changes nothing. Numbers
belong to the name of a queue manager and its era. A queue manager that has lost its memory, or uses
another folder, has a new era and begins at 1 again.

A transmission is an operation at the other side. Its answer comes at once or not at all; without an
answer the sender cannot know whether it was done. For tests and demonstrations, faults are ordered
for the next transmissions.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar, cast

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
    VerbGate,
)

#: The answer to a request.
R = TypeVar("R")


@dataclass(frozen=True)
class LinkRequest(Generic[R]):
    """A request about the receiver's queue of this name; ``R`` is the type of the answer.

    It is carried out at once or, after a fault of the link, later, twice or never.
    """

    queue: str


class Exchange(NamedTuple):
    """One exchange: a numbered transmission between two queue managers that takes effect once.

    ``beginner`` and ``partner`` are their names; the beginner gives the number.
    """

    beginner: str
    partner: str
    number: int
    #: Which one of its name the beginner is.
    era: int


class BegunExchanges:
    """The exchanges that a queue manager has begun with one partner, and their next number."""

    def __init__(self, beginner: str, partner: str, era: int, next_number: int = 1) -> None:
        """Begin with no open exchange; the first number will be ``next_number``.

        ``beginner`` is the name of this queue manager, ``partner`` that of the other one. ``era``
        distinguishes this queue manager from others that had its name.
        """
        self._names = beginner, partner
        self._era = era
        self.next_number = next_number
        #: In the order in which they were begun, so the first is the lowest; a plain dict would
        #: step over all that have ended to find it.
        self._open: OrderedDict[int, None] = OrderedDict()

    def begin(self) -> Exchange:
        """Open a new exchange with the next number, and return it."""
        number = self.next_number
        self.next_number += 1
        self._open[number] = None
        return Exchange(*self._names, number, self._era)

    def resume(self, numbers: Iterable[int]) -> None:
        """Open the exchanges with these numbers again, which had not ended before a restart."""
        self._open.update(dict.fromkeys(sorted(numbers)))

    def end(self, exchange: Exchange) -> None:
        """Close an exchange: nothing more is sent with its number, and no answer is expected.

        Does nothing for a closed one.
        """
        self._open.pop(exchange.number, None)

    def is_any_open(self) -> bool:
        """Return True if an exchange with this partner has not ended."""
        return bool(self._open)

    def lowest_open(self) -> int:
        """Return the lowest number of an open exchange; if none is open, the next number."""
        return next(iter(self._open), self.next_number)


class FinishedExchanges:
    """The exchanges begun by one partner in one era that are finished here, by number."""

    def __init__(self, era: int, below: int = 1, numbers: Iterable[int] = ()) -> None:
        """Count as finished all numbers less than ``below``, and ``numbers``.

        ``era`` distinguishes the partner from other queue managers that had its name.
        """
        self.era = era
        self.below = below
        self.numbers = set(numbers)

    def __contains__(self, exchange: Exchange) -> bool:
        """Return True if the exchange is finished or of another era, and so without effect."""
        is_over = exchange.number < self.below or exchange.number in self.numbers
        return is_over or exchange.era != self.era

    def add(self, exchange: Exchange) -> None:
        """Record an exchange as finished; do nothing for one that is finished or of another era."""
        if exchange not in self:
            self.numbers.add(exchange.number)

    def forget_below(self, era: int, number: int) -> None:
        """Count all numbers less than ``number`` as finished; they are no longer kept one by one.

        Does nothing for another era, or a number that is not higher than before.
        """
        if era == self.era and number > self.below:
            self.below = number
            self.numbers = {n for n in self.numbers if n >= number}


def exchange_of(text: str) -> Exchange:
    """Return the exchange that a JSON list of four values in the tables describes."""
    return Exchange(*json.loads(text))


class Fault(StrEnum):
    """A fault of one transmission."""

    #: It does not arrive.
    DROP = "drop"
    #: It arrives, its answer does not.
    DROP_ANSWER = "drop_answer"
    #: It arrives twice.
    DUPLICATE = "duplicate"
    #: It arrives when ``deliver_delayed`` is called; its sender gets no answer.
    DELAY = "delay"


class Link:
    """A simulated network link between two queue managers, for both directions."""

    def __init__(self, one: Peers, other: Peers) -> None:
        """Connect two queue managers; call ``EveryplaceQueueManager.connect`` instead."""
        self._ends = {one.name: one, other.name: other}
        self._faults: deque[Fault] = deque()
        self._delayed: list[Callable[[], object]] = []
        self.is_up = True

    def replace_ends(self, one: Peers, other: Peers) -> bool:
        """Put ``one`` and ``other`` at the two ends of the link and return True.

        Returns False, and changes nothing, while another open queue manager of the same name is at
        an end.
        """
        ends = {one.name: one, other.name: other}
        for name, current in self._ends.items():
            if current is not ends[name] and current.verb_gate.is_open:
                return False
        self._ends = ends
        return True

    def cut(self) -> None:
        """Cut the link: transmissions fail with LinkCut, and delayed ones stay delayed."""
        self.is_up = False

    def restore(self) -> None:
        """End a :meth:`cut`: transmissions arrive again."""
        self.is_up = True

    def fail_next(self, *faults: Fault) -> None:
        """Plan faults for the next transmissions, one each.

        Raises MQRC_OPTIONS_ERROR for a value that is no Fault.
        """
        try:
            self._faults.extend([Fault(fault) for fault in faults])
        except ValueError:
            raise EveryplaceError(
                rc.MQRC_OPTIONS_ERROR, f"faults {faults!r}: each is one of {', '.join(Fault)}"
            ) from None

    def deliver_delayed(self) -> int:
        """Deliver the delayed transmissions in order; return how many.

        Answers and errors are ignored. Returns 0, and delivers nothing, while the link is cut.
        """
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

    def carry(self, exchange: Exchange, lowest_open: int, request: LinkRequest[R]) -> R:
        """Send a request to the other side and return the answer, or apply the next planned fault.

        ``exchange.beginner`` is the sender, in both stages of a transmission. The other side
        forgets the sender's exchanges with numbers below ``lowest_open``. Raises LinkDown when no
        answer comes, and the EveryplaceError of the other side.
        """
        between = f"{exchange.beginner} to {exchange.partner}"

        def arrive() -> R:
            """Deliver the request; raises LinkDown if the partner ended, as it may have done it."""
            # The queue manager that has the name at that moment.
            partner = self._ends[exchange.partner]
            try:
                with partner.verb_gate.unit():
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
    """The links of a queue manager, and its exchanges (numbered transmissions) with others.

    ``era`` distinguishes it from other queue managers that had its name. With a journal the numbers
    survive a restart.
    """

    def __init__(
        self,
        name: str,
        era: int,
        journal: Journal | None,
        verb_gate: VerbGate,
        carry_out: Callable[[Exchange, object], object],
    ) -> None:
        """Begin without links; ``journal`` None keeps the exchange numbers in memory only.

        ``era`` distinguishes this queue manager from others that had its name. A request that
        arrives over a link enters ``verb_gate``; ``carry_out`` returns the answer.
        """
        self.name = name
        self.era = era
        self.verb_gate = verb_gate
        #: The exchanges that are finished here, by the queue manager that has begun them.
        self.finished: dict[str, FinishedExchanges] = {}
        self._journal = journal
        self._carry_out = carry_out
        self._links: dict[str, Link] = {}
        self._begun: dict[str, BegunExchanges] = {}

    def connect(self, other: Peers) -> Link:
        """Return the link between this queue manager and another; create it if missing.

        Raises EveryplaceError: MQRC_OBJECT_Q_MGR_NAME_ERROR when both have one name,
        MQRC_OPTIONS_ERROR when their runtimes differ, MQRC_OBJECT_ALREADY_EXISTS when the link has
        other, open ends.
        """
        if other.name == self.name:
            raise EveryplaceError(rc.MQRC_OBJECT_Q_MGR_NAME_ERROR, f"both are named {self.name}")
        if not self.verb_gate.verb_lock.is_shared_with(other.verb_gate.verb_lock):
            # A trickle would enter verbs of the other one without waiting for its threads.
            raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"{other.name} has another runtime")
        link = self._links.get(other.name) or other._links.get(self.name)
        if link is None:
            link = Link(self, other)
        elif not link.replace_ends(self, other):
            raise EveryplaceError(
                rc.MQRC_OBJECT_ALREADY_EXISTS,
                f"the link between {self.name} and {other.name} leads to others of these names",
            )
        self._links[other.name] = other._links[self.name] = link
        self._note_era(other.name, other.era)
        other._note_era(self.name, self.era)
        return link

    def is_linked(self, partner: str) -> bool:
        """Return True if this queue manager has a link to another, even one that is cut."""
        return partner in self._links

    # Exchanges begun here

    def begin(self, partner: str) -> Exchange:
        """Open a new exchange with a linked queue manager, and return it.

        Raises MQRC_UNKNOWN_REMOTE_Q_MGR without a link to it.
        """
        if partner not in self._links:
            raise EveryplaceError(
                rc.MQRC_UNKNOWN_REMOTE_Q_MGR, f"{self.name} has no link to {partner!r}"
            )
        return self.begin_move(partner)

    def begin_move(self, partner: str) -> Exchange:
        """Open and return a new exchange for a move to or from MQ, which needs no link.

        ``partner`` is the id of the MQ queue manager's store.
        """
        begun = self.begun_with(partner)
        if self._journal is not None:
            self._journal.note(
                begun, lambda: [(SAVE_BEGUN, (partner, begun.next_number))], before_sending=True
            )
        return begun.begin()

    def end(self, exchange: Exchange) -> None:
        """Close an exchange: nothing more is sent with its number, and no answer is expected."""
        self.begun_with(exchange.partner).end(exchange)

    def begun_with(self, partner: str, next_number: int = 1) -> BegunExchanges:
        """Return the exchanges begun with a partner; ``next_number`` is for the first call only."""
        begun = self._begun.get(partner)
        if begun is None:
            begun = self._begun[partner] = BegunExchanges(self.name, partner, self.era, next_number)
        return begun

    def carry(self, exchange: Exchange, request: LinkRequest[R]) -> R:
        """Send a request to another queue manager and return the answer.

        Raises LinkCut without a link or when it is cut, LinkDown when no answer comes, and the
        EveryplaceError of the other side.
        """
        link = self._links.get(exchange.partner)
        if link is None:
            raise LinkCut(f"{self.name} has no link to {exchange.partner!r} yet")
        if not link.is_up:
            raise LinkCut(f"the link from {exchange.beginner} to {exchange.partner} is cut")
        lowest_open = self.begun_with(exchange.partner).lowest_open()
        with self.sending():
            return link.carry(exchange, lowest_open, request)

    def sending(self) -> AbstractContextManager[None]:
        """Return a context for a transmission: on entry, changes that must precede it are written.

        Without a folder the context does nothing.
        """
        return self._journal.sending() if self._journal else nullcontext()

    # Exchanges begun by others

    def receive(self, exchange: Exchange, lowest_open: int, request: LinkRequest[R]) -> R:
        """Carry out a request that has arrived over a link, and return the answer.

        ``lowest_open`` is the lowest number of the sender's exchanges that have not ended: this
        side forgets the numbers below. Returns None for a request that was carried out before.
        """
        self.forget_below(exchange, lowest_open)
        return cast(R, self._carry_out(exchange, request))

    def is_over(self, exchange: Exchange) -> bool:
        """Return True if an exchange is finished here: a repeated request of it has no effect.

        That is also so for an exchange of a former queue manager with the beginner's name.
        """
        return exchange in self.finished[exchange.beginner]

    def finish(self, exchange: Exchange) -> None:
        """Record that an exchange of another queue manager is finished here.

        The same transmission, if it arrives again, then has no effect.
        """
        beginner, number = exchange.beginner, exchange.number
        finished = self.finished[beginner]
        finished.add(exchange)
        if self._journal is not None:
            self._journal.note(exchange, lambda: _save_number(beginner, finished, number))

    def forget_below(self, exchange: Exchange, number: int) -> None:
        """Forget the finished numbers less than ``number`` of the beginner of ``exchange``.

        The beginner has none of these exchanges open, so no request with such a number can come.
        """
        finished = self.finished[exchange.beginner]
        below = finished.below
        finished.forget_below(exchange.era, number)
        if self._journal is not None and finished.below > below:
            beginner = exchange.beginner
            self._journal.note((finished, below), lambda: _save_finished(beginner, finished))

    def _note_era(self, name: str, era: int) -> None:
        """Record the era of a partner; if it is new, none of its exchanges is finished here."""
        known = self.finished.get(name)
        if known is None or known.era != era:
            # Of the one that had the name before nothing can come any more.
            finished = self.finished[name] = FinishedExchanges(era)
            if self._journal is not None:
                self._journal.note(finished, lambda: _save_new_finished(name, finished))

    def restore(self, begun: dict[str, int], finished: dict[str, FinishedExchanges]) -> None:
        """Set the exchange numbers from before a restart, by partner.

        ``begun`` has the next numbers of exchanges begun here. ``finished`` has the exchanges of
        partners that are finished here.
        """
        for partner, next_number in begun.items():
            self.begun_with(partner, next_number)
        self.finished |= finished


def _save_finished(beginner: str, finished: FinishedExchanges) -> list[Statement]:
    """Return the statements that write ``below``, and delete the single numbers less than it."""
    return [
        (SAVE_FINISHED, (beginner, finished.era, finished.below)),
        (FORGET_NUMBERS, (beginner, finished.below)),
    ]


def _save_new_finished(beginner: str, finished: FinishedExchanges) -> list[Statement]:
    """Return the statements for a new era of a partner, of which nothing is finished yet."""
    return [(FORGET_ALL_NUMBERS, (beginner,)), *_save_finished(beginner, finished)]


def _save_number(beginner: str, finished: FinishedExchanges, number: int) -> list[Statement]:
    """Return the statement that writes one finished number.

    Returns [] if all numbers around it are finished, so that it is not kept by itself.
    """
    if number not in finished.numbers:
        return []
    return [(SAVE_NUMBER, (beginner, number))]
