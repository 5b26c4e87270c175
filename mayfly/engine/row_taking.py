"""A message that was found is taken: into a unit of work, or by a transaction of its own."""

from __future__ import annotations

from mayfly.contracts.endings import Ending
from mayfly.engine.core import Core
from mayfly.engine.disposal import original_of, send_report
from mayfly.engine.holding import messages
from mayfly.engine.queues import Found
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.reports import Cause
from mayfly.mqi.constants import MQRO_COD
from mayfly.mqi.descriptor import unpack_descriptor


def take_row(
    core: Core,
    found: Found,
    unit_of_work: UnitOfWork | None,
    now_ms: int,
    ending: Ending,
) -> Transaction | None:
    """Take a row under the lock: into the unit of work, or without one by a transaction to be run.

    The transaction has the ``ending`` of the getter.
    """
    queue, row, persistence = found
    if unit_of_work is not None:
        unit_of_work.take(queue, row, persistence, now_ms)
        transaction = None
    else:
        transaction = Transaction()
        event = messages.GETS[queue.is_staging]
        messages.end(core, transaction, found, event, now_ms, ending=ending)
    confirm_delivery(core, found, transaction, unit_of_work, now_ms)
    return transaction


def confirm_delivery(
    core: Core,
    found: Found,
    transaction: Transaction | None,
    unit_of_work: UnitOfWork | None,
    now_ms: int,
) -> None:
    """Add the COD report, which is part of the getter's unit of work."""
    queue, row, _side = found
    descriptor = unpack_descriptor(row.descriptor)
    if not descriptor.report & MQRO_COD or queue.is_staging:
        return
    report = Transaction() if transaction is None else transaction
    send_report(core, report, Cause.COD, original_of(queue, row, descriptor, now_ms))
    if transaction is None and unit_of_work is not None:
        unit_of_work.adopt(report)
