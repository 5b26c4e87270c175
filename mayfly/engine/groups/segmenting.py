"""A message that is too long for its queue is cut into segments, which live equally long."""

from __future__ import annotations

from mayfly.engine.core import Core
from mayfly.engine.delivery import size_on
from mayfly.engine.descriptors import Context, Prepared
from mayfly.engine.groups.fields import IN_SEGMENTS
from mayfly.engine.holding import puts
from mayfly.engine.objects.registry import Path
from mayfly.engine.put import PutRequest, confirm_arrival, new_put, prepared_for, result_of
from mayfly.engine.queues import LocalQueue
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.window import window_at_put
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error
from mayfly.mqi.structures import leading_headers
from mayfly.store.units import StoredMessage
from mayfly.verbs.messages import PutResult

#: Segments but the last are multiples of this; none is shorter.
_STEP_BYTES = 16


def is_to_be_cut(path: Path, descriptor: Descriptor, body: bytes) -> bool:
    """Return True if a message is longer than MAXMSGL of its queue or of the queue manager."""
    return not path.queue.is_staging and len(body) > _room(path, descriptor)


def put_in_segments(
    core: Core,
    path: Path,
    body: bytes,
    request: PutRequest,
    *,
    context: Context,
    unit_of_work: UnitOfWork | None,
) -> PutResult:
    """Put a message in as many segments as it needs, all of them or none; the MsgId is the first's.

    All have the same deadline. Raises as ``put.put``. MQRC_MSG_TOO_BIG_FOR_Q: the headers of the
    message do not fit into a segment, or a segment would be under 16 bytes. MQRC_Q_FULL: there is
    no room for all of them.
    """
    parts = _cut(path, body, request)
    prepared = [prepared_for(core, path, data, part, context) for part, data in parts]
    with core.engine_lock:
        core.check_running()
        path = core.registry.refreshed(path)
        if unit_of_work is not None:
            unit_of_work.check_room(len(parts))
        if path.queue.depth + len(parts) > path.max_depth:
            raise mq_error(
                rc.MQRC_Q_FULL,
                f"{len(parts)} segments for {path.queue.name}; MAXDEPTH({path.max_depth})",
            )
        window = window_at_put(
            core.now_ms(),
            request.life_ms,
            0,
            path.cap_ms,
            longest_ms=core.settings.longest_life_ms,
            capped_by=path.capped_by,
        )
        messages = [
            new_put(core, path, known, window, part)
            for known, part in zip(prepared, parts, strict=True)
        ]
        transaction = _put_all(core, messages, unit_of_work)
        if path.remote is None:
            _confirm_all(core, messages, prepared, transaction, unit_of_work)
        is_done = transaction is None or core.committer.run_at_once(transaction)
    if transaction is not None and not is_done:
        core.committer.run(transaction)
    else:
        core.committer.run_deferred()
    return result_of(core, path, messages[0][1], request, (prepared[0], window))


def _put_all(
    core: Core,
    messages: list[tuple[LocalQueue, StoredMessage, bool]],
    unit_of_work: UnitOfWork | None,
) -> Transaction | None:
    if unit_of_work is not None:
        for queue, row, persistent in messages:
            unit_of_work.put(queue, row, persistent=persistent)
        return None
    transaction = Transaction()
    for queue, row, persistent in messages:
        puts.arrive(core, transaction, queue, row, persistent=persistent)
    return transaction


def _confirm_all(
    core: Core,
    messages: list[tuple[LocalQueue, StoredMessage, bool]],
    prepared: list[Prepared],
    transaction: Transaction | None,
    unit_of_work: UnitOfWork | None,
) -> None:
    for (_queue, row, _persistent), known in zip(messages, prepared, strict=True):
        if known.descriptor.report & c.MQRO_COA:
            confirm_arrival(core, row, known.descriptor, transaction, unit_of_work)


def _cut(path: Path, body: bytes, request: PutRequest) -> list[tuple[PutRequest, bytes]]:
    """Return the segments; the first one has the headers of the message, and its MsgId."""
    whole = request.descriptor
    room = _room(path, whole) // _STEP_BYTES * _STEP_BYTES
    headers_bytes, data_format = leading_headers(whole.format, body, whole.encoding)
    if room < max(_STEP_BYTES, headers_bytes):
        raise mq_error(
            rc.MQRC_MSG_TOO_BIG_FOR_Q,
            f"no segments of {len(body)} bytes fit; MAXMSGL({path.max_message_bytes})",
        )
    flags = whole.msg_flags
    # A message that was no segment has no other after it.
    is_last = bool(flags & c.MQMF_LAST_SEGMENT) or not flags & IN_SEGMENTS
    flags = flags & ~c.MQMF_LAST_SEGMENT | c.MQMF_SEGMENT
    parts = []
    for start in range(0, len(body), room):
        ends = is_last and start + room >= len(body)
        descriptor = whole._replace(
            offset=whole.offset + start,
            msg_flags=flags | c.MQMF_LAST_SEGMENT if ends else flags,
            format=data_format if start else whole.format,
        )
        part = request._replace(descriptor=descriptor, msg_id=b"" if start else request.msg_id)
        parts.append((part, body[start : start + room]))
    return parts


def _room(path: Path, descriptor: Descriptor) -> int:
    """Return how long a segment may be; on a transmission queue its headers take their part."""
    # It will be a segment there in any case.
    part = descriptor._replace(msg_flags=descriptor.msg_flags | c.MQMF_SEGMENT)
    return path.largest_bytes - size_on(path, part, 0)
