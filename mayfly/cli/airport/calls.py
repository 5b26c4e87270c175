"""The boarding calls of a day as a Spark stream: each row comes at its moment of the wall clock.

A boarding call is the message about one flight. The day passes a fixed number of times as fast as
the real one. Delivery time and deadline of a row are moments of the wall clock. So a batch that
comes late shortens the wait of its calls, and shifts nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from mayfly.cli.airport.flights import DELAY_MS, LIFE_MS, MINUTE_MS, Flight, spelled
from mayfly.mqi.constants import MQRO_EXPIRATION, MQRO_PASS_CORREL_ID
from mayfly.pipeline.spark.source import MayflyDataSource
from mayfly.runtime.clocks import SystemClock

FORMAT = "boarding-calls"
_MOMENT = "at_ms"
_PATH, _OFFSET = "path", "calls"
#: Columns for the sink.
_COLUMNS = pa.schema(
    [
        pa.field("queue", pa.string()),
        pa.field("correl_id", pa.binary()),
        pa.field("deliver_at_ms", pa.int64()),
        pa.field("expire_at_ms", pa.int64()),
        pa.field("report", pa.int32()),
        pa.field("reply_to_q", pa.string()),
        pa.field("payload", pa.binary()),
    ]
)
#: Interval of the batches; one that takes longer delays the next.
_TRIGGER = "250 milliseconds"


class Compression(NamedTuple):
    """The time scale of a day: from ``begin_ms`` of the wall clock on, ``factor`` times as fast."""

    day_begin_ms: int
    begin_ms: int
    factor: int

    def on_the_wall(self, day_ms: int) -> int:
        """Return the wall-clock moment (epoch ms) at which a moment of the replayed day comes.

        ``day_ms`` is in epoch ms of the day that is replayed faster. The result is rounded down.
        """
        return self.begin_ms + (day_ms - self.day_begin_ms) // self.factor

    def in_the_day(self, at_ms: int) -> int:
        """Return the moment of the replayed day (epoch ms) at the wall-clock moment ``at_ms``."""
        return self.day_begin_ms + (at_ms - self.begin_ms) * self.factor

    def minutes(self, duration_ms: int) -> float:
        """Return how many minutes of the replayed day pass in a wall-clock duration in ms."""
        return duration_ms * self.factor / MINUTE_MS


def write_calls(
    flights: Sequence[Flight], compression: Compression, reports: str, path: Path
) -> None:
    """Write the day's messages, in put order, to the file that the stream waits for.

    The file appears atomically at ``path``, and with it the stream begins to put. ``compression``
    is the time scale, which gives each message its moment of the wall clock. ``reports`` names the
    reply-to queue of expiration reports.
    """
    on_the_wall = compression.on_the_wall
    columns = {
        "queue": [flight.queue for flight in flights],
        "correl_id": [flight.correl_id for flight in flights],
        "deliver_at_ms": [on_the_wall(flight.put_ms + DELAY_MS) for flight in flights],
        "expire_at_ms": [deadline_ms(flight, compression) for flight in flights],
        # With MQRO_PASS_CORREL_ID a report has the CorrelId of its call, which names the flight.
        "report": [MQRO_EXPIRATION | MQRO_PASS_CORREL_ID] * len(flights),
        "reply_to_q": [reports] * len(flights),
        "payload": [f"Now boarding: {spelled(flight.correl_id)}".encode() for flight in flights],
    }
    moments = pa.array([on_the_wall(flight.put_ms) for flight in flights], pa.int64())
    written = path.with_suffix(".new")
    pq.write_table(pa.table(columns, _COLUMNS).append_column(_MOMENT, moments), written)
    written.rename(path)


def deadline_ms(flight: Flight, compression: Compression) -> int:
    """Return the wall-clock deadline of a flight's message, in ms since 1970.

    ``compression`` is the time scale of the day.
    """
    return compression.on_the_wall(flight.put_ms + LIFE_MS)


def put_calls(
    spark: SparkSession, calls: Path, url: str, token_file: Path, checkpoint: Path
) -> StreamingQuery:
    """Start the Spark stream that puts each flight's message once, at its moment.

    ``url`` and ``token_file`` are those of the queue manager's Flight server. ``checkpoint`` is the
    folder of the stream's checkpoint. Returns the running query. It puts nothing until
    `write_calls` has written the file ``calls``.
    """
    spark.dataSource.register(CallsSource)
    return (
        spark.readStream.format(FORMAT)
        .option(_PATH, str(calls))
        .load()
        .writeStream.format(MayflyDataSource.name())
        .queryName("boarding calls to queues")
        .options(url=url, tokenFile=str(token_file), checkpointLocation=str(checkpoint))
        .trigger(processingTime=_TRIGGER)
        .start()
    )


class CallsSource(DataSource):
    """Spark data source of the messages about flights; option ``path`` is `write_calls`' file."""

    @classmethod
    def name(cls) -> str:
        """Return the name of this source for Spark's ``format``."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns that the Mayfly sink reads."""
        return from_arrow_schema(_COLUMNS)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Return the reader of the stream; the file need not exist yet."""
        return CallsReader(Path(self.options[_PATH]))


class CallRange(InputPartition):
    """The messages of one batch: numbers ``first`` to below ``after``, in put order."""

    def __init__(self, first: int, after: int) -> None:
        """Keep the number of the first message, and that of the message after the last one."""
        super().__init__((first, after))
        self.first = first
        self.after = after


class CallsReader(DataSourceStreamReader):
    """Reads the messages whose moment has come; the stream's offset is their number."""

    def __init__(self, path: Path) -> None:
        """Keep the path of the file, which is read again for each batch."""
        self._path = path

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # Spark's name
        """Return the offset of a new stream, a dict with one number: 0 messages read."""
        return {_OFFSET: 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802  # Spark's name
        """Return the offset up to which messages can be read: those whose moment has come.

        The offset is a dict with the number of these messages. ``limit`` is ignored. Returns
        ``start`` if the file does not exist yet.
        """
        if not self._path.exists():
            return start
        moments = pq.read_table(self._path, columns=[_MOMENT])[_MOMENT].to_numpy()
        due_count = int(np.searchsorted(moments, SystemClock().now_ms(), side="right"))
        return {_OFFSET: max(start[_OFFSET], due_count)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return the messages of a batch as one partition.

        The empty first batch has one, too: its task starts the Python worker that the stream will
        need. If that started later, hours of the replayed day would pass meanwhile.
        """
        return [CallRange(start[_OFFSET], end[_OFFSET])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a partition; nothing for an empty one."""
        assert isinstance(partition, CallRange)
        if partition.first == partition.after:
            return
        calls = pq.read_table(self._path, columns=_COLUMNS.names)
        yield from calls.slice(partition.first, partition.after - partition.first).to_batches()
