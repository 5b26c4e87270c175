"""Plots of the demo: the calls of a day, the year, and the day on both clocks.

The day and the year are drawn twice from the same numbers: interactive in one HTML file that needs
nothing else (Plotly), and as a PNG (matplotlib). All functions take outcome tables of
`mayfly.pipeline.spark.replay`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.patches
import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from plotly.subplots import make_subplots

from mayfly.cli.airport import summary
from mayfly.cli.airport.flights import DAY_MS, MINUTE_MS, SOURCE
from mayfly.cli.airport.wall_clock import WallDay
from mayfly.lifetime.columns import Ints, ints
from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.spark.replay import EXPIRED

STAGED, AVAILABLE, LATE, INK = "#c3ccd8", "#2f7fb8", "#d1482f", "#1f2933"
CREDIT = f"Source: {SOURCE}. Times are local."
_TICK_MS = 180 * MINUTE_MS
_MARGIN_MS = 30 * MINUTE_MS
AIRPORTS = {"EWR": "Newark", "JFK": "JFK", "LGA": "LaGuardia"}
LINES = {"EWR": "#8a5fb0", "JFK": "#2f7fb8", "LGA": "#3a9a6b"}
_NAMES = {
    STAGED: "waits for delivery (delay 60 min)",
    AVAILABLE: "delivered, can be got",
    LATE: "expired, 210.5 min after its put",
}
_AREA_STEP_MS = 5 * MINUTE_MS
_BAR_STEP_MS = 30 * MINUTE_MS
#: An hour with fewer flights of an airport in the whole year is left out: its share says nothing.
_FEW_CALLS = 100
_HOUR_AXIS = f"hour of scheduled departure, local time (hours with {_FEW_CALLS} calls or more)"
#: Number of the worst days that carry their date.
_NAMED_DAYS = 4
_DAY_TITLE = "Share of calls that expired, by day of scheduled departure"
_HOUR_TITLE = "Share by hour of scheduled departure: delays pile up over the day"
_WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
_RULE = (
    "A boarding call is put 180 min before the scheduled departure and got when the flight leaves;"
    " more than 30 min late or cancelled, it expires."
)
_WALL_STEP_MS = 2 * MINUTE_MS
_WALL_STAGED = "#7c8aa0"
_WALL_RULE = (
    "Colored: as the lake has it. Spark puts in batches what has become due: a call put late waits"
    " less and is there at its time. Thin and dark: the virtual clock."
)


def span_ms(calls: pa.Table) -> tuple[int, int]:
    """Return begin and end (epoch ms) of a time axis for messages, with half an hour of margin."""
    ends = ints(calls["ended_ms"])
    return int(ints(calls["put_ms"]).min()) - _MARGIN_MS, int(ends.max()) + _MARGIN_MS


def moments(at_ms: Ints | int) -> Any:
    """Return epoch ms as NumPy datetimes, which both plot libraries draw as times."""
    return np.asarray(at_ms).astype("datetime64[ms]")


def mark_hours(axes: Axes, start_ms: int, end_ms: int) -> None:
    """Set the range of a time axis, ``start_ms`` to ``end_ms``, with a tick every three hours."""
    axes.set_xlim(moments(start_ms), moments(end_ms))
    ticks_ms = np.arange(-(-start_ms // _TICK_MS) * _TICK_MS, end_ms, _TICK_MS)
    minutes = [ms % DAY_MS // MINUTE_MS for ms in ticks_ms.tolist()]
    axes.set_xticks(moments(ticks_ms), [f"{m // 60:02d}:{m % 60:02d}" for m in minutes])


def plain(axes: Axes) -> None:
    """Add a light grid, and remove the upper and right lines of the frame."""
    axes.grid(color="#e6e9ed", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, title: str, rule: str, path: Path) -> None:
    """Write a figure to a file, with a title, the credit of the data and the subtitle ``rule``."""
    figure.suptitle(f"{title}\n", fontsize=17, color=INK, x=0.01, ha="left", weight="bold")
    figure.text(0.01, 0.945, rule, fontsize=11, color=INK)
    figure.text(0.99, 0.008, CREDIT, fontsize=9, color=INK, ha="right")
    figure.savefig(path)


def write_html(outcomes: pa.Table, month: int, day: int, path: Path) -> None:
    """Write the plots of a day and the year into one interactive page that needs no network."""
    figures = [day_figure(outcomes, month, day), year_figure(outcomes)]
    parts = [
        figure.to_html(full_html=False, include_plotlyjs=index == 0, config={"displaylogo": False})
        for index, figure in enumerate(figures)
    ]
    page = "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            "<title>Mayfly: boarding calls of 2013</title>",
            "<style>body{margin:0 auto;max-width:1500px;font-family:sans-serif}</style></head>",
            "<body>",
            *parts,
            "</body></html>",
        ]
    )
    path.write_text(page, encoding="utf-8")


def day_figure(outcomes: pa.Table, month: int, day: int) -> go.Figure:
    """Return the interactive plot of one day: every message above, depths of queues below."""
    of_day = summary.of_day(outcomes, month, day)
    figure = make_subplots(
        rows=2,
        cols=3,
        shared_xaxes=True,
        shared_yaxes=True,
        row_heights=[0.62, 0.38],
        vertical_spacing=0.05,
        horizontal_spacing=0.05,
        subplot_titles=[_airport_title(of_day, airport) for airport in AIRPORTS],
    )
    for column, airport in enumerate(AIRPORTS, start=1):
        calls = summary.of_airport(of_day, airport)
        for trace in _life_traces(summary.lives_of(calls), is_named=column == 1):
            figure.add_trace(trace, row=1, col=column)
        for trace in _presence_traces(calls, *span_ms(of_day)):
            figure.add_trace(trace, row=2, col=column)
    figure.update_yaxes(autorange="reversed", row=1)
    # Plotly does not find the range for areas on shared axes.
    heights = np.concatenate([trace.y for trace in figure.select_traces(row=2)])
    figure.update_yaxes(range=[1.1 * heights.min() - 1, 1.05 * heights.max() + 1], row=2)
    ticks = {count: str(abs(count)) for count in range(-100, 201, 20)}
    figure.update_yaxes(tickvals=list(ticks), ticktext=list(ticks.values()), row=2)
    figure.update_yaxes(title_text="flight, by scheduled departure", row=1, col=1)
    figure.update_yaxes(
        title_text="calls on the queue<br>(below 0: expired in 30 min)", row=2, col=1
    )
    figure.update_xaxes(title_text="local time", row=2)
    figure.update_xaxes(range=[moments(ms) for ms in span_ms(of_day)], tickformat="%H:%M")
    return _with_layout(figure, f"{_day_title(of_day, month, day)}<br><sup>{_RULE}</sup>", 900)


def year_figure(outcomes: pa.Table) -> go.Figure:
    """Return the interactive plot of the year: share of expired messages by day and by hour."""
    calendar = summary.calendar_of(summary.by_day(outcomes))
    figure = make_subplots(
        rows=2,
        cols=1,
        row_heights=[0.42, 0.58],
        vertical_spacing=0.14,
        subplot_titles=[_DAY_TITLE, _HOUR_TITLE],
    )
    heat = go.Heatmap(
        z=calendar.share * 100,
        text=calendar.label,
        hovertemplate="%{text}<extra></extra>",
        colorscale="YlOrRd",
        zmin=0,
        zmax=np.nanmax(calendar.share) * 100,
        xgap=2,
        ygap=2,
        hoverongaps=False,
        colorbar={"title": "expired, %", "len": 0.42, "y": 0.8},
    )
    figure.add_trace(heat, row=1, col=1)
    for text, week, weekday in summary.worst_days(calendar, _NAMED_DAYS):
        place = {"x": week + 0.5, "y": weekday, "xanchor": "left", "row": 1, "col": 1}
        figure.add_annotation(text=text, showarrow=False, bgcolor="rgba(255,255,255,.75)", **place)
    for trace in _hour_traces(outcomes):
        figure.add_trace(trace, row=2, col=1)
    ticks = {"tickmode": "array", "tickvals": calendar.month_column, "ticktext": summary.MONTHS}
    figure.update_xaxes(**ticks, showgrid=False, row=1)
    days = {"tickmode": "array", "tickvals": list(range(7)), "ticktext": _WEEKDAYS}
    figure.update_yaxes(**days, autorange="reversed", showgrid=False, row=1)
    figure.update_xaxes(title_text=_HOUR_AXIS, dtick=1, range=[4.5, 23.5], row=2)
    figure.update_yaxes(title_text="expired, % of calls", rangemode="tozero", row=2)
    return _with_layout(figure, f"{_year_title(outcomes)}<br><sup>{_RULE}</sup>", 850)


def draw_day_png(outcomes: pa.Table, month: int, day: int, path: Path) -> None:
    """Draw the plot of one day into a PNG file of 1920 x 1080."""
    of_day = summary.of_day(outcomes, month, day)
    figure = Figure(figsize=(16, 9), dpi=120, layout="constrained")
    axes = figure.subplots(2, 3, sharex=True, sharey="row", height_ratios=[3, 2])
    for column, airport in enumerate(AIRPORTS):
        calls = summary.of_airport(of_day, airport)
        _draw_lives(axes[0, column], summary.lives_of(calls))
        _draw_presence(axes[1, column], calls, *span_ms(of_day))
        axes[0, column].set_title(_airport_title(of_day, airport), fontsize=12)
        axes[1, column].set_xlabel("local time")
    axes[0, 0].invert_yaxis()
    axes[0, 0].set_ylabel("flight, by scheduled departure")
    axes[1, 0].set_ylabel("calls on the queue\n(below 0: expired in 30 min)")
    mark_hours(axes[1, 0], *span_ms(of_day))
    handles = [matplotlib.patches.Patch(color=color, label=name) for color, name in _NAMES.items()]
    figure.legend(handles=handles, loc="outside lower left", ncols=3, frameon=False, fontsize=11)
    save(figure, _day_title(of_day, month, day), _RULE, path)


def draw_year_png(outcomes: pa.Table, path: Path) -> None:
    """Draw the plot of the year into a PNG file of 1920 x 1080."""
    figure = Figure(figsize=(16, 9), dpi=120, layout="constrained")
    top, bottom = figure.subplots(2, 1, height_ratios=[3, 4])
    calendar = summary.calendar_of(summary.by_day(outcomes))
    heat = top.pcolormesh(
        calendar.share * 100, cmap="YlOrRd", vmin=0, edgecolors="white", linewidth=2
    )
    top.invert_yaxis()
    top.set_aspect("equal")
    top.set_yticks(np.arange(7) + 0.5, _WEEKDAYS)
    top.set_xticks(np.array(calendar.month_column) + 0.5, summary.MONTHS)
    top.tick_params(length=0)
    top.spines[:].set_visible(False)
    top.set_title(_DAY_TITLE, fontsize=12)
    for text, week, weekday in summary.worst_days(calendar, _NAMED_DAYS):
        top.annotate(
            text,
            (week + 1, weekday + 0.5),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            weight="bold",
            bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1},
        )
    figure.colorbar(heat, ax=top, label="expired, % of calls", shrink=0.5, aspect=12, pad=0.01)
    _draw_hours(bottom, outcomes)
    save(figure, _year_title(outcomes), _RULE, path)


def _life_traces(lives: summary.AirportCalls, *, is_named: bool) -> list[go.Scatter]:
    """Return Plotly lines for messages: time delayed, time on the queue, and a dot if expired.

    ``is_named`` puts them into the legend.
    """
    return [
        _segments(lives, lives.put_ms, lives.deliver_at_ms, STAGED, is_named),
        _segments(lives, lives.deliver_at_ms, lives.ended_ms, AVAILABLE, is_named),
        go.Scatter(
            x=moments(lives.ended_ms[lives.is_expired]),
            y=lives.place[lives.is_expired],
            text=[text for text, gone in zip(lives.label, lives.is_expired, strict=True) if gone],
            hovertemplate="%{text}<extra></extra>",
            mode="markers",
            marker={"color": LATE, "size": 4},
            name=_NAMES[LATE],
            legendgroup=LATE,
            showlegend=is_named,
        ),
    ]


def _segments(
    lives: summary.AirportCalls, start_ms: Ints, end_ms: Ints, color: str, is_named: bool
) -> go.Scatter:
    """Return a Plotly trace with one horizontal line for each message, from start to end.

    ``start_ms`` and ``end_ms`` have a moment for each message in ``lives``. ``is_named`` puts the
    trace into the legend.
    """
    gap = np.full(len(start_ms), np.datetime64("NaT"), dtype="datetime64[ms]")
    return go.Scatter(
        x=np.column_stack([moments(start_ms), moments(end_ms), gap]).ravel(),
        y=np.repeat(lives.place, 3),
        text=np.repeat(np.array(lives.label), 3),
        hovertemplate="%{text}<extra></extra>",
        mode="lines",
        line={"color": color, "width": 1.6},
        name=_NAMES[color],
        legendgroup=color,
        showlegend=is_named,
    )


def _presence_traces(calls: pa.Table, start_ms: int, end_ms: int) -> list[Any]:
    """Return Plotly areas for the numbers of messages over time, and bars for expired ones."""
    fine, coarse = _presences(calls, start_ms, end_ms)
    shared = {"showlegend": False}
    # Stacked here, the lower layer last: the range of the axis needs the heights.
    available = fine.available_count
    layers = [(STAGED, fine.staged_count, fine.staged_count + available)]
    layers += [(AVAILABLE, available, available)]
    areas = [
        go.Scatter(
            x=moments(fine.moments_ms),
            y=height,
            customdata=count,
            fill="tozeroy",
            mode="lines",
            line={"width": 0},
            fillcolor=color,
            hovertemplate=f"%{{x|%H:%M}}: %{{customdata}} {_NAMES[color]}<extra></extra>",
            legendgroup=color,
            **shared,
        )
        for color, count, height in layers
    ]
    bars = go.Bar(
        x=moments(coarse.moments_ms - _BAR_STEP_MS // 2),
        y=-coarse.expired_count,
        customdata=coarse.expired_count,
        hovertemplate="%{customdata} expired in the half-hour around %{x|%H:%M}<extra></extra>",
        marker={"color": LATE},
        legendgroup=LATE,
        **shared,
    )
    return [*areas, bars]


def _hour_traces(outcomes: pa.Table) -> list[go.Scatter]:
    """Return Plotly lines of the share of expired messages by hour, one for each airport."""
    traces = []
    for airport, name in AIRPORTS.items():
        rows = _hours(outcomes, airport)
        traces.append(
            go.Scatter(
                x=np.asarray(rows["hour"]),
                y=np.asarray(rows["share_expired"]) * 100,
                customdata=np.column_stack([rows["expired"], rows["calls"]]),
                hovertemplate="%{y:.1f} % (%{customdata[0]:,} of %{customdata[1]:,})",
                mode="lines+markers",
                line={"color": LINES[airport], "width": 3},
                name=name,
            )
        )
    return traces


def _with_layout(figure: go.Figure, title: str, height: int) -> go.Figure:
    """Set title, height, legend and credit of a Plotly figure; return the figure."""
    figure.update_layout(
        title={"text": title, "x": 0.01},
        template="plotly_white",
        height=height,
        margin={"t": 130, "b": 110},
        bargap=0.1,
        legend={"orientation": "h", "y": -0.1, "x": 0, "itemsizing": "constant"},
    )
    credit = {"xref": "paper", "yref": "paper", "x": 1, "y": -0.13, "xanchor": "right"}
    figure.add_annotation(text=CREDIT, showarrow=False, font={"size": 11}, **credit)
    return figure


def _draw_lives(axes: Axes, lives: summary.AirportCalls) -> None:
    """Draw a line for each message: time delayed, time on the queue, and a dot if it expired."""
    put, delivered, ended = map(moments, (lives.put_ms, lives.deliver_at_ms, lives.ended_ms))
    axes.hlines(lives.place, put, delivered, color=STAGED, linewidth=1.2)
    axes.hlines(lives.place, delivered, ended, color=AVAILABLE, linewidth=1.2)
    late = lives.is_expired
    axes.scatter(ended[late], lives.place[late], s=5, color=LATE, zorder=3)
    plain(axes)


def _draw_presence(axes: Axes, calls: pa.Table, start_ms: int, end_ms: int) -> None:
    """Draw how many messages were available, and how many delayed, over time, as two areas.

    Expired messages are bars below 0. ``calls`` has a row for each message; the time axis
    goes from ``start_ms`` to ``end_ms``.
    """
    fine, coarse = _presences(calls, start_ms, end_ms)
    counts = [fine.available_count, fine.staged_count]
    axes.stackplot(moments(fine.moments_ms), counts, colors=[AVAILABLE, STAGED])
    middles = moments(coarse.moments_ms - _BAR_STEP_MS // 2)
    axes.bar(middles, -coarse.expired_count, width=0.9 * _BAR_STEP_MS / DAY_MS, color=LATE)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.yaxis.set_major_formatter(lambda value, _position: f"{abs(value):g}")
    plain(axes)


def _draw_hours(axes: Axes, outcomes: pa.Table) -> None:
    """Draw the share of expired messages by hour of departure, a line for each airport."""
    for airport, name in AIRPORTS.items():
        rows = _hours(outcomes, airport)
        hours, shares = np.asarray(rows["hour"]), np.asarray(rows["share_expired"]) * 100
        axes.plot(hours, shares, marker="o", linewidth=2.5, color=LINES[airport], label=name)
    axes.set_title(_HOUR_TITLE, fontsize=12)
    axes.set_xlabel(_HOUR_AXIS)
    axes.set_ylabel("expired, % of calls")
    axes.set_xticks(range(5, 24))
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", frameon=False, fontsize=11)
    plain(axes)


def _presences(
    calls: pa.Table, start_ms: int, end_ms: int
) -> tuple[summary.Presence, summary.Presence]:
    """Return numbers of delayed messages and of those that can be got, over time, twice.

    The first are in steps of 5 minutes for areas, the second in steps of 30 minutes for bars. They
    cover the time from ``start_ms`` to ``end_ms``.
    """
    start_ms = start_ms // _BAR_STEP_MS * _BAR_STEP_MS
    end_ms += _BAR_STEP_MS
    fine, coarse = (
        summary.presence(calls, np.arange(start_ms, end_ms, step_ms))
        for step_ms in (_AREA_STEP_MS, _BAR_STEP_MS)
    )
    return fine, coarse


def _hours(outcomes: pa.Table, airport: str) -> pa.Table:
    """Return an airport's shares of expired messages by hour.

    Hours with fewer than _FEW_CALLS messages are left out.
    """
    rows = summary.by_hour(summary.of_airport(outcomes, airport))
    return rows.filter(pc.greater_equal(rows["calls"], _FEW_CALLS))


def _airport_title(of_day: pa.Table, airport: str) -> str:
    """Return an airport's title with its numbers of expired messages and of all."""
    calls = summary.of_airport(of_day, airport)
    gone = _expired_count(calls)
    return f"{AIRPORTS[airport]}: {gone:,} of {len(calls):,} calls expired"


def _day_title(of_day: pa.Table, month: int, day: int) -> str:
    """Return the title of a day's plot, with the numbers of messages got and expired."""
    gone, calls = _expired_count(of_day), len(of_day)
    date = f"{day} {summary.MONTHS[month - 1]} 2013"
    return f"Boarding calls of {date}: {calls - gone:,} got, {gone:,} expired"


def _year_title(outcomes: pa.Table) -> str:
    """Return the title of the year's plot, with the numbers of messages got and expired."""
    gone, calls = _expired_count(outcomes), len(outcomes)
    return f"Boarding calls of 2013: {calls - gone:,} got, {gone:,} expired ({gone / calls:.1%})"


def _expired_count(calls: pa.Table) -> int:
    """Return the number of expired messages in an outcome table."""
    return int(np.asarray(pc.equal(calls["outcome"], EXPIRED)).sum())


def draw_wall_png(day: WallDay, virtual: pa.Table, path: Path) -> None:
    """Draw the day on both clocks, and the growth of the lake, as a PNG of 1920 x 1080.

    ``virtual`` is the outcome table of the same day on the virtual clock.
    """
    figure = Figure(figsize=(16, 9), dpi=120, layout="constrained")
    waiting, there, lake = figure.subplots(3, 1, sharex=True, height_ratios=[3, 3, 2])
    span = span_ms(virtual)
    moments_ms = np.arange(*span, _WALL_STEP_MS)
    wall = summary.presence(_in_the_day(day), moments_ms)
    exact = summary.presence(virtual, moments_ms)
    _draw_depth(waiting, moments_ms, wall.staged_count, exact.staged_count, _WALL_STAGED)
    waiting.set_title("Calls that wait for their delivery time", fontsize=12, loc="left")
    _draw_depth(there, moments_ms, wall.available_count, exact.available_count, AVAILABLE)
    there.set_title("Calls that can be got", fontsize=12, loc="left")
    _draw_lake(lake, day)
    mark_hours(lake, *span)
    lake.set_xlabel("local time of the day")
    hours = day.compression.minutes(SECOND_MS) / 60
    title = (
        f"The day on the wall clock, {hours:g} h a second: {len(day.lives):,} calls put by Spark"
    )
    save(figure, title, _WALL_RULE, path)


def _draw_depth(axes: Axes, moments_ms: Ints, by_the_wall: Ints, virtual: Ints, color: str) -> None:
    """Draw numbers of messages: filled for the wall clock, a thin line for the virtual clock.

    ``by_the_wall`` and ``virtual`` have a number for each of ``moments_ms``.
    """
    axes.step(moments(moments_ms), by_the_wall, where="post", color=color, linewidth=2.4)
    axes.fill_between(moments(moments_ms), by_the_wall, step="post", color=color, alpha=0.18)
    axes.plot(moments(moments_ms), virtual, color=INK, linewidth=0.9)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("calls")
    plain(axes)


def _draw_lake(axes: Axes, day: WallDay) -> None:
    """Draw the number of ledger rows in the lake over the day."""
    seen_ms = np.array([seen.day_ms for seen in day.seen])
    rows = np.array([seen.lake_rows for seen in day.seen])
    axes.step(moments(seen_ms), rows, where="post", color=LATE, linewidth=2)
    axes.set_title("Rows of the ledger in the lake, batch by batch", fontsize=12, loc="left")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("rows")
    plain(axes)


def _in_the_day(day: WallDay) -> pa.Table:
    """Return the messages of the wall-clock day with times converted to those of the day.

    An expired message ends at its deadline.
    """
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
