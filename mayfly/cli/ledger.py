"""``mayfly ledger``: bring a ledger into a lake, and ask the lake about it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mayfly.cli.managers import FolderOption, JsonOption, folder_of
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.quiet import quiet_stderr
from mayfly.cli.serve import SERVED_FILE
from mayfly.cli.show import aligned, print_json
from mayfly.cli.signals import stop_event
from mayfly.cli.values import duration_ms
from mayfly.lifetime.times import SECOND_MS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from mayfly.spark.report import QueueReport

_POLL_SECONDS = 0.5
_COLUMNS = ("queue", "lives", "got", "expired", "other", "share", "p50 s", "p99 s", "late")
#: A command runs a few short jobs: a third less to wait than with what Java chooses itself. The
#: stack is the one that mayfly.spark.session needs.
_QUICK_START = "-Xss8m -XX:+UseSerialGC -Xshare:auto"

ledger = typer.Typer(
    name="ledger",
    help="Bring a ledger into a lake of Parquet files, and ask the lake about it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Lake = Annotated[Path, typer.Argument(metavar="LAKE", help="Folder of the lake.")]
UrlOption = Annotated[
    str | None, typer.Option("--url", help="The server, as in grpc://127.0.0.1:9414.")
]
ManagerOption = Annotated[
    str | None,
    typer.Option("--qmgr", metavar="QMGR", help="The queue manager; with its server's url or not."),
]
TokenOption = Annotated[
    Path | None, typer.Option("--token-file", help="File with the token; else MAYFLY_TOKEN.")
]
OnceOption = Annotated[
    bool, typer.Option("--available-now", help="End when all that is there now is in the lake.")
]
LateOption = Annotated[
    int | None,
    typer.Option(
        "--late-after",
        parser=duration_ms,
        metavar="TIME",
        help="A message that was got later than this after its delivery time is late. "
        "[default: 1min]",
    ),
]


@ledger.command()
def run(
    lake: Lake,
    *,
    url: UrlOption = None,
    qmgr: ManagerOption = None,
    token_file: TokenOption = None,
    available_now: OnceOption = False,
    path: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stream a ledger into a lake.

    The server is named by --url, or found by the queue manager that `mayfly serve` has open. Goes
    on where an earlier run ended. Runs until it is interrupted or, with --available-now, done.

    \b
    Examples:
      mayfly ledger run lake --qmgr QM1
      mayfly ledger run lake --url grpc://127.0.0.1:9414 --token-file token --available-now
    """
    if url is None:
        url, served_token_file = _served(qmgr, path)
        token_file = served_token_file if token_file is None else token_file
    _check_server(url, token_file, qmgr)
    with _spark() as spark:
        from mayfly.spark.lake import ledger_to_lake

        query = ledger_to_lake(
            spark, url, token_file, lake, available_now=available_now, manager=qmgr
        )
        with stop_event() as stopped:
            row_count = _await(query, stopped, is_told=not as_json)
    if as_json:
        print_json({"lake": str(lake), "rows": row_count})
    else:
        print(f"{row_count:,} rows brought into {lake}")


@ledger.command()
def report(lake: Lake, *, late_after_ms: LateOption = None, as_json: JsonOption = False) -> None:
    """Tell of each queue how its messages ended, how long they waited and how many were late.

    \b
    Example:
      mayfly ledger report lake --late-after 5min
    """
    _check_lake(lake)
    with _spark() as spark:
        from mayfly.spark.report import LATE_AFTER_MS, ledger_report

        limit_ms = LATE_AFTER_MS if late_after_ms is None else late_after_ms
        reports = ledger_report(spark, lake, late_after_ms=limit_ms)
    if as_json:
        print_json([dataclasses.asdict(row) for row in reports])
    else:
        _print_reports(reports)
    if not reports:
        raise CommandFailed(ExitCode.NOTHING, f"no lives in {lake}")


@ledger.command()
def verify(lake: Lake, *, as_json: JsonOption = False) -> None:
    """Prove that a lake is complete: every position once, put = ended + present.

    Exit code 1 when it is not.

    \b
    Example:
      mayfly ledger verify lake
    """
    _check_lake(lake)
    with _spark() as spark:
        from mayfly.spark.lake import read_ledger
        from mayfly.spark.report import verify_lake

        row_count = read_ledger(spark, lake).count()
        problems = verify_lake(spark, lake)
    if as_json:
        print_json({"ok": not problems, "rows": row_count, "problems": problems})
    elif not problems:
        print(f"{lake} is complete: {row_count:,} rows")
    else:
        print("\n".join(problems))
    if problems:
        raise CommandFailed(ExitCode.NOTHING, f"{len(problems)} problems in {lake}")


@contextlib.contextmanager
def pipeline_errors() -> Iterator[None]:
    """Turn what can go wrong in the pipeline into one line and exit code 5."""
    from pyspark.errors import PySparkException

    from mayfly.bulk.errors import BulkError
    from mayfly.spark.errors import PipelineError
    from mayfly.spark.jvm import JavaNotFound

    try:
        yield
    except (BulkError, PipelineError, JavaNotFound) as error:
        raise CommandFailed(ExitCode.PIPELINE, str(error)) from error
    except PySparkException as error:
        first_line = str(error).strip().partition("\n")[0]
        raise CommandFailed(ExitCode.PIPELINE, f"Spark: {first_line}") from error
    except ValueError as error:
        raise CommandFailed(ExitCode.USAGE, str(error)) from error


@contextlib.contextmanager
def _spark() -> Iterator[SparkSession]:
    with pipeline_errors(), quiet_stderr():
        from mayfly.spark.session import create_session

        conf = {"spark.driver.extraJavaOptions": _QUICK_START}
        spark = create_session(app_name="mayfly ledger", conf=conf)
        try:
            yield spark
        finally:
            spark.stop()


def _check_server(url: str, token_file: Path | None, qmgr: str | None) -> None:
    """Fail at once, not after the seconds that Spark takes to start."""
    with pipeline_errors():
        from mayfly.bulk.client import LedgerClient

        with LedgerClient(url, token_file=token_file, manager=qmgr) as client:
            client.info()


def _check_lake(lake: Path) -> None:
    if not lake.is_dir():
        raise CommandFailed(ExitCode.PIPELINE, f"there is no lake at {lake}")


def _served(qmgr: str | None, path: Path | None) -> tuple[str, Path | None]:
    """Return url and token file of the server that has a queue manager open."""
    if qmgr is None:
        raise CommandFailed(ExitCode.USAGE, "name the server with --url, or --qmgr")
    file = folder_of(qmgr, path) / SERVED_FILE
    try:
        served = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CommandFailed(
            ExitCode.PIPELINE, f"{qmgr} is not served; start it: mayfly serve {qmgr}"
        ) from None
    token_file = served["token_file"]
    return served["url"], None if token_file is None else Path(token_file)


def _await(query: StreamingQuery, stopped: threading.Event, *, is_told: bool) -> int:
    """Wait for the end of a stream or of our run, and return how many rows it brought."""
    row_count, next_batch, is_over = 0, 0, False
    while not is_over:
        is_over = stopped.wait(_POLL_SECONDS) or not query.isActive
        if is_over:
            query.stop()
        for progress in query.recentProgress:
            if progress["batchId"] < next_batch or not progress["numInputRows"]:
                continue
            next_batch = progress["batchId"] + 1
            row_count += progress["numInputRows"]
            if is_told:
                typer.echo(f"batch {progress['batchId']}: {progress['numInputRows']:,} rows")
    error = query.exception()
    if error is not None:
        raise error
    return row_count


def _print_reports(reports: list[QueueReport]) -> None:
    """Print a line for each queue; waits are in seconds, from delivery time to get."""
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for row in reports:
        got, expired = row.outcomes["got"], row.outcomes["expired"]
        counts = [f"{n:,}" for n in (row.lives, got, expired, row.lives - got - expired)]
        waited = [_seconds(row.waited_p50_ms), _seconds(row.waited_p99_ms)]
        rows.append((row.queue, *counts, f"{row.expired_share:.1%}", *waited, f"{row.late:,}"))
    for line in aligned(rows):
        print(line)


def _seconds(waited_ms: float | None) -> str:
    return "-" if waited_ms is None else f"{waited_ms / SECOND_MS:,.1f}"
