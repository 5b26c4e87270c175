"""``mayfly replay``: the effects of other settings on recorded messages, by queue and message."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mayfly.cli.managers import JsonOption
from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.replay_settings import (
    CapOption,
    ConsumersOption,
    DelayOption,
    LifeOption,
    ReceiveTimeoutOption,
    SequenceOption,
    ServiceOption,
    TtlFromOption,
    settings_from,
)
from mayfly.cli.replay_show import as_json as comparison_as_json
from mayfly.cli.replay_show import comparison_lines, write_changed
from mayfly.cli.show import print_json
from mayfly.cli.values import duration_ms, local_path

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from mayfly.pipeline.replay.compare import Comparison
    from mayfly.pipeline.replay.settings import Settings

_QUICK_START = "-Xss8m -XX:+UseSerialGC -Xshare:auto"
_MESSAGES = 10

Source = Annotated[
    Path,
    typer.Argument(
        parser=local_path, metavar="TRACE|LAKE", help="A trace (CSV, Parquet, Arrow) or a lake."
    ),
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
CorrelIdOption = Annotated[
    bool,
    typer.Option(
        "--by-correl-id",
        help="Gets of a lake want the correlation id they got; else whatever comes first.",
    ),
]
ManagerOption = Annotated[
    str | None,
    typer.Option("--qmgr", metavar="QMGR", help="Whose lives, where a lake has several."),
]
MessagesOption = Annotated[
    int,
    typer.Option("--messages", min=0, metavar="N", help="List at most so many messages."),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        parser=local_path,
        metavar="FILE",
        help="Write all of them: .csv, .parquet or .arrow.",
    ),
]
SparkOption = Annotated[bool, typer.Option("--spark", help="Run in Spark, a task a queue.")]
MasterOption = Annotated[
    str | None, typer.Option("--master", help="Where Spark runs. [default: local[*]]")
]


def replay(
    source: Source,
    *,
    cap: CapOption = None,
    delay: DelayOption = None,
    life: LifeOption = None,
    ttl_from: TtlFromOption = None,
    sequence: SequenceOption = None,
    consumers: ConsumersOption = None,
    service: ServiceOption = None,
    receive_timeout: ReceiveTimeoutOption = None,
    late_after_ms: LateOption = None,
    by_correl_id: CorrelIdOption = False,
    qmgr: ManagerOption = None,
    messages: MessagesOption = _MESSAGES,
    out: OutOption = None,
    in_spark: SparkOption = False,
    master: MasterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replay what happened under other settings, and say what would have changed.

    A setting is QUEUE=VALUE, or VALUE alone for every queue that is not named; repeat the option
    for several queues. Times are durations as in 5s, a bare number is ms.

    \b
    Examples:
      mayfly replay lake --cap Q1=60s --consumers Q1=4 --service Q1=200ms
      mayfly replay trace.csv --delay 5s --ttl-from release --out changed.csv
    """
    with wrong_values():
        from mayfly.pipeline.replay.compare import LATE_AFTER_MS

        texts = (cap, delay, life, ttl_from, sequence, consumers, service, receive_timeout)
        wanted = settings_from(texts)
        _check_source(source, master=master, in_spark=in_spark)
        limit_ms = LATE_AFTER_MS if late_after_ms is None else late_after_ms
        way = _Way(source, wanted, limit_ms, qmgr, by_correl_id)
        compared = way.in_spark(master) if in_spark else way.in_process()
        if out is not None:
            write_changed(compared.changed, out)
    if as_json:
        print_json(comparison_as_json(compared, wanted, messages))
    else:
        print(*comparison_lines(compared, messages), sep="\n")
    if not len(compared.before):
        raise CommandFailed(ExitCode.NOTHING, f"no message in {source}")


class _Way:
    """One replay, here or in Spark."""

    def __init__(
        self,
        source: Path,
        settings: Settings,
        late_after_ms: int,
        manager: str | None,
        is_by_correl_id: bool,
    ) -> None:
        from mayfly.pipeline.replay.lives import is_lake

        self._source = source
        self._settings = settings
        self._late_after_ms = late_after_ms
        self._manager = manager
        self._is_by_correl_id = is_by_correl_id
        self._is_lake = is_lake(source)
        if not self._is_lake and (is_by_correl_id or manager is not None):
            option = "--by-correl-id" if is_by_correl_id else "--qmgr"
            raise ValueError(f"{option} is for a lake; {source} is none")

    def in_process(self) -> Comparison:
        from mayfly.pipeline.replay.compare import compare

        if self._is_lake:
            from mayfly.cli.ledger_spark import pipeline_errors
            from mayfly.pipeline.spark.replay import lives_in_lake

            with pipeline_errors(), _no_lives():
                rows = self._trace_of(lives_in_lake(self._source, self._manager))
        else:
            from mayfly.pipeline.replay.read import read_trace

            rows = read_trace(self._source)
        return compare(rows, self._settings, late_after_ms=self._late_after_ms)

    def in_spark(self, master: str | None) -> Comparison:
        from mayfly.pipeline.replay.read import read_trace
        from mayfly.pipeline.spark.replay import compare_in_spark, lives_to_replay

        # Read before Spark starts: a mistake in a trace is reported at once.
        trace = None if self._is_lake else read_trace(self._source)
        with _spark(master) as spark, _no_lives():
            if trace is None:
                rows = lives_to_replay(spark, self._source, self._manager)
            else:
                rows = spark.createDataFrame(trace)
            return compare_in_spark(
                rows,
                self._settings,
                prepare=self._trace_of if self._is_lake else None,
                late_after_ms=self._late_after_ms,
            )

    def _trace_of(self, lives: pa.Table) -> pa.Table:
        from mayfly.pipeline.replay.lives import trace_of_lives

        return trace_of_lives(lives, is_by_correl_id=self._is_by_correl_id)


def _check_source(source: Path, *, master: str | None, in_spark: bool) -> None:
    if not source.exists():
        raise CommandFailed(ExitCode.FILE, f"there is no trace or lake at {source}")
    if master is not None and not in_spark:
        raise ValueError("--master is for --spark")


@contextlib.contextmanager
def _no_lives() -> Iterator[None]:
    """Tell a lake in which nothing is from a wrong command line."""
    from mayfly.pipeline.replay.errors import NoLives

    try:
        yield
    except NoLives as error:
        raise CommandFailed(ExitCode.NOTHING, str(error)) from error


@contextlib.contextmanager
def _spark(master: str | None) -> Iterator[SparkSession]:
    from mayfly.cli.ledger_spark import pipeline_errors
    from mayfly.cli.progress import seconds_told
    from mayfly.cli.quiet import quiet_stderr

    with pipeline_errors(), quiet_stderr() as stderr, seconds_told(stderr, "Spark is at work"):
        from mayfly.pipeline.spark.session import create_session

        options: dict[str, Any] = {} if master is None else {"master": master}
        conf = {"spark.driver.extraJavaOptions": _QUICK_START}
        spark = create_session(app_name="mayfly replay", conf=conf, **options)
        try:
            yield spark
        finally:
            spark.stop()
