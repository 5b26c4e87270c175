"""Claims of ordinary queues: messages move into the claim, and out of it when it ends."""

from __future__ import annotations

from mayfly.engine.bulk.claim_ends import give_back, records_of, send_confirmations
from mayfly.engine.bulk.claim_holding import (
    CLAIM_BYTES_MAX,
    CLAIM_ROWS_MAX,
    ClaimedPage,
    Holding,
    Limit,
)
from mayfly.engine.bulk.claim_walk import ANY_SEQUENCE, Walk, walk
from mayfly.engine.bulk.consumers import Consumer
from mayfly.engine.disposal import discard_expired
from mayfly.engine.holding import many
from mayfly.engine.queues import LocalQueue
from mayfly.engine.work import Claiming, Work
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQQDT_TEMPORARY_DYNAMIC
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.claims import ClaimRow, Rows, save_claim, save_consumer, take
from mayfly.store.units import EndedRows


class MovedRows(Holding):
    """Holds claimed messages in a table of their own, non-persistent ones too."""

    def queue(self, name: str) -> LocalQueue:
        """Return a queue of this queue manager, no temporary one and open for shared input.

        Raises MQRC_OBJECT_TYPE_ERROR, MQRC_GET_INHIBITED, MQRC_OBJECT_IN_USE.
        """
        path = self._core.registry.resolve(name)
        queue = path.queue
        if queue.home is not self._core:
            raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"{queue.name} is shared: no claims on it")
        if queue.definition.definition_type == MQQDT_TEMPORARY_DYNAMIC:
            raise mq_error(
                rc.MQRC_OBJECT_TYPE_ERROR, f"{queue.name} is temporary, claims outlive a restart"
            )
        if path.get_inhibited:
            raise mq_error(rc.MQRC_GET_INHIBITED, f"GET(DISABLED) on the way to {name}")
        if queue.exclusive_holder is not None:
            raise mq_error(rc.MQRC_OBJECT_IN_USE, f"{queue.name} is open for exclusive input")
        return queue

    def load(self, consumer: Consumer) -> None:
        """Take the claimed messages, which are on no queue, out of its counters."""
        core, count = self._core, consumer.message_count
        if count:
            queue = core.registry.queue(consumer.queue)
            many.load_claimed(queue, count)

    def page(
        self, consumer: Consumer, rows: tuple[int, int], max_bytes: int, max_rows: int
    ) -> ClaimedPage:
        """Read from the table, on a connection of its own."""
        found = self._core.store.claimed.page(Rows(consumer.row.id, *rows), max_bytes, max_rows)
        return ClaimedPage(consumer.queue, found)

    def claim_next(self, consumer: Consumer, limit: Limit) -> ClaimRow | None:
        """Move the next live messages into a claim; None when nothing is there."""
        core = self._core
        while True:
            with core.latch:
                core.check_running()
                queue = self.queue(consumer.queue)
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
        row, work = consumer.row, Work()
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
        many.claim(work, Claiming(queue, found.keys, len(found.volatile)))
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

    def end_group(self, consumer: Consumer, group: list[ClaimRow]) -> int:
        """End the lives of the messages as a get does (G9)."""
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
        outcome = many.end_claimed(work, queue, rows.message_count)
        ended = EndedRows(*rows.range, queue.name, now_ms, outcome, records)
        work.unit.end_rows(queue.number, ended)
        self._close(consumer, group, work)
        return rows.message_count

    def release_group(self, consumer: Consumer, group: list[ClaimRow]) -> int:
        """Move the messages back, each to its place, backout counts raised (G8)."""
        core = self._core
        rows, work = Rows(consumer.row.id, consumer.closed_row, group[-1].last_row), Work()
        queue = core.registry.queue(consumer.queue)
        give_back(core, work, queue, rows)
        self._close(consumer, group, work)
        return rows.message_count
