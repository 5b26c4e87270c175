"""``mayfly ledger analyze``: whether lifetimes, delays and consumers suit each other, by a lake."""

from __future__ import annotations

import dataclasses
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from mayfly.cli.lake_engine import (
    FromOption,
    Lake,
    LateOption,
    QueueOption,
    ToOption,
    check_lake,
    fits_one_process,
    lake_errors,
    lake_part,
    spark_session,
)
from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.show import JsonOption, aligned, print_json, seconds_shown
from mayfly.cli.values import duration_ms, local_path
from mayfly.lifetime.times import TENTH_MS
from mayfly.pipeline.lake import lifetime_advice as advice
from mayfly.pipeline.lake.lifetime_advice import spelled
from mayfly.pipeline.lake.lifetime_queries import By
from mayfly.pipeline.lake.lifetimes import (
    ConsumerFigures,
    DelayFigures,
    LifetimeAnalysis,
    LifetimeFigures,
    Verdict,
)
from mayfly.pipeline.lake.measures import LATE_AFTER_MS
from mayfly.pipeline.lake.part import LakePart

_DELAY_COLUMNS = tuple(
    "delayed on,lives,delivered,expired,late,late p50,late p95,late p99,latest".split(",")
)
_CONSUMER_COLUMNS = tuple(
    "got from,application,user,got,met expired,hours,left p1,left p5,left p50".split(",")
)

#: Advice is wrapped to this width, on a terminal and in a file.
_LINE_CHARACTERS = 100


def _cap_ms(text: str) -> int:
    """Return the ms of a CAPEXPRY; raises BadParameter unless it is whole tenths of a second."""
    cap_ms = duration_ms(text)
    if cap_ms <= 0 or cap_ms % TENTH_MS:
        raise typer.BadParameter(
            f"{text!r} is no CAPEXPRY, which is a whole number of tenths of a second, 1 or more"
        )
    return cap_ms


ByOption = Annotated[
    By,
    typer.Option(
        "--by",
        help="What the lifetimes are grouped by. Dates and hours are those of the delivery time, "
        "UTC; the application is the one that got, the putter the user that put.",
    ),
]
CapOption = Annotated[
    int | None,
    typer.Option(
        "--cap",
        parser=_cap_ms,
        metavar="TIME",
        help="Say also what this CAPEXPRY would have changed: 5m is CAPEXPRY(3000).",
    ),
]
PlotOption = Annotated[
    Path | None,
    typer.Option(
        "--plot", parser=local_path, metavar="FILE", help="Draw it too: an .html page, replaced."
    ),
]


def analyze(
    lake: Lake,
    *,
    first: FromOption = None,
    last: ToOption = None,
    queue: QueueOption = None,
    by: ByOption = By.QUEUE,
    cap: CapOption = None,
    late_after_ms: LateOption = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say which lifetimes are too short or too long, and which delays and consumers are late.

    Suggests a lifetime for each group, and says how many of the expired would have been got with
    it, and of how many the ledger cannot say it. All figures are exact.

    \b
    Examples:
      mayfly ledger analyze lake --queue 'ORDERS.*' --from 2026-11-01
      mayfly ledger analyze lake --by hour-of-day --cap 5m --plot lifetimes.html
    """
    check_lake(lake)
    part = lake_part(first, last, queue)
    if plot is not None:
        from mayfly.pipeline.lake.lifetime_plot import check_page

        with wrong_values():
            check_page(plot)
    limit_ms = LATE_AFTER_MS if late_after_ms is None else late_after_ms
    analysis = _analysis(lake, part, by, cap, limit_ms)
    if plot is not None and analysis.lifetimes:
        from mayfly.pipeline.lake.lifetime_plot import draw_lifetimes

        draw_lifetimes(analysis, plot)
    if as_json:
        print_json(_for_json(analysis, limit_ms))
    else:
        _print(analysis, limit_ms)
    if not analysis.lifetimes and not analysis.delays:
        raise CommandFailed(ExitCode.NOTHING, f"no lives in {lake}")


def _analysis(
    lake: str, part: LakePart, by: By, cap_ms: int | None, late_after_ms: int
) -> LifetimeAnalysis:
    """Return the analysis by DuckDB, or by Spark where a lake is too large for one process.

    The arguments are those of ``pipeline.lake.analytics.analyze_lifetimes``. Raises CommandFailed
    for errors of the lake.
    """
    if fits_one_process(lake, part):
        with lake_errors(), seconds_shown(sys.stderr, "the lake is read"):
            from mayfly.pipeline.lake.analytics import analyze_lifetimes

            return analyze_lifetimes(
                lake, part=part, by=by, cap_ms=cap_ms, late_after_ms=late_after_ms
            )
    with spark_session() as spark:
        from mayfly.pipeline.spark.analytics import analyze_lifetimes as analyze_in_spark

        return analyze_in_spark(
            spark, lake, part=part, by=by, cap_ms=cap_ms, late_after_ms=late_after_ms
        )


def _for_json(analysis: LifetimeAnalysis, late_after_ms: int) -> dict[str, Any]:
    """Return an analysis as a dict for JSON, with the advice on each group.

    The keys are by, lifetimes, delays and consumers; the last three are lists of dicts. Delayed
    messages were counted as late from ``late_after_ms`` on.
    """
    return {
        "by": analysis.by.value,
        "lifetimes": [
            dataclasses.asdict(group)
            | {
                "expired_share": group.expired_share,
                "verdict": group.verdict.value,
                "advice": advice.lifetime_advice(group),
                "cap": group.cap
                and {**group.cap._asdict(), "advice": advice.cap_advice(group.cap)},
            }
            for group in analysis.lifetimes
        ],
        "delays": [
            {**queue._asdict(), "advice": advice.delay_advice(queue, late_after_ms)}
            for queue in analysis.delays
        ],
        "consumers": [
            {**consumer._asdict(), "advice": advice.consumer_advice(consumer)}
            for consumer in analysis.consumers
        ],
    }


def _print(analysis: LifetimeAnalysis, late_after_ms: int) -> None:
    """Print three tables, those that have rows, each followed by its sentences of advice.

    Delayed messages were counted as late from ``late_after_ms`` on.
    """
    managers = {
        *(group.manager for group in analysis.lifetimes if group.manager),
        *(queue.manager for queue in analysis.delays),
        *(consumer.manager for consumer in analysis.consumers),
    }

    def named(manager: str, name: str) -> str:
        """Return the name of a row; with the queue manager's where a lake has several."""
        return f"{manager} {name}" if len(managers) > 1 and manager else name or "(none)"

    groups = [(named(group.manager, group.name), group) for group in analysis.lifetimes]
    sentences = [
        f"{name}: {sentence}"
        for name, group in groups
        for sentence in [
            *([] if group.verdict is Verdict.FITS else [" ".join(advice.lifetime_advice(group))]),
            *([] if group.cap is None else [advice.cap_advice(group.cap)]),
        ]
    ]
    columns = (
        *(analysis.by.value, "lives", "got", "expired", "share", "lifetime", "left p1", "left p5"),
        *("left p50", "gets p99.9", "suggested", "verdict"),
    )
    tables = [_table(columns, [_lifetime_row(*group) for group in groups], sentences)]
    delays = [(named(queue.manager, queue.queue), queue) for queue in analysis.delays]
    sentences = [f"{name}: {advice.delay_advice(queue, late_after_ms)}" for name, queue in delays]
    tables.append(_table(_DELAY_COLUMNS, [_delay_row(*queue) for queue in delays], sentences))
    consumers = [(named(one.manager, one.queue), one) for one in analysis.consumers]
    sentences = [
        f"{one.application or '(none)'} from {name}: {sentence}"
        for name, one in consumers
        if (sentence := advice.consumer_advice(one))
    ]
    cells = [_consumer_row(*consumer) for consumer in consumers]
    tables.append(_table(_CONSUMER_COLUMNS, cells, sentences))
    if any(tables):
        print("\n\n".join("\n".join(lines) for lines in tables if lines))


def _table(
    columns: tuple[str, ...], rows: list[tuple[str, ...]], sentences: Iterable[str]
) -> list[str]:
    """Return the lines of a table and, below an empty line, of its advice; [] without rows.

    ``columns`` are the headings. ``sentences`` are the advice, broken into lines.
    """
    if not rows:
        return []
    texts = [number for number, column in enumerate(columns) if column in ("application", "user")]
    right = {*range(1, len(columns) - (columns[-1] == "verdict"))} - {*texts}
    said = [
        line
        for sentence in sentences
        for line in textwrap.wrap(sentence, _LINE_CHARACTERS, subsequent_indent="  ")
    ]
    return [*aligned([columns, *rows], right=right), *([""] if said else []), *said]


def _lifetime_row(name: str, group: LifetimeFigures) -> tuple[str, ...]:
    """Return the cells of a group of messages: name, counts, share expired, durations, verdict."""
    counts = [f"{count:,}" for count in (group.lives, group.got, group.expired)]
    durations = [
        *(group.lifetime_p50_ms, group.left_p1_ms, group.left_p5_ms, group.left_p50_ms),
        *(group.asked_p99_9_ms, group.suggested_ms),
    ]
    share = f"{group.expired_share:.1%}"
    return (name, *counts, share, *map(spelled, durations), group.verdict.value)


def _delay_row(name: str, queue: DelayFigures) -> tuple[str, ...]:
    """Return the cells of a queue with delayed messages: name, counts, percentiles of lateness."""
    counts = [f"{count:,}" for count in (queue.lives, queue.delivered, queue.expired, queue.late)]
    durations = (queue.late_p50_ms, queue.late_p95_ms, queue.late_p99_ms, queue.late_max_ms)
    return (name, *counts, *map(spelled, durations))


def _consumer_row(name: str, consumer: ConsumerFigures) -> tuple[str, ...]:
    """Return the cells of a program that gets from a queue; ``name`` is the queue's."""
    who = (consumer.application or "(none)", consumer.user_id or "(none)")
    counts = [f"{n:,}" for n in (consumer.got, consumer.met_expired, consumer.hours)]
    durations = (consumer.left_p1_ms, consumer.left_p5_ms, consumer.left_p50_ms)
    return (name, *who, *counts, *map(spelled, durations))
