"""Figures of today beside those of an earlier commit: medians of rounds, ratio, what is noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from bench.figures import Measured, aligned, median
from bench.record import Part

#: The two sides, in the order in which they take turns.
TODAY: Final = "today"
THEN: Final = "then"
SIDES: Final = (TODAY, THEN)

#: Measures a part of one side; raises :class:`CannotRun`.
Measure = Callable[[str, str], Part]


class CannotRun(Exception):
    """A part does not run with the Mayfly of a side; the text says why, in one line."""


class Ratio(NamedTuple):
    """One figure of both sides; samples are the numbers of the rounds, ``number`` their median."""

    name: str
    today: Measured
    then: Measured

    @property
    def value(self) -> float:
        """Today's median divided by the one of then; 1 where both are 0."""
        if self.then.number:
            return self.today.number / self.then.number
        return float("inf") if self.today.number else 1.0

    @property
    def verdict(self) -> str:
        """``better`` or ``worse`` where all rounds of today are; empty where the rounds overlap."""
        if min(self.today.samples) > max(self.then.samples):
            return "better" if self.today.is_rate else "worse"
        if max(self.today.samples) < min(self.then.samples):
            return "worse" if self.today.is_rate else "better"
        return ""


class Comparison(NamedTuple):
    """Figures that both sides have, and lines of what is left out and why."""

    ratios: Sequence[Ratio]
    left_out: Sequence[str]


def compared(names: Sequence[str], round_count: int, measure: Measure) -> Comparison:
    """Measure parts on both sides in turn, part by part."""
    ratios: list[Ratio] = []
    left_out: list[str] = []
    for name in names:
        parts: dict[str, list[Part]] = {side: [] for side in SIDES}
        try:
            for _ in range(round_count):
                for side in SIDES:
                    parts[side].append(measure(side, name))
        except CannotRun as failure:
            left_out.append(f"{name} cannot run {_when(side)}: {failure}")
            continue
        today, then = _figures(parts[TODAY]), _figures(parts[THEN])
        ratios += [Ratio(n, today[n], then[n]) for n in today if n in then]
        left_out += _alone(today, then)
    return Comparison(ratios, left_out)


def table(ratios: Sequence[Ratio]) -> str:
    """Return ratios as aligned lines below a headline."""
    rows = [("", "figure", TODAY, "its rounds", THEN, "its rounds", "today / then")]
    rows += [
        (
            one.verdict or "-",
            one.name,
            one.today.spelled,
            one.today.spread,
            one.then.spelled,
            one.then.spread,
            f"{one.value:.2f}",
        )
        for one in ratios
    ]
    return aligned(rows)


def _figures(rounds: Sequence[Part]) -> dict[str, Measured]:
    """Return by name the figures that every round has, over all rounds."""
    found: dict[str, list[Measured]] = {}
    for part in rounds:
        for figure in part.figures:
            if figure.measured is not None:
                found.setdefault(figure.name, []).append(figure.measured)
    return {name: _over(each) for name, each in found.items() if len(each) == len(rounds)}


def _over(rounds: Sequence[Measured]) -> Measured:
    numbers = tuple(one.number for one in rounds)
    return rounds[0]._replace(number=median(numbers), samples=numbers)


def _alone(today: dict[str, Measured], then: dict[str, Measured]) -> Iterator[str]:
    for side, own, other in ((TODAY, today, then), (THEN, then, today)):
        for name in own:
            if name not in other:
                yield f"{name!r} was measured in every round only {_when(side)}"


def _when(side: str) -> str:
    return side if side == TODAY else "on that commit"
