"""Parts that the pictures of the demo share: colors, the axis of the day, title and credit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mayfly.cli.airport.flights import DAY_MS, MINUTE_MS, SOURCE
from mayfly.lifetime.columns import Ints, ints

STAGED, AVAILABLE, LATE, INK = "#c3ccd8", "#2f7fb8", "#d1482f", "#1f2933"
CREDIT = f"Source: {SOURCE}. Times are local."
_TICK_MS = 180 * MINUTE_MS
_MARGIN_MS = 30 * MINUTE_MS


def span_ms(calls: pa.Table) -> tuple[int, int]:
    """Return begin and end of a picture of calls, with half an hour at either side."""
    ends = ints(calls["ended_ms"])
    return int(ints(calls["put_ms"]).min()) - _MARGIN_MS, int(ends.max()) + _MARGIN_MS


def moments(at_ms: Ints | int) -> Any:
    """Return times as what both libraries draw as times."""
    return np.asarray(at_ms).astype("datetime64[ms]")


def mark_hours(axes: Axes, span: tuple[int, int]) -> None:
    """Give an axis of time its span and a tick every three hours."""
    start_ms, end_ms = span
    axes.set_xlim(moments(start_ms), moments(end_ms))
    ticks_ms = np.arange(-(-start_ms // _TICK_MS) * _TICK_MS, end_ms, _TICK_MS)
    axes.set_xticks(moments(ticks_ms), [_hour_and_minute(ms) for ms in ticks_ms.tolist()])


def plain(axes: Axes) -> None:
    """Remove the parts of the frame that do not help to read."""
    axes.grid(color="#e6e9ed", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, title: str, rule: str, path: Path) -> None:
    """Write title, subtitle and credit, and save."""
    figure.suptitle(f"{title}\n", fontsize=17, color=INK, x=0.01, ha="left", weight="bold")
    figure.text(0.01, 0.945, rule, fontsize=11, color=INK)
    figure.text(0.99, 0.008, CREDIT, fontsize=9, color=INK, ha="right")
    figure.savefig(path)


def _hour_and_minute(at_ms: int) -> str:
    minutes = at_ms % DAY_MS // MINUTE_MS
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
