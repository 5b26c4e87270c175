"""Messages that were found are taken, and expired ones that were met are discarded."""

from __future__ import annotations

from collections.abc import Sequence

from mayfly.engine.core import Core
from mayfly.engine.disposal import original_of, send_report
from mayfly.engine.expired import discard_expired
from mayfly.engine.holding import many, messages
from mayfly.engine.queues import Found
from mayfly.engine.requester import Requester
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_contents import take_all
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.reports import Cause
from mayfly.mqi.constants import MQRO_COD
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.verbs.contracts.outcomes import Ending, MetBy


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
    if row.descriptor == core.unconfirmed_descriptor:
        return
    descriptor = unpack_descriptor(row.descriptor)
    if not descriptor.report & MQRO_COD:
        core.unconfirmed_descriptor = row.descriptor
        return
    if queue.is_staging:
        return
    report = Transaction() if transaction is None else transaction
    send_report(core, report, Cause.COD, original_of(queue, row, descriptor, now_ms))
    if transaction is None and unit_of_work is not None:
        unit_of_work.adopt(report)


def take_rows(
    core: Core,
    found: Sequence[Found],
    into: UnitOfWork | Transaction,
    now_ms: int,
    requester: Requester,
) -> None:
    """Take rows of one queue under the lock that are the next ones of all.

    They go into a unit of work, or into a transaction to be run.
    """
    queue = found[0][0]
    last_keys = {persistence: row.k for _queue, row, persistence in found}
    for persistence, last_key in last_keys.items():
        # All before it was looked at, and is hidden.
        messages.pass_over(queue, persistence, last_key)
    if requester.locked is not None:
        for _queue, row, _persistence in found:
            requester.forget_lock(row.k)
    if isinstance(into, UnitOfWork):
        take_all(into, found, now_ms)
    else:
        event = messages.GETS[queue.is_staging]
        many.end_all(core, into, found, event, now_ms, ending=requester.ending)


def discard_met(core: Core, expired: Sequence[Found], now_ms: int, requester: Requester) -> None:
    """Discard expired messages under the lock that a get of whatever comes next has met.

    The caller runs what is deferred.
    """
    for queue, row, persistence in expired:
        messages.pass_over(queue, persistence, row.k)
        requester.forget_lock(row.k)
    core.committer.deferred.append(
        discard_expired(core, expired, now_ms, MetBy.GET, requester.ending)
    )
