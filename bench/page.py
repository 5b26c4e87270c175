"""The page of a run: the machine, and each figure with its spread, its aim and what is beside it.

``README.md``, ``aims.svg`` and ``run.json`` are written into one folder, all from one record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.figures import Figure, Measured
from bench.record import Run, to_json

#: Of Okabe and Ito, which those who see no red or no green tell apart; the shapes differ as well.
_MET, _MISSED = ("#0072B2", "o"), ("#D55E00", "X")
_PLOT: Final = "aims.svg"


def write_page(run: Run, folder: Path) -> None:
    """Write the page, its plot and the record into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(to_json(run))
    (folder / "README.md").write_text(page(run))
    _draw(run, folder / _PLOT)


def page(run: Run) -> str:
    """Return the text of the page."""
    return "\n".join(_lines(run)) + "\n"


def _lines(run: Run) -> Iterator[str]:
    aimed = [figure for figure in run.figures if figure.verdict]
    met = sum(figure.holds for figure in aimed)
    yield from ("# Benchmarks", "")
    yield "`make bench` wrote this page from one run; `run.json` beside it is the record."
    yield from (f"Of {len(aimed)} aims {met} were met.", "", "| the run | |", "|---|---|")
    yield from (f"| {name} | {value} |" for name, value in run.machine.items())
    if any(figure.measured for figure in aimed):
        yield from ("", f"![How far each aim was met]({_PLOT})")
    for part in run.parts:
        yield from ("", f"## {part.name}", "", f"It took {part.seconds:,.0f} s.", "")
        yield "| figure | measured | lowest to highest round | aim | | beside, notes |"
        yield "|---|---|---|---|---|---|"
        yield from map(_row, part.figures)


def _row(figure: Figure) -> str:
    verdict = "**missed**" if figure.verdict == "missed" else figure.verdict
    cells = (figure.name, figure.value, figure.spread, figure.aim, verdict, figure.note)
    return "| " + " | ".join((cell or "-").replace("|", "\\|") for cell in cells) + " |"


def _draw(run: Run, file: Path) -> None:
    # Loaded here: a run that writes no page does without.
    from matplotlib.figure import Figure as Picture

    drawn = [(f, f.measured) for f in run.figures if f.measured and f.measured.number]
    if not drawn:
        file.unlink(missing_ok=True)
        return
    picture = Picture(figsize=(11, 1.3 + 0.32 * len(drawn)), layout="constrained")
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


def _range(measured: Measured) -> tuple[float, float]:
    each = [measured.of_aim(value) for value in measured.samples] or [measured.times_the_aim]
    return min(each), max(each)
