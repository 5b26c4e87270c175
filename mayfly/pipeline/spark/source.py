"""Source of Spark's ``format("mayfly")``: the ledger of a queue manager as table and stream.

Option ``queue`` selects a queue instead (queue_source.py). The offset of a stream is the ledger
position it has read to, and the instance id of the store. So a checkpoint is never continued on
another store. Rows between two positions never change, so a batch that Spark repeats is the same
batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from mayfly.pipeline.bulk.client import LedgerClient
from mayfly.pipeline.bulk.queue_client import ClaimedRange
from mayfly.pipeline.bulk.schema import LEDGER, LEDGER_ROW_BYTES_MAX
from mayfly.pipeline.errors import CheckpointError, OptionError
from mayfly.pipeline.spark.messages import OptionReader
from mayfly.pipeline.spark.queue_source import (
    parts_of,
    queue_reader,
    queue_stream_reader,
    queue_type,
)
from mayfly.pipeline.spark.sink import batch_sink, stream_sink
from mayfly.verbs.contracts.ledger import LedgerInfo

#: The ledger's rows as Spark types.
LEDGER_TYPE: StructType = from_arrow_schema(LEDGER)
_OFFSET_VERSION = 1
_EARLIEST = "earliest"
_LATEST = "latest"


class SourceOptions(NamedTuple):
    """The checked options of ``format("mayfly")`` for the ledger.

    ``starting_position`` is the first position that a new stream reads: 0 for the oldest one, None
    for the end of the ledger.
    """

    url: str
    token_file: str | None
    manager: str | None
    batch_rows_max: int
    partition_count: int
    task_bytes_max: int
    starting_position: int | None

    @classmethod
    def parse(cls, options: MutableMapping[str, str]) -> SourceOptions:
        """Return the checked options; raises OptionError, which names option and value."""
        given = OptionReader(options)
        if not given.flag("ledger"):
            raise OptionError('option ledger must be "true", or option queue name a queue')
        url = given.url()
        rows_max = given.number("maxRowsPerBatch", 200_000)
        bytes_max = given.number("maxBytesPerBatch", rows_max * LEDGER_ROW_BYTES_MAX)
        parsed = cls(
            url=url,
            token_file=given.optional("tokenFile"),
            manager=given.optional("manager"),
            batch_rows_max=min(rows_max, max(bytes_max // LEDGER_ROW_BYTES_MAX, 1)),
            partition_count=given.number("partitions", 4),
            task_bytes_max=given.task_bytes(),
            starting_position=_starting_position(given),
        )
        given.refuse_unknown_keys()
        return parsed

    def connect(self) -> LedgerClient:
        """Return a new connection; the token is read now, so that no plan contains it."""
        return LedgerClient(
            self.url, token_file=self.token_file, manager=self.manager, is_patient=True
        )


def _starting_position(given: OptionReader) -> int | None:
    """Return option startingPosition: 0 for earliest (default), None for latest, else a number.

    Raises OptionError for another value.
    """
    name = "startingPosition"
    value = given.text(name, _EARLIEST)
    if value.lower() == _LATEST:
        return None
    if value.lower() == _EARLIEST:
        return 0
    if not value.isdecimal() or int(value) < 1:
        raise OptionError(
            f"option {name}: {value!r} is neither {_EARLIEST}, {_LATEST} nor a position"
        )
    return int(value)


class LedgerRange(InputPartition):
    """The part of the ledger that one Spark task reads: rows ``(after, until]`` of one store."""

    def __init__(self, after: int, until: int, instance_id: str) -> None:
        """Keep the bounds and the id of the store."""
        super().__init__((after, until, instance_id))
        self.after = after
        self.until = until
        self.instance_id = instance_id


def split_range(
    after: int, until: int, instance_id: str, options: SourceOptions
) -> list[LedgerRange]:
    """Return positions ``(after, until]`` in parts, one for each Spark task; [] if it is empty.

    The options limit the number of parts and the bytes of each; a row counts as the largest there
    can be. ``instance_id`` is the id of the store.
    """
    rows = ClaimedRange(after, until, (until - after) * LEDGER_ROW_BYTES_MAX)
    parts = parts_of([rows], options.partition_count, options.task_bytes_max)
    return [LedgerRange(start, end, instance_id) for ((start, end),) in parts]


class MayflyDataSource(DataSource):
    """Spark's data source ``format("mayfly")``, which Spark finds by module pyspark_mayfly."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "mayfly"

    def schema(self) -> StructType:
        """Return the columns of a message if option queue is set, else those of a ledger row."""
        return queue_type(self.options) if _is_queue(self.options) else LEDGER_TYPE

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the present rows of a ledger, or with option queue of a queue.

        Raises OptionError for a wrong option.
        """
        if _is_queue(self.options):
            return queue_reader(self.options)
        return LedgerReader(SourceOptions.parse(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Return a reader of the present and later rows of a ledger, or of a queue.

        Raises nothing itself: for wrong options the reader raises OptionError at its first call.
        """
        try:
            if _is_queue(self.options):
                return queue_stream_reader(self.options)
            return LedgerStreamReader(SourceOptions.parse(self.options))
        except OptionError as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return a writer of rows into queues; raises OptionError for an option or a column.

        ``overwrite`` is True for mode ``overwrite``, which is refused.
        """
        return batch_sink(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802  # Spark's name
        """Return a writer of a stream into queues; raises OptionError for an option or a column."""
        return stream_sink(self.options, schema, overwrite=overwrite)


class RefusedStreamReader(DataSourceStreamReader):
    """A stream reader for wrong options: each call raises the reason.

    Without a reader Spark itself would fail, with an error whose last line lacks the reason.
    """

    def __init__(self, error: OptionError) -> None:
        """Keep the error that each call raises."""
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Raise the OptionError about the wrong options; a new stream calls this first."""
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Raise the OptionError about the wrong options; a continued stream calls this first."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Raise the OptionError about the wrong options; for a stream that repeats a batch."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raise the OptionError about the wrong options."""
        raise self._error


def _is_queue(options: Mapping[str, str]) -> bool:
    """Return True if the options name a queue."""
    return any(name.lower() == "queue" for name in options)


class LedgerReader(DataSourceReader):
    """Reads the ledger rows that existed when the query was planned, as a table."""

    def __init__(self, options: SourceOptions) -> None:
        """Keep the options; a connection would not survive the way to the workers."""
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return ranges of ledger positions, one for each Spark task; raises BulkError.

        Raises OptionError for a starting position that is trimmed.
        """
        with self._options.connect() as client:
            info = client.info()
        after = _first_after(self._options.starting_position, info)
        last = max(info.last_position, after)
        shares = split_range(after, last, info.instance_id, self._options)
        # Without a partition Spark would add one that has no range.
        return [*shares] or [LedgerRange(after, after, info.instance_id)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the ledger rows of one range; raises BulkError."""
        return _read(self._options, partition)


class LedgerStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the ledger as a stream, in batches of limited size."""

    def __init__(self, options: SourceOptions) -> None:
        """Keep the options; no connection is made yet."""
        self._options = options
        self._target: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return the offset at which a stream without a checkpoint begins.

        Raises OptionError if option startingPosition names a row that retention has removed.
        """
        info = self._info()
        return _offset(_first_after(self._options.starting_position, info), info.instance_id)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """Return the limit of rows in a batch, from option maxRowsPerBatch."""
        return ReadMaxRows(self._options.batch_rows_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Set the present end of the ledger as the end of the stream."""
        self._target = self._info().last_position

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return the end of the batch that begins at ``start``; ``start`` if there are no rows.

        Raises CheckpointError when ``start`` cannot be continued, because it belongs to another
        store, was trimmed, or is after the end of this one.
        """
        info = self._info()
        after = _position(start, info)
        last = info.last_position if self._target is None else self._target
        if isinstance(limit, ReadMaxRows):
            last = min(last, after + limit.max_rows)
        return _offset(max(last, after), info.instance_id)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return the offset of the ledger's present end, for the query's progress."""
        info = self._info()
        return _offset(info.last_position, info.instance_id)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the rows between two offsets in parts, one for each Spark task.

        They are the same when the batch is repeated.
        """
        return [*split_range(start["position"], end["position"], end["instance"], self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the ledger rows of one range; raises BulkError."""
        return _read(self._options, partition)

    def _info(self) -> LedgerInfo:
        """Return the present positions of the ledger from the server; raises BulkError."""
        with self._options.connect() as client:
            return client.info()


def _read(options: SourceOptions, share: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the ledger rows of one range over a new connection; raises BulkError."""
    assert isinstance(share, LedgerRange)
    with options.connect() as client:
        yield from client.read(share.after, share.until, instance_id=share.instance_id)


def _first_after(starting_position: int | None, info: LedgerInfo) -> int:
    """Return the position before the first row to read.

    ``starting_position`` is that of the option: None is the end of the ledger, 0 its first row.
    Raises OptionError if the row at ``starting_position`` was trimmed.
    """
    if starting_position is None:
        return info.last_position
    if starting_position == 0:
        return info.first_position - 1
    if starting_position < info.first_position:
        raise OptionError(
            f"option startingPosition: {starting_position} is trimmed, "
            f"the first position held is {info.first_position}"
        )
    return starting_position - 1


def _offset(position: int, instance_id: str) -> dict[str, Any]:
    """Return Spark's offset, as a dict, for a position of a store."""
    return {"version": _OFFSET_VERSION, "position": position, "instance": instance_id}


def _position(offset: dict[str, Any], info: LedgerInfo) -> int:
    """Return the ledger position in an offset of the checkpoint.

    Raises CheckpointError if it belongs to another store, was trimmed, or is beyond the ledger's
    end.
    """
    version, position = offset.get("version"), offset.get("position")
    if version != _OFFSET_VERSION or not isinstance(position, int):
        raise CheckpointError(f"offset {offset} is not one of version {_OFFSET_VERSION}")
    if offset["instance"] != info.instance_id:
        raise CheckpointError(
            f"the checkpoint belongs to store {offset['instance']}, but queue manager "
            f"{info.manager} is store {info.instance_id}: use a new checkpoint"
        )
    if position + 1 < info.first_position:
        raise CheckpointError(
            f"the checkpoint goes on at position {position + 1}, which is trimmed: the ledger of "
            f"{info.manager} begins at {info.first_position}"
        )
    if position > info.last_position:
        raise CheckpointError(
            f"the checkpoint has read to position {position}, but the ledger of {info.manager} "
            f"ends at {info.last_position}: it was restored from an older copy"
        )
    return position
