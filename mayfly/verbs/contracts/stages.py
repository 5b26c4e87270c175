"""Stages: uploaded rows that a later commit puts to queues; requests, answers and columns.

See docs/PIPELINE.md.
"""

from __future__ import annotations

from typing import NamedTuple

from mayfly.verbs.contracts.bulk import Column, Kind

VERSION = 2
#: The upload of a stage: a StageRequest with rows, answered by a StageAnswer.
STAGE_VERB = "stage"
#: CommitRequest -> CommitAnswer: puts what was uploaded.
COMMIT_ACTION = "stage-commit"
#: SurrenderedRequest -> SurrenderedRows: rows of a batch that no queue accepts.
SURRENDERED_ACTION = "stage-surrendered"
VERBS = (STAGE_VERB, COMMIT_ACTION, SURRENDERED_ACTION)
#: Prefix of the name of a query with a single batch; the name is forgotten after a day.
JOB_PREFIX = "job:"
#: Row count in the answer to a stage of a batch that is decided already.
DECIDED = -1
PAYLOAD = "payload"

#: Longest value of the text columns of a descriptor, in bytes.
TEXT_BYTES = {
    "reply_to_q": 48,
    "reply_to_q_mgr": 48,
    "format": 8,
    "user_identifier": 12,
    "put_appl_name": 28,
}
#: The number columns of a descriptor.
NUMBERS = (
    "priority",
    "persistence",
    "report",
    "msg_type",
    "encoding",
    "coded_char_set_id",
    "feedback",
    "original_length",
    "put_appl_type",
)
#: ``delay_ms`` or ``deliver_at_ms``, ``time_to_live_ms`` or ``expire_at_ms``.
TIMES = ("delay_ms", "deliver_at_ms", "time_to_live_ms", "expire_at_ms")
IDS = ("msg_id", "correl_id")
#: Columns that rows of one kind share: where they go and their descriptor.
KIND_COLUMNS = ("queue", "manager", *NUMBERS, *TEXT_BYTES)
#: The columns that differ from row to row, except the data.
ROW_COLUMNS = (*TIMES, *IDS)
#: The number of a row at its source, which can take the row back; null where it cannot.
SOURCE_ROW = "source_row"
#: One row as it is put. Every column but the data may be null. Values are checked when the row is
#: put.
COLUMNS: tuple[Column, ...] = (
    *(Column(name, Kind.TEXT) for name in ("manager", "queue")),
    *(Column(name, Kind.BYTES) for name in IDS),
    *(Column(name, Kind.INT64) for name in (*TIMES, *NUMBERS)),
    *(Column(name, Kind.TEXT) for name in TEXT_BYTES),
    Column(SOURCE_ROW, Kind.INT64),
    Column(PAYLOAD, Kind.BYTES),
)


class StageRequest(NamedTuple):
    """Key of a stage (one upload of rows): query, batch, partition and attempt.

    A repeated attempt of a task has another ``attempt``.
    """

    query: str
    batch: int
    partition: int
    attempt: str


class StageAnswer(NamedTuple):
    """The number of rows in the stage, or DECIDED for a batch that is decided already."""

    row_count: int


class CommitRequest(NamedTuple):
    """Put the rows of a batch; ``stages`` are [partition, attempt] in the order of their rows.

    With ``surrenders`` a row with a SOURCE_ROW that neither its queue nor the dead-letter queue
    will ever accept is left out, and kept for a SurrenderedRequest.
    """

    query: str
    batch: int
    stages: list[tuple[int, str]]
    dead_letter_queue: str
    surrenders: bool


class SurrenderedRequest(NamedTuple):
    """Request for rows that a batch has left out; they are kept until the next batch is written."""

    query: str
    batch: int


class SurrenderedRows(NamedTuple):
    """The left-out rows: SOURCE_ROW, reason code, and the reason in words."""

    rows: list[tuple[int, int, str]]


class CommitAnswer(NamedTuple):
    """The progress of a batch; with ``is_done`` False the caller must send the commit again."""

    batch: int
    is_done: bool
    put_count: int
    expired_count: int
    refused_count: int
