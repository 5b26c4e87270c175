"""Backs out the messages of queues that a batch cannot use, so that the others continue.

There are two kinds. Rows that neither their queue nor the dead-letter queue accepts are left out by
the queue manager of the sink, which returns them. Other rows make Spark fail, in an expression of a
route or in reading a message. Then the claimed rows are read again without a write, and halved
until the failing rows are found. In both cases their own queue manager backs them out: up to
BOTHRESH they come again, then they go to BOQNAME or the dead-letter queue. The repeated batch does
not contain them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mayfly.mqi.reasons import MQRC_BACKOUT_THRESHOLD_REACHED
from mayfly.pipeline.bulk.queue_client import QueueClient
from mayfly.pipeline.failures import RowsBackedOut, failure_of, may_be_of_rows
from mayfly.pipeline.parts import PipelineConfig, QueueSource
from mayfly.pipeline.rows import routed_again
from mayfly.pipeline.sinks import SinkWrite
from mayfly.pipeline.sources import source_row
from mayfly.pipeline.spark.queue_source import RowRange, part_of
from mayfly.verbs.contracts.claims import Attached

#: So many rows are looked for at a time. Where they fail and no other row passes, the pipeline is
#: at fault, not they.
MAX_BAD_ROWS = 100


_Shape: TypeAlias = Callable[[DataFrame], DataFrame]


class BadRows:
    """Finds the messages that a pipeline's batches cannot process, and backs them out."""

    def __init__(self, config: PipelineConfig, writes: Sequence[SinkWrite]) -> None:
        """Keep the pipeline and its writes to sinks; no server is called.

        Only queue sources whose consumer is attached are searched for bad rows.
        """
        self._config = config
        self._writes = writes
        self._sources = {
            number: source
            for number, source in enumerate(config.sources, 1)
            if isinstance(source, QueueSource) and source.epoch is not None
        }

    def back_out_surrendered(self, batch_id: int) -> None:
        """Back out the messages of a written batch that no sink could put on any queue.

        The messages go back to the queue that they were read from, or beyond BOTHRESH to its
        backout queue. A second call for the same batch changes nothing. Raises BulkError if a
        server fails.
        """
        if not self._sources:
            return
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        for sink in self._writes:
            for given, reason, _text in sink.surrendered(batch_id):
                number, row = source_row(given)
                found[number, reason].append(row)
        for (number, reason), rows in found.items():
            with _reader(self._sources[number]) as (client, attached):
                client.back_out(attached, sorted(rows), reason)

    def back_out_failing(self, error: BaseException, spark: SparkSession) -> None:
        """Find and back out the messages that made a batch fail; then raise RowsBackedOut.

        ``error`` is the error of the batch. Returns without a change if no single message is the
        cause. Raises BulkError if a server fails, and Spark's error if a search read fails for a
        reason other than the rows.
        """
        if not may_be_of_rows(error):
            return
        backed_out = []
        for number, source in self._sources.items():
            with _reader(source) as (client, attached):
                [standing] = [s for s in client.standings() if s.consumer == source.consumer]
                claimed = client.rows(attached, standing.closed, standing.last)
                ranges = [(part.after, part.until) for part in claimed]
                # Every column first, as the stream makes them: a write alone may need fewer.
                shapes: list[_Shape] = [_whole, *(partial(_shaped, w) for w in self._writes)]
                fails = [partial(self._fail, spark, number, shape) for shape in shapes]
                at_fault = next((fail for fail in fails if ranges and fail(ranges)), None)
                bad = [] if at_fault is None else find_failing_rows(at_fault, ranges)
                if bad:
                    done = client.back_out(attached, bad, MQRC_BACKOUT_THRESHOLD_REACHED)
                    count = done.returned + done.moved
                    backed_out.append(f"{count} of {source.queue} ({done.moved} moved away)")
        if backed_out:
            raise RowsBackedOut(
                f"messages that fail alone are backed out: {', '.join(backed_out)}; "
                f"{failure_of(error).text}"
            ) from error

    def _fail(
        self, spark: SparkSession, number: int, shape: _Shape, ranges: Sequence[RowRange]
    ) -> bool:
        """Return True if Spark cannot compute ``shape`` for these messages of source ``number``.

        ``shape`` is a function that makes the rows to compute. ``ranges`` are row numbers of
        messages that the consumer has reserved. Nothing is written. An error that rows cannot cause
        is raised again.
        """
        made = shape(routed_again(self._config, spark, number, ranges))
        try:
            made.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JJavaError) as error:
            if not may_be_of_rows(error):
                raise
            return True
        return False


def _whole(rows: DataFrame) -> DataFrame:
    """Return the rows unchanged; used as the shape that computes every column."""
    return rows


def _shaped(sink: SinkWrite, rows: DataFrame) -> DataFrame:
    """Return the rows that a write to a sink takes, in the form in which they are written."""
    return sink.shape(rows.where(sink.rows))


def find_failing_rows(
    fail: Callable[[Sequence[RowRange]], bool],
    ranges: Sequence[RowRange],
    most: int = MAX_BAD_ROWS,
) -> list[int]:
    """Return the numbers of the rows for which ``fail`` is True alone, found by halving ``ranges``.

    The search ends after ``most`` failing rows. Returns an empty list if ``most`` rows fail and no
    other row passes: then the rows are not the cause.
    """
    bad: list[int] = []
    has_passed = False
    left = [list(ranges)]
    while left and len(bad) < most:
        rows = left.pop()
        count = sum(until - after for after, until in rows)
        if not count:
            continue
        if not fail(rows):
            has_passed = True
        elif count == 1:
            bad.append(rows[0][1])
        else:
            left += [list(part_of(rows, count // 2, count)), list(part_of(rows, 0, count // 2))]
    return bad if has_passed or len(bad) < most else []


@contextmanager
def _reader(source: QueueSource) -> Iterator[tuple[QueueClient, Attached]]:
    """Return a context with a connection to the source's queue manager, and its attached consumer.

    The connection is closed at its end. Raises BulkError if the server cannot be reached or does
    not know the consumer.
    """
    assert source.epoch is not None
    with QueueClient(source.url, token_file=source.token_file, manager=source.manager) as client:
        yield client, client.attached(source.consumer, source.epoch)
