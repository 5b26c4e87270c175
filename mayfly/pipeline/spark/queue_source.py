"""Queues as a source of Spark's ``format("mayfly")``: a stream by claims, or a browsed table.

A claim is a numbered set of messages that a queue manager reserves for a consumer. The offset of a
stream is the number of the last claim it has read. It also names consumer, queue and store, so that
a checkpoint is never continued on another. Spark asks for the batch that begins at an offset only
after it has committed the one that ended there. Claims up to that offset are ended then; until then
a batch that Spark repeats is the same batch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    InputPartition,
    IsNotNull,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from mayfly.lifetime.moments import CLAIM_HEARTBEAT_MS
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.bulk.batch_log import ClaimOffset, claim_offset
from mayfly.pipeline.bulk.errors import BulkError
from mayfly.pipeline.bulk.queue_client import (
    ClaimedRange,
    ConsumerFenced,
    ConsumerUnknown,
    Filters,
    QueueClient,
)
from mayfly.pipeline.bulk.schema import MESSAGE
from mayfly.pipeline.errors import CheckpointError, OptionError
from mayfly.pipeline.spark.messages import MESSAGE_TYPE, OptionReader
from mayfly.verbs.contracts.claims import Attached

_LOG = logging.getLogger("mayfly.spark")
#: A column and options that a pipeline asks for.
ROW_NUMBER, ROW_NUMBERS, CLAIMED_ROWS = "_mayfly_claimed_row", "rowNumbers", "claimedRows"
_NUMBERED = MESSAGE.append(pa.field(ROW_NUMBER, pa.int64(), nullable=False))
NUMBERED_TYPE: StructType = from_arrow_schema(_NUMBERED)
#: A task for fewer rows costs more than it brings.
_ROWS_PER_PARTITION_MIN = 10_000
_ID_BYTES = 24


#: Claimed rows ``(after, until]``.
RowRange: TypeAlias = tuple[int, int]


def _ranges_in(text: str | None) -> tuple[RowRange, ...] | None:
    """Return the row ranges in option claimedRows, None without the option.

    Example: ``0-9,10-20`` -> ``((0, 9), (10, 20))``. Raises OptionError for another form.
    """
    if text is None:
        return None
    try:
        pairs = [tuple(map(int, pair.split("-"))) for pair in text.split(",")]
        return tuple((after, until) for after, until in pairs)
    except ValueError as error:
        raise OptionError(f"option {CLAIMED_ROWS}: {text!r} is not like 0-9,10-20") from error


def ranges_text(ranges: Iterable[RowRange]) -> str:
    """Return row ranges as a value of the option claimedRows, such as ``0-9,10-20``."""
    return ",".join(f"{after}-{until}" for after, until in ranges)


class QueueOptions(NamedTuple):
    """The checked options for reading a queue.

    url, queue: required. consumer: names the reader of a stream, required there. tokenFile: file
    with the token, else MAYFLY_TOKEN. manager: for a server of several queue managers.
    maxRowsPerBatch, maxBytesPerBatch: the latter of payload; a batch has at least one message.
    partitions: tasks of a batch, more where one would have more payload than maxBytesPerTask.
    pushFilters: "true" lets the queue manager apply filters of a table.

    A pipeline adds: epoch, under which it has attached the consumer itself; rowNumbers, for a
    column with the numbers of claimed rows; claimedRows, as "0-9,10-20", for a table of rows it has
    claimed.
    """

    url: str
    token_file: str | None
    manager: str | None
    queue: str
    consumer: str | None
    batch_rows_max: int
    batch_bytes_max: int
    partition_count: int
    task_bytes_max: int
    pushes_filters: bool
    epoch: int | None
    numbers_rows: bool
    claimed_rows: tuple[RowRange, ...] | None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> QueueOptions:
        """Return the checked options; raises OptionError, which names option and value."""
        given = OptionReader(options)
        if given.flag("ledger"):
            raise OptionError('option ledger is "true" beside option queue: name one of them')
        parsed = cls(
            url=given.url(),
            token_file=given.optional("tokenFile"),
            manager=given.optional("manager"),
            queue=given.required("queue"),
            consumer=given.optional("consumer"),
            batch_rows_max=given.number("maxRowsPerBatch", 100_000),
            batch_bytes_max=given.number("maxBytesPerBatch", 256 * 1024 * 1024),
            partition_count=given.number("partitions", 4),
            task_bytes_max=given.task_bytes(),
            pushes_filters=given.flag("pushFilters"),
            epoch=given.optional_number("epoch"),
            numbers_rows=given.flag(ROW_NUMBERS),
            claimed_rows=_ranges_in(given.optional(CLAIMED_ROWS)),
        )
        given.refuse_unknown_keys()
        return parsed

    def connect(self) -> QueueClient:
        """Return a new connection; the token is read now, so that no plan contains it."""
        return QueueClient(
            self.url, token_file=self.token_file, manager=self.manager, is_patient=True
        )


class RowRanges(InputPartition):
    """The part of a batch that one Spark task reads: row numbers of claimed messages.

    The epoch is that of the reader which has claimed them.
    """

    def __init__(self, consumer: str, epoch: int, ranges: tuple[RowRange, ...]) -> None:
        """Keep the consumer's name, its reader's epoch, and the row numbers of claimed messages."""
        super().__init__((consumer, epoch, ranges))
        self.consumer = consumer
        self.epoch = epoch
        self.ranges = ranges


class BrowseRange(InputPartition):
    """The part of a browse for one task: the messages whose keys are in ``low <= key < high``."""

    def __init__(self, low: int, high: int) -> None:
        """Keep the bounds of the keys, by which a queue sorts messages; ``high`` is excluded."""
        super().__init__((low, high))
        self.low = low
        self.high = high


def queue_type(options: Mapping[str, str]) -> StructType:
    """Return the columns of a message; with rowNumbers "true" also that of the row number."""
    asks = {name.lower(): value.lower() for name, value in options.items()}
    return NUMBERED_TYPE if asks.get(ROW_NUMBERS.lower()) == "true" else MESSAGE_TYPE


def queue_reader(options: Mapping[str, str]) -> DataSourceReader:
    """Return a reader that browses the messages on a queue as a table.

    With option claimedRows it reads messages that a consumer has reserved. Raises OptionError for
    wrong options.
    """
    parsed = QueueOptions.parse(options)
    if parsed.claimed_rows is not None:
        return ClaimedReader(parsed)
    return FilteredQueueReader(parsed) if parsed.pushes_filters else QueueReader(parsed)


def queue_stream_reader(options: Mapping[str, str]) -> QueueStreamReader:
    """Return a stream reader that claims (reserves) messages as they arrive on a queue.

    Raises OptionError for wrong options.
    """
    return QueueStreamReader(QueueOptions.parse(options))


class QueueReader(DataSourceReader):
    """Browses the live messages that were on the queue when the query was planned."""

    def __init__(self, options: QueueOptions) -> None:
        """Keep the options; a connection would not survive the way to the workers."""
        self._options = options
        self._filters = Filters()

    def partitions(self) -> list[InputPartition]:
        """Return ranges of the queue's messages, one for each Spark task; raises BulkError."""
        options = self._options
        with options.connect() as client:
            ranges = client.ranges(options.queue, options.partition_count)
        # Without a partition Spark would add one that has no range.
        return [BrowseRange(low, high) for low, high in ranges or [(0, 0)]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one range; they stay on the queue. Raises BulkError."""
        assert isinstance(partition, BrowseRange)
        with self._options.connect() as client:
            within = (partition.low, partition.high)
            yield from client.browse(self._options.queue, *within, self._filters)


class ClaimedReader(DataSourceReader):
    """Reads messages that a pipeline's consumer has claimed before, as a table."""

    def __init__(self, options: QueueOptions) -> None:
        """Keep the options; a connection would not survive the way to the workers."""
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the reserved messages' row numbers in even parts, one for each Spark task.

        Raises OptionError if option consumer or epoch is missing, or no row is named.
        """
        options = self._options
        if options.consumer is None or options.epoch is None or not options.claimed_rows:
            raise OptionError(f"option {CLAIMED_ROWS} needs consumer, epoch and a row")
        rows = [ClaimedRange(after, until, 0) for after, until in options.claimed_rows]
        shares = parts_of(rows, options.partition_count, options.task_bytes_max)
        return [RowRanges(options.consumer, options.epoch, share) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the reserved messages of one part; raises BulkError."""
        assert isinstance(partition, RowRanges)
        yield from _claimed(self._options, partition)


class FilteredQueueReader(QueueReader):
    """A QueueReader whose queue manager filters by equality of ids and priority.

    Spark refuses such a reader unless spark.sql.python.filterPushdown.enabled is true.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Keep the filters that the queue manager can apply, and yield the others to Spark."""
        for given in filters:
            if not self._keeps(given):
                yield given

    def _keeps(self, given: Filter) -> bool:
        """Store a filter if the queue manager can apply it; return False if it cannot.

        It can apply one equality each for msg_id, correl_id and priority.
        """
        if isinstance(given, IsNotNull):
            # Spark adds an IsNotNull beside every equality.
            return given.attribute in (("msg_id",), ("priority",))
        if not isinstance(given, EqualTo) or len(given.attribute) != 1:
            return False
        [name] = given.attribute
        if name == "priority":
            is_known = isinstance(given.value, int)
        else:
            is_known = name in ("msg_id", "correl_id") and _is_identifier(given.value)
        if not is_known or getattr(self._filters, name) is not None:
            return False
        self._filters = self._filters._replace(**{name: given.value})
        return True


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Claims messages batch by batch, and ends the claims after Spark has committed the batch."""

    def __init__(self, options: QueueOptions) -> None:
        """Keep the options; the consumer is attached at Spark's first call.

        Raises OptionError without option consumer.
        """
        if options.consumer is None:
            raise OptionError(
                "option consumer is missing: it names the reader of the queue, whose claims "
                "outlive a restart"
            )
        self._options = options
        self._consumer: str = options.consumer
        self._attached: Attached | None = None
        #: Renews the claims on delayed messages, which lapse.
        self._heartbeat: ClaimHeartbeat | None = None
        #: Under AvailableNow, the mark that separates messages of now from later ones.
        self._mark: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for the workers, without the heartbeat thread of the driver."""
        return {**self.__dict__, "_heartbeat": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Attach the consumer, and return the offset at which a new stream begins.

        The offset is the number of the last claim (set of reserved messages) that was ended.
        """
        with self._options.connect() as client:
            attached = self._attach(client)
        return _offset(attached, attached.closed).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """Return the limit of rows in a batch, from option maxRowsPerBatch."""
        return ReadMaxRows(self._options.batch_rows_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Get a mark from the queue manager, so that messages put later are not claimed."""
        with self._options.connect() as client:
            self._mark = client.mark()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """End the claims up to ``start``, claim messages for the next batch, and return its end.

        A claim is a numbered set of reserved messages; its end removes them from the queue.
        ``limit`` is the number of rows; under a limit of another kind all available messages are
        claimed. Returns ``start`` if the queue has no message. Raises CheckpointError when
        ``start`` belongs to another consumer, queue or store. Raises a BulkError when the queue
        manager cannot continue from it, or another reader has taken over.
        """
        options = self._options
        with options.connect() as client:
            attached = self._attach(client)
            after = _claim_of(start, attached)
            client.end(attached, after)
            rows_max, is_bounded = options.batch_rows_max, False
            if isinstance(limit, ReadMaxRows):
                rows_max, is_bounded = limit.max_rows, True
            until = after
            while True:
                until, message_count = client.claim(
                    attached,
                    until,
                    max_rows=rows_max,
                    max_bytes=options.batch_bytes_max,
                    up_to=self._mark,
                )
                if is_bounded or not message_count:
                    return _offset(attached, until).as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the messages reserved between two offsets in parts, one for each Spark task.

        The options limit the number of parts, and the bytes of each. A repeated batch contains the
        same messages.
        """
        options = self._options
        with options.connect() as client:
            attached = self._attach(client)
            ranges = client.rows(attached, _claim_of(start, attached), _claim_of(end, attached))
        return [
            RowRanges(self._consumer, attached.epoch, share)
            for share in parts_of(ranges, options.partition_count, options.task_bytes_max)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the reserved messages of one part; raises BulkError."""
        assert isinstance(partition, RowRanges)
        yield from _claimed(self._options, partition)

    def _attach(self, client: QueueClient) -> Attached:
        """Attach this reader to its consumer at the first call; later calls return the same.

        Earlier readers of the consumer are refused from then on. With option epoch nothing is
        attached: the reader that the pipeline attached under this epoch is used. A reader of the
        staging queue, which has delayed messages, also starts the thread that renews its claims.
        """
        if self._attached is None:
            epoch = self._options.epoch
            if epoch is None:
                self._attached = client.attach(self._consumer, self._options.queue)
            else:
                self._attached = client.attached(self._consumer, epoch)
            if self._attached.queue == STAGING_QUEUE:
                self._heartbeat = ClaimHeartbeat(self._options, self._attached)
        return self._attached

    def stop(self) -> None:
        """Stop the heartbeat, because the query has ended."""
        if self._heartbeat is not None:
            self._heartbeat.stop()


class ClaimHeartbeat:
    """A thread that renews a consumer's claims, which the queue manager gives back otherwise.

    It runs in the process of the query and ends with it.
    """

    def __init__(
        self, options: QueueOptions, attached: Attached, every_ms: int = CLAIM_HEARTBEAT_MS
    ) -> None:
        """Start the thread, which renews the consumer's claims every ``every_ms`` milliseconds.

        The first renewal is one interval from now.
        """
        self._options = options
        self._every_seconds = every_ms / SECOND_MS
        self._attached = attached
        self._is_stopped = threading.Event()
        threading.Thread(target=self._run, name="mayfly-heartbeat", daemon=True).start()

    def stop(self) -> None:
        """End the thread, without waiting for it."""
        self._is_stopped.set()

    def _run(self) -> None:
        """Renew the consumer's claims (reserved messages) at each interval; the thread's function.

        Ends when stopped, or when another reader has taken the consumer over. Other errors are
        tried again.
        """
        while not self._is_stopped.wait(self._every_seconds):
            try:
                with self._options.connect() as client:
                    client.renew(self._attached)
            except (ConsumerFenced, ConsumerUnknown):
                return
            except BulkError:
                # The server may be back at the next try; the query itself reports the error.
                continue
            except Exception:  # noqa: BLE001 - without renewals all claims lapse
                _LOG.exception("the claims of %s are not renewed", self._attached.consumer)


def _claimed(options: QueueOptions, rows: RowRanges) -> Iterator[pa.RecordBatch]:
    """Yield the reserved messages of one part, with row numbers if the options ask for them."""
    with options.connect() as client:
        for after, until in rows.ranges:
            row = after
            for batch in client.claimed(rows.consumer, rows.epoch, after, until):
                row += batch.num_rows
                yield _numbered(batch, row) if options.numbers_rows else batch


def _numbered(batch: pa.RecordBatch, until: int) -> pa.RecordBatch:
    """Return messages with the column ROW_NUMBER; the last message has number ``until``."""
    numbers = pa.array(range(until - batch.num_rows + 1, until + 1), type=pa.int64())
    columns = [*batch.columns, numbers]
    return pa.RecordBatch.from_arrays(columns, schema=_NUMBERED)


def parts_of(
    ranges: Iterable[ClaimedRange], part_count: int, part_bytes_max: int
) -> list[tuple[RowRange, ...]]:
    """Divide the rows in ``ranges`` into parts, in order; [] if there are no rows.

    A part is a tuple of ranges. There are up to ``part_count`` even parts of at least 10,000 rows,
    or more parts: one ends before its data is longer than ``part_bytes_max``, but has a row. Within
    a range all rows count as equally long.
    """
    ranges = [rows for rows in ranges if rows.after < rows.until]
    row_count = sum(until - after for after, until, _ in ranges)
    part_count = min(part_count, -(-row_count // _ROWS_PER_PARTITION_MIN))
    parts: list[list[RowRange]] = []
    rows_left = bytes_left = 0
    for after, until, data_bytes in ranges:
        row, row_bytes = after, data_bytes // (until - after)
        while row < until:
            fitting = min(until - row, rows_left)
            if row_bytes:
                fitting = min(fitting, bytes_left // row_bytes)
            if fitting < 1:
                parts.append([])
                rows_left, bytes_left = -(-row_count // part_count), max(part_bytes_max, row_bytes)
                continue
            part = parts[-1]
            if part and part[-1][1] == row:
                part[-1] = (part[-1][0], row + fitting)
            else:
                part.append((row, row + fitting))
            row += fitting
            rows_left -= fitting
            bytes_left -= fitting * row_bytes
    return [tuple(part) for part in parts]


def part_of(ranges: Sequence[RowRange], start: int, end: int) -> Iterator[RowRange]:
    """Yield the ranges of the rows from index ``start`` to below ``end``, counted from 0.

    Example: rows 2 to 5 of ``[(0, 3), (10, 20)]`` are ``(2, 3)`` and ``(10, 12)``.
    """
    before = 0
    for after, until in ranges:
        low, high = max(start - before, 0), min(end - before, until - after)
        if low < high:
            yield after + low, after + high
        before += until - after


def _is_identifier(value: Any) -> bool:
    """Return True if the value can be a message id: 24 bytes."""
    return isinstance(value, bytes | bytearray) and len(value) == _ID_BYTES


def _offset(attached: Attached, claim: int) -> ClaimOffset:
    """Return the offset for the number of a consumer's claim, with its queue and store."""
    return ClaimOffset(attached.consumer, attached.queue, attached.instance_id, claim)


def _claim_of(given: dict[str, Any], attached: Attached) -> int:
    """Return the claim number in an offset of the checkpoint.

    Raises CheckpointError if the offset is of another consumer, queue or store, or no queue's.
    """
    offset = claim_offset(given)
    if offset is None:
        raise CheckpointError(f"offset {given} is not one of a queue, version 1")
    here = _offset(attached, offset.claim)
    for name, what in (("instance_id", "store"), ("queue", "queue"), ("consumer", "consumer")):
        if getattr(offset, name) != getattr(here, name):
            raise CheckpointError(
                f"the checkpoint belongs to {what} {getattr(offset, name)}, but this is {what} "
                f"{getattr(here, name)} of queue manager {attached.manager}: use a new checkpoint"
            )
    return offset.claim
