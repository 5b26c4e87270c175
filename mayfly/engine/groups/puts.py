"""Puts of one handle by groups: in logical order, and in segments when a message is too long."""

from __future__ import annotations

from mayfly.engine import queue_state
from mayfly.engine.core import Core
from mayfly.engine.delivery import new_id, size_on
from mayfly.engine.descriptors import Context
from mayfly.engine.groups.place import (
    IN_GROUP,
    IN_SEGMENTS,
    GroupProgress,
    Position,
    as_placed,
    check_cut,
    check_segment,
    position_after,
)
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.engine.put import PutRequest, add_coa_report, new_put, prepared_for, put, result_of
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.window import window_at_put
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error
from mayfly.mqi.structures import leading_headers
from mayfly.verbs.messages import PutResult

#: Segments but the last are multiples of this; none is shorter.
_STEP_BYTES = 16


class PutOrder:
    """The position of one handle's puts in a group, from its first put with group options on.

    A backout resets it, so a group may span several units of work and go on after one that failed.
    """

    def __init__(self, core: Core, context: Context, unit_of_work: UnitOfWork) -> None:
        """Begin at no position; ``context`` is the user and program that put."""
        self._core = core
        self._context = context
        self._unit = unit_of_work
        self._progress = GroupProgress(unit_of_work.on_backout)

    @property
    def incomplete(self) -> int:
        """The warning for closing the handle within a group; see :class:`GroupProgress`."""
        return self._progress.incomplete

    def put(self, path: ResolvedQueue, body: bytes, request: PutRequest, options: int) -> PutResult:
        """Put a message; in segments when segmentation is allowed and it is too long for its queue.

        ``options`` are MQPMO. A put without MQPMO_LOGICAL_ORDER within a group that was begun in
        logical order succeeds with the warning MQRC_INCOMPLETE_GROUP or MQRC_INCOMPLETE_MSG. After
        an error nothing is put, and the position stays.

        With MQPMO_LOGICAL_ORDER, raises MQRC_WRONG_MD_VERSION, MQRC_INCOMPLETE_GROUP,
        MQRC_INCOMPLETE_MSG, MQRC_INCONSISTENT_PERSISTENCE and MQRC_INCONSISTENT_UOW for a message
        that does not follow in that order. Raises MQRC_MSG_SEQ_NUMBER_ERROR, MQRC_OFFSET_ERROR,
        MQRC_SEGMENT_LENGTH_ZERO, MQRC_ORIGINAL_LENGTH_ERROR and MQRC_SEGMENTATION_NOT_ALLOWED for
        wrong fields, and the errors of ``put.put``.
        """
        in_unit = bool(options & c.MQPMO_SYNCPOINT)
        is_logical = bool(options & c.MQPMO_LOGICAL_ORDER)
        requested, left, warning = request.descriptor, self._progress.position, rc.MQRC_NONE
        if is_logical:
            requested = _in_order(left, requested)
            if left is not None:
                _check_alike(left, path, requested, in_unit=in_unit)
        elif left is not None and left.is_logical:
            warning = left.incomplete
        placed = as_placed(requested)
        flags = IN_GROUP | IN_SEGMENTS | c.MQMF_SEGMENTATION_ALLOWED
        if placed.msg_flags & flags and not placed.group_id.strip(b"\0"):
            with self._core.engine_lock:
                placed = placed._replace(group_id=new_id(self._core))
        check_segment(placed, body)
        check_cut(placed, body)
        request = request._replace(descriptor=placed)
        # A delayed message can be in no group, and so not in segments (D9).
        may_cut = placed.msg_flags & c.MQMF_SEGMENTATION_ALLOWED and not request.delay_ms
        is_cut = (
            may_cut and not path.queue.is_staging and len(body) > _max_segment_bytes(path, placed)
        )
        verb = put_in_segments if is_cut else put
        unit_of_work = self._unit if in_unit else None
        core, context = self._core, self._context
        result = verb(core, path, body, request, context=context, unit_of_work=unit_of_work)
        descriptor = placed._replace(persistence=result.descriptor.persistence)
        position = position_after(descriptor, len(body), in_unit=in_unit, is_logical=is_logical)
        self._progress.move_to(position, in_unit=in_unit)
        return result if result.warning else result._replace(warning=warning)


def _in_order(left: Position | None, requested: Descriptor) -> Descriptor:
    """Return a descriptor with the GroupId, MsgSeqNumber and Offset next in logical order.

    ``left`` is the position after the last put, None outside of a group; ``requested`` is the
    descriptor of this put. Raises MQRC_WRONG_MD_VERSION for version 1, and MQRC_INCOMPLETE_GROUP or
    MQRC_INCOMPLETE_MSG when the message does not continue the group.
    """
    if requested.version < c.MQMD_VERSION_2:
        raise mq_error(
            rc.MQRC_WRONG_MD_VERSION, "MQPMO_LOGICAL_ORDER needs a descriptor of version 2"
        )
    if left is None:
        return requested._replace(group_id=b"", msg_seq_number=1, offset=0)
    flags = requested.msg_flags
    in_group = bool(flags & IN_GROUP)
    breaks_message = left.in_message and not flags & IN_SEGMENTS
    if breaks_message or in_group != left.in_group:
        raise mq_error(left.incomplete, f"MsgFlags {flags:#x} within {left}")
    return requested._replace(
        group_id=left.group_id, msg_seq_number=left.msg_seq_number, offset=left.offset
    )


def _check_alike(
    left: Position, path: ResolvedQueue, requested: Descriptor, *, in_unit: bool
) -> None:
    """Raise unless a message has the persistence and syncpoint option of its group so far.

    ``left`` is the position in the group; ``in_unit`` says whether this put is in a unit of work.
    The reasons are MQRC_INCONSISTENT_PERSISTENCE and MQRC_INCONSISTENT_UOW.
    """
    persistence = requested.persistence
    if persistence == c.MQPER_PERSISTENCE_AS_Q_DEF:
        persistence = path.default_persistence
    if persistence != left.persistence:
        raise mq_error(
            rc.MQRC_INCONSISTENT_PERSISTENCE,
            f"Persistence {persistence} in a group of messages with {left.persistence}",
        )
    if in_unit != left.in_unit:
        raise mq_error(
            rc.MQRC_INCONSISTENT_UOW,
            "a group is put either in a unit of work or outside of any, not in both",
        )


def put_in_segments(
    core: Core,
    path: ResolvedQueue,
    body: bytes,
    request: PutRequest,
    *,
    context: Context,
    unit_of_work: UnitOfWork | None,
) -> PutResult:
    """Put a message in as many segments as needed, all or none; return the result of the first.

    ``context`` is the user and program that put. With ``unit_of_work`` None they are put in one
    transaction, complete on return. All expire at the same time. Raises MQRC_MSG_TOO_BIG_FOR_Q when
    the message's headers do not fit into a segment or segments would be under 16 bytes, MQRC_Q_FULL
    when not all fit on the queue, and the errors of ``put.put``.
    """
    parts = _cut(path, body, request)
    prepared = [prepared_for(core, path, data, part, context) for part, data in parts]
    with core.engine_lock:
        core.check_running()
        path = core.registry.refreshed(path)
        if unit_of_work is not None:
            unit_of_work.check_capacity(len(parts))
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
            new_put(core, path, known, window, part, data)
            for known, (part, data) in zip(prepared, parts, strict=True)
        ]
        transaction = Transaction() if unit_of_work is None else None
        for queue, row, persistent in messages:
            if unit_of_work is not None:
                unit_of_work.put(queue, row, persistent=persistent)
            else:
                assert transaction is not None
                queue_state.arrive(core, transaction, queue, row, persistent=persistent)
        for (_queue, row, _persistent), known in zip(messages, prepared, strict=True):
            if path.remote is None and known.descriptor.report & c.MQRO_COA:
                add_coa_report(core, row, known.descriptor, transaction, unit_of_work)
        is_done = transaction is None or core.committer.run_at_once(transaction)
    if transaction is not None and not is_done:
        core.committer.run(transaction)
    else:
        core.committer.run_deferred()
    return result_of(core, path, messages[0][1], request, prepared[0], window)


def _cut(path: ResolvedQueue, body: bytes, request: PutRequest) -> list[tuple[PutRequest, bytes]]:
    """Return the segments of a message as requests with data.

    The first has the headers and the MsgId. Raises MQRC_MSG_TOO_BIG_FOR_Q when the headers do not
    fit into one segment.
    """
    original = request.descriptor
    segment_bytes = _max_segment_bytes(path, original) // _STEP_BYTES * _STEP_BYTES
    headers_bytes, data_format = leading_headers(original.format, body, original.encoding)
    if segment_bytes < max(_STEP_BYTES, headers_bytes):
        raise mq_error(
            rc.MQRC_MSG_TOO_BIG_FOR_Q,
            f"no segments of {len(body)} bytes fit; MAXMSGL({path.max_message_bytes})",
        )
    flags = original.msg_flags
    # A message that was no segment has no other after it.
    is_last = bool(flags & c.MQMF_LAST_SEGMENT) or not flags & IN_SEGMENTS
    flags = flags & ~c.MQMF_LAST_SEGMENT | c.MQMF_SEGMENT
    parts = []
    for start in range(0, len(body), segment_bytes):
        ends = is_last and start + segment_bytes >= len(body)
        descriptor = original._replace(
            offset=original.offset + start,
            msg_flags=flags | c.MQMF_LAST_SEGMENT if ends else flags,
            format=data_format if start else original.format,
        )
        part = request._replace(descriptor=descriptor, msg_id=b"" if start else request.msg_id)
        parts.append((part, body[start : start + segment_bytes]))
    return parts


def _max_segment_bytes(path: ResolvedQueue, descriptor: Descriptor) -> int:
    """Return how many bytes of data a segment may have at most.

    On a transmission queue its headers need some of the space.
    """
    # It will be a segment there in any case.
    part = descriptor._replace(msg_flags=descriptor.msg_flags | c.MQMF_SEGMENT)
    return path.largest_bytes - size_on(path, part, 0)
