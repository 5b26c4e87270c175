"""``mayfly demo --json`` on every 40th flight of the year; what was told of it goes to a file."""

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np

from mayfly.cli import main
from mayfly.demo import run
from mayfly.demo.day import DaySnapshot
from mayfly.demo.flights import flights_table
from mayfly.demo.run import DemoResult, Plan, Watcher, run_demo
from mayfly.demo.wall_clock import WallSeen


class Told:
    """Keeps what a watcher is told, and tells it."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self.steps: list[str] = []
        self.wall_done: list[float] = []

    def step(self, text: str) -> None:
        self.steps.append(text)
        self._watcher.step(text)

    def day(self, seen: DaySnapshot, done: float, lake_rows: int) -> None:
        self._watcher.day(seen, done, lake_rows)

    def wall(self, seen: WallSeen) -> None:
        self.wall_done.append(seen.done)
        self._watcher.wall(seen)


def run_and_note(plan: Plan, watcher: Watcher) -> DemoResult:
    """Run the demo, and note what its watcher is told."""
    told = Told(watcher)
    result = run_demo(plan, told)
    Path(told_file).write_text(json.dumps({"steps": told.steps, "wall_done": told.wall_done}))
    return result


_, out, told_file = sys.argv
flights = flights_table()
sample = flights.take(np.arange(0, len(flights), 40))
# The command makes its plan and runs it by these names.
run.Plan = partial(Plan, day_seconds=0.0, compression=9_000, flights=lambda: sample)  # type: ignore[assignment,misc]  # a class replaced
run.run_demo = run_and_note
sys.argv[1:] = ["demo", "--out", out, "--json"]
main()
