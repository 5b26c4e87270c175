"""The page of a run: the machine, and each figure with its spread, its aim and what is beside it.

``README.md``, ``aims.svg``, a plot of each kind of curve and ``run.json`` are written into one
folder, all from one record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.figures import Curve, Figure, spelled
from bench.plots import draw_aims, draw_beside, draw_curves, is_drawn
from bench.record import Part, Run, to_json

_PLOT: Final = "aims.svg"


def write_page(run: Run, folder: Path) -> None:
    """Write the page, its plot and the record into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(to_json(run))
    (folder / "README.md").write_text(page(run))
    draw_aims(run.figures, folder / _PLOT)
    for part in run.parts:
        for name, curves in _plots(part).items():
            draw_curves(curves, folder / name)
        if part.besides:
            draw_beside(part.besides, folder / _beside_plot(part))


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
    if run.peers:
        yield from ("", "| peers | version; what makes a message durable |", "|---|---|")
        yield from (f"| {name} | {value} |" for name, value in run.peers.items())
    if any(map(is_drawn, aimed)):
        yield from ("", f"![How far each aim was met]({_PLOT})")
    for part in run.parts:
        yield from ("", f"## {part.name}", "", f"It took {part.seconds:,.0f} s{_load(part)}.", "")
        yield from _figures(part)
        for name in _plots(part):
            yield from ("", f"![{part.name}: {name.removesuffix('.svg')}]({name})")
        yield from _besides(part)


def _load(part: Part) -> str:
    return f"; the load of its last minute was {part.load:.1f}" if part.load else ""


def _figures(part: Part) -> Iterator[str]:
    """Tell the figures, but for those without an aim that a comparison tells."""
    compared = {beside.name for beside in part.besides}
    told = [figure for figure in part.figures if figure.verdict or figure.name not in compared]
    if told:
        yield "| figure | measured | lowest to highest round | aim | | beside, notes |"
        yield "|---|---|---|---|---|---|"
        yield from map(_row, told)


def _besides(part: Part) -> Iterator[str]:
    """Tell what each make did, by comparison, and draw all of them in one picture."""
    for beside in part.besides:
        yield from ("", f"### {beside.name}", "")
        yield f"| make | median | lowest to highest round | {beside.ours} against it |"
        yield "|---|---|---|---|"
        for make in beside.rounds:
            ratio = "-" if make == beside.ours else spelled(beside.times_as_good(make), "x as good")
            cells = (make, beside.spelled(make), beside.spread(make) or "-", ratio)
            yield f"| {' | '.join(cells)} |"
    if part.besides:
        yield from ("", f"![{part.name}: beside its peers]({_beside_plot(part)})")


def _beside_plot(part: Part) -> str:
    return f"{part.name}-beside.svg"


def _plots(part: Part) -> dict[str, list[Curve]]:
    """Return the curves of a part by the file that each plot of them has."""
    plots: dict[str, list[Curve]] = {}
    for curve in part.curves:
        plots.setdefault(f"{part.name}-{curve.plot}.svg", []).append(curve)
    return plots


def _row(figure: Figure) -> str:
    verdict = "**missed**" if figure.verdict == "missed" else figure.verdict
    cells = (figure.name, figure.value, figure.spread, figure.aim, verdict, figure.note)
    return "| " + " | ".join((cell or "-").replace("|", "\\|") for cell in cells) + " |"
