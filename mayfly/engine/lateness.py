"""Lateness: how long after their moment messages were released, or expired ones discarded."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from mayfly.lifetime.times import SECOND_MS

#: The bounds of the counts: from the millisecond of a clock to the day of an idle queue.
BOUNDS_MS: Final = (
    1,
    5,
    10,
    25,
    50,
    100,
    250,
    500,
    SECOND_MS,
    5 * SECOND_MS,
    30 * SECOND_MS,
    300 * SECOND_MS,
    3_600 * SECOND_MS,
    86_400 * SECOND_MS,
)


class LatenessCounts(NamedTuple):
    """A histogram of lateness: ``counts[i]`` counts messages late by at most ``BOUNDS_MS[i]``.

    Each counts only messages later than the bound before; one more number is for later ones.
    ``sum_ms`` is the sum of all latenesses in ms.
    """

    counts: tuple[int, ...]
    sum_ms: int


class LatenessSum(NamedTuple):
    """How many messages of one queue were released, or discarded, and how late together, in ms."""

    message_count: int
    sum_ms: int

    def plus(self, moments_ms: Sequence[int], now_ms: int) -> LatenessSum:
        """Return the sum with messages that are handled at ``now_ms``, by their moments.

        A moment in the future counts as 0 ms late.
        """
        late_ms = sum(now_ms - moment_ms for moment_ms in moments_ms if moment_ms < now_ms)
        return LatenessSum(self.message_count + len(moments_ms), self.sum_ms + late_ms)


#: The lateness of a queue without releases or discards.
NO_LATENESS: Final = LatenessSum(0, 0)


class Lateness:
    """Counts how late messages were handled, since the queue manager was opened; under its lock."""

    def __init__(self) -> None:
        """Begin with no message counted."""
        self._counts = [0] * (len(BOUNDS_MS) + 1)
        self._sum_ms = 0

    def note(self, moments_ms: Iterable[int], now_ms: int) -> None:
        """Count messages that are handled at ``now_ms``, by their deadlines or delivery times.

        A moment in the future counts as 0 ms late.
        """
        ordered = sorted(moments_ms)
        if ordered and ordered[-1] > now_ms:
            ordered = [min(moment_ms, now_ms) for moment_ms in ordered]
        end = len(ordered)
        self._sum_ms += end * now_ms - sum(ordered)
        # Each bound parts those that are within it from all that are beyond, with one search.
        for place, bound_ms in enumerate(BOUNDS_MS):
            first = bisect_left(ordered, now_ms - bound_ms, 0, end)
            self._counts[place] += end - first
            end = first
            if not end:
                return
        self._counts[-1] += end

    def counts(self) -> LatenessCounts:
        """Return the histogram so far."""
        return LatenessCounts(tuple(self._counts), self._sum_ms)
