"""MQPUT: a message goes onto a queue, or, with a delivery delay, onto the staging queue."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.engine.core import Core, Work
from mayfly.engine.delivery import Ids, Outgoing, check_room, new_id, new_row
from mayfly.engine.descriptors import Context, check_header, prepare
from mayfly.engine.disposal import send_report
from mayfly.engine.objects import STAGING_QUEUE, Path
from mayfly.engine.staging import count_staged, staged_row, staging_queue
from mayfly.engine.unit_of_work import Pending, UnitOfWork
from mayfly.lifetime.reports import Cause, Original, is_owed
from mayfly.lifetime.window import Window, window_at_put
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQPMO_NONE, MQRO_COA
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error


class PutRequest(NamedTuple):
    """What a putter asks for: ids as stored (``delivery.stored_id``), lifetimes in ms."""

    descriptor: Descriptor
    msg_id: bytes = b""
    correl_id: bytes = b""
    life_ms: int | None = None
    delay_ms: int = 0
    context_option: int = MQPMO_NONE


class PutResult(NamedTuple):
    """What became of a put: the descriptor with everything filled in; warning is 0 or a reason."""

    msg_id: bytes
    correl_id: bytes
    descriptor: Descriptor
    window: Window
    warning: int
    queue: str


def put(
    core: Core,
    path: Path,
    body: bytes,
    request: PutRequest,
    *,
    context: Context,
    unit_of_work: UnitOfWork | None,
) -> PutResult:
    """Put a message; in a unit of work it is visible at its commit, else when this returns.

    Raises the reason codes of P1, P8, P12, E2, E3, D7, D14, D19 and D31; nothing is put then.
    """
    prepared = prepare(
        request.descriptor,
        path.default_priority,
        path.default_persistence,
        context,
        request.context_option,
    )
    if prepared.checks_header:
        check_header(prepared.descriptor, body)
    with core.latch:
        core.check_running()
        # The queue may have been deleted since its name was resolved.
        path = core.registry.refreshed(path)
        window = window_at_put(core.now_ms(), request.life_ms, request.delay_ms, path.cap_ms)
        check_room(core, path, len(body), persistent=prepared.persistent)
        ids = Ids(request.msg_id or new_id(core), request.correl_id)
        message = Outgoing(prepared, window, ids, body)
        pending = _pending(core, path, message, is_delayed=request.delay_ms > 0)
        if unit_of_work is not None:
            unit_of_work.put(pending)
            work = None
        else:
            work = _work(core, pending)
        if prepared.descriptor.report & MQRO_COA and not request.delay_ms:
            _confirm_arrival(core, message, work, unit_of_work)
        if work is not None and core.run_at_once(work):
            work = None
    if work is not None:
        core.run(work)
    else:
        core.run_deferred()
    return PutResult(
        ids.msg_id, ids.correl_id, prepared.descriptor, window, prepared.warning, path.queue.name
    )


def _pending(core: Core, path: Path, message: Outgoing, *, is_delayed: bool) -> Pending:
    if not is_delayed:
        return Pending(path.queue, new_row(core, path, message), message.prepared.persistent)
    queue = staging_queue(core)
    staging = core.registry.resolve(STAGING_QUEUE)
    row = staged_row(core, path, message)
    if staging.put_inhibited:
        raise mq_error(rc.MQRC_PUT_INHIBITED, f"PUT(DISABLED) on {STAGING_QUEUE}")
    if len(row.body) > staging.max_message_bytes:
        raise mq_error(
            rc.MQRC_MSG_TOO_BIG_FOR_Q,
            f"{len(row.body)} bytes with header; {STAGING_QUEUE} takes "
            f"MAXMSGL({staging.max_message_bytes})",
        )
    if queue.depth >= staging.max_depth:
        raise mq_error(rc.MQRC_Q_FULL, f"{STAGING_QUEUE} holds MAXDEPTH({staging.max_depth})")
    return Pending(queue, row, message.prepared.persistent)


def _work(core: Core, pending: Pending) -> Work:
    queue, row, persistent = pending
    work = Work()
    core.reserve(queue)
    core.arrive(work, queue, row, persistent=persistent)
    if queue.is_staging:
        count_staged(core, work, row, +1, persistent=persistent)
    return work


def _confirm_arrival(
    core: Core, message: Outgoing, work: Work | None, unit_of_work: UnitOfWork | None
) -> None:
    """Add the COA report to the putter's own unit of work."""
    prepared, window, ids, body = message
    if not is_owed(Cause.COA, prepared.descriptor):
        return
    left_ms = None if window.expire_at_ms is None else window.expire_at_ms - window.put_ms
    original = Original(prepared.descriptor, ids.msg_id, ids.correl_id, body, left_ms)
    report = Work() if work is None else work
    send_report(core, report, Cause.COA, original)
    if unit_of_work is not None:
        unit_of_work.adopt(report)
