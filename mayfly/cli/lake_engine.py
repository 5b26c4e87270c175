"""The engine for a lake in commands: the choice of DuckDB or Spark, and errors on one line.

A lake is a folder of Parquet files with the ledger of a queue manager.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.show import quiet_stderr, seconds_shown
from mayfly.cli.values import duration_ms, local_path
from mayfly.engine import ArchiveError
from mayfly.lifetime.life import LifeRecord
from mayfly.pipeline.errors import LakeError, NoLives, PipelineError
from mayfly.pipeline.lake.files import is_delta
from mayfly.pipeline.lake.queries import LakePart, part_between
from mayfly.verbs.contracts.config_files import is_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A command runs a few short jobs: a third less to wait than with what Java chooses itself. The
#: stack is the one that mayfly.pipeline.spark.session needs.
_QUICK_START = "-Xss8m -XX:+UseSerialGC -Xshare:auto"

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
    """Return a context that turns pipeline and Spark errors into CommandFailed with exit code 5.

    Any other ValueError becomes one with exit code 2. Raises ModuleNotFoundError without Spark.
    """
    from pyspark.errors import PySparkException

    from mayfly.pipeline.bulk.errors import BulkError
    from mayfly.pipeline.spark.jvm import JavaNotFound

    try:
        yield
    except (BulkError, PipelineError, JavaNotFound) as error:
        raise CommandFailed(ExitCode.PIPELINE, str(error)) from error
    except PySparkException as error:
        from mayfly.pipeline.failures import failure_of

        raise CommandFailed(ExitCode.PIPELINE, failure_of(error).text) from error
    except ValueError as error:
        raise CommandFailed(ExitCode.USAGE, str(error)) from error


@contextlib.contextmanager
def no_lives() -> Iterator[None]:
    """Return a context that turns NoLives into CommandFailed: exit code 1.

    NoLives says that a lake has no messages to replay.
    """
    try:
        yield
    except NoLives as error:
        raise CommandFailed(ExitCode.NOTHING, str(error)) from error


@contextlib.contextmanager
def lake_errors() -> Iterator[None]:
    """Return a context that turns errors of a lake or its server into CommandFailed.

    The exit code is 2 for a wrong argument, else 5. Unlike ``pipeline_errors`` it needs no Spark.
    """
    from mayfly.pipeline.bulk.errors import BulkError

    try:
        yield
    except (BulkError, PipelineError, ValueError) as error:
        code = ExitCode.USAGE if isinstance(error, ValueError) else ExitCode.PIPELINE
        raise CommandFailed(code, str(error)) from error


def fits_one_process(lake: str, part: LakePart) -> bool:
    """Return True if DuckDB in this process is to read a part of a lake, False if Spark is.

    ``part`` is the range of time and the queues that are asked for. Spark reads files of more than
    8 GiB, if they are plain Parquet and Spark is installed. Raises ModuleNotFoundError if neither
    is installed, CommandFailed without a lake.
    """
    if is_delta(lake):
        return True
    if find_spec("duckdb") is None:
        if find_spec("pyspark") is None:
            raise ModuleNotFoundError("duckdb", name="duckdb")
        return False
    with lake_errors():
        from mayfly.pipeline.lake import answers

        return find_spec("pyspark") is None or answers.fits_one_process(lake, part)


@contextlib.contextmanager
def spark_session(
    app_name: str = "mayfly ledger", *, master: str = "local[*]"
) -> Iterator[SparkSession]:
    """Return a context with a Spark session, which ends with the block.

    ``app_name`` is the name of the application in Spark, ``master`` the Spark master. A terminal
    shows every second how long Spark has been running. Pipeline errors in the block become
    CommandFailed.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(pipeline_errors())
        stderr = stack.enter_context(quiet_stderr())
        stack.enter_context(seconds_shown(stderr, "Spark is at work"))
        from mayfly.pipeline.spark.session import CONSTRAINT_PROPAGATION, create_session

        conf = {"spark.driver.extraJavaOptions": _QUICK_START, CONSTRAINT_PROPAGATION: "false"}
        spark = create_session(master, app_name, conf)
        try:
            yield spark
        finally:
            spark.stop()


def lake_place(text: str | Path) -> str:
    """Return the place of a lake: a path of this machine, or a URL unchanged.

    Raises BadParameter for a URL that has lost a slash.
    """
    place = str(text)
    if not is_url(place):
        return str(local_path(place))
    if "://" not in place:
        scheme = place.partition(":")[0]
        raise typer.BadParameter(f"{place} is no URL: it has one slash behind {scheme}:")
    return place


Lake = Annotated[
    str,
    typer.Argument(
        parser=lake_place, metavar="LAKE", help="Folder of the lake, or the URL of a Delta lake."
    ),
]


def check_lake(lake: str) -> None:
    """Raise CommandFailed if there is no lake, before the seconds that Spark needs."""
    if not (is_delta(lake) or Path(lake).is_dir()):
        raise CommandFailed(ExitCode.PIPELINE, f"there is no lake at {lake}")


def lake_part(first: str | None, last: str | None, queues: list[str] | None) -> LakePart:
    """Return the part of a lake that --from, --to and --queue name; None is no limit.

    ``first`` and ``last`` are moments, hours or dates, of which the last is included. Raises
    CommandFailed for a wrong moment or queue name.
    """
    with wrong_values():
        return part_between(first, last, queues or ())


class LakeArchive:
    """A lake with messages that the ledger no longer has, for traces and hours of expiry.

    It implements ``mayfly.engine.Archive``. The folder need not exist before the first question.
    """

    def __init__(self, folder: Path) -> None:
        """Keep the folder of a lake, which ``mayfly ledger run`` fills; nothing is read yet."""
        self._folder = folder
        self.name = f"lake {folder}"

    def lives(self, identifiers: Sequence[bytes], limit: int) -> list[tuple[str, LifeRecord]]:
        """Return the records of messages with one of the ids, each with its queue manager's name.

        A record is a message's stay on one queue; the ids are MsgIds or CorrelIds. The last to end
        come first: for each id at most ``limit`` by MsgId, and as many by CorrelId; [] if none.
        Raises ArchiveError if the lake cannot be read or DuckDB is not installed.
        """
        with _archive_errors():
            # It takes a tenth of a second, and few traces are asked for.
            from mayfly.pipeline.lake.answers import lives_with_ids

            return lives_with_ids(self._folder, identifiers, limit)

    def ended_steps(
        self, manager: str, queue: str | None, from_ms: int, step_ms: int, step_count: int
    ) -> list[tuple[int, int]]:
        """Return how many messages of a queue manager ended, and expired, in each step of time.

        ``queue`` None counts all queues. Raises ArchiveError if the lake cannot be read or DuckDB
        is not installed.
        """
        with _archive_errors():
            from mayfly.pipeline.lake.answers import ended_in_steps

            return ended_in_steps(self._folder, manager, queue, from_ms, step_ms, step_count)


@contextlib.contextmanager
def _archive_errors() -> Iterator[None]:
    """Return a context that turns errors of a lake, and a missing DuckDB, into ArchiveError."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ArchiveError(f"{error.name} is missing: pip install 'mayfly-mq[lake]'") from error
    except (LakeError, OSError) as error:
        raise ArchiveError(str(error)) from error
