"""Parts shared by the commands on a lake: arguments, a Spark session, errors in one line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.progress import seconds_told
from mayfly.cli.quiet import quiet_stderr
from mayfly.cli.values import duration_ms, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mayfly.pipeline.lake.part import LakePart

#: A command runs a few short jobs: a third less to wait than with what Java chooses itself. The
#: stack is the one that mayfly.pipeline.spark.session needs.
_QUICK_START = "-Xss8m -XX:+UseSerialGC -Xshare:auto"

Lake = Annotated[
    Path, typer.Argument(parser=local_path, metavar="LAKE", help="Folder of the lake.")
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="MOMENT",
        help="Only lives that ended then or later: 2026-11-20 or 2026-11-20T14, UTC.",
    ),
]
ToOption = Annotated[
    str | None,
    typer.Option("--to", metavar="MOMENT", help="Only to this date or hour, all of it included."),
]
QueueOption = Annotated[
    list[str] | None,
    typer.Option("--queue", metavar="QUEUE", help="Only this queue, or ORDERS.*; several."),
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


@contextlib.contextmanager
def pipeline_errors() -> Iterator[None]:
    """Turn what can go wrong in the pipeline into one line and exit code 5."""
    from pyspark.errors import PySparkException

    from mayfly.pipeline.bulk.errors import BulkError
    from mayfly.pipeline.spark.errors import PipelineError
    from mayfly.pipeline.spark.jvm import JavaNotFound

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
def lake_errors() -> Iterator[None]:
    """Turn what can go wrong with a lake into one line, without Spark: exit code 5, or 2."""
    from mayfly.pipeline.lake.errors import PipelineError

    try:
        yield
    except PipelineError as error:
        is_usage = isinstance(error, ValueError)
        raise CommandFailed(
            ExitCode.USAGE if is_usage else ExitCode.PIPELINE, str(error)
        ) from error


def is_small(lake: Path, part: LakePart) -> bool:
    """Return True if DuckDB answers for a part of a lake: it is small, or Spark is not installed.

    Where DuckDB is not installed Spark answers.
    """
    if find_spec("duckdb") is None:
        if find_spec("pyspark") is None:
            raise ModuleNotFoundError("duckdb", name="duckdb")
        return False
    with lake_errors():
        from mayfly.pipeline.lake import small

        return find_spec("pyspark") is None or small.is_small(lake, part)


@contextlib.contextmanager
def spark_session(*, is_stream: bool = False) -> Iterator[SparkSession]:
    """Yield a session on this machine that ends with the command.

    A terminal is told every second how long Spark has been at work; of a stream, which tells of its
    batches, until the session is there.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(pipeline_errors())
        stderr = stack.enter_context(quiet_stderr())
        telling = stack.enter_context(contextlib.ExitStack())
        telling.enter_context(seconds_told(stderr, "Spark is at work"))
        from mayfly.pipeline.spark.session import CONSTRAINT_PROPAGATION, create_session

        conf = {"spark.driver.extraJavaOptions": _QUICK_START, CONSTRAINT_PROPAGATION: "false"}
        spark = create_session(app_name="mayfly ledger", conf=conf)
        if is_stream:
            telling.close()
        try:
            yield spark
        finally:
            spark.stop()


def check_lake(lake: Path) -> None:
    """Fail at once where there is no lake, not after the seconds that Spark takes to start."""
    if not lake.is_dir():
        raise CommandFailed(ExitCode.PIPELINE, f"there is no lake at {lake}")


def lake_part(first: str | None, last: str | None, queues: list[str] | None) -> LakePart:
    """Return the part of a lake that was named on the command line."""
    from mayfly.pipeline.lake.part import part_between

    with wrong_values():
        return part_between(first, last, queues or ())
