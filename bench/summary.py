"""The page of both builds: each figure of pure Python beside the compiled one, by subject.

It is written from the records of the last whole run of each build, ``pure/run.json`` and
``compiled/run.json``, into the folder that holds both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.figures import Figure
from bench.record import Part, Run, from_json
from bench.subjects import SUBJECTS

#: The folders of the builds, and what their columns are called.
BUILDS: Final = {"pure": "pure Python", "compiled": "compiled"}
_ABSENT: Final = Figure("", "-", "-", True)


def write_summary(folder: Path) -> None:
    """Write the page of the records that a folder has."""
    files = {build: folder / build / "run.json" for build in BUILDS}
    runs = {build: from_json(file.read_text()) for build, file in files.items() if file.exists()}
    (folder / "README.md").write_text(summary(runs))


def summary(runs: Mapping[str, Run]) -> str:
    """Return the text of the page, from runs by build."""
    return "\n".join(_lines(runs)) + "\n"


def _lines(runs: Mapping[str, Run]) -> Iterator[str]:
    yield from ("# Benchmarks", "")
    yield "`make bench` and `make bench BUILD=compiled` write this page, each from its own run."
    yield "An aim is that of the compiled build; what differs for pure Python stands in brackets."
    yield from ("A figure that misses the aim of its build is bold.", "")
    columns = " | ".join(f"[{name}]({build}/README.md)" for build, name in _named(runs))
    yield from (f"| the run | {columns} |", f"|---|{'---|' * len(runs)}")
    for row in dict.fromkeys(row for run in runs.values() for row in run.machine):
        yield f"| {row} | {' | '.join(run.machine.get(row, '-') for run in runs.values())} |"
    aims = " | ".join(_met(runs[build]) for build, _ in _named(runs))
    yield f"| aims | {aims} |"
    for subject, names in SUBJECTS.items():
        rows = [row for name in names for row in _rows(runs, name)]
        if rows:
            yield from ("", f"## {subject}", "")
            columns = " | ".join(name for _, name in _named(runs))
            yield f"| figure | {columns} | aim | beside, notes |"
            yield f"|---|{'---|' * len(runs)}---|---|"
            yield from rows


def _named(runs: Mapping[str, Run]) -> list[tuple[str, str]]:
    return [(build, name) for build, name in BUILDS.items() if build in runs]


def _met(run: Run) -> str:
    aimed = [figure for figure in run.figures if figure.verdict]
    return f"{sum(figure.holds for figure in aimed)} of {len(aimed)} met"


def _rows(runs: Mapping[str, Run], name: str) -> Iterator[str]:
    """Yield a row for each figure of a part, whichever of the builds has it."""
    found = [_by_name(run.parts, name) for run in map(runs.__getitem__, dict(_named(runs)))]
    for figure_name in dict.fromkeys(key for each in found for key in each):
        each = [figures.get(figure_name, _ABSENT) for figures in found]
        told = next(figure for figure in reversed(each) if figure is not _ABSENT)
        cells = (figure_name, *map(_cell, each), _aim(each), told.note or "-")
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _by_name(parts: Sequence[Part], name: str) -> dict[str, Figure]:
    return {one.name: one for part in parts if part.name == name for one in part.figures}


def _cell(figure: Figure) -> str:
    spread = f" ({figure.spread})" if figure.spread else ""
    return f"**{figure.value}**{spread}" if figure.verdict == "missed" else figure.value + spread


def _aim(each: list[Figure]) -> str:
    aims = [figure.aim or "-" for figure in each if figure is not _ABSENT]
    return aims[-1] if len({*aims}) == 1 else f"{aims[-1]} ({aims[0]})"
