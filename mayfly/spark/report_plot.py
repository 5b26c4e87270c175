"""Pictures of a lake's report: how lives ended and how long they waited, hour by hour.

The same numbers, all from the stored sketches, make an interactive page that needs nothing else
(Plotly) and an image (matplotlib); the ending of the file's name says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from matplotlib.figure import Figure
from plotly.subplots import make_subplots
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from mayfly.lifetime.life import State
from mayfly.spark.errors import PipelineError
from mayfly.spark.lake import existing_lake
from mayfly.spark.lake_files import Lease
from mayfly.spark.lake_part import DAY_MS, EVERYTHING, HOUR_MS, LakePart, PartError
from mayfly.spark.sketches import merged, sketch_lake, stored_cells

#: More steps than this are hard to tell apart: a longer lake is shown by the day.
_STEPS_MAX = 24 * 14
_QUEUES_MAX = 12
_RANKS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_COLORS = {"got": "#2f7fb8", "expired": "#d1482f", "other": "#c3ccd8"}
_LINES = {"p50": "#3a9a6b", "p95": "#8a5fb0", "p99": "#d1482f"}
_PAGE, _IMAGES = ".html", (".png", ".svg", ".pdf")
_ENDED, _WAITED = "Lives ended", "Waited for the getter, s"
_SHARE = "Expired, % of the lives of a queue"

Floats = npt.NDArray[np.float64]


class PlotError(PipelineError, ValueError):
    """A picture cannot be made of this, or not in a file of this name."""


@dataclass(frozen=True)
class Course:
    """How a lake's lives ended over time, and which queues lost the largest share.

    ``starts`` are the beginnings of the steps, UTC; ``waited_s`` has NaN where none was got.
    """

    step_ms: int
    starts: npt.NDArray[np.datetime64]
    ended: dict[str, Floats]
    waited_s: dict[str, Floats]
    expired_percent: dict[str, float]


def check_plot_file(file: Path) -> None:
    """Raise PlotError unless a file's ending is one of a picture that can be made."""
    if file.suffix not in (_PAGE, *_IMAGES):
        raise PlotError(f"{file} ends in none of {', '.join((_PAGE, *_IMAGES))}")


def plot_report(
    spark: SparkSession, lake_path: str | Path, file: Path, *, part: LakePart = EVERYTHING
) -> None:
    """Draw a part of a lake; raises PlotError for a wrong ending or when there are no lives."""
    check_plot_file(file)
    course = course_of(spark, lake_path, part=part)
    if file.suffix == _PAGE:
        _page(course).write_html(file, config={"displaylogo": False})
    else:
        _image(course).savefig(file)


def course_of(spark: SparkSession, lake_path: str | Path, *, part: LakePart = EVERYTHING) -> Course:
    """Return what is drawn; raises LakeError, PartError or, without any lives, PlotError."""
    lake = existing_lake(lake_path)
    if not part.is_of_whole_hours:
        raise PartError("sketches are by the hour: name whole hours")
    sketch_lake(spark, lake)
    lease = Lease(lake)
    try:
        cells = stored_cells(spark, lease.snapshot, part)
        hour_ms = f.unix_date("date").cast("long") * DAY_MS + f.col("hour") * HOUR_MS
        cells = cells.where(f.col("lives") > 0).withColumn("start_ms", hour_ms)
        first_ms, last_ms = cells.agg(f.min("start_ms"), f.max("start_ms")).collect()[0]
        if first_ms is None:
            raise PlotError(f"no lives in {lake_path}")
        step_ms = HOUR_MS if (last_ms - first_ms) // HOUR_MS < _STEPS_MAX else DAY_MS
        start = f.expr(f"start_ms div {step_ms} * {step_ms}")
        by_step = merged(cells.withColumn("start_ms", start), "start_ms")
        ranks = f.array(*map(f.lit, _RANKS.values()))
        quantiles = f.kll_sketch_get_quantile_bigint("waited", ranks)
        waited = f.when(f.col("waited").isNotNull(), quantiles).alias("waited")
        counts = ("lives", State.GOT.value, State.EXPIRED.value)
        steps = by_step.select("start_ms", *counts, waited).orderBy("start_ms").collect()
        share = 100 * f.sum(State.EXPIRED.value) / f.sum("lives")
        shares = cells.groupBy("queue").agg(share.alias("share"), f.sum("lives").alias("lives"))
        worst = shares.orderBy(f.desc("share"), f.desc("lives"), "queue").limit(_QUEUES_MAX)
        percents = {row["queue"]: float(row["share"]) for row in worst.collect()}
    finally:
        lease.close()
    table = np.array([[row[name] for name in counts] for row in steps], dtype=np.float64).T
    lives, got, expired = table
    none = [float("nan")] * len(_RANKS)
    seconds = np.array([row["waited"] or none for row in steps], dtype=np.float64).T / 1000
    return Course(
        step_ms,
        np.array([row["start_ms"] for row in steps], dtype="datetime64[ms]"),
        {"got": got, "expired": expired, "other": lives - got - expired},
        dict(zip(_RANKS, seconds, strict=True)),
        percents,
    )


def _title(course: Course) -> str:
    total = sum(float(counts.sum()) for counts in course.ended.values())
    share = 100 * float(course.ended["expired"].sum()) / total
    first, last = course.starts[0], course.starts[-1] + np.timedelta64(course.step_ms, "ms")
    span = " to ".join(str(moment.astype("datetime64[m]")) for moment in (first, last))
    return f"{total:,.0f} lives, {share:.1f} % expired; {span} UTC"


def _per(course: Course) -> str:
    return "per hour" if course.step_ms == HOUR_MS else "per day"


def _page(course: Course) -> go.Figure:
    titles = (f"{_ENDED} {_per(course)}", f"{_WAITED} ({_per(course)})", _SHARE)
    figure = make_subplots(rows=3, cols=1, subplot_titles=titles, vertical_spacing=0.09)
    for name, counts in course.ended.items():
        bars = go.Bar(x=course.starts, y=counts, name=name, marker_color=_COLORS[name])
        figure.add_trace(bars, row=1, col=1)
    for name, seconds in course.waited_s.items():
        line = {"color": _LINES[name]}
        mode = "lines+markers"
        trace = go.Scatter(x=course.starts, y=seconds, name=name, mode=mode, line=line)
        figure.add_trace(trace, row=2, col=1)
    shares = go.Bar(
        x=list(course.expired_percent),
        y=list(course.expired_percent.values()),
        marker_color=_COLORS["expired"],
        hovertemplate="%{x}: %{y:.1f} %<extra></extra>",
        showlegend=False,
    )
    figure.add_trace(shares, row=3, col=1)
    figure.update_yaxes(rangemode="tozero")
    figure.update_xaxes(matches="x", row=2)
    return figure.update_layout(
        title=_title(course), template="plotly_white", barmode="stack", height=1000
    )


def _image(course: Course) -> Figure:
    figure = Figure(figsize=(16, 12), dpi=120, layout="constrained")
    ended, waited, share = figure.subplots(3, 1)
    waited.sharex(ended)
    width = np.timedelta64(course.step_ms * 9 // 10, "ms")
    below = np.zeros(len(course.starts))
    for name, counts in course.ended.items():
        color = _COLORS[name]
        ended.bar(course.starts, counts, width, below, align="edge", color=color, label=name)
        below = below + counts
    for name, seconds in course.waited_s.items():
        waited.plot(course.starts, seconds, marker="o", color=_LINES[name], label=name)
    names = list(course.expired_percent)
    share.bar(range(len(names)), list(course.expired_percent.values()), color=_COLORS["expired"])
    share.set_xticks(range(len(names)), names, rotation=20, ha="right")
    titles = (f"{_ENDED} {_per(course)}", f"{_WAITED} ({_per(course)})", _SHARE)
    for axes, title in zip((ended, waited, share), titles, strict=True):
        axes.set_title(title, fontsize=12)
        axes.set_ylim(bottom=0)
        axes.grid(color="#e6e9ed", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in (ended, waited):
        axes.legend(frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 1), borderpad=0)
    figure.suptitle(_title(course), fontsize=17, x=0.01, ha="left", weight="bold")
    return figure
