"""One measured figure, its floor, and how they are printed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

#: What a line of the table begins with, by the verdict.
_MARKS: Final = {"met": "ok", "missed": "MISSED", "": "-"}


class Measured(NamedTuple):
    """The number of a figure, by which it is drawn and compared.

    ``samples`` are the values of the rounds, of which ``number`` is the median or the best; empty
    where there was one round. ``is_rate`` says that more is better.
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
        return _spelled(self.number, self.unit)

    @property
    def spread(self) -> str:
        """The lowest and the highest round; empty where there was one."""
        if len(self.samples) < 2:
            return ""
        low, high = min(self.samples), max(self.samples)
        return f"{_spelled(low, self.unit)} to {_spelled(high, self.unit)}"


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
    return Figure(
        name, _spelled(value, unit), f">= {floor:g}{unit}", value >= floor, note, measured
    )


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
        name, _spelled(value, unit), f"<= {ceiling:g}{unit}", value <= ceiling, note, measured
    )


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


def _spelled(value: float, unit: str) -> str:
    return f"{value:,.0f}{unit}" if value >= 1000 else f"{value:.3g}{unit}"
