"""Exactly-once writing in bulk: stages are filled, named by a commit, and put step by step.

A pipeline repeats work of which it does not know the outcome. So it first writes rows to a stage,
named by query, batch, partition and attempt; no other program sees them. The first commit of a
batch durably records its winning stages. Their rows are then put in transactions of limited size,
which also delete them from the stage. After a crash at any moment, a repeated commit continues
where the last transaction ended. A batch that is recorded already, or an older one, changes nothing
when it is sent again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from zlib import crc32

from mayfly.engine.bulk.promotion import Promotion, Surrendered
from mayfly.engine.bulk.staged_rows import StagedRows
from mayfly.engine.core import Core
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.times import SECOND_MS
from mayfly.runtime import Lock
from mayfly.store.stage_table import (
    NEVER_MS,
    NO_PARTITION,
    QueryState,
    StagePlace,
    appended,
    begun,
    finished,
    forgotten,
    named,
    removed,
    state_written,
)
from mayfly.store.units import Statement
from mayfly.verbs.contracts.stages import JOB_PREFIX

_LOG = logging.getLogger("mayfly.stages")
#: Rows of one transaction, less than one blob more; others' commits wait that long.
TRANSACTION_ROWS = 2_000
TRANSACTION_BYTES = 4 * 1024 * 1024
#: Transactions of one call of :meth:`Stages.commit`.
STEPS_PER_CALL = 25
#: Stages that no commit has named are swept after this; no batch takes so long.
ORPHAN_MS = 24 * 3600 * SECOND_MS
#: How often it is looked for them.
SWEEP_INTERVAL_MS = 3600 * SECOND_MS
_BLOBS_PER_TRANSACTION = 16
_LOCK_COUNT = 64


class StageMissing(Exception):
    """A commit names a stage that is missing or not complete; nothing of the batch was put."""


class StageWriter:
    """Fills one stage with blobs of rows, in one thread; end it with ``finish`` or ``discard``."""

    def __init__(self, core: Core, place: StagePlace) -> None:
        """Begin a stage in memory; ``place`` is its query, batch, partition and attempt.

        It is first stored by ``finish``, or when a second blob is appended.
        """
        self._core = core
        with core.engine_lock:
            self._id = core.store.sequence.next()
        self._pending: list[Statement] = [begun(self._id, place, core.now_ms())]
        self._has_blob = False
        self._is_begun = False
        self._row_count = 0

    def append(self, rows: bytes, row_count: int) -> None:
        """Add a blob of rows at the end of the stage, and store the blob before it.

        Raises MQRC_STORAGE_MEDIUM_FULL, MQRC_Q_MGR_STOPPING, MQRC_CONNECTION_BROKEN.
        """
        if self._has_blob:
            self._write()
        with self._core.engine_lock:
            blob_id = self._core.store.sequence.next()
        self._pending.append(appended(blob_id, self._id, row_count, rows))
        self._has_blob = True
        self._row_count += row_count

    def finish(self) -> int:
        """Make the stage complete and durable; return its number of rows.

        Raises MQRC_STORAGE_MEDIUM_FULL, MQRC_Q_MGR_STOPPING, MQRC_CONNECTION_BROKEN.
        """
        self._pending.append(finished(self._id, self._row_count))
        self._write()
        return self._row_count

    def discard(self) -> None:
        """Delete the stored part, if any, of a stage that will not be finished."""
        if self._is_begun:
            _run(self._core, removed([self._id], []))

    def _write(self) -> None:
        """Store all pending statements in one transaction."""
        transaction = Transaction()
        transaction.unit.statements, self._pending = self._pending, []
        transaction.unit.brings_data = True
        self._core.committer.run(transaction)
        self._is_begun = True


class Stages:
    """The stages of a queue manager; call the methods without the engine lock."""

    def __init__(self, core: Core) -> None:
        """Begin with the stages in the store of ``core``: rows of pipelines, not put yet."""
        self._core = core
        #: Commits of one query run one after the other, in any thread.
        self._locks = [core.runtime.lock("stages") for _ in range(_LOCK_COUNT)]
        self._swept_ms: int | None = None

    def begin(self, place: StagePlace) -> StageWriter | None:
        """Return a writer for a new stage: the rows of one task attempt, not put yet.

        None when a commit of its batch has begun already, so nothing must be written. Stages of
        earlier batches that no commit has named are removed. ``place`` is the query, batch,
        partition and attempt that the rows are of. Raises ValueError when a stage of the same
        query, batch, partition and attempt exists.
        """
        core = self._core
        with core.engine_lock:
            core.check_running()
            state = core.store.stages.query(place.query)
            is_taken = core.store.stages.find(place) is not None
        if state is not None and place.batch <= state.batch:
            return None
        if is_taken:
            raise ValueError(f"{place} is written already: an attempt needs a name of its own")
        self._sweep_left_behind(place)
        self._sweep_sometimes()
        return StageWriter(core, place)

    def state(self, query: str) -> QueryState | None:
        """Return the stored progress of a query, None before its first commit."""
        with self._core.engine_lock:
            self._core.check_running()
            return self._core.store.stages.query(query)

    def commit(
        self,
        query: str,
        batch: int,
        stages: Sequence[tuple[int, str]],
        decode: Callable[[bytes], StagedRows],
        *,
        dead_letter_queue: str = "",
        step_count: int = STEPS_PER_CALL,
        surrenders: bool = False,
    ) -> QueryState:
        """Put the rows of a batch, or some of them; call it again until the result ``is_done``.

        One call makes up to ``step_count`` transactions. ``stages`` are (partition, attempt) of the
        task attempts whose rows are put, in that order. The first call for a batch records them,
        and deletes the stages of all other attempts; later calls ignore them. ``decode`` reads a
        blob. Refused rows go to ``dead_letter_queue``, or DEADQ if "". ``query`` is the name of the
        pipeline's query, ``batch`` the number of the batch.

        Raises StageMissing, with nothing changed, and MQError when neither the queue nor the
        dead-letter queue accepts a row; earlier transactions stay. With ``surrenders`` such a row
        is left out, for :meth:`surrendered`, if it has a number at its source and a later try
        cannot help.
        """
        with self._lock(query):
            state = self.state(query)
            if state is None or (state.is_done and state.batch < batch):
                state = self._name(query, batch, stages)
            steps = 0
            while not state.is_done and state.batch <= batch and steps < step_count:
                state = self._step(state, decode, dead_letter_queue, surrenders=surrenders)
                steps += 1
            # An earlier batch is finished first, and this one named by the next call; where a
            # later one is named already, this one was done long ago.
            return state if state.batch == batch else state._replace(is_done=state.batch > batch)

    def surrendered(self, query: str, batch: int) -> list[Surrendered]:
        """Return the rows that the commit of a batch has left out; empty for none.

        They are kept until a later batch of the query is written.
        """
        core = self._core
        with core.engine_lock:
            core.check_running()
            blobs = core.store.stages.surrendered(query, batch)
        return [Surrendered(*row) for blob in blobs for row in json.loads(blob)]

    def sweep(self, before_ms: int) -> int:
        """Remove stages begun before ``before_ms`` that no commit has named; return how many.

        Also deletes the progress of bulk jobs that ended before ``before_ms``.
        """
        core, count = self._core, 0
        with core.engine_lock:
            core.check_running()
            queries = {query for _, query in core.store.stages.orphans(before_ms)}
        for query in queries:
            with self._lock(query):
                with core.engine_lock:
                    orphans = core.store.stages.orphans(before_ms)
                own = [stage_id for stage_id, owner in orphans if owner == query]
                self._remove(own)
                count += len(own)
        _run(core, [forgotten(f"{JOB_PREFIX}*", before_ms)])
        return count

    def _lock(self, query: str) -> Lock:
        """Return the lock that orders the commits of a query; several queries may share one."""
        return self._locks[crc32(query.encode()) % _LOCK_COUNT]

    def _name(self, query: str, batch: int, stages: Sequence[tuple[int, str]]) -> QueryState:
        """Record ``stages`` as those of a batch, and delete its others; return the new progress.

        ``stages`` are (partition, attempt). Raises StageMissing, with nothing changed.
        """
        core, now_ms = self._core, self._core.now_ms()
        with core.engine_lock:
            ids = [self._complete(StagePlace(query, batch, *stage)) for stage in stages]
        state = QueryState(query, batch, not ids, 0, 0, 0, now_ms)
        _run(core, [named(ids), state_written(state)])
        with core.engine_lock:
            losers = core.store.stages.losers(query, batch)
        self._remove(losers)
        return state

    def _complete(self, place: StagePlace) -> int:
        """Return the id of a stage, the rows sent by one task attempt.

        ``place`` is its query, batch, partition and attempt. Raises StageMissing when the stage
        does not exist or is not complete. The engine lock is held.
        """
        found = self._core.store.stages.find(place)
        if found is None or found[1] is None:
            what = "is not there: it was swept" if found is None else "is not complete"
            raise StageMissing(f"stage {tuple(place)} {what}; nothing of the batch was put")
        return found[0]

    def _step(
        self,
        state: QueryState,
        decode: Callable[[bytes], StagedRows],
        dead_letter_queue: str,
        *,
        surrenders: bool,
    ) -> QueryState:
        """Put the next rows of a batch in one transaction, and delete them from their stages.

        Returns the new progress. On an error nothing is changed. ``state`` is the progress so far,
        ``decode`` reads a blob; the other parameters are those of :meth:`commit`.
        """
        core = self._core
        blob_ids, stage_ids, is_last = self._next_blobs(state)
        promotion = Promotion(core, dead_letter_queue, surrenders=surrenders)
        try:
            for blob_id in blob_ids:
                with core.engine_lock:
                    rows = core.store.stages.rows(blob_id)
                promotion.add(decode(rows))
            counted = promotion.counted
            state = state._replace(
                is_done=is_last,
                put_count=state.put_count + counted.put_count,
                expired_count=state.expired_count + counted.expired_count,
                refused_count=state.refused_count + counted.refused_count,
                changed_ms=core.now_ms(),
            )
            kept = self._kept(state, promotion.surrendered)
            for statement in [*removed(stage_ids, blob_ids), *kept, state_written(state)]:
                promotion.note(*statement)
            promotion.commit()
        except BaseException:
            promotion.backout()
            raise
        if promotion.refusals:
            first, count = promotion.refusals[0], len(promotion.refusals)
            _LOG.warning(
                "%d rows of %s, batch %d, are dead letters; the first: %s",
                count,
                state.query,
                state.batch,
                first,
            )
        return state

    def _kept(self, state: QueryState, surrendered: list[Surrendered]) -> list[Statement]:
        """Return the statements that store the rows left out of a batch, empty for none.

        They are stored as a further stage, and :meth:`surrendered` reads them.
        """
        if not surrendered:
            return []
        core, rows = self._core, json.dumps(surrendered).encode()
        with core.engine_lock:
            stage_id, blob_id = core.store.sequence.next(), core.store.sequence.next()
        place = StagePlace(state.query, state.batch, NO_PARTITION, str(stage_id))
        _LOG.warning(
            "%d rows of %s, batch %d, are left to their source; the first: %s",
            len(surrendered),
            state.query,
            state.batch,
            surrendered[0].text,
        )
        return [
            begun(stage_id, place, NEVER_MS),
            appended(blob_id, stage_id, len(surrendered), rows),
        ]

    def _next_blobs(self, state: QueryState) -> tuple[list[int], list[int], bool]:
        """Return blobs of the next transaction, stages that it empties, whether it is the last.

        The stages that the commit has named are processed in order; a blob that still exists has
        not been put. ``state`` is the progress of the query. Blobs and stages are given by their
        ids.
        """
        core = self._core
        blob_ids: list[int] = []
        row_count = size_bytes = 0
        with core.engine_lock:
            core.check_running()
            winners = core.store.stages.winners(state.query, state.batch)
            for place, stage_id in enumerate(winners):
                for blob in core.store.stages.blobs(stage_id, TRANSACTION_ROWS + 1):
                    row_count += blob.row_count
                    size_bytes += blob.size_bytes
                    is_full = row_count > TRANSACTION_ROWS or size_bytes > TRANSACTION_BYTES
                    if blob_ids and is_full:
                        return blob_ids, winners[:place], False
                    blob_ids.append(blob.id)
        return blob_ids, winners, True

    def _sweep_left_behind(self, place: StagePlace) -> None:
        """Remove the stages of earlier batches of the same query that no commit has named.

        ``place`` names the query and its present batch.
        """
        core, query, before = self._core, place.query, place.batch - 1
        with core.engine_lock:
            has_losers = bool(core.store.stages.losers(query, before))
        if has_losers:
            # A commit that names them just now comes first.
            with self._lock(query):
                with core.engine_lock:
                    losers = core.store.stages.losers(query, before)
                self._remove(losers)

    def _sweep_sometimes(self) -> None:
        """Remove stages that no commit named within 24 hours; runs once an hour at most."""
        now_ms = self._core.now_ms()
        if self._swept_ms is None or now_ms - self._swept_ms >= SWEEP_INTERVAL_MS:
            self._swept_ms = now_ms
            self.sweep(now_ms - ORPHAN_MS)

    def _remove(self, stage_ids: Iterable[int]) -> None:
        """Delete stages with their rows, in transactions of limited size."""
        core = self._core
        for stage_id in stage_ids:
            is_emptied = False
            while not is_emptied:
                with core.engine_lock:
                    blobs = core.store.stages.blobs(stage_id, _BLOBS_PER_TRANSACTION)
                is_emptied = len(blobs) < _BLOBS_PER_TRANSACTION
                _run(core, removed([stage_id] if is_emptied else [], [blob.id for blob in blobs]))


def _run(core: Core, statements: Iterable[Statement]) -> None:
    """Run SQL statements in one transaction; durable on return.

    Raises MQRC_STORAGE_MEDIUM_FULL, MQRC_Q_MGR_STOPPING, MQRC_CONNECTION_BROKEN.
    """
    transaction = Transaction()
    transaction.unit.statements.extend(statements)
    core.committer.run(transaction)
