"""One run as a record: kept as JSON, from which the page and the plots are written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bench.figures import Beside, Curve, Figure, Measured, Told
from bench.machine import LOAD


class Part(NamedTuple):
    """A part that was measured: its name, how long it took, its figures, and what is drawn.

    ``load`` is that of the machine in the last minute of the part; 0 where it was not kept.
    """

    name: str
    seconds: float
    figures: Sequence[Figure]
    curves: Sequence[Curve] = ()
    besides: Sequence[Beside] = ()
    load: float = 0.0

    @classmethod
    def of(cls, name: str, seconds: float, told: Sequence[Told], load: float) -> Part:
        """Return a part of what it told, in the order of each kind."""
        return cls(
            name,
            seconds,
            [one for one in told if isinstance(one, Figure)],
            [one for one in told if isinstance(one, Curve)],
            [one for one in told if isinstance(one, Beside)],
            load,
        )


class Run(NamedTuple):
    """One run: the machine with its versions, the parts in the order they ran, and the peers.

    ``peers`` tells by make its version and what makes a message durable there, or why it is left
    out.
    """

    machine: Mapping[str, str]
    parts: Sequence[Part]
    peers: Mapping[str, str] = {}

    @property
    def figures(self) -> list[Figure]:
        """The figures of all parts."""
        return [figure for part in self.parts for figure in part.figures]


class OtherMayfly(Exception):
    """Records are not of one build of one commit; the text names both."""


def merged(runs: Sequence[Run]) -> Run:
    """Return one run of several of one build: a part of a later one replaces that of an earlier."""
    first, *others = runs
    for run in others:
        if _mayfly(run) != _mayfly(first):
            raise OtherMayfly(f"{_mayfly(first)} and {_mayfly(run)}")
    machine = {**first.machine}
    if others:
        machine[LOAD] = ", ".join(run.machine[LOAD] for run in runs)
    parts = {part.name: part for run in runs for part in run.parts}
    peers = {make: told for run in runs for make, told in run.peers.items()}
    return Run(machine, [*parts.values()], peers)


def _mayfly(run: Run) -> str:
    # A page that a run has written makes the next one dirty.
    return f"{run.machine['Mayfly'].removesuffix('-dirty')}, {run.machine['build']}"


def to_json(run: Run) -> str:
    """Return a run as JSON."""
    parts = [
        {
            "name": part.name,
            "seconds": round(part.seconds, 1),
            "load": round(part.load, 1),
            "figures": [*map(_told, part.figures)],
            "curves": [curve._asdict() for curve in part.curves],
            "besides": [beside._asdict() for beside in part.besides],
        }
        for part in run.parts
    ]
    told = {"machine": run.machine, "peers": run.peers, "parts": parts}
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Run:
    """Return the run of a JSON that ``to_json`` wrote."""
    told = json.loads(text)
    parts = [
        Part(
            part["name"],
            part["seconds"],
            [*map(_figure, part["figures"])],
            # A run kept before there were curves, or comparisons, has none.
            [*map(_curve, part.get("curves", ()))],
            [Beside(**beside) for beside in part.get("besides", ())],
            part.get("load", 0.0),
        )
        for part in told["parts"]
    ]
    return Run(told["machine"], parts, told.get("peers", {}))


def _told(figure: Figure) -> dict[str, object]:
    measured = None if figure.measured is None else figure.measured._asdict()
    return {**figure._asdict(), "measured": measured}


def _curve(told: dict[str, Any]) -> Curve:
    return Curve(**told)._replace(points=[(x, y) for x, y in told["points"]])


def _figure(told: dict[str, object]) -> Figure:
    figure = Figure(**told)  # type: ignore[arg-type]  # as it was written
    if isinstance(told["measured"], dict):
        measured = Measured(**told["measured"])
        return figure._replace(measured=measured._replace(samples=tuple(measured.samples)))
    return figure
