"""Clocks: the system clock of a queue manager, which ignores bad steps of the wall clock.

No other module reads the time of the machine.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from mayfly.lifetime.times import SLEW_MS, Driven
from mayfly.runtime.compiling import mypyc_attr
from mayfly.runtime.runtime import Driver, Runtime

_NS_PER_MS: Final = 1_000_000
#: While the wall clock is behind, own time loses one part in this many.
_SLOWED_BY = 100
#: Elapsed time; it runs on through suspend.
_BOOT_NS = partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
_LOG = logging.getLogger("mayfly.clock")


def elapsed_ms() -> int:
    """Return the ms of a monotonic clock; only differences of two results mean anything.

    It is for timeouts. Messages take their times from a :class:`SystemClock` or another Clock.
    """
    return time.monotonic_ns() // _NS_PER_MS


def elapsed_through_suspend_ms() -> int:
    """Return the ms of a clock that runs on while the machine is suspended, for differences.

    It is for what ends in the world outside at the same moment, such as a lease.
    """
    return _BOOT_NS() // _NS_PER_MS


@mypyc_attr(allow_interpreted_subclasses=True)
class SystemClock:
    """The queue manager's time: the machine's time, protected against steps of its wall clock.

    This time ("own time") advances with the boot clock, which also runs while the machine is
    suspended. A forward step of the wall clock of up to ``tolerance_ms`` is followed at once. A
    larger one is counted, logged and not followed until an operator calls :meth:`accept_wall`: one
    bad time server must not expire every message. A backward step is never followed: no expired
    message comes back, and no message is released early. When the wall clock is up to a second
    behind, this clock runs slower by one hundredth until both agree: a wait of 3,000 ms takes 3,031
    ms at most.
    """

    def __init__(
        self,
        tolerance_ms: int = 3_600_000,
        *,
        wall_ns: Callable[[], int] = time.time_ns,
        elapsed_ns: Callable[[], int] = _BOOT_NS,
        runtime: Runtime | None = None,
    ) -> None:
        """Start at the present wall clock time.

        A forward step of the wall clock of up to ``tolerance_ms`` is followed; a longer or a
        backward step is counted and logged only. ``wall_ns`` and ``elapsed_ns`` return nanoseconds
        and may be replaced in tests. ``runtime`` creates the threads that run due work; None means
        the machine's.
        """
        self.runtime = Runtime() if runtime is None else runtime
        self.tolerance_ms = tolerance_ms
        self.step_count = 0
        self._wall_ns = wall_ns
        self._elapsed_ns = elapsed_ns
        #: Own time minus elapsed time; and since which elapsed time own time is slowed down, None
        #: while it is not. One tuple, so that a thread never reads halves of two changes.
        self._anchor: tuple[int, int | None] = (wall_ns() - elapsed_ns(), None)
        self._last_ms = 0
        self._seen_difference_ms = 0
        #: Whether the last step was forward beyond the tolerance: drift may bring the wall clock
        #: back within it, and own time would jump by all of the tolerance.
        self._is_step_kept = False
        self._drivers: dict[int, Driver] = {}

    def now_ms(self) -> int:
        """Return this clock's time: ms since 1970, UTC; never less than an earlier result."""
        wall_ns = self._wall_ns()
        elapsed_ns = self._elapsed_ns()
        anchor = self._anchor
        own_ns = elapsed_ns + anchor[0] if anchor[1] is None else _own_ns(elapsed_ns, *anchor)
        difference_ms = (wall_ns - own_ns) // _NS_PER_MS
        if difference_ms or self._seen_difference_ms or anchor[1] is not None:
            own_ns = self._follow(elapsed_ns, own_ns, difference_ms, *anchor)
        now_ms = own_ns // _NS_PER_MS
        if now_ms < self._last_ms:
            return self._last_ms
        self._last_ms = now_ms
        return now_ms

    def difference_ms(self) -> int:
        """Return wall clock minus this clock, in ms: negative while the wall clock is behind."""
        return (self._wall_ns() - _own_ns(self._elapsed_ns(), *self._anchor)) // _NS_PER_MS

    def accept_wall(self) -> None:
        """Set this clock to the wall clock if that is ahead, by any amount.

        Does nothing if the wall clock is behind.
        """
        if self.difference_ms() > 0:
            self._anchor = (self._wall_ns() - self._elapsed_ns(), None)
            self._seen_difference_ms = 0
            self._is_step_kept = False

    def attach(self, driven: Driven) -> None:
        """Start a thread that calls ``driven.run_due`` whenever its work is due.

        An error of ``run_due`` is logged, and the thread goes on.
        """
        self._drivers[id(driven)] = Driver(self, driven, self.runtime)

    def detach(self, driven: Driven) -> None:
        """Stop the thread of ``driven``, and wait until a run under way has finished.

        Does nothing without such a thread. Called by that thread itself, it does not wait.
        """
        driver = self._drivers.pop(id(driven), None)
        if driver is not None:
            driver.stop()

    def wake(self, driven: Driven) -> None:
        """Let the thread of ``driven``, if any, ask again when work is due."""
        driver = self._drivers.get(id(driven))
        if driver is not None:
            driver.wake()

    def _follow(
        self,
        elapsed_ns: int,
        own_ns: int,
        difference_ms: int,
        offset_ns: int,
        slowed_since_ns: int | None,
    ) -> int:
        """Follow the wall clock as far as the rules of the class allow; return the new time in ns.

        Sets the new anchor, and counts a step of more than a second.
        """
        if abs(difference_ms) > SLEW_MS:
            self._note_step(difference_ms)
        else:
            # The wall clock is back: the next step is a new one, even if it is the same again.
            self._seen_difference_ms = 0
            self._is_step_kept = False
        is_slowed = slowed_since_ns is not None
        if -SLEW_MS <= difference_ms < 0:
            if not is_slowed:
                self._anchor = (offset_ns, elapsed_ns)
            return own_ns
        is_followed = 0 < difference_ms <= self.tolerance_ms and not self._is_step_kept
        if is_followed:
            own_ns += difference_ms * _NS_PER_MS
            self._seen_difference_ms = 0
        if is_followed or is_slowed:
            # Set, not added to: two threads that detect the same step follow it once.
            self._anchor = (own_ns - elapsed_ns, None)
        return own_ns

    def _note_step(self, difference_ms: int) -> None:
        """Count and log a step of the wall clock, unless it was counted before.

        ``difference_ms`` is the wall clock minus this clock. A false step, seen by a thread that
        was delayed between reading two clocks, is ignored.
        """
        if abs(difference_ms - self._seen_difference_ms) <= SLEW_MS:
            # The same step: the two clocks drift further apart, by much in a week.
            self._seen_difference_ms = difference_ms
            return
        if abs(difference_ms - self.difference_ms()) > SLEW_MS:
            # A thread that is delayed between reading the two clocks sees a false step.
            return
        self._seen_difference_ms = difference_ms
        self._is_step_kept = difference_ms > self.tolerance_ms
        self.step_count += 1
        followed = 0 < difference_ms <= self.tolerance_ms
        _LOG.warning(
            "wall clock stepped by %d ms; %s",
            difference_ms,
            "followed" if followed else "own time kept",
        )


def _own_ns(elapsed_ns: int, offset_ns: int, slowed_since_ns: int | None) -> int:
    """Return the clock's time in ns at an elapsed time: that plus an offset.

    Since the elapsed time ``slowed_since_ns``, if any, it is slowed down.
    """
    if slowed_since_ns is None:
        return elapsed_ns + offset_ns
    return elapsed_ns + offset_ns - (elapsed_ns - slowed_since_ns) // _SLOWED_BY
