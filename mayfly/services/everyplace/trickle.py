"""A trickle: transmissions and pulls at an interval, without anybody calling them."""

from __future__ import annotations

import logging
from typing import Protocol

from mayfly.lifetime.everyplace import (
    LONG_RANGE,
    Timepiece,
    driver_of,
    is_trickle_interval,
    next_trickle_ms,
)
from mayfly.mqi.reasons import MQRC_OPTIONS_ERROR
from mayfly.services.everyplace.directory import Directory
from mayfly.services.everyplace.errors import EveryplaceError
from mayfly.services.everyplace.turns import Turns

_LOG = logging.getLogger("mayfly.everyplace")


class Transmits(Protocol):
    """A queue manager whose transmissions are driven."""

    clock: Timepiece
    directory: Directory
    turns: Turns

    @property
    def is_open(self) -> bool:
        """Whether it takes calls."""

    def transmit_put(self, queue: str, queue_manager: str | None = None) -> int:
        """First stage of transmission."""

    def transmit_confirm(self, queue: str, queue_manager: str | None = None) -> int:
        """Second stage of transmission."""

    def pull(self, queue: str) -> int:
        """Fetch what the home server keeps for a queue."""


class Trickle:
    """Drives the transmissions of one queue manager; itself driven by a clock."""

    def __init__(self, owner: Transmits, interval_ms: int) -> None:
        """Begin: the first run is an interval from now.

        Raises MQRC_OPTIONS_ERROR for an interval that is none, and a clock that only tells the
        time.
        """
        if not is_trickle_interval(interval_ms):
            raise EveryplaceError(
                MQRC_OPTIONS_ERROR,
                f"interval_ms {interval_ms!r} is not within 1 .. {LONG_RANGE[1]}",
            )
        clock = driver_of(owner.clock)
        if clock is None:
            raise EveryplaceError(
                MQRC_OPTIONS_ERROR, f"clock {owner.clock!r} drives nothing: it has no attach"
            )
        self._owner, self._clock, self._interval_ms = owner, clock, interval_ms
        self._begun_ms = clock.now_ms()
        self._due_ms = self._begun_ms + interval_ms
        self._is_over = False
        owner.turns.begin()
        clock.attach(self)

    def next_due_ms(self) -> int | None:
        """Return when it runs next by its clock, None when it is over."""
        return self._due_ms if self._goes_on() else None

    def run_due(self) -> None:
        """Transmit and pull; runs that were missed are not made up for."""
        now_ms = self._clock.now_ms()
        self._due_ms = next_trickle_ms(self._begun_ms, self._interval_ms, now_ms)
        turns = self._owner.turns
        if turns.enter(lambda: not self._goes_on()):
            try:
                self._run()
            finally:
                turns.leave()

    def end(self) -> None:
        """Run no more; on return no run is under way on another thread."""
        self._is_over = True
        # A run that waits for its turn gives up: the caller may have the turn, and waits below.
        self._owner.turns.look_again()
        self._clock.detach(self)

    def _goes_on(self) -> bool:
        return not self._is_over and self._owner.is_open

    def _run(self) -> None:
        owner = self._owner
        for queue in owner.directory.sending():
            try:
                owner.transmit_put(queue.name, queue.partner)
                owner.transmit_confirm(queue.name, queue.partner)
            except EveryplaceError as error:
                _LOG.warning("queue %s is not transmitted: %s", queue.name, error)
        for name in list(owner.directory.home):
            try:
                owner.pull(name)
            except EveryplaceError as error:
                _LOG.warning("queue %s is not pulled: %s", name, error)
