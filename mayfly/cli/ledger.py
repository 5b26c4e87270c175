"""``mayfly ledger``: stream a ledger into a lake, maintain the lake, and query it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mayfly.cli.analyze import analyze
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
from mayfly.cli.ledger_watch import LedgerTarget, LedgerWatch
from mayfly.cli.managers import FolderOption, folder_of
from mayfly.cli.outcomes import CommandFailed, ExitCode, group, wrong_values
from mayfly.cli.run_notes import Ledger, RunKind, RunState, lake_key, noted
from mayfly.cli.run_outputs import MetricsFileOption, MetricsListenOption, metrics_targets
from mayfly.cli.served import served_at
from mayfly.cli.show import JsonOption, aligned, print_json, seconds_shown
from mayfly.cli.show import note as say
from mayfly.cli.signals import stop_event
from mayfly.cli.values import duration_ms, local_path
from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.checkpoint_state import lake_checkpoint, ledger_position
from mayfly.pipeline.lake.files import is_delta
from mayfly.pipeline.lake.measures import LATE_AFTER_MS
from mayfly.pipeline.lake.part import LakePart
from mayfly.pipeline.ledger_progress import LedgerProgress
from mayfly.servers.addresses import ListenAddress
from mayfly.verbs.contracts.access import ROOTS_VARIABLE
from mayfly.verbs.contracts.files import is_url
from mayfly.verbs.contracts.ledger import LedgerInfo

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from mayfly.pipeline.lake.report import QueueReport
    from mayfly.pipeline.lake.timeline import LakeTimeline

_POLL_SECONDS = 0.5
#: A commit has the rows of this time, and makes at most three files.
_DELTA_POLL_SECONDS = 1.0
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
        help="delta: tables lives, balances and reports_owed, written without Spark. "
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
    from mayfly.pipeline.lake.export_formats import check_export

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

    ``part`` names the range of time and the queues. ``late_after_ms`` leaves only those that were
    got later than that; None is no such filter. ``where`` is a condition in Spark SQL and needs
    Spark; None leaves the choice of the engine to the lake's size. Raises CommandFailed for errors
    of the lake.
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
        from mayfly.pipeline.spark.export import export_lives

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
    """Stream a ledger into a lake.

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
    every_ms = _TEN_MINUTES_MS if compact_every_ms is None else compact_every_ms
    with _watched(
        lake,
        Ledger(
            url,
            None if token_file is None else str(token_file.absolute()),
            ledger_info.manager,
            ledger_info.instance_id,
        ),
        metrics_file,
        metrics_listen,
        _batch_printer(as_json, available_now),
        RunState.DONE if available_now else RunState.STOPPED,
    ) as watch:
        bring = _copy_to_delta if is_of_delta else _stream_to_parquet
        row_count = bring(
            lake,
            url,
            token_file,
            qmgr,
            available_now=available_now,
            every_ms=every_ms,
            watch=watch,
        )
    if as_json:
        # The last line of several, or the one document of a job.
        print_json({"lake": str(lake), "rows": row_count}, indent=2 if available_now else None)
    else:
        print(f"{row_count:,} rows brought into {lake}")


@contextlib.contextmanager
def _watched(
    lake: str,
    ledger: Ledger,
    metrics_file: Path | None,
    metrics_listen: ListenAddress | None,
    print_batch: Callable[[int, int], None],
    end: RunState,
) -> Iterator[LedgerWatch]:
    """Return a context with the watch of a run, which shows metrics and keeps the note of the run.

    Without an error ``end`` is noted as its end. Raises CommandFailed if another process runs it,
    or the address for metrics cannot be used.
    """
    from mayfly.pipeline.bulk.client import LedgerClient

    place = lake_key(lake)
    begun = LedgerProgress(ledger.manager, place, _stream_position(place, ledger.instance_id))
    with contextlib.ExitStack() as stack:
        targets: list[LedgerTarget] = []
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


def _stream_position(lake: str, instance_id: str) -> int | None:
    """Return the last position that a stream has written into a lake of Parquet files.

    None for a new lake, and for one of Delta tables, which say it themselves.
    """
    if is_url(lake):
        return None
    return ledger_position(lake_checkpoint(Path(lake), instance_id))


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


def _copy_to_delta(
    lake: str,
    url: str,
    token_file: Path | None,
    qmgr: str | None,
    *,
    available_now: bool,
    every_ms: int,
    watch: LedgerWatch,
) -> int:
    """Copy a ledger into Delta tables; return the row count.

    Ends at SIGINT or SIGTERM, with ``available_now`` also at the present end of the ledger. The
    tables are compacted every ``every_ms`` milliseconds, never for 0. ``watch`` is told of each
    commit.
    """
    row_count = batch = 0
    with lake_errors():
        from mayfly.pipeline.bulk.client import LedgerClient
        from mayfly.pipeline.lake.delta import DeltaLake, compact_tables, copy_ledger

        with (
            LedgerClient(url, token_file=token_file, manager=qmgr, is_patient=True) as client,
            contextlib.closing(DeltaLake(lake, client.info().instance_id)) as delta_lake,
            stop_event() as stopped,
        ):
            upkeep_seconds = time.perf_counter()
            is_over = False
            while not is_over:
                watch.look(delta_lake.position)
                for progress in copy_ledger(client, delta_lake):
                    row_count += progress.row_count
                    watch.commit(batch, progress.row_count, progress.position)
                    batch += 1
                    if stopped.is_set():
                        break
                if every_ms and time.perf_counter() - upkeep_seconds > every_ms / SECOND_MS:
                    compact_tables(lake)
                    upkeep_seconds = time.perf_counter()
                is_over = available_now or stopped.wait(_DELTA_POLL_SECONDS)
            delta_lake.checkpoint()
    return row_count


def _stream_to_parquet(
    lake: str,
    url: str,
    token_file: Path | None,
    qmgr: str | None,
    *,
    available_now: bool,
    every_ms: int,
    watch: LedgerWatch,
) -> int:
    """Stream a ledger into Parquet files with Spark; return the row count.

    Ends at SIGINT or SIGTERM, with ``available_now`` also at the present end of the ledger. The
    files are compacted every ``every_ms`` milliseconds, never for 0. ``watch`` is told of each
    batch.
    """
    with spark_session(is_stream=True) as spark:
        from mayfly.pipeline.lake.compaction import compact_beside
        from mayfly.pipeline.spark.lake import ledger_to_lake

        query = ledger_to_lake(
            spark, url, token_file, lake, available_now=available_now, manager=qmgr
        )
        with stop_event() as stopped:
            row_count = _await(query, stopped, watch, partial(compact_beside, lake), every_ms)
    return row_count


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
    """Return the reports of a lake's queues and the timeline to plot.

    A message that was got more than ``late_after_ms`` after its delivery time counts as late. The
    timeline is None if ``has_plot`` is False, or if no message has ended.
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
        from mayfly.pipeline.spark.report import ledger_report, timeline_of

        reports = ledger_report(spark, lake, part=part, late_after_ms=late_after_ms)
        return reports, timeline_of(spark, lake, part=part) if is_drawn(reports) else None


def _info(url: str, token_file: Path | None, qmgr: str | None) -> LedgerInfo:
    """Return what a server says of a ledger, before Spark starts.

    Raises CommandFailed if it does not answer or refuses.
    """
    with lake_errors():
        from mayfly.pipeline.bulk.client import LedgerClient

        with LedgerClient(url, token_file=token_file, manager=qmgr) as client:
            return client.info()


def _served(qmgr: str | None, path: Path | None) -> tuple[str, Path | None]:
    """Return the URL and token file of the Flight server that has a queue manager open.

    The server is asked for its port over the socket in the folder. The file is None if the token is
    in MAYFLY_TOKEN. Sets MAYFLY_TLS_ROOTS for a server with TLS, unless set. Raises CommandFailed
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
        from mayfly.pipeline.bulk.client import LedgerClient
        from mayfly.pipeline.bulk.folder_socket import folder_url

        with LedgerClient(folder_url(folder), token_file=token_file) as client:
            url = client.address()
    if served.tls_certificate is not None:
        # Spark's workers, which this process starts, find it there as well.
        os.environ.setdefault(ROOTS_VARIABLE, served.tls_certificate)
    return url, token_file


def _batch_printer(as_json: bool, available_now: bool) -> Callable[[int, int], None]:
    """Return a function that prints a batch's number and rows, as text or JSON.

    With both flags it prints nothing.
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


def _await(
    query: StreamingQuery,
    stopped: threading.Event,
    watch: LedgerWatch,
    upkeep: Callable[[], object],
    every_ms: int,
) -> int:
    """Wait until the stream ends or ``stopped`` is set, then stop it; return its number of rows.

    ``print_batch`` is called with the number and the rows of each batch. ``upkeep`` is called every
    ``every_ms`` milliseconds, never for 0. Raises the stream's error.
    """
    row_count, next_batch, is_over = 0, 0, False
    upkeep_seconds = time.perf_counter()
    while not is_over:
        if every_ms and time.perf_counter() - upkeep_seconds > every_ms / SECOND_MS:
            upkeep()
            upkeep_seconds = time.perf_counter()
        is_over = stopped.wait(_POLL_SECONDS) or not query.isActive
        if is_over:
            query.stop()
        for progress in query.recentProgress:
            if progress["batchId"] < next_batch or not progress["numInputRows"]:
                continue
            next_batch = progress["batchId"] + 1
            row_count += progress["numInputRows"]
            position = json.loads(progress.sources[0].endOffset)["position"]
            watch.commit(progress["batchId"], progress["numInputRows"], position)
        if not is_over:
            watch.look()
    error = query.exception()
    if error is not None:
        raise error
    return row_count


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
