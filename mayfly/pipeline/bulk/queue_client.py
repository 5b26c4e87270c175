"""Client of a queue over Arrow Flight: reads by durable claims or a browse, writes by stages.

A reader attaches itself as a named consumer and claims messages: the queue manager reserves them
under a number. The reader reads them, and ends the claim when they are safe elsewhere.
engine/claims describes the effect of each step on the messages. Ids in a request are hexadecimal.

A writer uploads rows into stages, tables of rows that are on no queue yet. A commit puts the rows
of the stages that it names, exactly once (engine/bulk/stages.py). A client that does not know
whether a call has reached the server repeats it: for a stage with a new attempt, for a commit
unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.flight as flight

from mayfly.pipeline.bulk.client import DEFAULT_MAX_BYTES, LedgerClient, Retries
from mayfly.pipeline.bulk.errors import BY_REASON, BulkError, ServerFailed, ServerNotReachable
from mayfly.pipeline.bulk.schema import MESSAGE, pages, schema_of
from mayfly.verbs.contracts import bulk_reasons
from mayfly.verbs.contracts import claims as contract
from mayfly.verbs.contracts.claims import Attached, BackedOut, ConsumerState
from mayfly.verbs.contracts.messages import DESCRIPTOR_COLUMNS, OWN_COLUMNS, MessageColumns
from mayfly.verbs.contracts.stages import (
    COLUMNS,
    COMMIT_ACTION,
    DECIDED,
    STAGE_VERB,
    SURRENDERED_ACTION,
    VERSION,
    CommitAnswer,
    CommitRequest,
    StageAnswer,
    StageRequest,
    SurrenderedRequest,
    SurrenderedRows,
)


class QueueManagerRefused(BulkError):
    """The queue manager refused the call; the text begins with its reason code."""

    reason = bulk_reasons.MQ_ERROR


class ConsumerUnknown(BulkError):
    """No consumer of this name was ever attached."""

    reason = bulk_reasons.CONSUMER_UNKNOWN


class ConsumerOfOtherQueue(BulkError):
    """The consumer of this name was attached to another queue before."""

    reason = bulk_reasons.CONSUMER_QUEUE


class ConsumerFenced(BulkError):
    """Another reader was attached under this consumer's name, or the claims were released."""

    reason = bulk_reasons.CONSUMER_FENCED


class ClaimsClosed(BulkError):
    """The claims in the request were ended before, and their messages removed from the queue."""

    reason = bulk_reasons.CLAIMS_CLOSED


class ClaimsAhead(BulkError):
    """The queue manager does not know the claims: its store was restored from an older copy."""

    reason = bulk_reasons.CLAIMS_AHEAD


class LeaseExpired(BulkError):
    """The claims in the request were not renewed in time: their messages are available again."""

    reason = bulk_reasons.LEASE_EXPIRED


_ERRORS = (
    QueueManagerRefused,
    ConsumerUnknown,
    ConsumerOfOtherQueue,
    ConsumerFenced,
    ClaimsClosed,
    ClaimsAhead,
    LeaseExpired,
)


class Filters(NamedTuple):
    """Values that the messages of a browse must have; None accepts any value."""

    msg_id: bytes | None = None
    correl_id: bytes | None = None
    priority: int | None = None


class ClaimedRange(NamedTuple):
    """Row numbers ``(after, until]`` of messages of one claim, and the bytes of their data."""

    after: int
    until: int
    data_bytes: int


class QueueClient(LedgerClient):
    """A connection to the queues and the ledger of one queue manager.

    A claim is a set of messages that the queue manager has reserved for a consumer; a consumer's
    claims are numbered. A reader is one attach of a consumer, and its epoch the number of this
    attach.
    """

    by_reason: ClassVar[Mapping[str, type[BulkError]]] = {
        **BY_REASON,
        **{kind.reason: kind for kind in _ERRORS},
    }

    def attach(self, consumer: str, queue: str) -> Attached:
        """Attach a reader to ``queue`` under the name ``consumer``, which is created if it is new.

        Returns the reader with its epoch, the number of this attach. Earlier readers of the
        consumer raise ConsumerFenced from now on; messages that are reserved stay so. Raises
        ConsumerOfOtherQueue if the consumer belongs to another queue, and QueueManagerRefused.
        """
        request = contract.AttachRequest(consumer, queue)
        return Attached(**self._call(contract.ATTACH, request))

    def claim(
        self,
        consumer: Attached,
        after: int,
        *,
        max_rows: int,
        max_bytes: int,
        up_to: int | None = None,
    ) -> tuple[int, int]:
        """Claim messages: reserve the next ones of the queue for the consumer, under a new number.

        ``after`` is the number of the last claim that the caller has read. Claims with a higher
        number that are not ended yet are returned before new ones are made. Returns (number of the
        last claim to read, number of messages). It is ``(after, 0)`` if the queue has no message,
        or after :meth:`quiesce`. ``max_rows`` limits the messages, ``max_bytes`` their payload; a
        claim has at least one message. ``up_to`` is a :meth:`mark`: messages put later are not
        claimed. Raises ConsumerFenced. For a checkpoint that does not fit it raises ClaimsAhead or
        ClaimsClosed.
        """
        name, epoch = consumer.consumer, consumer.epoch
        request = contract.ClaimRequest(name, epoch, after, max_rows, max_bytes, up_to)
        claimed = contract.Claimed(**self._call(contract.CLAIM, request))
        return claimed.until, claimed.messages

    def mark(self) -> int:
        """Return a mark: a number that divides messages put until now from those put later.

        :meth:`claim` takes it as ``up_to``. Raises BulkError.
        """
        return contract.Mark(**self._call(contract.MARK)).mark

    def end(self, consumer: Attached, until: int) -> int:
        """End claims: remove the messages reserved under numbers up to ``until`` from the queue.

        Returns the number of messages removed, 0 if these claims were ended before. Raises
        ConsumerFenced.
        """
        request = contract.EndRequest(consumer.consumer, consumer.epoch, until)
        return self._count(contract.END, request)

    def end_written(self, consumer: str, instance_id: str, until: int) -> int:
        """Remove messages reserved up to claim ``until``, which a checkpoint shows as written.

        No attached reader is needed. Returns the number of messages removed. Raises
        ConsumerUnknown, OtherInstance if ``instance_id`` is not this store, and ClaimsAhead.
        """
        request = contract.EndWrittenRequest(consumer, instance_id, until)
        return self._count(contract.END_WRITTEN, request)

    def quiesce(self, consumer: Attached) -> None:
        """Let the queue manager reserve no more messages for this reader.

        Raises ConsumerFenced if another reader was attached.
        """
        self._call(contract.QUIESCE, contract.ClaimReader(consumer.consumer, consumer.epoch))

    def renew(self, consumer: Attached) -> None:
        """Renew the reader's claims: without this, reserved messages go back to their queue.

        Raises ConsumerFenced if another reader was attached.
        """
        self._call(contract.HEARTBEAT, contract.ClaimReader(consumer.consumer, consumer.epoch))

    def rows(self, consumer: Attached, after: int, until: int) -> list[ClaimedRange]:
        """Return the rows of messages reserved under claims ``(after, until]``, [] for no rows.

        Raises BulkError.
        """
        request = contract.ClaimsRequest(consumer.consumer, consumer.epoch, after, until)
        found = contract.ClaimedRows(**self._call(contract.ROWS, request))
        return [ClaimedRange(*given) for given in found.ranges]

    def back_out(self, consumer: Attached, rows: Sequence[int], reason: int) -> BackedOut:
        """Back out reserved messages that the reader cannot process; return their numbers.

        Each returns to its queue, or beyond BOTHRESH goes to BOQNAME or the dead-letter queue with
        ``reason``. Rows no longer reserved do not change. Raises ConsumerFenced, and
        QueueManagerRefused when no queue accepts a message.
        """
        name, epoch = consumer.consumer, consumer.epoch
        request = contract.BackOutRequest(name, epoch, list(rows), reason)
        return BackedOut(**self._call(contract.BACK_OUT, request))

    def claimed(
        self, consumer: str, epoch: int, after_row: int, until_row: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the messages reserved for a consumer in rows ``(after_row, until_row]``.

        ``epoch`` is that of the reader that has claimed them. They come in batches of MESSAGE in
        the order of a get, each once. Raises BulkError, ServerFailed if rows are missing.
        """
        row, retries = after_row, Retries(self._retry_waits)
        while True:
            request = contract.ClaimedRequest(consumer, epoch, row, until_row)
            try:
                for batch in self._read(contract.CLAIMED_VERB, request):
                    row += batch.num_rows
                    retries.reset()
                    yield batch
                break
            except ServerNotReachable:
                # The next try continues after the last row that has arrived.
                if not retries.wait():
                    raise
        if row != until_row:
            raise ServerFailed(f"the server {self.url} ended at row {row}, not {until_row}")

    def standings(self) -> list[ConsumerState]:
        """Return the state of each consumer and its reserved messages, by name; [] without any."""
        return [
            ConsumerState(**standing) for standing in self._call(contract.CONSUMERS)["consumers"]
        ]

    def release(self, consumer: str, *, epoch: int | None = None) -> int:
        """Return the messages reserved for a consumer to their queue; return how many.

        Their backout counts are one higher then, except on the staging queue. The consumer's reader
        raises ConsumerFenced from now on. With ``epoch`` the call raises ConsumerFenced unless the
        reader with that epoch is the newest; None does not check it. Raises ConsumerUnknown.
        """
        return self._count(contract.RELEASE, contract.ReleaseRequest(consumer, epoch))

    def attached(self, consumer: str, epoch: int) -> Attached:
        """Return the reader that :meth:`attach` gave this epoch, without a new attach.

        Raises ConsumerUnknown if the consumer was never attached. If the epoch is not the newest,
        later calls with the reader raise ConsumerFenced.
        """
        info = self.info()
        for standing in self.standings():
            if standing.consumer == consumer:
                return Attached(
                    info.manager, info.instance_id, consumer, standing.queue, epoch, standing.closed
                )
        raise ConsumerUnknown(f"there is no consumer {consumer!r} (server {self.url})")

    def ranges(self, queue: str, count: int) -> list[tuple[int, int]]:
        """Return about ``count`` ranges ``(low, high)`` of keys that cover the messages on a queue.

        A key is the number by which the server sorts the messages of a queue: the order of a get.
        :meth:`browse` reads such a range; ``high`` is not in it. Returns [] for an empty queue.
        Raises QueueManagerRefused if the queue does not exist or may not be browsed.
        """
        answer = self._call(contract.RANGES, contract.RangesRequest(queue, count))
        return [(low, high) for low, high in answer["ranges"]]

    def browse(self, queue: str, low: int, high: int, filters: Filters) -> Iterator[pa.RecordBatch]:
        """Yield the unexpired messages in a range of :meth:`ranges` that pass the filters.

        The range is ``low <= key < high``. The messages come in the order of a get, in batches of
        schema MESSAGE, and stay on the queue. Raises BulkError.
        """
        ids = _hex(filters.msg_id), _hex(filters.correl_id)
        request = contract.BrowseRequest(queue, low, high, *ids, filters.priority)
        yield from self._read(contract.BROWSE_VERB, request)

    def _read(self, verb: str, request: NamedTuple) -> Iterator[pa.RecordBatch]:
        """Yield the record batches that the server sends for a request; raises BulkError."""
        try:
            yield from self._batches({verb: self._request(contract.VERSION, request)})
        except flight.FlightError as error:
            raise self.error_of(error) from None

    def _count(self, verb: str, request: NamedTuple) -> int:
        """Send a request and return the number of messages changed by it; raises BulkError."""
        return contract.Counted(**self._call(verb, request)).messages

    def _call(self, verb: str, request: NamedTuple | None = None) -> dict[str, Any]:
        """Send a request and return the answer's fields; raises BulkError."""
        return self._answer(verb, self._request(contract.VERSION, request))


class MessagePage(NamedTuple):
    """Messages to be put into a record batch; ``queue`` is one name, or a name for each message.

    ``described`` contains the values of DESCRIPTOR_COLUMNS for each packed descriptor.
    """

    manager: str
    queue: str | Sequence[str]
    columns: MessageColumns
    described: Mapping[bytes, tuple[Any, ...]]


def message_batch(messages: MessagePage) -> pa.RecordBatch:
    """Return messages as one record batch of schema MESSAGE; at least one message is needed."""
    *own, packed, payloads = messages.columns
    count = len(packed)
    columns = {
        "manager": pa.repeat(messages.manager, count),
        "queue": _queues(messages.queue, count),
        "payload": pa.array(payloads, type=pa.binary()),
    }
    for name, values in zip(OWN_COLUMNS, own, strict=True):
        columns[name] = pa.array(values, type=MESSAGE.field(name).type)
    places = {descriptor: n for n, descriptor in enumerate(messages.described)}
    taken = pa.array([places[descriptor] for descriptor in packed], type=pa.int32())
    described = zip(*messages.described.values(), strict=True)
    for name, values in zip(DESCRIPTOR_COLUMNS, described, strict=True):
        columns[name] = pa.array(values, type=MESSAGE.field(name).type).take(taken)
    return pa.RecordBatch.from_arrays([columns[name] for name in MESSAGE.names], schema=MESSAGE)


def _queues(queue: str | Sequence[str], count: int) -> pa.Array:
    """Return the column of ``count`` queue names: one name repeated, or a name for each message."""
    return pa.repeat(queue, count) if isinstance(queue, str) else pa.array(queue, type=pa.string())


def _hex(identifier: bytes | None) -> str | None:
    """Return an id in hexadecimal, None for None."""
    return None if identifier is None else identifier.hex()


#: One row as it is put (verbs/contracts/stages.py).
STAGED = schema_of(COLUMNS)


class StageLost(BulkError):
    """A commit names a stage that was removed or never completed; nothing of its batch was put."""

    reason = bulk_reasons.STAGE_LOST


class RowsRefused(BulkError):
    """Neither a row's queue nor the dead-letter queue accepts it, or the disk is full."""

    reason = bulk_reasons.MQ_ERROR


class Committed(NamedTuple):
    """The result of a commit: the newest committed batch, and how its rows ended."""

    batch: int
    put_count: int
    expired_count: int
    refused_count: int


class StageClient(LedgerClient):
    """A connection that writes rows to queues of one queue manager; a context manager.

    A stage is a table of uploaded rows that are on no queue until a commit.
    """

    by_reason: ClassVar[Mapping[str, type[BulkError]]] = {
        **BY_REASON,
        StageLost.reason: StageLost,
        RowsRefused.reason: RowsRefused,
    }

    def stage(
        self,
        query: str,
        batch: int,
        partition: int,
        attempt: str,
        rows: Iterable[pa.RecordBatch],
    ) -> int:
        """Upload rows of schema STAGED to a new stage, on no queue yet; return their number.

        A stage is a table of uploaded rows on the server. ``query`` and ``batch`` say to which
        batch of which query it belongs. It is named by the ``partition`` and the ``attempt`` of a
        task. Returns 0 if the batch was committed before. Raises BulkError; then no stage is left.
        """
        upload = self.begin(query, batch, partition, attempt)
        try:
            for batch_of_rows in rows:
                upload.write(batch_of_rows)
        except BaseException:
            upload.abort()
            raise
        return upload.finish()

    def begin(self, query: str, batch: int, partition: int, attempt: str) -> Upload:
        """Begin an upload to a new stage (partition, attempt) of a batch; raises BulkError.

        A stage is a table of rows that are on no queue until a commit.
        """
        request = self._request(VERSION, StageRequest(query, batch, partition, attempt))
        descriptor = flight.FlightDescriptor.for_command(json.dumps({STAGE_VERB: request}).encode())
        options = flight.FlightCallOptions(headers=self._headers)
        try:
            writer, answers = self._flight.do_put(descriptor, STAGED, options)
        except flight.FlightError as error:
            raise self.error_of(error) from None
        return Upload(self, writer, answers)

    def commit(
        self,
        query: str,
        batch: int,
        stages: Sequence[tuple[int, str]],
        *,
        dead_letter_queue: str = "",
        surrenders: bool = False,
    ) -> Committed:
        """Put the rows uploaded to a batch's stages; return when all are on their queues.

        ``stages`` are (partition, attempt) pairs in the order of their rows. Rows that their queue
        refuses go to ``dead_letter_queue``, "" for that of the queue manager. For a batch that was
        committed before, only rows not yet put are put, whatever ``stages`` contains. With
        ``surrenders``, rows that have a number at their source and that no queue will accept are
        left for :meth:`surrendered`. Raises StageLost if a stage is missing, RowsRefused if no
        queue accepts a row.
        """
        commit = CommitRequest(query, batch, list(stages), dead_letter_queue, surrenders)
        request = self._request(VERSION, commit)
        while True:
            # The server puts some ten thousands of rows in a call.
            state = CommitAnswer(**self._answer(COMMIT_ACTION, request))
            if state.is_done:
                counts = state.put_count, state.expired_count, state.refused_count
                return Committed(state.batch, *counts)

    def surrendered(self, query: str, batch: int) -> list[tuple[int, int, str]]:
        """Return the rows of a batch that no queue accepted, [] if all were put; raises BulkError.

        Each is (number at the source, MQRC reason code, reason in words).
        """
        request = self._request(VERSION, SurrenderedRequest(query, batch))
        found = SurrenderedRows(**self._answer(SURRENDERED_ACTION, request))
        return [(row, reason, text) for row, reason, text in found.rows]


class Upload:
    """An upload of rows to one stage; :meth:`finish` completes it, :meth:`abort` drops it."""

    def __init__(self, client: StageClient, writer: Any, answers: Any) -> None:
        """Keep the two ends of the Flight call: the writer of rows and the reader of answers."""
        self._client = client
        self._writer, self._answers = writer, answers
        self._sent_count = 0

    def write(self, rows: pa.RecordBatch, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        """Send rows of schema STAGED, in batches of at most ``max_bytes``; raises BulkError."""
        if not rows.num_rows:
            return
        try:
            for page in pages(rows, max_bytes):
                self._writer.write_batch(page)
        except flight.FlightError as error:
            raise self._client.error_of(error) from None
        self._sent_count += rows.num_rows

    def finish(self) -> int:
        """Complete the upload, and return its number of rows, which are durable then.

        Returns 0 if the batch was committed before, so that nothing was kept. Raises BulkError,
        ServerFailed when fewer rows have arrived than were sent.
        """
        try:
            # An empty batch marks the end: an upload without it is no stage.
            self._writer.write_batch(pa.RecordBatch.from_pylist([], schema=STAGED))
            self._writer.done_writing()
            answer = self._answers.read()
            # A refusal of the server shows here at the latest.
            self._writer.close()
        except flight.FlightError as error:
            raise self._client.error_of(error) from None
        row_count = None
        if answer is not None:
            row_count = StageAnswer(**json.loads(answer.to_pybytes())).row_count
        if row_count == DECIDED:
            return 0
        if row_count != self._sent_count:
            raise ServerFailed(
                f"the server {self._client.url} has {row_count} of {self._sent_count} rows"
            )
        return self._sent_count

    def abort(self) -> None:
        """Cancel the upload; none of its rows are kept. Errors of the connection are ignored."""
        with suppress(flight.FlightError):
            self._writer.close()
