"""How claimed messages leave their claim: with the records and reports of a get, or back again."""

from __future__ import annotations

import json
from collections.abc import Iterable

from mayfly.engine.core import Core
from mayfly.engine.disposal import original_of, send_report
from mayfly.engine.holding.many import give_back_claimed
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue
from mayfly.engine.work import Unclaiming, Work
from mayfly.lifetime.reports import Cause, is_owed
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.store import claims as store_claims
from mayfly.store.claims import Rows

Record = tuple[bytes, int, int, int, str, str]
#: Reports made in one turn of the latch.
_REPORT_BATCH = 100


def records_of(descriptors: Iterable[bytes]) -> tuple[list[Record], str]:
    """Return what the records of lives say, by descriptor (``EndedRows.descriptors``).

    The second is a JSON list of the descriptors, in hex, that ask for a COD report; empty for none.
    """
    records: list[Record] = []
    confirming: list[str] = []
    for packed in descriptors:
        descriptor = unpack_descriptor(packed)
        records.append(
            (
                packed,
                descriptor.priority,
                descriptor.persistence,
                descriptor.report,
                descriptor.reply_to_q,
                descriptor.user_identifier,
            )
        )
        if is_owed(Cause.COD, descriptor):
            confirming.append(packed.hex())
    return records, json.dumps(confirming) if confirming else ""


def send_confirmations(
    core: Core, work: Work, queue: LocalQueue, rows: Rows, confirming: str
) -> None:
    """Add the COD reports that claimed messages owe to the work that ends them (G9)."""
    messages = core.store.claimed.of_descriptors(rows, confirming)
    for start in range(0, len(messages), _REPORT_BATCH):
        with core.latch:
            now_ms = core.now_ms()
            for row in messages[start : start + _REPORT_BATCH]:
                descriptor = unpack_descriptor(row.descriptor)
                original = original_of(queue, row, descriptor, now_ms)
                send_report(core, work, Cause.COD, original)


def give_back(core: Core, work: Work, queue: LocalQueue, rows: Rows) -> None:
    """Add to a work that rows go back to their places, backout counts raised (G8)."""
    sides = core.store.claimed.sides(rows)
    volatile = core.store.claimed.volatile(rows)
    work.unit.statements += store_claims.give_back(rows)
    if volatile:
        work.unit.volatile_inserts += [
            row._replace(backout_count=row.backout_count + 1) for row in volatile
        ]
        work.unit.delta(queue.number).present_volatile += len(volatile)
    returned = sides.get(VOLATILE, (0, 0)), sides.get(PERSISTENT, (0, 0))
    keys = () if queue.trigger is None else core.store.claimed.keys(rows)
    give_back_claimed(work, Unclaiming(queue, rows.message_count, returned, keys))
