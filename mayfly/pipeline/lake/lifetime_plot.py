"""A page that draws an analysis of lifetimes: what expired, and lifetimes beside the gets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.errors import PlotError
from mayfly.pipeline.lake.lifetimes import LifetimeAnalysis, LifetimeFigures
from mayfly.pipeline.lake.queries import QUEUES_MAX

_SUFFIX = ".html"
_ROW_PIXELS, _FRAME_PIXELS = 34, 240
_EXPIRED_PARTS: dict[str, tuple[str, Callable[[LifetimeFigures], int]]] = {
    "would be got with the suggested lifetime": ("#1f6f4a", lambda g: g.would_be_got or 0),
    "would expire with it too": ("#d1482f", lambda g: g.would_still_expire or 0),
    "not known": (
        "#c3ccd8",
        lambda g: g.expired if g.not_known is None else g.not_known,
    ),
}
_TIMES: dict[str, tuple[str, str, Callable[[LifetimeFigures], float | None]]] = {
    "half of the gets within": ("circle", "#8a5fb0", lambda g: g.asked_p50_ms),
    "99.9 % of the gets within": ("diamond", "#2f7fb8", lambda g: g.asked_p99_9_ms),
    "suggested lifetime": ("line-ns-open", "#1f6f4a", lambda g: g.suggested_ms),
    "lifetime of half": ("x", "#d1482f", lambda g: g.lifetime_p50_ms),
}


def check_page(file: Path) -> None:
    """Raise PlotError unless the suffix of the file is .html."""
    if file.suffix != _SUFFIX:
        raise PlotError(f"{file} does not end in {_SUFFIX}")


def draw_lifetimes(analysis: LifetimeAnalysis, file: Path) -> None:
    """Draw an analysis of lifetimes into one HTML file, which is replaced and needs no other files.

    It shows for each group the expired messages, and times since the put. Groups that are no dates
    or hours are limited to the QUEUES_MAX with the most expired messages. Raises PlotError for
    another suffix than .html.
    """
    check_page(file)
    groups = analysis.lifetimes
    if not analysis.by.is_time:
        groups = sorted(groups, key=lambda group: (-group.expired, group.manager, group.name))
        groups = groups[:QUEUES_MAX]
    names = [f"{group.manager} {group.name or '(none)'}".strip() for group in groups]
    titles = (f"Expired, by {analysis.by}: lives", "Seconds from the put")
    figure = make_subplots(rows=1, cols=2, subplot_titles=titles, shared_yaxes=True)
    for part, (color, count) in _EXPIRED_PARTS.items():
        figure.add_trace(
            go.Bar(
                x=[count(group) for group in groups],
                y=names,
                orientation="h",
                name=part,
                marker_color=color,
                customdata=[group.verdict.value for group in groups],
                hovertemplate="%{y}: %{x} " + part + "; %{customdata}<extra></extra>",
            ),
            row=1,
            col=1,
        )
    for name, (symbol, color, duration_ms) in _TIMES.items():
        values_ms = [duration_ms(group) for group in groups]
        figure.add_trace(
            go.Scatter(
                x=[None if ms is None else ms / SECOND_MS for ms in values_ms],
                y=names,
                name=name,
                mode="markers",
                marker={"symbol": symbol, "size": 12, "color": color, "line": {"width": 2}},
                hovertemplate="%{y}: " + name + " %{x} s<extra></extra>",
            ),
            row=1,
            col=2,
        )
    figure.update_yaxes(autorange="reversed", type="category")
    figure.update_xaxes(type="log", col=2)
    figure.update_layout(
        title=_title(analysis),
        template="plotly_white",
        barmode="stack",
        height=_FRAME_PIXELS + _ROW_PIXELS * len(groups),
    )
    figure.write_html(file, config={"displaylogo": False})


def _title(analysis: LifetimeAnalysis) -> str:
    """Return the title: the number of ended messages, and the share expired."""
    lives = sum(group.lives for group in analysis.lifetimes)
    expired = sum(group.expired for group in analysis.lifetimes)
    return f"{lives:,} lives, {100 * expired / lives:.1f} % expired"
