"""The connection of two queue managers, with the faults that a network has.

A transmission is something to do at the other side. Its answer comes at once or not at all; the
sender then cannot know whether it was done. Faults are ordered for the next transmissions, so that
a test or a demonstration can tell them to the one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from enum import StrEnum
from typing import Protocol

from mayfly.mqi.reasons import MQRC_HOST_NOT_AVAILABLE, MQRC_OPTIONS_ERROR
from mayfly.services.everyplace.errors import EveryplaceError
from mayfly.services.everyplace.exchanges import Exchange
from mayfly.services.everyplace.journal import Ended
from mayfly.services.everyplace.requests import R, Request


class LinkDown(EveryplaceError):
    """No answer came: the transmission was done, or will be done later, or never."""

    def __init__(self, detail: str) -> None:
        """Say between whom."""
        super().__init__(MQRC_HOST_NOT_AVAILABLE, detail)


class LinkCut(LinkDown):
    """The link is known to be cut: nothing has left."""


def may_be_under_way(error: EveryplaceError) -> bool:
    """Return True if a transmission with this fault may have arrived, or may still arrive."""
    return isinstance(error, LinkDown) and not isinstance(error, LinkCut)


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


class End(Protocol):
    """A queue manager as a link knows it."""

    name: str

    @property
    def is_open(self) -> bool:
        """Whether it takes calls."""

    def unit(self) -> AbstractContextManager[object]:
        """Return a context that is one verb, whatever is done in it."""

    def receive(self, exchange: Exchange, lowest_open: int, request: Request[R]) -> R:
        """Carry out a request of another queue manager and return the answer."""


class Link:
    """Carries transmissions between two queue managers, both ways."""

    def __init__(self, one: End, other: End) -> None:
        """Connect two; ``EveryplaceQueueManager.connect`` calls this."""
        self._ends = {one.name: one, other.name: other}
        self._faults: deque[Fault] = deque()
        self._delayed: list[Callable[[], object]] = []
        self.is_up = True

    def seat(self, one: End, other: End) -> bool:
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
                MQRC_OPTIONS_ERROR, f"faults {faults!r}: each is one of {', '.join(Fault)}"
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
