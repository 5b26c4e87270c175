"""The plots of a page: how far each aim was met, and costs over sizes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.figures import Beside, Curve, Figure, Measured, median

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

#: Of Okabe and Ito, which those who see no red or no green tell apart; the shapes differ as well.
_MET, _MISSED = ("#0072B2", "o"), ("#D55E00", "X")
_COLORS: Final = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#7F7F7F",
)
#: Of an axis: a million is not 1e+06.
_NUMBER: Final = "{x:,.12g}"
_MARKERS: Final = ("o", "X", "s", "^", "D", "v", "P", "*")


def is_drawn(figure: Figure) -> bool:
    """Whether a figure is among those of ``draw_aims``: it has a number and an aim."""
    measured = figure.measured
    return measured is not None and bool(measured.number and measured.aim)


def draw_aims(figures: Sequence[Figure], file: Path) -> None:
    """Draw how far each aim was met; without a figure that has one, remove the file."""
    drawn = [(f, f.measured) for f in figures if is_drawn(f) and f.measured]
    if not drawn:
        file.unlink(missing_ok=True)
        return
    picture = _picture(11, 1.3 + 0.32 * len(drawn))
    axes = picture.add_subplot()
    for height, (figure, measured) in enumerate(reversed(drawn)):
        color, marker = _MET if figure.holds else _MISSED
        ends = _range(measured)
        axes.plot(ends, (height, height), color=color, linewidth=2, alpha=0.5)
        axes.plot(measured.times_the_aim, height, marker, color=color, markersize=7)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    # At least two decades, each with a number of its own.
    left, right = axes.get_xlim()
    axes.set_xlim(min(left, 0.1), max(right, 10))
    axes.xaxis.set_major_formatter("{x:g}x")
    axes.xaxis.set_minor_formatter("")
    axes.grid(axis="x", which="major", color="#DDDDDD")
    axes.set_axisbelow(True)
    axes.set_yticks(range(len(drawn)), [f"{f.name}: {f.value}" for f, _ in reversed(drawn)])
    axes.set_xlabel("times as good as the aim (log): right of the line is met; bars: all rounds")
    for (color, marker), label in ((_MET, "met"), (_MISSED, "missed")):
        axes.plot([], [], marker, color=color, label=label)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    picture.savefig(file, metadata={"Date": None})


def draw_curves(curves: Sequence[Curve], file: Path) -> None:
    """Draw curves of one plot into a file."""
    picture = _picture(10, 5)
    axes = picture.add_subplot()
    for curve, color, marker in zip(curves, cycle(_COLORS), cycle(_MARKERS), strict=False):
        xs, ys = zip(*curve.points, strict=True)
        axes.plot(xs, ys, marker=marker, color=color, linewidth=1.5, label=curve.name)
    axes.set_xscale("log")
    if curves[0].spans_decades:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_NUMBER)
        axis.set_minor_formatter("")
    axes.grid(which="major", color="#DDDDDD")
    axes.set_axisbelow(True)
    axes.set_xlabel(f"{curves[0].x_label} (log)")
    axes.set_ylabel(curves[0].y_label + (" (log)" if curves[0].spans_decades else ""))
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    picture.savefig(file, metadata={"Date": None})


def draw_beside(besides: Sequence[Beside], file: Path) -> None:
    """Draw what each make did, bars for each comparison; ours have a colour of their own."""
    rows = [len(beside.rounds) for beside in besides]
    picture = _picture(10, sum(0.75 + 0.3 * count for count in rows))
    each = picture.subplots(len(besides), 1, squeeze=False, height_ratios=[n + 1 for n in rows])
    for beside, (axes,) in zip(besides, each, strict=True):
        makes = [*beside.rounds]
        for height, make in enumerate(reversed(makes)):
            values = beside.rounds[make]
            color = _COLORS[0] if beside.is_ours(make) else _COLORS[-1]
            middle = median(values)
            axes.barh(height, middle, 0.7, color=color, alpha=0.75)
            axes.plot((min(values), max(values)), (height, height), color="black", linewidth=1.5)
        axes.set_yticks(range(len(makes)), [*reversed(makes)])
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(_NUMBER)
        axes.grid(axis="x", which="major", color="#DDDDDD")
        axes.set_axisbelow(True)
        better = "more" if beside.is_rate else "less"
        title = f"{beside.name} ({beside.unit.strip()}; {better} is better)"
        axes.set_title(title, loc="left", fontsize="medium")
    picture.savefig(file, metadata={"Date": None})


def _picture(width: float, height: float) -> Picture:
    # Loaded here: a run that writes no page does without.
    from matplotlib.figure import Figure as Picture

    return Picture(figsize=(width, height), layout="constrained")


def _range(measured: Measured) -> tuple[float, float]:
    each = [measured.of_aim(value) for value in measured.samples] or [measured.times_the_aim]
    return min(each), max(each)
