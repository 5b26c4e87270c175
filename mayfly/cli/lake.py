"""Lakes for commands: who answers, DuckDB or Spark, errors in one line, and lives for traces."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.show import quiet_stderr, seconds_told
from mayfly.cli.values import duration_ms
from mayfly.engine import ArchiveError
from mayfly.lifetime.life import LifeRecord
from mayfly.pipeline.lake.errors import LakeError, PipelineError
from mayfly.pipeline.lake.part import LakePart, part_between
from mayfly.pipeline.replay.errors import NoLives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A command runs a few short jobs: a third less to wait than with what Java chooses itself. The
#: stack is the one that mayfly.pipeline.spark.session needs.
_QUICK_START = "-Xss8m -XX:+UseSerialGC -Xshare:auto"

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
def no_lives() -> Iterator[None]:
    """End the command with exit code 1 for a lake in which no life can be replayed."""
    try:
        yield
    except NoLives as error:
        raise CommandFailed(ExitCode.NOTHING, str(error)) from error


@contextlib.contextmanager
def lake_errors() -> Iterator[None]:
    """Turn what can go wrong with a lake into one line, without Spark: exit code 5, or 2."""
    try:
        yield
    except PipelineError as error:
        code = ExitCode.USAGE if isinstance(error, ValueError) else ExitCode.PIPELINE
        raise CommandFailed(code, str(error)) from error


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
def spark_session(
    app_name: str = "mayfly ledger", *, master: str = "local[*]", is_stream: bool = False
) -> Iterator[SparkSession]:
    """Yield a session that ends with the command.

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
        spark = create_session(master, app_name, conf)
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
    with wrong_values():
        return part_between(first, last, queues or ())


class LakeArchive:
    """See ``mayfly.engine.Archive``; the folder need not be there before the first question."""

    def __init__(self, folder: Path) -> None:
        """Take the folder of a lake, which ``mayfly ledger run`` fills."""
        self._folder = folder
        self.name = f"lake {folder}"

    def lives(self, identifiers: Sequence[bytes], limit: int) -> list[tuple[str, LifeRecord]]:
        """Return lives with one of the ids, the latest first, each with its queue manager."""
        try:
            # It takes a tenth of a second, and few traces are asked for.
            from mayfly.pipeline.lake.lives import lives_with_ids

            return lives_with_ids(self._folder, identifiers, limit)
        except ModuleNotFoundError as error:
            raise ArchiveError(f"{error.name} is missing: pip install 'mayfly-mq[lake]'") from error
        except (LakeError, OSError) as error:
            raise ArchiveError(str(error)) from error
