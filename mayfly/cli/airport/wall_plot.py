"""The picture of the day on the machine's clock: depth as the lake has it, and the lake filling."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mayfly.cli.airport import summary
from mayfly.cli.airport.drawing import (
    AVAILABLE,
    INK,
    LATE,
    mark_hours,
    moments,
    plain,
    save,
    span_ms,
)
from mayfly.cli.airport.flights import MINUTE_MS
from mayfly.cli.airport.wall_clock import WallDay
from mayfly.lifetime.columns import Ints, ints
from mayfly.lifetime.times import SECOND_MS

_STEP_MS = 2 * MINUTE_MS
_STAGED = "#7c8aa0"
_RULE = (
    "Colored: as the lake has it. Spark puts in batches what has become due: a call put late waits"
    " less and is there at its time. Thin and dark: the virtual clock."
)


def draw_wall_png(day: WallDay, virtual: pa.Table, path: Path) -> None:
    """Draw the calls that wait and that can be got on both clocks, and the lake, 1920 x 1080.

    ``virtual`` is the outcome table of the same day.
    """
    figure = Figure(figsize=(16, 9), dpi=120, layout="constrained")
    waiting, there, lake = figure.subplots(3, 1, sharex=True, height_ratios=[3, 3, 2])
    span = span_ms(virtual)
    moments_ms = np.arange(*span, _STEP_MS)
    wall = summary.presence(_in_the_day(day), moments_ms)
    exact = summary.presence(virtual, moments_ms)
    _depth(waiting, moments_ms, (wall.staged_count, exact.staged_count), _STAGED)
    waiting.set_title("Calls that wait for their delivery time", fontsize=12, loc="left")
    _depth(there, moments_ms, (wall.available_count, exact.available_count), AVAILABLE)
    there.set_title("Calls that can be got", fontsize=12, loc="left")
    _lake(lake, day)
    mark_hours(lake, span)
    lake.set_xlabel("local time of the day")
    hours = day.compression.minutes(SECOND_MS) / 60
    title = (
        f"The day on the wall clock, {hours:g} h a second: {len(day.lives):,} calls put by Spark"
    )
    save(figure, title, _RULE, path)


def _depth(axes: Axes, moments_ms: Ints, counts: tuple[Ints, Ints], color: str) -> None:
    by_the_wall, virtual = counts
    axes.step(moments(moments_ms), by_the_wall, where="post", color=color, linewidth=2.4)
    axes.fill_between(moments(moments_ms), by_the_wall, step="post", color=color, alpha=0.18)
    axes.plot(moments(moments_ms), virtual, color=INK, linewidth=0.9)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("calls")
    plain(axes)


def _lake(axes: Axes, day: WallDay) -> None:
    seen_ms = np.array([seen.day_ms for seen in day.seen])
    rows = np.array([seen.lake_rows for seen in day.seen])
    axes.step(moments(seen_ms), rows, where="post", color=LATE, linewidth=2)
    axes.set_title("Rows of the ledger in the lake, batch by batch", fontsize=12, loc="left")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("rows")
    plain(axes)


def _in_the_day(day: WallDay) -> pa.Table:
    """Return the lives with the times of the day; an expired call is there until its deadline."""
    lives, compression = day.lives, day.compression
    gone_ms = pc.min_element_wise(lives["ended_ms"], lives["expire_at_ms"])
    of_the_day = {
        name: compression.day_begin_ms + (ints(times) - compression.begin_ms) * compression.factor
        for name, times in (
            ("put_ms", lives["put_ms"]),
            ("deliver_at_ms", lives["deliver_at_ms"]),
            ("ended_ms", gone_ms),
        )
    }
    return pa.table({**of_the_day, "outcome": lives["outcome"]})
