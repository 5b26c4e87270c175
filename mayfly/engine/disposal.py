"""Disposal of messages that leave a queue other than by a get: reports and dead letters."""

from __future__ import annotations

import logging

from mayfly.engine.authority.checks import check_putter
from mayfly.engine.core import Core
from mayfly.engine.delay.staged_row import original_row
from mayfly.engine.delivery import (
    MessageIds,
    OutgoingMessage,
    new_id,
    send,
)
from mayfly.engine.descriptors import Context, Prepared, prepare
from mayfly.engine.queues import LocalQueue
from mayfly.engine.remote_queues import embedded_or_none, full_name
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.dead_letters import Refusal, behind_header
from mayfly.lifetime.reports import Cause, Original, Report, build_report, is_owed
from mayfly.lifetime.transmission import shorter_life_ms
from mayfly.lifetime.window import Window, remaining_ms, window_at_put
from mayfly.mqi.constants import MQAT_QMGR, MQPMO_SET_ALL_CONTEXT, MQRO_DISCARD_MSG
from mayfly.mqi.descriptor import Descriptor, pack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.reasons import MQRC_UNKNOWN_OBJECT_NAME
from mayfly.store.units import StoredMessage

_LOG = logging.getLogger("mayfly.disposal")


def original_of(
    queue: LocalQueue, row: StoredMessage, descriptor: Descriptor, now_ms: int
) -> Original:
    """Return a message as its sender put it, without the delay header, with its remaining expiry.

    A delay header is present only on the staging queue (R9, D18).
    """
    left_ms = remaining_ms(row.expire_at_ms, now_ms)
    if queue.is_staging:
        row = original_row(row)
    return Original(descriptor, row.msg_id, row.correl_id, row.body, left_ms)


def behind_transit(core: Core, queue: LocalQueue, original: Original) -> Original:
    """Return the message behind the MQXQH, for a message that ends on a transmission queue (R8).

    Its report options apply; if it asks for no report, those of the outer descriptor apply. A
    message on another queue, or with an unusable MQXQH, is returned unchanged.
    """
    embedded = embedded_or_none(original.body, original.descriptor) if queue.transmits else None
    if embedded is None:
        return original
    outer, inner = original.descriptor, embedded.descriptor
    try:
        prepared_with_own_context(core, inner)
    except MQError:
        return original
    if not inner.report:
        inner = inner._replace(
            report=outer.report, reply_to_q=outer.reply_to_q, reply_to_q_mgr=outer.reply_to_q_mgr
        )
    left_ms = shorter_life_ms(original.remaining_ms, embedded.expiry_tenths)
    return Original(inner, embedded.msg_id, embedded.correl_id, embedded.body, left_ms)


def send_report(
    core: Core,
    transaction: Transaction,
    cause: Cause,
    original: Original,
    reason: int = 0,
    *,
    always_kept: bool = False,
) -> bool:
    """Add the report for a cause to a transaction; return False if the report had to be dropped.

    ``original`` is the message as its sender put it. Does nothing and returns True if the message
    asks for no such report. A report that cannot be delivered goes to the dead-letter queue (R4);
    if that fails, it is dropped and logged (R5). A report with MQRO_DISCARD_MSG is discarded
    instead, unless ``always_kept`` (D22). ``reason`` is an MQRC_* or MQFB_* for its Feedback.
    """
    if not is_owed(cause, original.descriptor):
        return True
    report = build_report(cause, original, core.name, reason)
    window = window_at_put(core.now_ms(), report.life_ms)
    ids = MessageIds(new_id(core) if report.msg_id is None else report.msg_id, report.correl_id)
    try:
        _put_report(core, transaction, report, window, ids)
    except MQError as failure:
        target = full_name(report.reply_to_q, report.reply_to_q_mgr, core.name)
        if report.descriptor.report & MQRO_DISCARD_MSG and not always_kept:
            _LOG.info("%s report to %r discarded as it asks: %s", cause.name, target, failure)
            return True
        try:
            prepared = prepared_with_own_context(core, report.descriptor)
            message = OutgoingMessage(prepared, window, ids, report.body)
            dead_letter(core, transaction, message, failure.reason, target)
        except MQError as error:
            text = f"{cause.name} report to {target!r} dropped: {failure}; no dead letter: {error}"
            kind = "report", cause, target, failure.reason, error.reason
            core.alike_warnings.note(_LOG, kind, core.now_ms(), text)
            return False
    return True


def dead_letter_queue_of(core: Core) -> str:
    """Return the queue name in DEADQ; raises MQRC_UNKNOWN_OBJECT_NAME when it is blank."""
    name = core.registry.queue_manager.deadq
    if not name:
        raise mq_error(MQRC_UNKNOWN_OBJECT_NAME, "there is no dead-letter queue: DEADQ is blank")
    return name


def dead_letter(
    core: Core,
    transaction: Transaction,
    message: OutgoingMessage,
    reason: int,
    target: str,
) -> None:
    """Add the put of a message on the dead-letter queue, behind an MQDLH, to a transaction (Q1).

    ``reason`` and ``target``, the queue that the message was for, are put into the MQDLH. Its
    expiry goes on counting (E21, Q2); a CAPEXPRY of that queue may shorten it (X3). Raises the
    reason code with which the queue refuses it, MQRC_UNKNOWN_OBJECT_NAME when DEADQ is blank.
    """
    prepared, window, ids, body = message
    path = core.registry.resolve_target(dead_letter_queue_of(core))
    descriptor, header = dead_letter_of(core, prepared.descriptor, reason, target)
    # It can be got at once, whatever delay it once had.
    immediate = window._replace(deliver_at_ms=window.put_ms)
    send(
        core,
        transaction,
        path,
        OutgoingMessage(prepared_with_own_context(core, descriptor), immediate, ids, header + body),
    )


def dead_letter_of(
    core: Core, descriptor: Descriptor, reason: int, target: str
) -> tuple[Descriptor, bytes]:
    """Return descriptor and MQDLH bytes of a dead letter that the queue manager itself puts (Q1).

    ``reason`` is the reason code in the MQDLH, ``target`` the queue that the message was for:
    ``'Q1'`` or ``'Q1@QM2'``.
    """
    queue, _, manager = target.partition("@")
    dest = manager or core.name
    refusal = Refusal(reason, queue, dest, MQAT_QMGR, core.name, core.now_ms())
    return behind_header(descriptor, refusal)


def prepared_with_own_context(core: Core, descriptor: Descriptor) -> Prepared:
    """Return a descriptor prepared for a put by the queue manager.

    Its context fields stay unchanged.
    Raises the errors of ``descriptors.prepare``.
    """
    context = Context("", MQAT_QMGR, core.name, core.name)
    report = descriptor.report
    # A message in transit may ask for reports without a reply queue; it is too late to refuse it.
    prepared = prepare(descriptor._replace(report=0), 0, 0, context, MQPMO_SET_ALL_CONTEXT)
    if not report:
        return prepared
    complete = prepared.descriptor._replace(report=report)
    return prepared._replace(descriptor=complete, packed=pack_descriptor(complete), warning=0)


def _put_report(
    core: Core, transaction: Transaction, report: Report, window: Window, ids: MessageIds
) -> None:
    """Add the put of a report to a transaction, with the authority of the message's user (R6).

    ``window`` is the report's put time and expiry, ``ids`` are its MsgId and CorrelId. Raises the
    error with which the reply-to queue refuses the report.
    """
    name = full_name(report.reply_to_q, report.reply_to_q_mgr, core.name)
    path = core.registry.resolve_target(name)
    # R6: with the authority of whose message it is about.
    check_putter(core, report.descriptor.user_identifier, name)
    prepared = prepared_with_own_context(core, report.descriptor)
    send(core, transaction, path, OutgoingMessage(prepared, window, ids, report.body))
