"""Client that writes rows into queues over Arrow Flight, exactly once, by stages and a commit.

A stage is a table of uploaded rows that are on no queue yet; a commit puts the rows of the stages
that it names (engine/bulk/stages.py). A client that does not know whether a call has reached the
server repeats it: for a stage with a new attempt, for a commit unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.flight as flight

from mayfly.pipeline.bulk.client import DEFAULT_MAX_BYTES, LedgerClient
from mayfly.pipeline.bulk.errors import BY_REASON, BulkError, ServerFailed
from mayfly.pipeline.bulk.schema import pages, schema_of
from mayfly.verbs.contracts import reasons
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

#: One row as it is put (verbs/contracts/stages.py).
STAGED = schema_of(COLUMNS)


class StageLost(BulkError):
    """A commit names a stage that was removed or never completed; nothing of its batch was put."""

    reason = reasons.STAGE_LOST


class RowsRefused(BulkError):
    """Neither a row's queue nor the dead-letter queue accepts it, or the disk is full."""

    reason = reasons.MQ_ERROR


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
