"""Puts of one handle by groups: in logical order the queue manager says where each one stands."""

from __future__ import annotations

from functools import partial

from mayfly.engine.core import Core
from mayfly.engine.delivery import new_id
from mayfly.engine.descriptors import Context
from mayfly.engine.groups.fields import (
    IN_GROUP,
    IN_SEGMENTS,
    as_placed,
    check_cut,
    check_segment,
)
from mayfly.engine.groups.position import Position, position_after
from mayfly.engine.groups.segmenting import is_to_be_cut, put_in_segments
from mayfly.engine.objects.registry import Path
from mayfly.engine.put import PutRequest, put
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error
from mayfly.verbs.messages import PutResult


class PutOrder:
    """Where the puts of a handle stand, from its first one on that had to do with groups.

    A backout takes back the changes of its puts, so that a group may span several units of work and
    go on after one that has failed.
    """

    def __init__(self, core: Core, context: Context, unit_of_work: UnitOfWork) -> None:
        """Begin outside of any group."""
        self._core = core
        self._context = context
        self._unit = unit_of_work
        self._position: Position | None = None

    @property
    def incomplete(self) -> int:
        """The reason code of closing it within a group put in logical order, else 0."""
        last = self._position
        return rc.MQRC_NONE if last is None or not last.is_logical else last.incomplete

    def put(self, path: Path, body: bytes, request: PutRequest, options: int) -> PutResult:
        """Put a message; in segments when it may be cut and is too long for its queue.

        Raises what ``put.put`` raises, and MQRC_WRONG_MD_VERSION, MQRC_INCOMPLETE_GROUP,
        MQRC_INCOMPLETE_MSG, MQRC_INCONSISTENT_PERSISTENCE, MQRC_INCONSISTENT_UOW for a message that
        does not follow in logical order, MQRC_MSG_SEQ_NUMBER_ERROR, MQRC_OFFSET_ERROR,
        MQRC_SEGMENT_LENGTH_ZERO, MQRC_ORIGINAL_LENGTH_ERROR, MQRC_SEGMENTATION_NOT_ALLOWED for what
        is no member: nothing is put, and the next one is asked for as before. A put out of logical
        order within a group succeeds with the warning of what it leaves.
        """
        in_unit = bool(options & c.MQPMO_SYNCPOINT)
        is_logical = bool(options & c.MQPMO_LOGICAL_ORDER)
        asked, left, warning = request.descriptor, self._position, rc.MQRC_NONE
        if is_logical:
            asked = _in_order(left, asked)
            if left is not None:
                _check_alike(left, path, asked, in_unit=in_unit)
        elif left is not None and left.is_logical:
            warning = left.incomplete
        placed = self._with_group_id(as_placed(asked))
        check_segment(placed, body)
        check_cut(placed, body)
        request = request._replace(descriptor=placed)
        # A delayed message can be in no group, and so not in segments (D9).
        may_cut = placed.msg_flags & c.MQMF_SEGMENTATION_ALLOWED and not request.delay_ms
        is_cut = may_cut and is_to_be_cut(path, placed, body)
        verb = put_in_segments if is_cut else put
        unit_of_work = self._unit if in_unit else None
        core, context = self._core, self._context
        result = verb(core, path, body, request, context=context, unit_of_work=unit_of_work)
        self._stand_behind(placed, result, len(body), in_unit=in_unit, is_logical=is_logical)
        return result if result.warning else result._replace(warning=warning)

    def _with_group_id(self, placed: Descriptor) -> Descriptor:
        flags = IN_GROUP | IN_SEGMENTS | c.MQMF_SEGMENTATION_ALLOWED
        if not placed.msg_flags & flags or placed.group_id.strip(b"\0"):
            return placed
        with self._core.engine_lock:
            return placed._replace(group_id=new_id(self._core))

    def _stand_behind(
        self,
        placed: Descriptor,
        result: PutResult,
        length_bytes: int,
        *,
        in_unit: bool,
        is_logical: bool,
    ) -> None:
        left = self._position
        whole = placed._replace(persistence=result.descriptor.persistence)
        self._position = position_after(whole, length_bytes, in_unit=in_unit, is_logical=is_logical)
        if in_unit and left != self._position:
            self._unit.on_backout(self, partial(self._go_back, left))

    def _go_back(self, position: Position | None) -> None:
        self._position = position


def _in_order(left: Position | None, asked: Descriptor) -> Descriptor:
    """Return a descriptor with the place that comes next; raises what does not follow there."""
    if asked.version < c.MQMD_VERSION_2:
        raise mq_error(
            rc.MQRC_WRONG_MD_VERSION, "MQPMO_LOGICAL_ORDER needs a descriptor of version 2"
        )
    if left is None:
        return asked._replace(group_id=b"", msg_seq_number=1, offset=0)
    flags = asked.msg_flags
    in_group = bool(flags & IN_GROUP)
    breaks_message = left.in_message and not flags & IN_SEGMENTS
    if breaks_message or in_group != left.in_group:
        raise mq_error(left.incomplete, f"MsgFlags {flags:#x} within {left}")
    return asked._replace(
        group_id=left.group_id, msg_seq_number=left.msg_seq_number, offset=left.offset
    )


def _check_alike(left: Position, path: Path, asked: Descriptor, *, in_unit: bool) -> None:
    persistence = asked.persistence
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
