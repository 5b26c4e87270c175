"""Run the demo on every 40th flight of the year and print its result as JSON."""

import json
import sys
from pathlib import Path

import numpy as np

from mayfly.demo.day import Seen
from mayfly.demo.flights import flights_table
from mayfly.demo.run import Plan, run_demo


class Told:
    """Keeps what a watcher is told."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.lake_rows: list[int] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def day(self, seen: Seen, done: float, lake_rows: int) -> None:
        self.lake_rows.append(lake_rows)


flights = flights_table()
sample = flights.take(np.arange(0, len(flights), 40))
told = Told()
result = run_demo(Plan(Path(sys.argv[1]), day_seconds=0.0, flights=lambda: sample), told)
print(json.dumps(result.as_json() | {"steps": told.steps, "told_rows": told.lake_rows}))
