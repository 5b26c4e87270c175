"""Durable claims: a named consumer takes messages in bulk, reads them in pages, and ends them.

A claim counts as delivery: what has expired by then is discarded (E9, E14), what is claimed is
locked and expires no more (E15). Claims of a consumer are numbered from 1 on without gaps; each is
one transaction. Who attaches to a consumer raises its epoch, and whoever has a lower one is refused
from then on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mayfly.engine.claim_ends import give_back, records_of, send_confirmations
from mayfly.engine.claim_walk import ANY_SEQUENCE, Walk, walk
from mayfly.engine.consumers import ClaimError, Consumer, Standing
from mayfly.engine.core import Claiming, Core, Unclaiming, Work
from mayfly.engine.disposal import discard_expired
from mayfly.engine.objects import check_name
from mayfly.engine.queues import PERSISTENT, LocalQueue
from mayfly.lifetime.life import Event, State, next_state
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQQDT_TEMPORARY_DYNAMIC
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.claims import (
    ClaimedRow,
    ClaimRow,
    ConsumerRow,
    Rows,
    forget_claims,
    save_claim,
    save_consumer,
    take,
)
from mayfly.store.units import EndedRows

#: What one transaction takes or ends: nobody else's commit waits long for it.
CLAIM_ROWS_MAX = 4_000
CLAIM_BYTES_MAX = 16 * 1024 * 1024
_GOT = next_state(State.LOCKED, Event.COMMIT)


class Limit(NamedTuple):
    """How much is claimed at most; nothing that was put after ``up_to`` (see ``mark``)."""

    row_count: int
    body_bytes: int
    up_to: int | None = None


class Claimed(NamedTuple):
    """Claims up to ``until`` are there to be read: so many messages after the last ones."""

    until: int
    message_count: int


class Claims:
    """The consumers of a queue manager; safe to use from any thread, without the latch."""

    def __init__(self, core: Core) -> None:
        """Begin without consumers; :meth:`load` brings those of the store."""
        self._core = core
        self._consumers: dict[str, Consumer] = {}
        self._attaching = threading.Lock()

    def load(self) -> None:
        """Take up what the store holds; what is claimed is on no queue."""
        core = self._core
        by_id = {}
        for row in core.store.claimed.consumers():
            by_id[row.id] = self._consumers[row.name] = Consumer(row)
        for claim in core.store.claimed.claims():
            by_id[claim.consumer_id].claims.append(claim)
        for consumer in by_id.values():
            count = consumer.message_count
            if count:
                queue = core.registry.queue(consumer.queue)
                queue.present[PERSISTENT] -= count
                queue.depth -= count
                queue.locked += count
                core.claimed[queue.number] += count

    def standings(self) -> list[Standing]:
        """Return how every consumer stands, by name."""
        consumers = sorted(self._consumers.values(), key=lambda consumer: consumer.row.name)
        return [consumer.standing() for consumer in consumers]

    def attach(self, name: str, queue_name: str) -> Standing:
        """Begin to act as a consumer, made when it is new; whoever did before no longer may.

        Raises MQRC_OBJECT_NAME_ERROR for a wrong name, what opening the queue for input raises, and
        ClaimError ``consumer-queue`` when the consumer belongs to another queue.
        """
        core = self._core
        check_name(name)
        core.check_running()
        with core.latch:
            queue = _claimable(core, queue_name)
        with self._attaching:
            consumer = self._consumers.get(name)
            if consumer is None:
                number = 1 + max((c.row.id for c in self._consumers.values()), default=0)
                consumer = Consumer(ConsumerRow(number, name, queue.name, 0, 0, 0, 0, 0, 0))
            return self._raise_epoch(consumer, queue)

    def _raise_epoch(self, consumer: Consumer, queue: LocalQueue) -> Standing:
        name = consumer.row.name
        with consumer.lock:
            if consumer.queue != queue.name:
                raise ClaimError(
                    "consumer-queue",
                    f"consumer {name} reads queue {consumer.queue}, not {queue.name}: "
                    "give each queue a consumer of its own",
                )
            self._save(consumer, consumer.row._replace(epoch=consumer.row.epoch + 1))
            self._consumers[name] = consumer
            return consumer.standing()

    def mark(self) -> int:
        """Return what ``Limit.up_to`` takes: messages put by now are before it, later ones not."""
        with self._core.latch:
            self._core.check_running()
            return self._core.store.sequence.next()

    def claim(self, name: str, epoch: int, after: int, limit: Limit) -> Claimed:
        """Claim the next messages in get order and return where the claims after ``after`` end.

        Claims that are there already come first; with none and nothing to claim, ``until`` is
        ``after`` and nothing is written. A claim is of one message at least, however large. Raises
        MQRC_GET_INHIBITED, MQRC_OBJECT_IN_USE while another has the queue for himself, or
        ClaimError.
        """
        with self._held(name, epoch) as consumer:
            consumer.check_checkpoint(after)
            # Released claims that nobody has read are passed over.
            until, rows, body_bytes = consumer.given(after, limit.row_count, limit.body_bytes)
            while until == consumer.row.last_number:
                left = Limit(limit.row_count - rows, limit.body_bytes - body_bytes, limit.up_to)
                if left.row_count < 1 or (rows and left.body_bytes < 1):
                    break
                claim = self._claim_next(consumer, left)
                if claim is None:
                    break
                rows += claim.last_row - claim.after_row
                body_bytes += claim.body_bytes
                until = claim.number
            return Claimed(until if rows else after, rows)

    def end(self, name: str, epoch: int, until: int) -> int:
        """End the lives of the messages of all claims up to ``until``; return how many there were.

        Claims that are closed already stay as they are. Raises ClaimError.
        """
        ended = 0
        with self._held(name, epoch) as consumer:
            consumer.check_checkpoint(until)
            while group := consumer.group(until, CLAIM_ROWS_MAX, CLAIM_BYTES_MAX):
                ended += self._end_group(consumer, group)
        return ended

    def edges(self, name: str, epoch: int, after: int, until: int) -> tuple[int, int]:
        """Return the rows ``(after, until]`` that claims ``(after, until]`` hold."""
        with self._held(name, epoch) as consumer:
            return consumer.edges(after, until)

    def page(
        self, name: str, epoch: int, rows: tuple[int, int], *, max_bytes: int, max_rows: int
    ) -> tuple[str, list[ClaimedRow]]:
        """Return the name of the queue and the first claimed messages of a range of rows.

        The same rows hold the same messages until they are ended or released; then, and for a
        reader that is fenced, it raises ClaimError.
        """
        consumer = self._fenced(name, epoch)
        after, until = rows
        found = self._core.store.claimed.page(
            Rows(consumer.row.id, after, until), max_bytes, max_rows
        )
        # Looked at again: what was read may have been given back meanwhile.
        self._fenced(name, epoch)
        if after < until and not found:
            raise ClaimError(
                "claims-closed", f"rows after {after} of consumer {name} are no longer claimed"
            )
        return consumer.queue, found

    def release(self, name: str) -> int:
        """Give back what a consumer has claimed, each to its place with its backout count raised.

        Who reads under its name is fenced. Returns how many messages there were.
        """
        released = 0
        self._core.check_running()
        consumer = self._known(name)
        with consumer.lock:
            row = consumer.row
            self._save(
                consumer,
                row._replace(
                    epoch=row.epoch + 1,
                    released_after=row.closed_number,
                    released_until=row.last_number,
                ),
            )
            while group := consumer.group(row.last_number, CLAIM_ROWS_MAX, CLAIM_BYTES_MAX):
                released += self._release_group(consumer, group)
        self._core.run_deferred()
        return released

    def _claim_next(self, consumer: Consumer, limit: Limit) -> ClaimRow | None:
        """Make one claim; None when nothing is there."""
        core = self._core
        while True:
            with core.latch:
                core.check_running()
                queue = _claimable(core, consumer.queue)
                now_ms = core.now_ms()
                found = walk(
                    core,
                    queue,
                    min(limit.row_count, CLAIM_ROWS_MAX),
                    min(limit.body_bytes, CLAIM_BYTES_MAX),
                    ANY_SEQUENCE if limit.up_to is None else limit.up_to,
                )
                if found.expired and (found.keys or core.settings.discard_on_empty):
                    core.deferred.append(discard_expired(core, found.expired, now_ms))
                claimed = self._take(consumer, queue, found, now_ms) if found.keys else None
            if claimed is not None:
                claim, work = claimed
                self._run(work, settles=bool(found.volatile))
                consumer.accept(claim)
                return claim
            core.run_deferred()
            if not found.is_cut:
                return None

    def _take(
        self, consumer: Consumer, queue: LocalQueue, found: Walk, now_ms: int
    ) -> tuple[ClaimRow, Work]:
        core, row, work = self._core, consumer.row, Work()
        count = len(found.keys)
        claim = ClaimRow(
            row.id,
            row.last_number + 1,
            row.last_row,
            row.last_row + count,
            found.body_bytes,
            now_ms,
        )
        rows = Rows(row.id, row.last_row, claim.last_row)
        after = row._replace(last_number=claim.number, last_row=claim.last_row)
        work.unit.statements += take(rows, found.keys, found.volatile)
        work.unit.statements += [save_claim(claim), save_consumer(after)]
        if found.volatile:
            # On disk from now on: a crash does not take them.
            work.unit.delta(queue.number).present_volatile -= len(found.volatile)
            work.unit.volatile_deletes += [(message.k,) for _place, message in found.volatile]
        core.hidden.update(dict.fromkeys(found.keys, work))
        queue.depth -= count
        queue.locked += count
        work.claims.append(Claiming(queue, found.keys, len(found.volatile)))
        return claim, work

    def _run(self, work: Work, *, settles: bool) -> None:
        core = self._core
        if settles:
            try:
                # Their puts are counted on disk before they themselves are.
                core.store.settle()
            except MQError:
                with core.latch:
                    core.take_back(work)
                raise
        core.run(work)

    def _end_group(self, consumer: Consumer, group: list[ClaimRow]) -> int:
        core, row = self._core, consumer.row
        rows, work = Rows(row.id, consumer.closed_row, group[-1].last_row), Work()
        queue = core.registry.queue(consumer.queue)
        records, confirming = records_of(core.store.claimed.descriptors(rows))
        with core.latch:
            now_ms = core.now_ms()
        if confirming:
            try:
                send_confirmations(core, work, queue, rows, confirming)
            except BaseException:
                with core.latch:
                    core.take_back(work)
                raise
        work.unit.end_rows(
            queue.number, EndedRows(*rows.range, queue.name, now_ms, _GOT.value, records)
        )
        work.ended_claims.append(Unclaiming(queue, rows.message_count))
        self._close(consumer, group, work)
        return rows.message_count

    def _release_group(self, consumer: Consumer, group: list[ClaimRow]) -> int:
        core = self._core
        rows, work = Rows(consumer.row.id, consumer.closed_row, group[-1].last_row), Work()
        queue = core.registry.queue(consumer.queue)
        give_back(core, work, queue, rows)
        self._close(consumer, group, work)
        return rows.message_count

    def _close(self, consumer: Consumer, group: list[ClaimRow], work: Work) -> None:
        after = consumer.row._replace(closed_number=group[-1].number)
        work.unit.statements += [forget_claims(after.id, after.closed_number), save_consumer(after)]
        self._core.run(work)
        consumer.close(group, after)

    def _save(self, consumer: Consumer, row: ConsumerRow) -> None:
        work = Work()
        work.unit.statements.append(save_consumer(row))
        self._core.run(work)
        consumer.row = row

    @contextmanager
    def _held(self, name: str, epoch: int) -> Iterator[Consumer]:
        consumer = self._known(name)
        with consumer.lock:
            self._core.check_running()
            consumer.check_epoch(epoch)
            yield consumer

    def _fenced(self, name: str, epoch: int) -> Consumer:
        self._core.check_running()
        consumer = self._known(name)
        consumer.check_epoch(epoch)
        return consumer

    def _known(self, name: str) -> Consumer:
        consumer = self._consumers.get(name)
        if consumer is None:
            raise ClaimError("consumer-unknown", f"there is no consumer {name!r}")
        return consumer


def _claimable(core: Core, name: str) -> LocalQueue:
    """Return the queue that a name leads to, when a consumer may claim from it now."""
    path = core.registry.resolve(name)
    queue = path.queue
    if queue.is_staging:
        raise mq_error(rc.MQRC_NOT_AUTHORIZED, f"{queue.name} is released, not read")
    if queue.definition.definition_type == MQQDT_TEMPORARY_DYNAMIC:
        raise mq_error(
            rc.MQRC_OBJECT_TYPE_ERROR, f"{queue.name} is temporary, claims outlive a restart"
        )
    if path.get_inhibited:
        raise mq_error(rc.MQRC_GET_INHIBITED, f"GET(DISABLED) on the way to {name}")
    if queue.exclusive_holder is not None:
        raise mq_error(rc.MQRC_OBJECT_IN_USE, f"{queue.name} is open for exclusive input")
    return queue
