"""Stages in the store: rows that a pipeline has sent and that are not put yet.

Also the progress of each query. A stage holds the rows that one attempt of one task has written, as
opaque blobs. A commit names the winning stages of a batch; from then on their blobs are deleted in
the transactions that put their rows. Functions that change something return statements, which the
caller's transaction runs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from mayfly.store.messages import Messages, limited
from mayfly.store.units import LENGTH_BITS, Bulk, Statement

_BEGIN = (
    "INSERT INTO stage (id, query, batch, partition, attempt, begun_ms) VALUES (?, ?, ?, ?, ?, ?)"
)
#: A stage that was swept while its attempt still wrote takes nothing any more.
_APPEND = (
    "INSERT INTO stage_blob (id, stage_id, row_count, rows) "
    "SELECT ?, id, ?, ? FROM stage WHERE id = ?"
)
_FINISH = "UPDATE stage SET row_count = ? WHERE id = ?"
_NAME = "UPDATE stage SET place = j.key FROM json_each(?) j WHERE stage.id = j.value"
_WRITE_QUERY = "INSERT OR REPLACE INTO stage_query VALUES (?, ?, ?, ?, ?, ?, ?)"
_QUERY = "SELECT * FROM stage_query WHERE query = ?"
_FIND = (
    "SELECT id, row_count FROM stage "
    "WHERE query = ? AND batch = ? AND partition = ? AND attempt = ?"
)
_WINNERS = "SELECT id FROM stage WHERE query = ? AND batch = ? AND place IS NOT NULL ORDER BY place"
_BLOBS = "SELECT id, row_count, length(rows) FROM stage_blob WHERE stage_id = ? ORDER BY id"
_ROWS = "SELECT rows FROM stage_blob WHERE id = ?"
_LOSERS = "SELECT id FROM stage WHERE query = ? AND batch <= ? AND place IS NULL"
#: Rows that were not taken are in stages without a partition, deleted with their batch only.
_SURRENDERED = (
    "SELECT b.rows FROM stage s JOIN stage_blob b ON b.stage_id = s.id "
    "WHERE s.query = ? AND s.batch = ? AND s.partition = -1 ORDER BY s.id"
)
NO_PARTITION, NEVER_MS = -1, 2**62
_ORPHANS = "SELECT id, query FROM stage WHERE begun_ms < ? AND place IS NULL"
#: One statement for all rows: an executemany would give the GIL away, and wait for it, at each.
_BULK = """
INSERT INTO message (k, put_ms, expire_at_ms, msg_hash, correl_hash, backout_count, msg_id,
    correl_id, descriptor, body%s)
SELECT row ->> 0, :put_ms, row ->> 1, row ->> 2, row ->> 3, 0, substr(:msg_ids, n * 24 + 1, 24),
    iif(row ->> 3 IS NULL, x'', substr(:correl_ids, n * 24 + 1, 24)), :descriptor,
    substr(:bodies, (row ->> 4) + 1, row ->> 5)%s
FROM (SELECT key AS n, value AS row FROM json_each(:rows))"""
_INSERT_BULK = _BULK % ("", "")
#: With a cap: rows whose life it has shortened say so by a seventh value.
_INSERT_CAPPED = _BULK % (", capped_by", ", iif(row ->> 6, :capped_by, NULL)")
_INSERT_KEY_RANGE = f"""
INSERT INTO message (k, put_ms, expire_at_ms, msg_hash, backout_count, msg_id, correl_id,
    descriptor, body, capped_by)
SELECT :first_key + n, :put_ms, :expire_at_ms, :first_hash + n, 0,
    substr(:msg_ids, n * 24 + 1, 24), x'', :descriptor,
    substr(:bodies, (slice >> {LENGTH_BITS}) + 1, slice & {2**LENGTH_BITS - 1}),
    :capped_by
FROM (SELECT key AS n, value AS slice FROM json_each(:rows))"""
_IN_LIST = "(SELECT value FROM json_each(?))"
_DELETE_BLOBS = f"DELETE FROM stage_blob WHERE id IN {_IN_LIST}"
_DELETE_REST = f"DELETE FROM stage_blob WHERE stage_id IN {_IN_LIST}"
_DELETE_STAGES = f"DELETE FROM stage WHERE id IN {_IN_LIST}"
_FORGET = "DELETE FROM stage_query WHERE query GLOB ? AND is_done AND changed_ms < ?"


def insert_bulk(writer: apsw.Connection, bulk: Bulk) -> None:
    """Insert new messages of one descriptor by one SQL statement, in the caller's transaction."""
    if bulk.key_range is None:
        statement = _INSERT_BULK if bulk.capped_by is None else _INSERT_CAPPED
        writer.execute(statement, bulk._asdict())
    else:
        writer.execute(_INSERT_KEY_RANGE, bulk._asdict() | bulk.key_range._asdict())


class StagePlace(NamedTuple):
    """The key of a stage: one attempt of one task (partition) of one batch of one query."""

    query: str
    batch: int
    partition: int
    attempt: str


class QueryState(NamedTuple):
    """The progress of a query: its newest batch with named stages, and that batch's outcome.

    ``is_done`` is True once all rows are put. ``put_count`` includes delayed rows;
    ``expired_count`` are those discarded on arrival, ``refused_count`` those on the dead-letter
    queue. ``changed_ms`` is in epoch ms.
    """

    query: str
    batch: int
    is_done: bool
    put_count: int
    expired_count: int
    refused_count: int
    changed_ms: int


class StagedBlob(NamedTuple):
    """A blob of a stage, without its rows: id, number of rows, size."""

    id: int
    row_count: int
    size_bytes: int


def begun(stage_id: int, place: StagePlace, now_ms: int) -> Statement:
    """Return the SQL statement that creates a stage, begun at ``now_ms``, without rows.

    A stage has the rows that one attempt of one task of a query sends. ``place`` is its query,
    batch, partition and attempt.
    """
    return _BEGIN, (stage_id, *place, now_ms)


def appended(blob_id: int, stage_id: int, row_count: int, rows: bytes) -> Statement:
    """Return the SQL statement that adds a blob of rows to a stage, ordered by blob id.

    It adds nothing when the stage was deleted meanwhile.
    """
    return _APPEND, (blob_id, row_count, rows, stage_id)


def finished(stage_id: int, row_count: int) -> Statement:
    """Return the SQL statement that marks a stage as complete, with its number of rows."""
    return _FINISH, (row_count, stage_id)


def named(stage_ids: Sequence[int]) -> Statement:
    """Return the SQL statement that makes stages the winners of their batch.

    Only rows of winners are put on queues, in the order of ``stage_ids``.
    """
    return _NAME, (json.dumps(stage_ids),)


def state_written(state: QueryState) -> Statement:
    """Return the SQL statement that stores the progress of a query, or replaces it."""
    return _WRITE_QUERY, tuple(state)


def removed(stage_ids: Sequence[int], blob_ids: Sequence[int]) -> list[Statement]:
    """Return the SQL statements that delete blobs by id, and stages with all their blobs."""
    stages = json.dumps(stage_ids)
    blobs: Statement = (_DELETE_BLOBS, (json.dumps(blob_ids),))
    if not stage_ids:
        return [blobs]
    return [blobs, (_DELETE_REST, (stages,)), (_DELETE_STAGES, (stages,))]


def forgotten(query_pattern: str, before_ms: int) -> Statement:
    """Return the SQL statement that deletes finished queries not changed since ``before_ms``.

    ``query_pattern`` is a GLOB pattern, ``before_ms`` a time in ms since 1970.
    """
    return _FORGET, (query_pattern, before_ms)


class StageTable:
    """Reads stages and the progress of queries; call it with the queue manager's lock held."""

    def __init__(self, messages: Messages) -> None:
        """Read the stages in the database of ``messages``."""
        self._fetch = messages.fetch

    def query(self, query: str) -> QueryState | None:
        """Return the progress of a query, None before its first commit."""
        for row in self._fetch(_QUERY, (query,)):
            name, batch, is_done, *counts = row
            return QueryState(name, batch, bool(is_done), *counts)
        return None

    def find(self, place: StagePlace) -> tuple[int, int | None] | None:
        """Return (id, number of rows) of a stage, None when no such stage exists.

        ``place`` is its query, batch, partition and attempt. The number is None until the stage is
        complete.
        """
        for stage_id, row_count in self._fetch(_FIND, tuple(place)):
            return stage_id, row_count
        return None

    def winners(self, query: str, batch: int) -> list[int]:
        """Return the ids of those stages that a commit of the batch has named and that hold rows.

        They are in the order in which their rows are put.
        """
        return [stage_id for (stage_id,) in self._fetch(_WINNERS, (query, batch))]

    def losers(self, query: str, batch: int) -> list[int]:
        """Return the ids of the stages of a query, up to a batch, that no commit has named.

        The batch itself is included.
        """
        return [stage_id for (stage_id,) in self._fetch(_LOSERS, (query, batch))]

    def surrendered(self, query: str, batch: int) -> list[bytes]:
        """Return blobs of the rows that a batch has left out, in their order.

        Each blob is a list of rows that were put on no queue.
        """
        return [rows for (rows,) in self._fetch(_SURRENDERED, (query, batch))]

    def orphans(self, before_ms: int) -> list[tuple[int, str]]:
        """Return id and query of stages that no commit has named, begun before ``before_ms``."""
        return [(stage_id, query) for stage_id, query in self._fetch(_ORPHANS, (before_ms,))]

    def blobs(self, stage_id: int, limit: int) -> list[StagedBlob]:
        """Return up to ``limit`` blobs of a stage with their ids and sizes, in their order."""
        return [StagedBlob._make(row) for row in self._fetch(limited(_BLOBS, limit), (stage_id,))]

    def rows(self, blob_id: int) -> bytes:
        """Return the bytes of a blob of rows, as they were sent; the blob must exist."""
        rows: Any = self._fetch(_ROWS, (blob_id,))[0][0]
        assert isinstance(rows, bytes)
        return rows
