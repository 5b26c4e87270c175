"""Exactly-once writing in bulk: stages are filled, named by a commit, and put step by step.

A pipeline repeats work of which it does not know the outcome. So it first writes rows to a stage,
named by query, batch, partition and attempt; no other program sees them. The first commit of a
batch durably records its winning stages. Their rows are then put in transactions of limited size,
which also delete them from the stage. After a crash at any moment, a repeated commit continues
where the last transaction ended. A batch that is recorded already, or an older one, changes nothing
when it is sent again.

Ordinary rows of one kind are put in bulk, by one SQL statement; the others one by one, as in a unit
of work. Both ways keep the order of the rows. In bulk, options are checked once for all rows of a
kind, and whole columns are processed at once. A row that a put refuses goes to the dead-letter
destination; one whose deadline has passed is discarded on its queue.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple
from zlib import crc32

from mayfly.engine import queue_state
from mayfly.engine.core import Core
from mayfly.engine.delivery import (
    MessageIds,
    OutgoingMessage,
    check_capacity,
    new_id,
    new_row,
)
from mayfly.engine.descriptors import Context, Prepared, check_header, prepare
from mayfly.engine.disposal import dead_letter_of, dead_letter_queue_of, send_report
from mayfly.engine.expiry import dispose_of_expired
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.engine.put import PutRequest, put
from mayfly.engine.queues import LocalQueue
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.life import LifeRecord
from mayfly.lifetime.reports import Cause, Original, is_owed
from mayfly.lifetime.times import SECOND_MS
from mayfly.lifetime.window import Window, check_life_ms, window_at_put
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import (
    MQ_MSG_ID_LENGTH,
    MQPMO_NONE,
    MQPMO_SET_ALL_CONTEXT,
    MQPMO_SET_IDENTITY_CONTEXT,
)
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.runtime import Lock
from mayfly.store.keys import generated_id, id_hash, optional_id_hash
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
from mayfly.store.units import LENGTH_BITS, Bulk, KeyRange, Statement, StoredMessage
from mayfly.verbs.checks import stored_id
from mayfly.verbs.contracts.outcomes import DetectedBy, TerminatedBy
from mayfly.verbs.contracts.stages import IDS, JOB_PREFIX, KIND_COLUMNS, SOURCE_ROW, TEXT_BYTES

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
#: With fewer rows of a kind in a blob, a statement of their own costs more than it saves.
BULK_ROWS_MIN = 16
_NO_ID = bytes(24)
#: Lives as they are gathered: without end, and not for a put in bulk.
_UNLIMITED, _ALONE = -1, 0
#: PutApplName of what a pipeline puts.
_PROGRAM = "mayfly sink"
#: The queue manager is going: no fault of the row.
_NOT_THE_ROW = (
    rc.MQRC_CONNECTION_BROKEN,
    rc.MQRC_Q_MGR_STOPPING,
    rc.MQRC_STORAGE_MEDIUM_FULL,
)
#: A row may be accepted later: its queue is full, inhibited or in use by another program.
_PASSING = (
    *_NOT_THE_ROW,
    rc.MQRC_Q_FULL,
    rc.MQRC_PUT_INHIBITED,
    rc.MQRC_OBJECT_IN_USE,
    rc.MQRC_NOT_AUTHORIZED,
)


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


class Identities(NamedTuple):
    """The MsgIds and CorrelIds of several messages, by column.

    Hashes are JSON values, ``"null"`` where no index needs one. ``msg_ids`` and ``correl_ids`` are
    24 bytes for each message, joined; ``correl_ids`` is empty when no message has a CorrelId.
    """

    msg_hashes: list[int | str]
    correl_hashes: list[int | str]
    msg_ids: bytes
    correl_ids: bytes


class BulkBatch:
    """Messages for one queue with one descriptor, to be put together by SQL statements.

    An instance is created and filled under the engine lock.
    """

    def __init__(self, path: ResolvedQueue, prepared: Prepared, put_ms: int) -> None:
        """Begin without messages.

        All will have the queue of ``path``, one descriptor and one put time.
        """
        self.queue = path.queue
        self.version = path.version
        self.max_depth = path.max_depth
        self.largest_bytes = path.largest_bytes
        self.keys: list[int] = []
        #: The key of a message but for its sequence number.
        self.base_key = path.slots[prepared.order_priority]
        self._put_ms = put_ms
        self._cap_ms, self._capped_by = path.cap_ms, path.capped_by
        #: The lives that the cap has shortened.
        self._capped: set[int] = set()
        self._packed = prepared.packed
        self._deadlines: dict[int, int | str] = {}
        self._consecutive: list[Bulk] = []
        self._rows: list[str] = []
        self._bodies: list[bytes] = []
        self._size_bytes = 0
        self._msg_ids: list[bytes] = []
        self._correl_ids: list[bytes] = []

    def add(
        self, keys: list[int], ids: Identities, lives_ms: list[int], bodies: list[bytes]
    ) -> None:
        """Add messages by column: keys, ids, times to live in ms (-1 for unlimited) and bodies.

        Their places in the queue's depth are reserved.
        """
        sizes = list(map(len, bodies))
        starts = accumulate(sizes, initial=self._size_bytes)
        columns = (keys, self._deadlines_of(lives_ms), ids.msg_hashes, ids.correl_hashes)
        rows = zip(*columns, starts, sizes, strict=False)
        texts = [f"[{k},{x},{m},{c},{start},{size}]" for k, x, m, c, start, size in rows]
        if not self._capped.isdisjoint(lives_ms):
            texts = [
                f"{text[:-1]},1]" if life_ms in self._capped else text
                for text, life_ms in zip(texts, lives_ms, strict=True)
            ]
        self._rows.extend(texts)
        self._size_bytes += sum(sizes)
        self._bodies.extend(bodies)
        self._msg_ids.append(ids.msg_ids)
        self._correl_ids.append(ids.correl_ids)
        self._reserve(keys)

    def add_consecutive(
        self, keys: list[int], msg_ids: bytes, life_ms: int, segments: list[int], bodies: bytes
    ) -> None:
        """Add messages with consecutive keys, one time to live, new MsgIds and no CorrelId.

        ``life_ms`` is the time to live in ms, -1 for unlimited. ``segments`` has for each message
        the start and the length of its data in ``bodies``, packed in one number as in
        ``store.units.Bulk``. Places in the queue's depth are reserved.
        """
        [deadline] = self._deadlines_of([life_ms])
        expire_at_ms = deadline if isinstance(deadline, int) else None
        self._consecutive.append(
            Bulk(
                str(segments),
                len(keys),
                self._put_ms,
                self._packed,
                msg_ids,
                b"",
                bodies,
                KeyRange(keys[0], None, expire_at_ms),
                self._capped_by if life_ms in self._capped else None,
            )
        )
        self._reserve(keys)

    def has_capacity(self, sizes: list[int]) -> bool:
        """Return True if the queue has room now for messages of all these sizes in bytes (P7, P8).

        MAXDEPTH limits their number and MAXMSGL the largest of them.
        """
        if self.queue.depth + len(sizes) > self.max_depth:
            return False
        return max(sizes) <= self.largest_bytes

    def bulks(self) -> list[Bulk]:
        """Return the SQL inserts of the batch for the store: those of ``add`` are joined to one."""
        if not self._rows:
            return self._consecutive
        gathered = Bulk(
            f"[{','.join(self._rows)}]",
            len(self._rows),
            self._put_ms,
            self._packed,
            b"".join(self._msg_ids),
            b"".join(self._correl_ids),
            b"".join(self._bodies),
            capped_by=self._capped_by if self._capped else None,
        )
        return [*self._consecutive, gathered]

    def _reserve(self, keys: list[int]) -> None:
        """Note the keys of added messages, and count them in the depth of the queue."""
        self.keys.extend(keys)
        queue_state.reserve(self.queue, len(keys))

    def _deadlines_of(self, lives_ms: list[int]) -> list[int | str]:
        """Return the expiry times, in ms since 1970, of times to live in ms; "null" for unlimited.

        An expiry cap of the queue (CAPEXPRY) shortens them.
        """
        known = self._deadlines
        for life_ms in set(lives_ms) - known.keys():
            asked_ms = None if life_ms == _UNLIMITED else life_ms
            window = window_at_put(
                self._put_ms, asked_ms, 0, self._cap_ms, capped_by=self._capped_by
            )
            if window.capped_by is not None:
                self._capped.add(life_ms)
            known[life_ms] = "null" if window.expire_at_ms is None else window.expire_at_ms
        return [known[life_ms] for life_ms in lives_ms]


class BulkPuts:
    """Divides the rows of one blob into batches of like rows, and rows that must be put one by one.

    A kind is what all columns but times, ids and data say: queue, descriptor and context. Each kind
    has a batch.
    """

    def __init__(
        self,
        core: Core,
        rows: StagedRows,
        now_ms: int,
        new_batch: Callable[[RowKind], BulkBatch | None],
    ) -> None:
        """Determine the kind of each row, and the rows that must be put one by one.

        ``new_batch`` creates the batch of a kind. It returns None when rows of the kind cannot be
        put in bulk.
        """
        self._core = core
        self._rows = rows
        self._now_ms = now_ms
        self._new_batch = new_batch
        values, self._numbers = rows.kinds()
        self._kinds = [kind_of(given, core.name) for given in values]
        self._batches: list[BulkBatch | None] = [None] * len(values)
        self._lives_ms = self._lives_of(rows)
        special = special_rows(rows, now_ms)
        if _ALONE in self._lives_ms:
            special.update(n for n, life_ms in enumerate(self._lives_ms) if life_ms == _ALONE)
        counts = Counter(self._numbers)
        self._few = {n for n, count in counts.items() if count < BULK_ROWS_MIN}
        #: Rows that go alone, the last first, and the end of all.
        self._alone = [rows.row_count, *sorted(special | self._rows_of(self._few), reverse=True)]
        self._has_batches = False
        self._goes_one_by_one = False
        self._has_ids = any(rows.column(name) is not None for name in ("msg_id", "correl_id"))
        #: Whether rows differ in nothing but their data.
        is_one_life = self._lives_ms.count(self._lives_ms[0]) == rows.row_count
        self._is_uniform = len(values) == 1 and is_one_life and not self._has_ids

    def kind(self, row: int) -> RowKind:
        """Return the queue, descriptor and context option of a row."""
        return self._kinds[self._numbers[row]]

    def add_from(self, first: int) -> int:
        """Add rows from number ``first`` on to batches, up to one that must be put by itself.

        Returns the number of that row, or the number of rows at the end. The engine lock is held.
        """
        assert self._core.engine_lock.is_held()
        if not self._has_batches:
            self._open_batches()
        while self._alone[-1] < first:
            self._alone.pop()
        after = self._alone[-1]
        if not self._goes_one_by_one:
            if first == after or self._add(first, after):
                return after
            # A queue is nearly full, or a message too long: rows are put one by one, in order.
            self._goes_one_by_one = True
        while first < after and self._add(first, first + 1):
            first += 1
        return first

    def _open_batches(self) -> None:
        """Create the batches of all kinds; rows whose kind cannot have one are put one by one."""
        self._has_batches = True
        kinds = set(range(len(self._kinds))) - self._few
        closed = {number for number in kinds if self._batch(number) is None}
        if closed:
            self._alone = sorted({*self._alone, *self._rows_of(closed)}, reverse=True)

    def _rows_of(self, kinds: set[int]) -> set[int]:
        """Return the numbers of all rows of the kinds with these numbers."""
        if not kinds:
            return set()
        return {row for row, number in enumerate(self._numbers) if number in kinds}

    def _add(self, first: int, after: int) -> bool:
        """Add the rows ``[first, after)`` to batches; return False if one does not fit.

        On False no row is added: a queue lacks room, a body is too long, or a kind has no batch.
        """
        if self._is_uniform:
            return self._add_consecutive(first, after)
        by_kind: dict[int, list[int]] = {}
        for row, number in enumerate(self._numbers[first:after], first):
            by_kind.setdefault(number, []).append(row)
        data, edges = self._rows.bodies, self._rows.offsets
        batches = [
            (self._batch(number), rows, [data[edges[row] : edges[row + 1]] for row in rows])
            for number, rows in by_kind.items()
        ]
        queued = Counter[int]()
        for batch, _, bodies in batches:
            if batch is None or not batch.has_capacity(list(map(len, bodies))):
                return False
            queued[batch.queue.number] += len(bodies)
            if batch.queue.depth + queued[batch.queue.number] > batch.max_depth:
                return False
        sequence = self._core.store.sequence
        given = [sequence.next() for _ in range(first, after)]
        for batch, rows, bodies in batches:
            assert batch is not None
            keys = [batch.base_key | given[row - first] for row in rows]
            lives_ms = [self._lives_ms[row] for row in rows]
            batch.add(keys, self._identities(rows, keys), lives_ms, bodies)
        return True

    def _add_consecutive(self, first: int, after: int) -> bool:
        """Add the rows ``[first, after)``, which differ in nothing but their data, to their batch.

        Returns False, with nothing added, if one does not fit.
        """
        batch, edges = self._batch(0), self._rows.offsets[first : after + 1]
        sizes = [end - start for start, end in pairwise(edges)]
        if batch is None or not batch.has_capacity(sizes):
            return False
        sequence = self._core.store.sequence
        keys = [batch.base_key | sequence.next() for _ in sizes]
        starts = zip(edges, sizes, strict=False)
        segments = [start - edges[0] << LENGTH_BITS | size for start, size in starts]
        bodies = self._rows.bodies[edges[0] : edges[-1]]
        msg_ids = b"".join(self._generated(keys))
        batch.add_consecutive(keys, msg_ids, self._lives_ms[first], segments, bodies)
        return True

    def _batch(self, number: int) -> BulkBatch | None:
        """Return the batch of a kind by its number; None when such rows must be put one by one.

        After a change of definitions a new batch is created.
        """
        batch = self._batches[number]
        if batch is None or batch.version != self._core.registry.version:
            batch = self._batches[number] = self._new_batch(self._kinds[number])
        return batch

    def _generated(self, keys: list[int]) -> list[bytes]:
        """Return a new MsgId for each message key."""
        start = self._core.start_of_ids
        return [generated_id(start, key) for key in keys]

    def _identities(self, rows: list[int], keys: list[int]) -> Identities:
        """Return the ids of rows; a row without a MsgId gets a new one made from its key."""
        msg_ids = self._generated(keys)
        hashes: list[int | str] = ["null"] * len(rows)
        if not self._has_ids:
            return Identities(hashes, ["null"] * len(rows), b"".join(msg_ids), b"")
        given = [ids_of(self._rows, row) for row in rows]
        for n, (msg_id, _) in enumerate(given):
            if msg_id:
                msg_ids[n], hashes[n] = msg_id, id_hash(msg_id)
        correl_ids = [correl_id for _, correl_id in given]
        return Identities(
            hashes,
            [_hash_text(correl_id) for correl_id in correl_ids],
            b"".join(msg_ids),
            b"".join([correl_id or _NO_ID for correl_id in correl_ids]),
        )

    def _lives_of(self, rows: StagedRows) -> list[int]:
        """Return the time to live of each row from now on, in ms.

        ``_UNLIMITED`` means no expiry; ``_ALONE`` marks a row that must be put one by one.
        """
        asked, deadlines = rows.column("time_to_live_ms"), rows.column("expire_at_ms")
        if asked is None and deadlines is None:
            return [_UNLIMITED] * rows.row_count
        nothing: Sequence[None] = [None] * rows.row_count
        pairs = zip(asked or nothing, deadlines or nothing, strict=True)
        return [self._life_ms(life_ms, deadline_ms) for life_ms, deadline_ms in pairs]

    def _life_ms(self, life_ms: Any, deadline_ms: Any) -> int:
        """Return the time to live of one row from now on, in ms, from its columns.

        ``life_ms`` is the time to live of the row and ``deadline_ms`` its expiry time, None for
        null. Without both it is ``_UNLIMITED``; with both, or out of range, ``_ALONE``.
        """
        if deadline_ms is not None:
            if life_ms is not None:
                return _ALONE
            life_ms = deadline_ms - self._now_ms
        if life_ms is None:
            return _UNLIMITED
        return int(life_ms) if 0 < life_ms <= self._core.settings.longest_life_ms else _ALONE


def _hash_text(correl_id: bytes) -> int | str:
    """Return the hash of a CorrelId as a JSON value, ``"null"`` for an empty or zero id."""
    correl_hash = optional_id_hash(correl_id) if correl_id else None
    return "null" if correl_hash is None else correl_hash


class Surrendered(NamedTuple):
    """A row that no queue accepts, left out: row number at its source, reason code, text."""

    source_row: int
    reason: int
    text: str


class RowCounts(NamedTuple):
    """How many rows of a transaction were put, had expired, and became dead letters."""

    put_count: int
    expired_count: int
    refused_count: int


class Promotion(UnitOfWork):
    """The unit of work that puts rows of a stage, with further SQL statements."""

    def __init__(self, core: Core, dead_letter_queue: str, *, surrenders: bool = False) -> None:
        """Begin an empty unit of work; refused rows go to ``dead_letter_queue``, or DEADQ if "".

        With ``surrenders``, a row that neither its queue nor the dead-letter queue can ever accept
        is left out, and listed in ``surrendered``. Such a row must have a number at its source.
        """
        super().__init__(core, TerminatedBy(ended_program=_PROGRAM))
        self._dead_letter_queue = dead_letter_queue
        self._context = Context("", c.MQAT_UNIX, _PROGRAM, core.name)
        self._now_ms = core.now_ms()
        self._batches: list[BulkBatch] = []
        self._expired: list[tuple[LocalQueue, LifeRecord]] = []
        #: The deadline that the row being put names; it does not move while the put takes time.
        self._deadline_ms: int | None = None
        self._put_count = self._expired_count = 0
        self.refusals: list[MQError] = []
        self._surrenders = surrenders
        self.surrendered: list[Surrendered] = []

    @property
    def is_empty(self) -> bool:
        """Always False: a commit without messages also stores the progress of the stage."""
        return False

    @property
    def counted(self) -> RowCounts:
        """The counts of rows put, expired and refused so far."""
        return RowCounts(self._put_count, self._expired_count, len(self.refusals))

    def check_capacity(self, operation_count: int = 1, queue: LocalQueue | None = None) -> int:
        """Return ``operation_count``: MAXUMSGS does not limit this unit of work.

        ``queue`` has no effect.
        """
        return operation_count

    def add(self, rows: StagedRows) -> None:
        """Put the rows of a blob in order; the caller must not hold the engine lock.

        A refused row goes to the dead-letter queue. Raises MQRC_CONNECTION_BROKEN,
        MQRC_Q_MGR_STOPPING, or the reason with which the dead-letter queue refuses a row; the
        caller then backs out.
        """
        if not rows.row_count:
            return
        in_bulk = BulkPuts(self._core, rows, self._now_ms, self._batch)
        row = 0
        while row < rows.row_count:
            with self._core.engine_lock:
                self._core.check_running()
                after = in_bulk.add_from(row)
            self._put_count += after - row
            if after < rows.row_count:
                self._add_alone(rows, after, in_bulk.kind(after))
            row = after + 1

    def put(self, queue: LocalQueue, row: StoredMessage, *, persistent: bool) -> None:
        """Put one message on ``queue`` as part of this unit of work; its commit makes it visible.

        The message keeps exactly the expiry time that its staged row names. ``persistent`` decides
        whether it survives a restart.
        """
        deadline_ms, expire_at_ms = self._deadline_ms, row.expire_at_ms
        if deadline_ms is not None and expire_at_ms is not None and deadline_ms < expire_at_ms:
            row = row._replace(expire_at_ms=deadline_ms, capped_by=None)
        super().put(queue, row, persistent=persistent)

    def backout(self, *, counts: bool = True) -> None:
        """Undo all puts of this unit of work, so that depths are as before.

        ``counts`` has no effect, as nothing was got.
        """
        super().backout()
        with self._core.engine_lock:
            for batch in self._batches:
                queue_state.withdraw(batch.queue, len(batch.keys))
            for queue, _life in self._expired:
                queue_state.withdraw_expired(queue)
            self._batches, self._expired = [], []

    def _build_transaction(self) -> Transaction:
        """Return the transaction of all puts, with batches and the records of expired rows."""
        transaction = super()._build_transaction()
        for batch in self._batches:
            if batch.keys:
                for bulk in batch.bulks():
                    transaction.unit.put_bulk(batch.queue.number, bulk)
                queue_state.arrive_in_bulk(transaction, batch.queue, batch.keys)
        for queue, life in self._expired:
            queue_state.end_expired(transaction, queue, life)
        # From here on the transaction holds them, and takes them back when it fails.
        self._batches, self._expired = [], []
        return transaction

    def _batch(self, kind: RowKind) -> BulkBatch | None:
        """Return a new batch for rows of a kind, None when such rows must be put one by one.

        The engine lock is held.
        """
        assert self._core.engine_lock.is_held()
        core = self._core
        if kind.refusal is not None:
            return None
        try:
            path = core.registry.resolve_target(kind.queue)
            prepared = self._prepared(kind, path)
        except MQError:
            return None
        queue = path.queue
        if (
            not prepared.persistent
            or prepared.checks_header
            or path.put_inhibited
            or path.transmits
            or queue.owner is not core
            or queue.is_staging
            or path.is_temporary
            or is_owed(Cause.COA, prepared.descriptor)
        ):
            return None
        batch = BulkBatch(path, prepared, self._now_ms)
        self._batches.append(batch)
        return batch

    def _prepared(self, kind: RowKind, path: ResolvedQueue) -> Prepared:
        """Return the checked descriptor for rows of a kind.

        Raises the MQError with which a put refuses the descriptor, such as MQRC_PRIORITY_ERROR.
        """
        defaults = path.default_priority, path.default_persistence
        return prepare(kind.descriptor, *defaults, self._context, kind.context_option)

    def _add_alone(self, rows: StagedRows, row: int, kind: RowKind) -> None:
        """Put one row; if refused, put it on the dead-letter queue or leave it to its source.

        ``kind`` has its queue, descriptor and context option. Raises the MQError when neither is
        possible, or the queue manager stops.
        """
        try:
            self._put_alone(rows, row, kind)
        except MQError as refusal:
            if refusal.reason in _NOT_THE_ROW:
                raise
            try:
                self._dead_letter(rows, row, kind, refusal)
            except MQError as error:
                source_row = rows.value(SOURCE_ROW, row) if self._surrenders else None
                if source_row is None or {error.reason, refusal.reason} & {*_PASSING}:
                    raise
                self.surrendered.append(Surrendered(source_row, refusal.reason, error.detail))
            else:
                self.refusals.append(refusal)

    def _put_alone(self, rows: StagedRows, row: int, kind: RowKind) -> None:
        """Put one row, or discard it when its expiry time has passed.

        ``kind`` has its queue, descriptor and context option. Raises the MQError with which a put
        refuses the row, such as MQRC_Q_FULL. Also raises MQRC_BUFFER_ERROR for a row without data,
        and MQRC_OBJECT_TYPE_ERROR for a shared queue.
        """
        if kind.refusal is not None:
            raise kind.refusal
        if row in rows.without_body:
            raise mq_error(rc.MQRC_BUFFER_ERROR, "payload is null")
        path = self._core.registry.resolve_target(kind.queue)
        if path.queue.owner is not self._core:
            raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"{kind.queue} is shared: no sink for it")
        ids, times = MessageIds(*ids_of(rows, row)), self._times_of(rows, row)
        if times.deadline_ms is not None and times.life_ms is not None and times.life_ms <= 0:
            self._discard(path, kind, ids, rows.body(row), times.deadline_ms)
            return
        self._put(path, rows.body(row), kind, ids, times)
        self._put_count += 1

    def _times_of(self, rows: StagedRows, row: int) -> Times:
        """Return the delay and time to live of a row from now on.

        Raises MQRC_OPTIONS_ERROR for both a delay and a delivery time, MQRC_EXPIRY_ERROR for both a
        time to live and an expiry time, or one out of range.
        """
        core = self._core
        return times_of(rows, row, core.now_ms(), core.settings.longest_life_ms)

    def _put(
        self, path: ResolvedQueue, body: bytes, kind: RowKind, ids: MessageIds, times: Times
    ) -> bytes:
        """Put a message as an application named ``mayfly sink`` does, and return its MsgId.

        ``kind`` has descriptor and context option, ``times`` the delay and time to live. Raises the
        MQError with which a put refuses the message, such as MQRC_Q_FULL.
        """
        request = PutRequest(
            kind.descriptor,
            ids.msg_id,
            ids.correl_id,
            times.life_ms,
            times.delay_ms,
            kind.context_option,
        )
        self._deadline_ms = times.deadline_ms
        return put(self._core, path, body, request, context=self._context, unit_of_work=self).msg_id

    def _discard(
        self, path: ResolvedQueue, kind: RowKind, ids: MessageIds, body: bytes, deadline_ms: int
    ) -> None:
        """Record a row as an expired message, and send its expiration report (E14).

        The expiry time of the row has passed. ``kind`` has descriptor and context option.
        ``deadline_ms`` is in ms since 1970. Raises the MQError with which a put would have refused
        the message, such as MQRC_Q_FULL.
        """
        core, prepared = self._core, self._prepared(kind, path)
        if prepared.checks_header:
            check_header(prepared.descriptor, body)
        with core.engine_lock:
            path = core.registry.refreshed(path)
            check_capacity(path, prepared, len(body))
            now_ms = core.now_ms()
            own = MessageIds(ids.msg_id or new_id(core), ids.correl_id)
            window = Window(now_ms, now_ms, deadline_ms)
            message = new_row(core, path, OutgoingMessage(prepared, window, own, body))
            queue_state.hold_expired(path.queue)
            terminated_by = self.terminated_by._replace(detected_by=DetectedBy.PUT.value)
            life = queue_state.expired_life_record(path.queue, message, now_ms, terminated_by)
            self._expired.append((path.queue, life))
            self._expired_count += 1
            original = Original(prepared.descriptor, own.msg_id, own.correl_id, body, 0)
            followed = Transaction()
            dispose_of_expired(core, followed, path.queue, message, original)
            self.adopt(followed)

    def _dead_letter(self, rows: StagedRows, row: int, kind: RowKind, refusal: MQError) -> None:
        """Put a refused row on the dead-letter queue with an MQDLH (Q1); send its exception report.

        When that queue refuses it, raises the reason code with a text that names the option
        ``deadLetterQueue``. ``kind`` has queue, descriptor and context option of the row;
        ``refusal`` is the error of its put.
        """
        core = self._core
        name = self._dead_letter_queue or core.registry.queue_manager.deadq
        body = rows.body(row)
        descriptor = _sound(kind.descriptor, self._context)
        dead, header = dead_letter_of(core, descriptor, refusal.reason, kind.queue)
        as_dead = RowKind(name, dead, kind.context_option)
        try:
            ids = MessageIds(*ids_of(rows, row))
        except MQError:
            ids = MessageIds(b"", b"")
        try:
            life = self._times_of(rows, row)._replace(delay_ms=0)
        except MQError:
            life = Times(0, None, None)
        try:
            path = core.registry.resolve_target(name or dead_letter_queue_of(core))
            msg_id = self._put(path, header + body, as_dead, ids, life)
        except MQError as error:
            if error.reason in _NOT_THE_ROW:
                raise
            raise mq_error(
                error.reason,
                f"option deadLetterQueue: {name!r} takes no row ({error.detail}), and one for "
                f"{kind.queue!r} was refused with {refusal}",
            ) from error
        left_ms = None if life.life_ms is None else max(life.life_ms, 0)
        with core.engine_lock:
            original = Original(descriptor, msg_id, ids.correl_id, body, left_ms)
            report = Transaction()
            send_report(core, report, Cause.EXCEPTION, original, refusal.reason)
            self.adopt(report)


def _sound(descriptor: Descriptor, context: Context) -> Descriptor:
    """Return a descriptor that a put on the dead-letter queue accepts.

    It is ``descriptor`` if that is valid, else a default one. ``context`` is the user and program
    that put. It is persistent unless the row says otherwise, so that a restart does not lose the
    message.
    """
    if descriptor.persistence == c.MQPER_PERSISTENCE_AS_Q_DEF:
        descriptor = descriptor._replace(persistence=c.MQPER_PERSISTENT)
    try:
        prepare(descriptor, 0, 0, context, c.MQPMO_NONE)
    except MQError:
        return Descriptor(persistence=c.MQPER_PERSISTENT)
    return descriptor


# The staged rows of one blob as columns of values that are not yet checked


class StagedRows(NamedTuple):
    """The rows of one blob by column; a column that is null in all rows may be missing.

    Row n has the data ``bodies[offsets[n] : offsets[n + 1]]``, or no data when ``without_body``
    contains n. Values have the types of the columns, but are not checked.
    """

    row_count: int
    columns: Mapping[str, Sequence[Any]]
    bodies: bytes
    offsets: Sequence[int]
    without_body: frozenset[int] = frozenset()

    def column(self, name: str) -> Sequence[Any] | None:
        """Return the values of a column, one for each row; None when all are null."""
        return self.columns.get(name)

    def value(self, name: str, row: int) -> Any:
        """Return the value of a column in one row, None for null."""
        column = self.columns.get(name)
        return None if column is None else column[row]

    def body(self, row: int) -> bytes:
        """Return the message data of a row, empty for a row without data."""
        return self.bodies[self.offsets[row] : self.offsets[row + 1]]

    def kinds(self) -> tuple[list[tuple[Any, ...]], list[int]]:
        """Return the kinds of rows, and for each row the index of its kind.

        A kind is a distinct combination of values in ``KIND_COLUMNS``: queue, priority and so on.
        """
        given = {name: self.columns.get(name) for name in KIND_COLUMNS}
        varying = {name: c for name, c in given.items() if c and c.count(c[0]) < self.row_count}
        constant = {name: c[0] for name, c in given.items() if c and name not in varying}
        if not varying:
            return [tuple(constant.get(name) for name in KIND_COLUMNS)], [0] * self.row_count
        numbers: dict[tuple[Any, ...], int] = {}
        of_rows = [numbers.setdefault(v, len(numbers)) for v in zip(*varying.values(), strict=True)]
        by_name = (constant | dict(zip(varying, values, strict=True)) for values in numbers)
        return [tuple(values.get(name) for name in KIND_COLUMNS) for values in by_name], of_rows


class RowKind(NamedTuple):
    """The queue, descriptor and context option of like rows.

    ``refusal`` is the error that a put of each such row raises; None if the values are valid.
    """

    queue: str
    descriptor: Descriptor
    context_option: int
    refusal: MQError | None = None


class Times(NamedTuple):
    """The delay and time to live of a row in ms from now, and the expiry time that the row names.

    ``life_ms`` is None without expiry; ``deadline_ms`` (ms since 1970) is None if no column names
    it.
    """

    delay_ms: int
    life_ms: int | None
    deadline_ms: int | None


def kind_of(values: tuple[Any, ...], manager_name: str) -> RowKind:
    """Return queue, descriptor and context option for one combination of ``KIND_COLUMNS`` values.

    An invalid value, or another queue manager, is not raised but returned in ``refusal``.
    ``manager_name`` is this queue manager.
    """
    given = {
        name: value for name, value in zip(KIND_COLUMNS, values, strict=True) if value is not None
    }
    queue, manager = given.pop("queue", ""), given.pop("manager", "")
    option = MQPMO_NONE
    if "user_identifier" in given:
        option = MQPMO_SET_IDENTITY_CONTEXT
    if "put_appl_type" in given or "put_appl_name" in given:
        option = MQPMO_SET_ALL_CONTEXT
    try:
        if manager not in ("", manager_name):
            raise mq_error(rc.MQRC_UNKNOWN_REMOTE_Q_MGR, f"manager {manager!r} is not served here")
        for name, value in given.items():
            _check(name, value)
    except MQError as refusal:
        return RowKind(queue, Descriptor(), MQPMO_NONE, refusal)
    return RowKind(queue, Descriptor(**given), option)


def ids_of(rows: StagedRows, row: int) -> tuple[bytes, bytes]:
    """Return the MsgId and CorrelId of a row as the store keeps them, empty for none.

    Raises MQRC_MD_ERROR for an id that is too long.
    """
    return stored_id(rows.value("msg_id", row)), stored_id(rows.value("correl_id", row))


def times_of(rows: StagedRows, row: int, now_ms: int, longest_ms: int) -> Times:
    """Return the delay and time to live of a row from ``now_ms`` on.

    A delivery time in the past means no delay, an expiry time in the past a negative time to live.
    ``longest_ms`` limits the time to live (E3). Raises MQRC_OPTIONS_ERROR when the row has both a
    delay and a delivery time. Raises MQRC_EXPIRY_ERROR when it has both a time to live and an
    expiry time, one out of range, or a delay that is longer.
    """
    delay_ms, deliver_at_ms = rows.value("delay_ms", row), rows.value("deliver_at_ms", row)
    life_ms, deadline_ms = rows.value("time_to_live_ms", row), rows.value("expire_at_ms", row)
    if delay_ms is not None and deliver_at_ms is not None:
        raise mq_error(
            rc.MQRC_OPTIONS_ERROR, f"delay_ms {delay_ms} and deliver_at_ms {deliver_at_ms}: one"
        )
    if life_ms is not None and deadline_ms is not None:
        raise mq_error(
            rc.MQRC_EXPIRY_ERROR, f"time_to_live_ms {life_ms} and expire_at_ms {deadline_ms}: one"
        )
    check_life_ms(life_ms, longest_ms)
    if deliver_at_ms is not None:
        delay_ms = max(deliver_at_ms - now_ms, 0)
    delay_ms = 0 if delay_ms is None else delay_ms
    if deadline_ms is not None:
        life_ms = deadline_ms - now_ms
        # One that is over is no mistake.
        if life_ms > 0:
            check_life_ms(life_ms, longest_ms)
            if delay_ms > life_ms:
                raise mq_error(
                    rc.MQRC_EXPIRY_ERROR, f"delay of {delay_ms} ms, expire_at_ms {deadline_ms}"
                )
    return Times(delay_ms, life_ms, deadline_ms)


def special_rows(rows: StagedRows, now_ms: int) -> set[int]:
    """Return the numbers of rows that must be put one by one.

    These are delayed, have no data, or have an id that is too long.
    """
    special = set(rows.without_body)
    delays, moments = rows.column("delay_ms"), rows.column("deliver_at_ms")
    if delays is not None:
        special.update(n for n, delay_ms in enumerate(delays) if delay_ms)
    if moments is not None:
        special.update(
            n
            for n, at_ms in enumerate(moments)
            if at_ms is not None and (at_ms > now_ms or delays is not None)
        )
    for name in IDS:
        ids = rows.column(name)
        if ids is not None:
            special.update(n for n, i in enumerate(ids) if i and len(i) > MQ_MSG_ID_LENGTH)
    return special


def _check(name: str, value: Any) -> None:
    """Raise MQRC_MD_ERROR for a text too long, or a number too large, for its MQMD field."""
    if name in TEXT_BYTES:
        # A field ends at its first NUL.
        if len(value.encode()) > TEXT_BYTES[name] or "\0" in value:
            raise mq_error(
                rc.MQRC_MD_ERROR, f"{name} {value!r} is not text of {TEXT_BYTES[name]} bytes"
            )
    elif not -(2**31) <= value < (2**32 if name == "report" else 2**31):
        raise mq_error(rc.MQRC_MD_ERROR, f"{name} {value} is not a number of 32 bits")
