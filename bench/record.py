"""One run as a record: kept as JSON, from which the page and the plots are written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bench.figures import Curve, Figure, Measured


class Part(NamedTuple):
    """A part that was measured: its name, how long it took, its figures, and what is drawn."""

    name: str
    seconds: float
    figures: Sequence[Figure]
    curves: Sequence[Curve] = ()


class Run(NamedTuple):
    """One run: the machine with its versions, and the parts in the order they ran."""

    machine: Mapping[str, str]
    parts: Sequence[Part]

    @property
    def figures(self) -> list[Figure]:
        """The figures of all parts."""
        return [figure for part in self.parts for figure in part.figures]


def to_json(run: Run) -> str:
    """Return a run as JSON."""
    parts = [
        {
            "name": part.name,
            "seconds": round(part.seconds, 1),
            "figures": [*map(_told, part.figures)],
            "curves": [curve._asdict() for curve in part.curves],
        }
        for part in run.parts
    ]
    return json.dumps({"machine": run.machine, "parts": parts}, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Run:
    """Return the run of a JSON that ``to_json`` wrote."""
    told = json.loads(text)
    parts = [
        Part(
            part["name"],
            part["seconds"],
            [*map(_figure, part["figures"])],
            # A run kept before there were curves has none.
            [*map(_curve, part.get("curves", ()))],
        )
        for part in told["parts"]
    ]
    return Run(told["machine"], parts)


def _told(figure: Figure) -> dict[str, object]:
    measured = None if figure.measured is None else figure.measured._asdict()
    return {**figure._asdict(), "measured": measured}


def _curve(told: dict[str, Any]) -> Curve:
    return Curve(**told)._replace(points=[(x, y) for x, y in told["points"]])


def _figure(told: dict[str, object]) -> Figure:
    figure = Figure(**told)  # type: ignore[arg-type]
    if isinstance(told["measured"], dict):
        measured = Measured(**told["measured"])
        return figure._replace(measured=measured._replace(samples=tuple(measured.samples)))
    return figure
