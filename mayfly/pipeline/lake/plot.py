"""Plots of a lake: its timeline, and an analysis of lifetimes.

The same numbers make an interactive page without other files (Plotly) or an image (matplotlib); the
suffix of the file decides.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from matplotlib.figure import Figure
from plotly.subplots import make_subplots

from mayfly.lifetime.times import SECOND_MS, spelled_duration
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.errors import PlotError
from mayfly.pipeline.lake.lifetimes import LifetimeAnalysis, LifetimeFigures
from mayfly.pipeline.lake.queries import QUEUES_MAX
from mayfly.pipeline.lake.timeline import LakeTimeline, QueueShare

_COLORS = {"got": "#2f7fb8", "expired": "#d1482f", "other": "#c3ccd8"}
#: The widest is drawn first: where percentiles are equal, each is seen behind the next.
_LINES = {"p99": ("#f0b7a8", 7), "p95": ("#8a5fb0", 4), "p50": ("#1f6f4a", 2)}
_PAGE, _IMAGES = ".html", (".png", ".svg", ".pdf")
_UNITS = ("lives", "seconds", "% of the lives of the queue")
_ONE = {"1 s": "second", "1 min": "minute", "1 h": "hour", "1 d": "day"}
_MINUTE_MS = 60_000


def check_plot_file(file: Path) -> None:
    """Raise PlotError unless the suffix of the file is .html, .png, .svg or .pdf."""
    if file.suffix not in (_PAGE, *_IMAGES):
        raise PlotError(f"{file} ends in none of {', '.join((_PAGE, *_IMAGES))}")


def draw_timeline(timeline: LakeTimeline, file: Path) -> None:
    """Write a picture of the timeline to a file, replacing it; raises PlotError for its suffix."""
    check_plot_file(file)
    if file.suffix == _PAGE:
        _page(timeline).write_html(file, config={"displaylogo": False})
    else:
        _image(timeline).savefig(file)


def _title(timeline: LakeTimeline) -> str:
    """Return the picture's title: number of messages, share expired, and time span in UTC."""
    total = sum(float(counts.sum()) for counts in timeline.ended.values())
    share = 100 * float(timeline.ended["expired"].sum()) / total
    first, last = timeline.starts[0], timeline.starts[-1] + np.timedelta64(timeline.step_ms, "ms")
    unit = "s" if timeline.step_ms < _MINUTE_MS else "m"
    span = " to ".join(str(moment.astype(f"datetime64[{unit}]")) for moment in (first, last))
    return f"{total:,.0f} lives, {share:.1f} % expired; {span.replace('T', ' ')} UTC"


def _titles(timeline: LakeTimeline) -> tuple[str, str, str]:
    """Return the titles of the three diagrams, with the length of a time step."""
    step = spelled_duration(timeline.step_ms)
    per = f"per {_ONE.get(step, step)}"
    return (
        f"Lives that ended, {per}",
        f"Wait from delivery time to get, {per}",
        "Expired, by queue",
    )


def _staged(timeline: LakeTimeline) -> str:
    """Return the line about messages that waited on the staging queue, "" if none did."""
    if not timeline.staged:
        return ""
    ends = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in timeline.staged.items())
    return f"Counted apart: {STAGING_QUEUE}, where delayed messages live first: {ends}"


def _label(share: QueueShare) -> str:
    """Return the text beside a queue's bar, such as ``2.5 %: 5 of 200``."""
    return f"{share.expired_percent:.1f} %: {share.expired:,} of {share.lives:,}"


def _page(timeline: LakeTimeline) -> go.Figure:
    """Return the interactive Plotly figure with three diagrams."""
    figure = make_subplots(rows=3, cols=1, subplot_titles=_titles(timeline), vertical_spacing=0.11)
    # In the middle of their step, as the bars of the image are.
    middles = timeline.starts + np.timedelta64(timeline.step_ms // 2, "ms")
    for name, counts in timeline.ended.items():
        bars = go.Bar(
            x=middles, y=counts, width=timeline.step_ms * 0.9, name=name, marker_color=_COLORS[name]
        )
        figure.add_trace(bars, row=1, col=1)
    for name, (color, width) in _LINES.items():
        trace = go.Scatter(
            x=middles,
            y=timeline.waited_s[name],
            name=name,
            mode="lines+markers",
            line={"color": color, "width": width},
            marker={"size": width + 2},
        )
        figure.add_trace(trace, row=2, col=1)
    queues = timeline.queues[::-1]
    shares = go.Bar(
        x=[share.expired_percent for share in queues],
        y=[share.queue for share in queues],
        orientation="h",
        marker_color=_COLORS["expired"],
        text=[_label(share) for share in queues],
        hovertemplate="%{y}: %{text}<extra></extra>",
        showlegend=False,
    )
    figure.add_trace(shares, row=3, col=1)
    figure.update_yaxes(rangemode="tozero")
    begin, end = _ends(timeline)
    for row in (1, 2):
        figure.update_xaxes(range=[begin, end], matches="x", row=row)
        figure.update_yaxes(title=_UNITS[row - 1], row=row)
    figure.update_xaxes(title=_UNITS[2], range=[0, _percent_end(timeline)], row=3)
    place = {"xref": "paper", "yref": "paper", "x": 0, "y": -0.1, "xanchor": "left"}
    figure.add_annotation(text=_staged(timeline), showarrow=False, **place)
    return figure.update_layout(
        title=_title(timeline),
        template="plotly_white",
        barmode="stack",
        height=1100,
        margin={"b": 110},
    )


def _image(timeline: LakeTimeline) -> Figure:
    """Return the matplotlib figure with three diagrams."""
    figure = Figure(figsize=(16, 13), dpi=120, layout="constrained")
    ended, waited, share = figure.subplots(3, 1)
    waited.sharex(ended)
    step, width = (
        np.timedelta64(ms, "ms") for ms in (timeline.step_ms, timeline.step_ms * 9 // 10)
    )
    below = np.zeros(len(timeline.starts))
    for name, counts in timeline.ended.items():
        color = _COLORS[name]
        ended.bar(timeline.starts, counts, width, below, align="edge", color=color, label=name)
        below = below + counts
    for name, (color, line_width) in _LINES.items():
        marker_size = line_width + 2
        waited.plot(
            timeline.starts + step // 2,
            timeline.waited_s[name],
            marker="o",
            color=color,
            linewidth=line_width,
            markersize=marker_size,
            label=name,
        )
    ended.set_xlim(*_ends(timeline))
    percents = [one.expired_percent for one in timeline.queues]
    bars = share.barh([one.queue for one in timeline.queues], percents, color=_COLORS["expired"])
    share.bar_label(bars, [_label(one) for one in timeline.queues], padding=6)
    share.invert_yaxis()
    share.set_xlim(0, _percent_end(timeline))
    share.set_xlabel(_UNITS[2])
    for axes, title in zip((ended, waited, share), _titles(timeline), strict=True):
        axes.set_title(title, fontsize=12)
        axes.grid(color="#e6e9ed", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    for axes, unit in zip((ended, waited), _UNITS, strict=False):
        axes.set_ylim(bottom=0)
        axes.set_ylabel(unit)
        axes.legend(frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 1), borderpad=0)
    figure.suptitle(_title(timeline), fontsize=17, x=0.01, ha="left", weight="bold")
    figure.supxlabel(_staged(timeline), fontsize=11, x=0.01, ha="left")
    return figure


def _ends(timeline: LakeTimeline) -> tuple[np.datetime64, np.datetime64]:
    """Return the start of the first step and the end of the last one."""
    return timeline.starts[0], timeline.starts[-1] + np.timedelta64(timeline.step_ms, "ms")


def _percent_end(timeline: LakeTimeline) -> float:
    """Return the end of the percent axis, with space for a label beside the longest bar."""
    return 1.25 * max([share.expired_percent for share in timeline.queues] + [1.0])


# A page that draws an analysis of lifetimes: expired messages, and lifetimes beside the gets


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
        title=_axis_title(analysis),
        template="plotly_white",
        barmode="stack",
        height=_FRAME_PIXELS + _ROW_PIXELS * len(groups),
    )
    figure.write_html(file, config={"displaylogo": False})


def _axis_title(analysis: LifetimeAnalysis) -> str:
    """Return the title: the number of ended messages, and the share expired."""
    lives = sum(group.lives for group in analysis.lifetimes)
    expired = sum(group.expired for group in analysis.lifetimes)
    return f"{lives:,} lives, {100 * expired / lives:.1f} % expired"
