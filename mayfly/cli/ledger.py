"""``mayfly ledger``: copy a ledger into a lake, maintain the lake, query and analyze it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

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
    lake_place,
    spark_session,
)
from mayfly.cli.managers import (
    FolderOption,
    PlaceOption,
    acting_user,
    connected,
    folder_of,
)
from mayfly.cli.outcomes import CommandFailed, ExitCode, group, wrong_values
from mayfly.cli.run_notes import CopiedLedger, RunKind, RunState, lake_key, noted
from mayfly.cli.run_outputs import MetricsFileOption, MetricsListenOption, metrics_targets
from mayfly.cli.served import served_at
from mayfly.cli.show import JsonOption, aligned, note, print_json, seconds_shown
from mayfly.cli.show import note as say
from mayfly.cli.signals import stop_event
from mayfly.cli.values import duration_ms, local_path, message_id
from mayfly.client.connection import Administration
from mayfly.lifetime.times import SECOND_MS, TENTH_MS, spelled_moment
from mayfly.pipeline.lake import lifetimes
from mayfly.pipeline.lake.files import is_delta
from mayfly.pipeline.lake.lifetimes import (
    By,
    ConsumerFigures,
    DelayFigures,
    LifetimeAnalysis,
    LifetimeFigures,
    Verdict,
    spelled,
)
from mayfly.pipeline.lake.queries import LATE_AFTER_MS, LakePart
from mayfly.pipeline.progress import LedgerProgress
from mayfly.runtime.clocks import SystemClock
from mayfly.servers.addresses import ListenAddress
from mayfly.verbs.checks import stored_id
from mayfly.verbs.contracts.access import ROOTS_VARIABLE
from mayfly.verbs.contracts.erasure import Erasure
from mayfly.verbs.contracts.ledger import LedgerInfo

if TYPE_CHECKING:
    from mayfly.pipeline.bulk.client import LedgerClient
    from mayfly.pipeline.lake.queries import QueueReport
    from mayfly.pipeline.lake.timeline import LakeTimeline


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
AnalysisPlotOption = Annotated[
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
    plot: AnalysisPlotOption = None,
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
        from mayfly.pipeline.lake.plot import check_page

        with wrong_values():
            check_page(plot)
    limit_ms = LATE_AFTER_MS if late_after_ms is None else late_after_ms
    analysis = _analysis(lake, part, by, cap, limit_ms)
    if plot is not None and analysis.lifetimes:
        from mayfly.pipeline.lake.plot import draw_lifetimes

        draw_lifetimes(analysis, plot)
    if as_json:
        print_json(_analysis_for_json(analysis, limit_ms))
    else:
        _print(analysis, limit_ms)
    if not analysis.lifetimes and not analysis.delays:
        raise CommandFailed(ExitCode.NOTHING, f"no lives in {lake}")


def _analysis(
    lake: str, part: LakePart, by: By, cap_ms: int | None, late_after_ms: int
) -> LifetimeAnalysis:
    """Return the analysis by DuckDB, or by Spark where a lake is too large for one process.

    The arguments are those of ``pipeline.lake.answers.analyze_lifetimes``. Raises CommandFailed
    for errors of the lake.
    """
    if fits_one_process(lake, part):
        with lake_errors(), seconds_shown(sys.stderr, "the lake is read"):
            from mayfly.pipeline.lake.answers import analyze_lifetimes

            return analyze_lifetimes(
                lake, part=part, by=by, cap_ms=cap_ms, late_after_ms=late_after_ms
            )
    with spark_session() as spark:
        from mayfly.pipeline.spark.lake import analyze_lifetimes as analyze_in_spark

        return analyze_in_spark(
            spark, lake, part=part, by=by, cap_ms=cap_ms, late_after_ms=late_after_ms
        )


def _analysis_for_json(analysis: LifetimeAnalysis, late_after_ms: int) -> dict[str, Any]:
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
                "advice": lifetimes.lifetime_advice(group),
                "cap": group.cap
                and {**group.cap._asdict(), "advice": lifetimes.cap_advice(group.cap)},
            }
            for group in analysis.lifetimes
        ],
        "delays": [
            {**queue._asdict(), "advice": lifetimes.delay_advice(queue, late_after_ms)}
            for queue in analysis.delays
        ],
        "consumers": [
            {**consumer._asdict(), "advice": lifetimes.consumer_advice(consumer)}
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
            *(
                []
                if group.verdict is Verdict.FITS
                else [" ".join(lifetimes.lifetime_advice(group))]
            ),
            *([] if group.cap is None else [lifetimes.cap_advice(group.cap)]),
        ]
    ]
    columns = (
        *(analysis.by.value, "lives", "got", "expired", "share", "lifetime", "left p1", "left p5"),
        *("left p50", "gets p99.9", "suggested", "verdict"),
    )
    tables = [_table(columns, [_lifetime_row(*group) for group in groups], sentences)]
    delays = [(named(queue.manager, queue.queue), queue) for queue in analysis.delays]
    sentences = [
        f"{name}: {lifetimes.delay_advice(queue, late_after_ms)}" for name, queue in delays
    ]
    tables.append(_table(_DELAY_COLUMNS, [_delay_row(*queue) for queue in delays], sentences))
    consumers = [(named(one.manager, one.queue), one) for one in analysis.consumers]
    sentences = [
        f"{one.application or '(none)'} from {name}: {sentence}"
        for name, one in consumers
        if (sentence := lifetimes.consumer_advice(one))
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


#: A batch has the rows of this time.
_POLL_SECONDS = 1.0
#: How long the end of a ledger is waited for, which is shown beside the lake's position.
_LOOK_SECONDS = 3.0
_COLUMNS = tuple("queue,lives,got,expired,other,share,p50 s,p95 s,p99 s,late".split(","))
_BOOK_COLUMNS = (
    *("queue", "put", "ended", "present", "adds up"),
    *("owed: exception", "expiration", "COA", "COD"),
)
_TEN_MINUTES_MS = 600 * SECOND_MS
ledger = group()
ledger.command()(analyze)


class LakeFormat(StrEnum):
    """How a lake keeps its rows: plain Parquet files by date, or Delta tables."""

    PARQUET = "parquet"
    DELTA = "delta"


FormatOption = Annotated[
    LakeFormat | None,
    typer.Option(
        "--format",
        help="delta: tables lives, balances and reports_owed. "
        "[default: that of the lake; parquet for a new folder, delta for a URL]",
    ),
]
UrlOption = Annotated[
    str | None, typer.Option("--url", help="The server, as in grpc://127.0.0.1:9414.")
]
ManagerOption = Annotated[
    str | None,
    typer.Option("--qmgr", metavar="QMGR", help="The queue manager; with its server's url or not."),
]
TokenOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        parser=local_path,
        metavar="FILE",
        help="File with the token; else MAYFLY_TOKEN.",
    ),
]
OnceOption = Annotated[
    bool, typer.Option("--available-now", help="End when all that is there now is in the lake.")
]
UpkeepOption = Annotated[
    int | None,
    typer.Option(
        "--compact-every",
        parser=duration_ms,
        metavar="TIME",
        help="Interval at which the lake is compacted; 0s: never. [default: 10min]",
    ),
]
PlotOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--plot",
        parser=local_path,
        metavar="FILE",
        help="Draw it too: .html is interactive, .png .svg .pdf; several.",
    ),
]
UntilOption = Annotated[
    int | None,
    typer.Option("--until", min=1, metavar="POSITION", help="Only the positions up to this one."),
]
Target = Annotated[
    Path,
    typer.Argument(
        parser=local_path, metavar="FILE", help="A new file: .parquet, .csv, .jsonl or .json."
    ),
]
OutcomeOption = Annotated[
    list[str] | None,
    typer.Option("--outcome", metavar="OUTCOME", help="Only lives that ended so; several."),
]
WhereOption = Annotated[
    str | None,
    typer.Option("--where", metavar="SQL", help="Only lives for which this holds."),
]


@ledger.command()
def compact(lake: Lake, *, as_json: JsonOption = False) -> None:
    """Turn the many files of a lake into one for each date, sorted by queue.

    May run while a stream writes and others read, and may be killed: no reader ever sees a row
    twice or misses one. The next run removes files that readers still need now.

    \b
    Example:
      mayfly ledger compact lake
    """
    check_lake(lake)
    if is_delta(lake):
        _compact_delta(lake, as_json)
        return
    with lake_errors(), seconds_shown(sys.stderr, "the lake is compacted"):
        from mayfly.pipeline.lake.compaction import compact_lake

        done = compact_lake(lake)
    if as_json:
        print_json(done._asdict())
    elif done.dates:
        print(f"{done.dates:,} dates: {done.files_before:,} files are now {done.files_after:,}")
    else:
        print(f"{lake} has nothing to compact")


def _compact_delta(lake: str, as_json: bool) -> None:
    """Compact a lake of Delta tables, and print the number of files of each table."""
    with lake_errors():
        from mayfly.pipeline.lake.delta import compact_tables

        done = compact_tables(lake)
    if as_json:
        print_json({name: table._asdict() for name, table in done.items()})
    for name, table in done.items() if not as_json else ():
        print(f"{name}: {table.files_before:,} files are now {table.files_after:,}")


@ledger.command()
def convert(
    source: Annotated[
        str,
        typer.Argument(
            parser=lake_place, metavar="FROM", help="The lake to read, of either format."
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            parser=lake_place, metavar="TO", help="A new lake, or the one of a conversion before."
        ),
    ],
    *,
    as_json: JsonOption = False,
) -> None:
    """Copy a lake of Parquet files into Delta tables, or one of Delta tables into Parquet files.

    The new lake has the same rows at the same positions; `mayfly ledger run` goes on there where it
    ended in the old one, which stays as it is. A conversion that was killed is run again: it goes
    on where it ended.

    \b
    Examples:
      mayfly ledger convert lake s3://bucket/lake
      mayfly ledger convert tables lake
    """
    check_lake(source)
    row_count = 0
    with lake_errors(), seconds_shown(sys.stderr, "the lake is converted"):
        from mayfly.pipeline.lake.copying import convert_lake

        for progress in convert_lake(source, target):
            row_count += progress.row_count
    if as_json:
        print_json({"lake": target, "rows": row_count})
    else:
        print(f"{row_count:,} rows copied into {target}")


@ledger.command()
def erase(
    lake: Annotated[
        str | None,
        typer.Argument(
            parser=lake_place, metavar="[LAKE]", help="A lake, of either format, to erase from."
        ),
    ] = None,
    *,
    qmgr: Annotated[
        str | None,
        typer.Option("--qmgr", metavar="QMGR", help="Erase from the ledger of a queue manager."),
    ] = None,
    identifier: Annotated[
        bytes | None,
        typer.Option(
            "--id", parser=message_id, metavar="ID", help="A MsgId or CorrelId, in hexadecimal."
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="USER", help="Messages that this user put or ended."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="Rows of the lake, by DuckDB's SQL."),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Kept in the record of the erasure.")
    ],
    vacuum: Annotated[
        bool,
        typer.Option("--vacuum", help="Remove replaced files of Delta tables at once."),
    ] = False,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Erase who and what messages were: ids, users and programs become empty.

    The rows stay, with queue, times and outcome, so that all figures and proofs are as before.
    When, by whom, why and of how many rows is kept; see `mayfly ledger erasures`. Erase from the
    queue manager before the lake: rows that come into the lake later are not erased there. Iceberg
    tables that were copied from the lake are changed by `mayfly ledger iceberg --anew` alone. Exit
    code 1 when no row fits.

    \b
    Examples:
      mayfly ledger erase lake --qmgr QM1 --user alice --reason 'request 17'
      mayfly ledger erase s3://bucket/lake --where "reply_to_q = 'ALICE.IN'" --reason x --vacuum
    """
    selections: list[tuple[str, bytes | str]] = []
    if identifier is not None:
        selections.append(("id", stored_id(identifier)))
    if user is not None:
        selections.append(("user", user))
    if where is not None:
        selections.append(("where", where))
    if len(selections) != 1:
        raise CommandFailed(ExitCode.USAGE, "give one of --id, --user and --where")
    if lake is None and qmgr is None:
        raise CommandFailed(ExitCode.USAGE, "give a lake, --qmgr, or both")
    if where is not None and qmgr is not None:
        raise CommandFailed(ExitCode.USAGE, "--where is for lakes only")
    if vacuum and (lake is None or not is_delta(lake)):
        raise CommandFailed(ExitCode.USAGE, "--vacuum is for lakes of Delta tables")
    if lake is not None:
        check_lake(lake)
    done: list[dict[str, Any]] = []
    [(selected_by, value)] = selections
    if qmgr is not None:
        with (
            connected(qmgr, path, program="mayfly ledger erase") as connection,
            seconds_shown(sys.stderr, "the ledger is searched"),
        ):
            record = Administration(connection.call).erase_lives(
                identifier=identifier, user=user, reason=reason
            )
        done.append({"place": qmgr, **record._asdict(), "old_files": 0})
    if lake is not None:
        with lake_errors(), seconds_shown(sys.stderr, "the lake is searched"):
            from mayfly.pipeline.lake.compaction import Selection, erase_lives

            begun = Erasure(SystemClock().now_ms(), acting_user(), selected_by, reason, 0)
            erased = erase_lives(lake, Selection(selected_by, value), begun, is_vacuumed=vacuum)
        done.append({"place": lake, **erased.record._asdict(), "old_files": erased.old_file_count})
    if as_json:
        print_json(done)
    else:
        for each in done:
            print(f"{each['row_count']:,} rows erased from {each['place']}{_old_files_text(each)}")
    if not any(each["row_count"] for each in done):
        raise CommandFailed(ExitCode.NOTHING, "no row fits")


def _old_files_text(erased: dict[str, Any]) -> str:
    """Return how many files with the old rows are left, and when they go; "" if none is left.

    ``erased`` has the keys ``old_files``, their number, and ``place``, the lake.
    """
    if not erased["old_files"]:
        return ""
    when = (
        "with the first compaction after a week, or with --vacuum"
        if is_delta(erased["place"])
        else "with the first compaction after their readers have ended"
    )
    return f"; {erased['old_files']:,} files with the old rows are left and go {when}"


@ledger.command()
def erasures(
    lake: Annotated[
        str | None, typer.Argument(parser=lake_place, metavar="[LAKE]", help="A lake.")
    ] = None,
    *,
    qmgr: Annotated[
        str | None, typer.Option("--qmgr", metavar="QMGR", help="A queue manager instead.")
    ] = None,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what was erased from a lake or a ledger: when, by whom, how many rows and why.

    \b
    Examples:
      mayfly ledger erasures lake
      mayfly ledger erasures --qmgr QM1
    """
    if (lake is None) == (qmgr is None):
        raise CommandFailed(ExitCode.USAGE, "give either a lake or --qmgr")
    if qmgr is not None:
        with connected(qmgr, path, program="mayfly ledger erasures") as connection:
            records = Administration(connection.call).erasures()
    else:
        assert lake is not None
        check_lake(lake)
        with lake_errors():
            from mayfly.pipeline.lake.compaction import erasures as records_in

            records = records_in(lake)
    if as_json:
        print_json([record._asdict() for record in records])
        return
    rows = [("at (UTC)", "by", "selected by", "rows", "reason")]
    rows += [
        (spelled_moment(each.at_ms), each.by, each.selected_by, f"{each.row_count:,}", each.reason)
        for each in records
    ]
    for line in aligned(rows, right=(3,)):
        print(line)


@ledger.command()
def export(
    lake: Lake,
    target: Target,
    *,
    first: FromOption = None,
    last: ToOption = None,
    queue: QueueOption = None,
    outcome: OutcomeOption = None,
    late_after_ms: LateOption = None,
    where: WhereOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write lives of a lake to one file for other programs, by queue and position.

    Without a filter it is all of them; --late-after keeps those that were got later than that.
    Small lakes are read without Spark; --where is a condition in Spark's SQL.

    \b
    Examples:
      mayfly ledger export lake expired.csv --outcome expired --from 2026-11-20
      mayfly ledger export lake large.parquet --where 'body_bytes > 1000000'
    """
    check_lake(lake)
    part = lake_part(first, last, queue)
    from mayfly.pipeline.lake.queries import check_export

    outcomes = outcome or ()
    with wrong_values():
        check_export(target, outcomes)
    count = _exported(
        lake, target, part, outcomes=outcomes, late_after_ms=late_after_ms, where=where
    )
    if as_json:
        print_json({"file": str(target), "lives": count})
    else:
        print(f"{count:,} {'life' if count == 1 else 'lives'} written to {target}")
    if not count:
        raise CommandFailed(ExitCode.NOTHING, f"no lives in {lake} fit")


def _exported(
    lake: str,
    target: Path,
    part: LakePart,
    *,
    outcomes: Sequence[str],
    late_after_ms: int | None,
    where: str | None,
) -> int:
    """Write the ended messages that pass all filters to ``target``; return their number.

    ``part`` names the range of time and the queues; ``outcomes`` () keeps all. ``late_after_ms``
    keeps only messages that were got more than this many ms after their delivery time; None keeps
    all. ``where`` is a condition in Spark SQL and needs Spark; None leaves the choice of
    the engine to the lake's size. Raises CommandFailed for errors of the lake.
    """
    if where is not None and is_delta(lake):
        raise CommandFailed(
            ExitCode.USAGE, f"--where is for Spark, which does not read {lake}: ask DuckDB itself"
        )
    # A user's condition is Spark's whatever the size: its meaning must not change with that.
    if where is None and fits_one_process(lake, part):
        with lake_errors(), seconds_shown(sys.stderr, "the lake is read"):
            from mayfly.pipeline.lake import answers

            return answers.export_lives(
                lake, target, part=part, outcomes=outcomes, late_after_ms=late_after_ms
            )
    with spark_session() as spark:
        from mayfly.pipeline.spark.lake import export_lives

        return export_lives(
            spark,
            lake,
            target,
            part=part,
            outcomes=outcomes,
            late_after_ms=late_after_ms,
            where=where,
        )


@ledger.command()
def run(
    lake: Lake,
    *,
    url: UrlOption = None,
    qmgr: ManagerOption = None,
    token_file: TokenOption = None,
    available_now: OnceOption = False,
    compact_every_ms: UpkeepOption = None,
    lake_format: FormatOption = None,
    metrics_file: MetricsFileOption = None,
    metrics_listen: MetricsListenOption = None,
    path: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy a ledger into a lake.

    The server is named by --url, or found by the queue manager that `mayfly serve` has open. Goes
    on where an earlier run ended. Runs until it is interrupted or, with --available-now, done.
    --json prints a line for each batch that has rows and one at the end; with --available-now only
    the one at the end.

    \b
    Examples:
      mayfly ledger run lake --qmgr QM1
      mayfly ledger run lake --url grpc://127.0.0.1:9414 --token-file token --available-now
      mayfly ledger run s3://bucket/lake --format delta --qmgr QM1
      mayfly ledger run lake --qmgr QM1 --metrics-listen 127.0.0.1:9416
    """
    is_of_delta = _is_of_delta(lake, lake_format)
    if url is None:
        url, served_token_file = _served(qmgr, path)
        token_file = served_token_file if token_file is None else token_file
    ledger_info = _info(url, token_file, qmgr)
    source = CopiedLedger(
        url,
        None if token_file is None else str(token_file.absolute()),
        ledger_info.manager,
        ledger_info.instance_id,
    )
    with _watched(
        lake,
        source,
        metrics_file,
        metrics_listen,
        _batch_printer(as_json, available_now),
        RunState.DONE if available_now else RunState.STOPPED,
    ) as watch:
        row_count = _copy(
            lake,
            source,
            watch,
            as_delta=is_of_delta,
            available_now=available_now,
            compact_every_ms=_TEN_MINUTES_MS if compact_every_ms is None else compact_every_ms,
        )
    if as_json:
        # The last line of several, or the one document of a job.
        print_json({"lake": str(lake), "rows": row_count}, indent=2 if available_now else None)
    else:
        print(f"{row_count:,} rows brought into {lake}")


@contextlib.contextmanager
def _watched(
    lake: str,
    ledger: CopiedLedger,
    metrics_file: Path | None,
    metrics_listen: ListenAddress | None,
    print_batch: Callable[[int, int], None],
    end: RunState,
) -> Iterator[LedgerWatch]:
    """Return a context with the watch of a run, which shows its progress.

    It is shown as metrics and in the note, the file that ``mayfly pipeline status`` reads.
    ``print_batch`` is called with number and row count of each batch. If the block ends without an
    error, the note says that the run ended as ``end``. Raises CommandFailed if another process runs
    the same copy, or the address for metrics cannot be used.
    """
    from mayfly.pipeline.bulk.client import LedgerClient

    place = lake_key(lake)
    begun = LedgerProgress(ledger.manager, place)
    with contextlib.ExitStack() as stack:
        targets: list[ProgressTarget] = []
        shown, url = stack.enter_context(metrics_targets(begun, metrics_file, metrics_listen))
        if url is not None:
            say(f"metrics at {url}")
        targets += shown
        run_note = stack.enter_context(noted(RunKind.LEDGER, place, say, ledger))
        if run_note is not None:
            targets.append(run_note)
        with lake_errors():
            client = stack.enter_context(
                LedgerClient(
                    ledger.url,
                    token_file=ledger.token_file,
                    manager=ledger.manager,
                    timeout_seconds=_LOOK_SECONDS,
                )
            )
        watch = LedgerWatch(begun, targets, client, print_batch)
        with watch.ending():
            yield watch
        if run_note is not None:
            run_note.end(end)


def _is_of_delta(lake: str, lake_format: LakeFormat | None) -> bool:
    """Return True if a lake is, or is to be made, one of Delta tables.

    Raises CommandFailed if it is, or can only be, of the other format.
    """
    is_delta_now = is_delta(lake)
    if lake_format is None:
        return is_delta_now
    if lake_format is LakeFormat.PARQUET and is_delta_now:
        raise CommandFailed(ExitCode.USAGE, f"--format parquet: {lake} is a lake of Delta tables")
    if lake_format is LakeFormat.DELTA and not is_delta_now and any(Path(lake).glob("date=*")):
        raise CommandFailed(ExitCode.USAGE, f"--format delta: {lake} is a lake of Parquet files")
    return lake_format is LakeFormat.DELTA


def _copy(
    lake: str,
    source: CopiedLedger,
    watch: LedgerWatch,
    *,
    as_delta: bool,
    available_now: bool,
    compact_every_ms: int,
) -> int:
    """Copy a ledger into a lake, and return the number of rows.

    It ends at SIGINT or SIGTERM, after the running batch. With ``available_now`` it also ends when
    the present end of the ledger is reached. The lake is of Delta tables with ``as_delta``, else of
    Parquet files. It is compacted every ``compact_every_ms`` milliseconds, never for 0. ``watch``
    is called for each batch. Raises CommandFailed for errors of the server and the lake.
    """
    row_count = batch = 0
    with lake_errors():
        from mayfly.pipeline.bulk.client import LedgerClient
        from mayfly.pipeline.lake.copying import copy_ledger, opened

        with (
            LedgerClient(
                source.url, token_file=source.token_file, manager=source.manager, is_patient=True
            ) as client,
            opened(lake, source.instance_id, as_delta=as_delta) as target,
            stop_event() as stopped,
        ):
            upkeep_seconds = time.perf_counter()
            is_over = False
            while not is_over:
                watch.look(target.position)
                for progress in copy_ledger(client, target):
                    row_count += progress.row_count
                    watch.commit(batch, progress.row_count, progress.position)
                    batch += 1
                    if stopped.is_set():
                        break
                seconds = time.perf_counter() - upkeep_seconds
                if compact_every_ms and seconds > compact_every_ms / SECOND_MS:
                    _compact_beside(lake, as_delta)
                    upkeep_seconds = time.perf_counter()
                is_over = available_now or stopped.wait(_POLL_SECONDS)
    return row_count


def _compact_beside(lake: str, is_of_delta: bool) -> None:
    """Compact a lake while its ledger is copied into it; raises LakeError.

    A lake of Parquet files is left alone while another process maintains it.
    """
    if is_of_delta:
        from mayfly.pipeline.lake.delta import compact_tables

        compact_tables(lake)
    else:
        from mayfly.pipeline.lake.compaction import compact_beside

        compact_beside(lake)


@ledger.command()
def report(
    lake: Lake,
    *,
    first: FromOption = None,
    last: ToOption = None,
    queue: QueueOption = None,
    late_after_ms: LateOption = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show for each queue how its messages ended, how long they waited and how many were late.

    All figures are exact. Most lakes are read in this process, without Spark.

    \b
    Examples:
      mayfly ledger report lake --late-after 5min
      mayfly ledger report lake --from 2026-11-01 --to 2026-11-20 --queue 'ORDERS.*'
      mayfly ledger report lake --plot lake.html --plot lake.png
    """
    check_lake(lake)
    part = lake_part(first, last, queue)
    if plot:
        from mayfly.pipeline.lake.plot import check_plot_file

        with wrong_values():
            for file in plot:
                check_plot_file(file)
    limit_ms = LATE_AFTER_MS if late_after_ms is None else late_after_ms
    reports, timeline = _answers(lake, part, limit_ms, has_plot=bool(plot))
    if plot and timeline is not None:
        from mayfly.pipeline.lake.plot import draw_timeline

        for file in plot:
            draw_timeline(timeline, file)
    if as_json:
        print_json([_for_json(row) for row in reports])
    else:
        print_reports(reports)
        print_books(reports)
    if not reports:
        raise CommandFailed(ExitCode.NOTHING, f"no lives in {lake}")


@ledger.command()
def verify(lake: Lake, *, until: UntilOption = None, as_json: JsonOption = False) -> None:
    """Prove that a lake is complete: every position once, put = ended + present at every balance.

    Exit code 1 when it is not; the first position that does not add up is named.

    \b
    Examples:
      mayfly ledger verify lake
      mayfly ledger verify lake --until 1000000
    """
    check_lake(lake)
    with lake_errors(), seconds_shown(sys.stderr, "the lake is read"):
        from mayfly.pipeline.lake.check import check_lake as prove

        found = prove(lake, until_position=until)
    problems = found.texts
    if as_json:
        answer: dict[str, Any] = {"ok": not problems, "rows": found.rows, "problems": problems}
        if found.problems:
            answer["first"] = found.problems[0]._asdict()
        print_json(answer)
    elif not problems:
        print(f"{lake} is complete: {found.rows:,} rows, {found.balances:,} balances add up")
    else:
        print("\n".join(problems))
    if problems:
        raise CommandFailed(ExitCode.NOTHING, f"{len(problems)} problems in {lake}")


def _answers(
    lake: str, part: LakePart, late_after_ms: int, *, has_plot: bool
) -> tuple[list[QueueReport], LakeTimeline | None]:
    """Return (the reports of a lake's queues, the timeline to plot).

    A message that was got more than ``late_after_ms`` after its delivery time counts as late. The
    timeline is None if ``has_plot`` is False, or if no message has ended. Raises CommandFailed for
    errors of the lake.
    """

    def is_drawn(reports: list[QueueReport]) -> bool:
        """Return True if a plot is wanted and at least one message has ended."""
        return has_plot and any(row.lives for row in reports)

    if fits_one_process(lake, part):
        with lake_errors(), seconds_shown(sys.stderr, "the lake is read"):
            from mayfly.pipeline.lake import answers

            reports = answers.ledger_report(lake, part=part, late_after_ms=late_after_ms)
            return reports, answers.timeline_of(lake, part=part) if is_drawn(reports) else None
    with spark_session() as spark:
        from mayfly.pipeline.spark.lake import ledger_report, timeline_of

        reports = ledger_report(spark, lake, part=part, late_after_ms=late_after_ms)
        return reports, timeline_of(spark, lake, part=part) if is_drawn(reports) else None


def _info(url: str, token_file: Path | None, qmgr: str | None) -> LedgerInfo:
    """Return what a server says of a ledger.

    ``token_file`` None is the token in MAYFLY_TOKEN. ``qmgr`` None means the only queue manager
    there. Raises CommandFailed if the server does not answer or refuses.
    """
    with lake_errors():
        from mayfly.pipeline.bulk.client import LedgerClient

        with LedgerClient(url, token_file=token_file, manager=qmgr) as client:
            return client.info()


def _served(qmgr: str | None, path: Path | None) -> tuple[str, Path | None]:
    """Return (URL, token file) of the Flight server that has a queue manager open.

    ``path`` is the folder of the queue manager, None the usual one. The server is asked for its
    port over the socket in the folder. The file is None if the token is in MAYFLY_TOKEN. Sets
    MAYFLY_TLS_ROOTS for a server with TLS, unless set. Raises CommandFailed without ``qmgr`` or
    without a server.
    """
    if qmgr is None:
        raise CommandFailed(ExitCode.USAGE, "name the server with --url, or --qmgr")
    folder = folder_of(qmgr, path)
    served = served_at(folder, all_listeners=True)
    if served is None:
        raise CommandFailed(
            ExitCode.PIPELINE, f"{qmgr} is not served; start it: mayfly serve {qmgr}"
        )
    token_file = None if served.token_file is None else Path(served.token_file)
    with lake_errors():
        from mayfly.pipeline.bulk.client import LedgerClient, folder_url

        with LedgerClient(folder_url(folder), token_file=token_file) as client:
            url = client.address()
    if served.tls_certificate is not None:
        os.environ.setdefault(ROOTS_VARIABLE, served.tls_certificate)
    return url, token_file


def _batch_printer(as_json: bool, available_now: bool) -> Callable[[int, int], None]:
    """Return a function that prints a batch's number and rows, as text or as one line of JSON.

    With ``as_json`` and ``available_now`` it prints nothing: there is one object at the end.
    """

    def print_batch(batch: int, row_count: int) -> None:
        """Print the number of a batch and its rows, in the form that the flags ask for."""
        if not as_json:
            print(f"batch {batch}: {row_count:,} rows", flush=True)
        elif not available_now:
            # Flushed at once: a program at the other end of a pipe waits for the line.
            print_json({"batch": batch, "rows": row_count}, indent=None)
            sys.stdout.flush()

    return print_batch


def print_reports(reports: list[QueueReport]) -> None:
    """Print a heading and a line for each queue; waits, delivery time to get, are in seconds."""
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for row in reports:
        got, expired = row.outcomes["got"], row.outcomes["expired"]
        counts = [f"{n:,}" for n in (row.lives, got, expired, row.lives - got - expired)]
        waited_ms = (row.waited_p50_ms, row.waited_p95_ms, row.waited_p99_ms)
        waited = map(_seconds, waited_ms)
        rows.append((row.queue, *counts, f"{row.expired_share:.1%}", *waited, f"{row.late:,}"))
    for line in aligned(rows):
        print(line)


def print_books(reports: list[QueueReport]) -> None:
    """Print each queue's balance (put = ended + present) and owed reports, after a blank line.

    A queue without a balance has "-".
    """
    rows: list[tuple[str, ...]] = [_BOOK_COLUMNS]
    for row in reports:
        books = row.balance
        counts = ("-",) * 3 if books is None else _counts(books.put, books.ended, books.present)
        adds_up = "-" if books is None else ("yes" if books.is_balanced else "NO")
        rows.append((row.queue, *counts, adds_up, *_counts(*row.owed.values())))
    if reports:
        print()
    for line in aligned(rows):
        print(line)


def _counts(*counts: int) -> tuple[str, ...]:
    """Return numbers as texts with thousands separators, in the same order."""
    return tuple(f"{count:,}" for count in counts)


def _for_json(row: QueueReport) -> dict[str, Any]:
    """Return a queue's report as a dict of its fields, for JSON.

    ``balance`` is a dict that also has ``is_balanced``; it is None for a queue without a balance.
    """
    books = row.balance
    balance = None if books is None else {**books._asdict(), "is_balanced": books.is_balanced}
    return dataclasses.asdict(row) | {"balance": balance}


def _seconds(waited_ms: float | None) -> str:
    """Return ms as seconds with one decimal, "-" for None."""
    return "-" if waited_ms is None else f"{waited_ms / SECOND_MS:,.1f}"


class ProgressTarget(Protocol):
    """A file or a server that shows snapshots of a ledger run outside of this process."""

    def show(self, progress: LedgerProgress, *, is_up: bool) -> None:
        """Show a snapshot; ``is_up`` is True while the ledger is copied; may raise OSError."""


class LedgerWatch:
    """Counts the commits of a ledger run and shows them to its targets.

    An OSError of a target is said once on stderr, and stops nothing.
    """

    def __init__(
        self,
        begun: LedgerProgress,
        targets: Sequence[ProgressTarget],
        client: LedgerClient,
        print_batch: Callable[[int, int], None],
    ) -> None:
        """Begin with the snapshot ``begun``, which nothing shows yet.

        ``targets`` show each later one. ``client`` is asked for the end of the ledger.
        ``print_batch`` is called with the number and the row count of each commit.
        """
        self._progress = begun
        self._targets = targets
        self._client = client
        self._print_batch = print_batch
        self._clock = SystemClock()
        self._said: set[str] = set()

    def commit(self, batch: int, row_count: int, position: int) -> None:
        """Count a commit of rows that end at a position of the ledger; show and print it.

        ``batch`` is the number of the commit in this run.
        """
        self._progress = self._progress.with_commit(position, row_count, self._clock.now_ms())
        self._show(is_up=True)
        self._print_batch(batch, row_count)

    def look(self, position: int | None = None) -> None:
        """Ask for the end of the ledger, and show how far the lake is behind.

        ``position`` is that of the lake, None if it is not known. A server that does not answer is
        passed over: the copy itself says so.
        """
        from mayfly.pipeline.bulk.errors import BulkError

        if position is not None:
            self._progress = self._progress._replace(position=position)
        with contextlib.suppress(BulkError):
            end_position = self._client.info().last_position
            self._progress = self._progress._replace(end_position=end_position)
        self._show(is_up=True)

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Return a context at whose end the targets show that the ledger is not copied any more.

        An error of the block is passed on.
        """
        try:
            yield
        finally:
            self._show(is_up=False)

    def _show(self, *, is_up: bool) -> None:
        """Show the snapshot to all targets."""
        for target in self._targets:
            try:
                target.show(self._progress, is_up=is_up)
            except OSError as error:
                text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
                if text not in self._said:
                    self._said.add(text)
                    note(text)


# Iceberg


@ledger.command()
def iceberg(
    lake: Lake,
    folder: Annotated[
        Path | None,
        typer.Argument(
            parser=local_path,
            metavar="[FOLDER]",
            help="Folder of the tables and their catalog, catalog.db of SQLite.",
        ),
    ] = None,
    *,
    catalog: Annotated[
        str | None,
        typer.Option(
            "--catalog",
            metavar="NAME",
            help="Instead of a folder, a catalog of pyiceberg's own configuration.",
        ),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", metavar="NAME", help="Namespace of the tables.")
    ] = "mayfly",
    anew: Annotated[
        bool,
        typer.Option("--anew", help="Remove the tables first, with all their files."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy a lake into Iceberg tables: lives, balances and reports_owed.

    When it is run again, also after a kill, only rows that the tables lack are added. Needs
    mayfly-mq[iceberg]. After `mayfly ledger erase` the tables still have what was erased: --anew
    removes and fills them again.

    \b
    Examples:
      mayfly ledger iceberg lake tables
      mayfly ledger iceberg s3://bucket/lake --catalog prod --namespace messaging
    """
    if (folder is None) == (catalog is None):
        raise CommandFailed(ExitCode.USAGE, "give either a folder or --catalog")
    check_lake(lake)
    row_count = 0
    with lake_errors(), seconds_shown(sys.stderr, "the lake is copied"):
        from mayfly.pipeline.lake.iceberg import IcebergPlace, export_to_iceberg

        place = IcebergPlace(folder, catalog, namespace)
        for progress in export_to_iceberg(lake, place, is_anew=anew):
            row_count += progress.row_count
    if as_json:
        print_json(
            {
                "folder": None if folder is None else str(folder),
                "catalog": catalog,
                "namespace": namespace,
                "rows": row_count,
            }
        )
    else:
        print(f"{row_count:,} rows copied into {place}")
