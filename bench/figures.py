"""One measured figure, its floor, and how they are printed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

#: What a line of the table begins with, by the verdict.
_MARKS: Final = {"met": "ok", "missed": "MISSED", "": "-"}


class Measured(NamedTuple):
    """The number of a figure, by which it is drawn and compared.

    ``samples`` are the values of the rounds, of which ``number`` is the median or the best; empty
    where there was one round. ``is_rate`` says that more is better. ``aim`` is 0 where there is
    none.
    """

    number: float
    unit: str
    aim: float
    is_rate: bool
    samples: tuple[float, ...] = ()

    @property
    def times_the_aim(self) -> float:
        """How far the aim was met: 1 is just met, 2 twice as good, 0.5 half as good."""
        return self.of_aim(self.number)

    def of_aim(self, value: float) -> float:
        """Return how far the aim is met by a value; infinite for a cost of nothing."""
        if self.is_rate:
            return value / self.aim
        return self.aim / value if value else float("inf")

    @property
    def spelled(self) -> str:
        """The number with its unit."""
        return spelled(self.number, self.unit)

    @property
    def spread(self) -> str:
        """The lowest and the highest round; empty where there was one."""
        return _spread(self.samples, self.unit)


class Figure(NamedTuple):
    """One figure: its name, the value, the floor or ceiling from the plan, whether it holds."""

    name: str
    value: str
    aim: str
    holds: bool
    note: str = ""
    measured: Measured | None = None

    @property
    def verdict(self) -> str:
        """``met`` or ``missed``; empty where nothing was measured against an aim."""
        if not self.holds:
            return "missed"
        return "" if self.value == "-" or self.aim in ("", "-") else "met"

    @property
    def spread(self) -> str:
        """The lowest and the highest round; empty where there was one."""
        return "" if self.measured is None else self.measured.spread


class Curve(NamedTuple):
    """What is drawn over sizes, on a logarithmic axis, into the plot named; points ascend.

    ``spans_decades`` makes the axis of values logarithmic as well.
    """

    plot: str
    name: str
    x_label: str
    y_label: str
    points: Sequence[tuple[float, float]]
    spans_decades: bool


class Beside(NamedTuple):
    """What makes did in turn: the values of the rounds of each, ours first, then its peers."""

    name: str
    unit: str
    is_rate: bool
    rounds: Mapping[str, Sequence[float]]

    @property
    def ours(self) -> str:
        """Our name among the makes."""
        return next(iter(self.rounds))

    def is_ours(self, make: str) -> bool:
        """Whether a make is ours in one of its ways: ``Mayfly, JMS`` as well."""
        return make.partition(",")[0] == self.ours.partition(",")[0]

    def times_as_good(self, make: str) -> float:
        """How many times as good as a make we are, by the medians of the ratios of the rounds."""
        pairs = zip(self.rounds[self.ours], self.rounds[make], strict=True)
        ratio = statistics.median(own / other for own, other in pairs)
        return ratio if self.is_rate else 1 / ratio

    def spelled(self, make: str) -> str:
        """The median of a make with its unit."""
        return spelled(statistics.median(self.rounds[make]), self.unit)

    def spread(self, make: str) -> str:
        """The lowest and the highest round of a make; empty where there was one."""
        return _spread(self.rounds[make], self.unit)

    def figure(self, missing: Sequence[str] = ()) -> Figure:
        """The same as a figure without an aim; ``missing`` says who is left out and why."""
        others = [f"{make} {self.spelled(make)}" for make in self.rounds if make != self.ours]
        own, note = self.rounds[self.ours], "; ".join([*others, *missing])
        middle = statistics.median(own)
        return without_aim(self.name, middle, self.unit, note, is_rate=self.is_rate, samples=own)


#: What a part tells.
Told: TypeAlias = Figure | Curve | Beside


def at_least(
    name: str,
    value: float,
    floor: float,
    unit: str,
    note: str = "",
    *,
    samples: Sequence[float] = (),
) -> Figure:
    """Return a figure that should not fall below a floor."""
    measured = Measured(value, unit, floor, True, tuple(samples))
    return Figure(name, spelled(value, unit), f">= {floor:g}{unit}", value >= floor, note, measured)


def at_most(
    name: str,
    value: float,
    ceiling: float,
    unit: str,
    note: str = "",
    *,
    samples: Sequence[float] = (),
) -> Figure:
    """Return a figure that should not rise above a ceiling."""
    measured = Measured(value, unit, ceiling, False, tuple(samples))
    return Figure(
        name, spelled(value, unit), f"<= {ceiling:g}{unit}", value <= ceiling, note, measured
    )


def without_aim(
    name: str,
    value: float,
    unit: str,
    note: str = "",
    *,
    is_rate: bool,
    samples: Sequence[float] = (),
) -> Figure:
    """Return a figure that is told, and compared between commits, but has no aim."""
    measured = Measured(value, unit, 0, is_rate, tuple(samples))
    return Figure(name, spelled(value, unit), "-", True, note, measured)


def seconds_of(action: Callable[[], object]) -> float:
    """Return how long an action takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def median(values: Iterable[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def table(figures: Iterable[Figure]) -> str:
    """Return figures as aligned lines, those that miss their aim marked."""
    rows = [(_MARKS[f.verdict], f.name, f.value, f.spread, f.aim, f.note) for f in figures]
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines, their columns one below the other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def spelled(value: float, unit: str) -> str:
    """Return a value with its unit, to three figures."""
    return f"{value:,.0f}{unit}" if value >= 1000 else f"{value:.3g}{unit}"


def _spread(values: Sequence[float], unit: str) -> str:
    if len(values) < 2:
        return ""
    return f"{spelled(min(values), unit)} to {spelled(max(values), unit)}"
