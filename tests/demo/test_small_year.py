"""The whole demo on a thinned year, by its command."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from mayfly.cli.airport import run
from mayfly.cli.airport.day import DaySnapshot
from mayfly.cli.airport.flights import flights_table
from mayfly.cli.airport.run import DemoPlan, DemoResult, DemoWatcher
from mayfly.cli.airport.wall_clock import WallSeen
from tests.cli.conftest import Invoke

EVERY = 40
YEAR_COUNT = 336_776


class Told:
    """Keeps what a watcher is told, and tells it."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.wall_done: list[float] = []
        self._run = run.run_demo

    def run(self, plan: DemoPlan, watcher: DemoWatcher) -> DemoResult:
        """Run the demo with this watcher in front of the command's."""
        self._watcher = watcher
        return self._run(plan, self)

    def step(self, text: str) -> None:
        self.steps.append(text)
        self._watcher.step(text)

    def day(self, seen: DaySnapshot, done: float, lake_rows: int) -> None:
        self._watcher.day(seen, done, lake_rows)

    def wall(self, seen: WallSeen) -> None:
        self.wall_done.append(seen.done)
        self._watcher.wall(seen)


# All of it is run by test_readme.py in make soak; this one looks closer.
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.long
def test_the_demo_from_end_to_end_on_every_40th_flight(
    spark: SparkSession, mayfly: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo takes the session of the tests over and stops it, so that its Java is warm."""
    flights = flights_table()
    sample = flights.take(np.arange(0, len(flights), EVERY))
    small = partial(DemoPlan, day_seconds=0.0, compression=9_000, flights=lambda: sample)
    told, out = Told(), tmp_path / "out"
    # The command makes its plan and runs it by these names.
    monkeypatch.setattr(run, "DemoPlan", small)
    monkeypatch.setattr(run, "run_demo", told.run)
    answer = mayfly("demo", "--out", str(out), "--json")
    assert answer.exit_code == 0, answer.output
    said = json.loads(answer.stdout)
    assert said["problems"] == []
    assert said["ok"] is True
    day, year = said["day"], said["year"]
    assert day["calls"] == day["got"] + day["expired"] == day["reports"] + day["got"] > 20
    assert year["calls"] == year["got"] + year["expired"] == -(-YEAR_COUNT // EVERY)
    # The stream and the day went on together.
    assert 0 < said["lake"]["rows_during_day"] <= said["lake"]["rows"]
    assert len(told.steps) == 6
    wall = said["wall_clock"]
    assert wall["calls"] == wall["got"] + wall["expired"] == day["calls"]
    assert wall["got"] + len(wall["changed"]) == day["got"]
    assert wall["present"] == 0
    assert wall["batches"] > 1
    assert 0 < wall["lake"]["rows_during_day"] <= wall["lake"]["rows"]
    assert told.wall_done == sorted(told.wall_done)
    assert told.wall_done[-1] == 1.0
    assert all(Path(file).exists() for file in said["files"])
    assert json.loads((out / "summary.json").read_text())["differences"] == 0
