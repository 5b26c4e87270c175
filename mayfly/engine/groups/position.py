"""The position of a handle within a group: its last put, get or browse, and so the next one."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.engine.groups.fields import IN_GROUP
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor


class Position(NamedTuple):
    """In the middle of a group or of a message in segments; at the end of both there is none.

    ``msg_seq_number`` and ``offset`` are those of what comes next. ``in_message`` tells that
    segments are missing, ``in_unit`` that the last one was part of a unit of work, ``is_logical``
    that it was asked for in logical order. Reports of one kind about a group are a group of their
    own, told from others by ``feedback``.
    """

    group_id: bytes
    feedback: int
    msg_seq_number: int
    offset: int
    in_group: bool
    in_message: bool
    persistence: int
    in_unit: bool
    is_logical: bool

    @property
    def incomplete(self) -> int:
        """The reason code of who leaves it: MQRC_INCOMPLETE_MSG, MQRC_INCOMPLETE_GROUP."""
        return rc.MQRC_INCOMPLETE_MSG if self.in_message else rc.MQRC_INCOMPLETE_GROUP


def position_after(
    descriptor: Descriptor, length_bytes: int, *, in_unit: bool, is_logical: bool
) -> Position | None:
    """Return where a message of this descriptor and length leads; None where nothing follows it."""
    flags = descriptor.msg_flags
    in_message = bool(flags & c.MQMF_SEGMENT) and not flags & c.MQMF_LAST_SEGMENT
    in_group = bool(flags & IN_GROUP)
    if not in_message and (not in_group or flags & c.MQMF_LAST_MSG_IN_GROUP):
        return None
    number, offset = descriptor.msg_seq_number, descriptor.offset
    return Position(
        descriptor.group_id,
        feedback_of(descriptor.msg_type, descriptor.feedback),
        number if in_message else number + 1,
        offset + length_bytes if in_message else 0,
        in_group,
        in_message,
        descriptor.persistence,
        in_unit,
        is_logical,
    )


def feedback_of(msg_type: int, feedback: int) -> int:
    """Return what tells the reports on a group from each other and from the group itself."""
    return feedback if msg_type == c.MQMT_REPORT else c.MQFB_NONE
