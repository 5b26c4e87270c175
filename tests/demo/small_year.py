"""Run the demo on every 40th flight of the year and print its result as JSON."""

import json
import sys
from pathlib import Path

import numpy as np

from mayfly.demo.day import DaySnapshot
from mayfly.demo.flights import flights_table
from mayfly.demo.run import Plan, run_demo
from mayfly.demo.wall_clock import WallSeen


class Told:
    """Keeps what a watcher is told."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.lake_rows: list[int] = []
        self.wall_done: list[float] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def day(self, seen: DaySnapshot, done: float, lake_rows: int) -> None:
        self.lake_rows.append(lake_rows)

    def wall(self, seen: WallSeen) -> None:
        self.wall_done.append(seen.done)


flights = flights_table()
sample = flights.take(np.arange(0, len(flights), 40))
told = Told()
plan = Plan(Path(sys.argv[1]), day_seconds=0.0, compression=9_000, flights=lambda: sample)
result = run_demo(plan, told)
said = {"steps": told.steps, "told_rows": told.lake_rows, "wall_done": told.wall_done}
print(json.dumps(result.as_json() | said))
