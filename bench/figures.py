"""One measured figure, its floor, and how they are printed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Figure(NamedTuple):
    """One figure: its name, the value, the floor or ceiling from the plan, whether it holds."""

    name: str
    value: str
    aim: str
    holds: bool
    note: str = ""


def at_least(name: str, value: float, floor: float, unit: str, note: str = "") -> Figure:
    """Return a figure that should not fall below a floor."""
    return Figure(name, _spelled(value, unit), f">= {floor:g}{unit}", value >= floor, note)


def at_most(name: str, value: float, ceiling: float, unit: str, note: str = "") -> Figure:
    """Return a figure that should not rise above a ceiling."""
    return Figure(name, _spelled(value, unit), f"<= {ceiling:g}{unit}", value <= ceiling, note)


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
    rows = [("ok" if f.holds else "MISSED", f.name, f.value, f.aim, f.note) for f in figures]
    widths = [max(len(row[n]) for row in rows) for n in range(5)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _spelled(value: float, unit: str) -> str:
    return f"{value:,.0f}{unit}" if value >= 1000 else f"{value:.3g}{unit}"
