"""The place of a message in its group: checks of the MQMD fields, and the position behind it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.properties import FORMAT, read_texts
from mayfly.mqi.structures import headers_length
from mayfly.verbs.properties.selectors.fields import find_folder, value_in

IN_GROUP = c.MQMF_MSG_IN_GROUP | c.MQMF_LAST_MSG_IN_GROUP
IN_SEGMENTS = c.MQMF_SEGMENT | c.MQMF_LAST_SEGMENT
#: MsgSeqNumber and Offset go so far.
LARGEST = 999_999_999
#: The folder of an MQRFH2 for properties that are MQ's own.
_MQ_FOLDER = re.compile(r"\s*<mq[\s/>]")
#: In a body of up to this length a text is found at once.
_SHORT_BYTES = 65_536


def as_placed(descriptor: Descriptor) -> Descriptor:
    """Return a descriptor with consistent group fields, as the queue stores it.

    A last message is also marked as in a group, and a last segment as a segment. Without flags that
    need them GroupId is empty, MsgSeqNumber 1 and Offset 0.
    """
    flags = descriptor.msg_flags
    if flags & c.MQMF_LAST_MSG_IN_GROUP:
        flags |= c.MQMF_MSG_IN_GROUP
    if flags & c.MQMF_LAST_SEGMENT:
        flags |= c.MQMF_SEGMENT
    has_group_id = flags & (IN_GROUP | IN_SEGMENTS | c.MQMF_SEGMENTATION_ALLOWED)
    return descriptor._replace(
        msg_flags=flags,
        group_id=descriptor.group_id if has_group_id else b"",
        msg_seq_number=descriptor.msg_seq_number if flags & IN_GROUP else 1,
        offset=descriptor.offset if flags & IN_SEGMENTS else 0,
    )


def is_grouped(descriptor: Descriptor, body: bytes) -> bool:
    """Return True if a message is in a group or a segment, by MsgFlags or the property JMSXGroupID.

    Clients of AMQP and HTTP set no flags; their property is ``Gid`` in the MQRFH2 folder ``jms``.
    """
    if descriptor.msg_flags & (IN_GROUP | IN_SEGMENTS):
        return True
    if descriptor.format != FORMAT:
        return False
    # Most messages of JMS have no such text anywhere, in UTF-8 or UTF-16: their folders need not be
    # read, which takes 2 µs.
    if len(body) <= _SHORT_BYTES and b"Gid" not in body and b"G\0i\0d" not in body:
        return False
    coding = descriptor.encoding, descriptor.coded_char_set_id
    return value_in(find_folder(b"<jms", *coding, body), "Gid") is not None


def check_place(descriptor: Descriptor) -> None:
    """Raise MQRC_MSG_SEQ_NUMBER_ERROR or MQRC_OFFSET_ERROR for a value out of range.

    MsgSeqNumber may be 1 to 999,999,999, Offset 0 to 999,999,999.
    """
    number, offset = descriptor.msg_seq_number, descriptor.offset
    if not 1 <= number <= LARGEST:
        raise mq_error(rc.MQRC_MSG_SEQ_NUMBER_ERROR, f"MsgSeqNumber {number}")
    if not 0 <= offset <= LARGEST:
        raise mq_error(rc.MQRC_OFFSET_ERROR, f"Offset {offset}")


def check_segment(descriptor: Descriptor, body: bytes) -> None:
    """Raise an MQError for an invalid segment; a message that is no segment passes.

    MQRC_SEGMENT_LENGTH_ZERO: no data after its headers, unless it is the last segment.
    MQRC_OFFSET_ERROR: it ends above 999,999,999. MQRC_ORIGINAL_LENGTH_ERROR: a report contains more
    of its segment than OriginalLength.
    """
    flags, length = descriptor.msg_flags, len(body)
    if not flags & c.MQMF_SEGMENT:
        return
    is_last = bool(flags & c.MQMF_LAST_SEGMENT)
    if not is_last and length <= headers_length(descriptor.format, body, descriptor.encoding):
        raise mq_error(rc.MQRC_SEGMENT_LENGTH_ZERO, f"a segment of {length} bytes has no data")
    if descriptor.offset + length > LARGEST:
        raise mq_error(rc.MQRC_OFFSET_ERROR, f"Offset {descriptor.offset} and {length} bytes")
    if descriptor.msg_type == c.MQMT_REPORT:
        original = descriptor.original_length
        if original < max(length, 0 if is_last else 1):
            raise mq_error(rc.MQRC_ORIGINAL_LENGTH_ERROR, f"OriginalLength {original}")


def check_cut(descriptor: Descriptor, body: bytes) -> None:
    """Raise MQRC_SEGMENTATION_NOT_ALLOWED for a message that must not be divided into segments.

    It has properties of MQ in the MQRFH2 folder ``mq``, and its MsgFlags allow segmentation or mark
    it as a segment. A header that cannot be read has none.
    """
    flags = IN_SEGMENTS | c.MQMF_SEGMENTATION_ALLOWED
    if not descriptor.msg_flags & flags or descriptor.format != FORMAT:
        return
    try:
        texts = read_texts(descriptor.encoding, descriptor.coded_char_set_id, body)
    except MQError:
        return
    if any(_MQ_FOLDER.match(folder) for folder in texts.folders):
        raise mq_error(
            rc.MQRC_SEGMENTATION_NOT_ALLOWED,
            f"MsgFlags {descriptor.msg_flags:#x} with a folder <mq> in the data",
        )


class Position(NamedTuple):
    """A position within a group or a segmented message; None is used at the end of both.

    ``msg_seq_number`` and ``offset`` are those of the next message or segment. ``in_message`` means
    that segments follow, ``in_unit`` that the last get or put was in a unit of work, ``is_logical``
    that it was in logical order. Reports of one kind about a group form a separate group, known by
    ``feedback``.
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
        """The reason code for stopping here: MQRC_INCOMPLETE_MSG or MQRC_INCOMPLETE_GROUP."""
        return rc.MQRC_INCOMPLETE_MSG if self.in_message else rc.MQRC_INCOMPLETE_GROUP


class GroupProgress:
    """The position of one handle's puts, or of its gets, in message groups.

    A backout of a unit of work resets it to where it was before that unit.
    """

    __slots__ = ("_on_backout", "position")

    def __init__(self, on_backout: Callable[[object, Callable[[], None]], None]) -> None:
        """Begin at no position.

        ``on_backout`` registers a function with the session's unit of work, which a backout calls.
        Its first argument is the object that registers.
        """
        self._on_backout = on_backout
        self.position: Position | None = None

    @property
    def incomplete(self) -> int:
        """The warning for closing the handle within a group in logical order.

        It is MQRC_INCOMPLETE_GROUP or MQRC_INCOMPLETE_MSG; MQRC_NONE when the handle is not within
        one.
        """
        position = self.position
        return rc.MQRC_NONE if position is None or not position.is_logical else position.incomplete

    def move_to(self, position: Position | None, *, in_unit: bool) -> None:
        """Set the position; with ``in_unit`` a backout of the unit of work restores the old one."""
        if in_unit and position != self.position:
            self._on_backout(self, partial(self._go_back, self.position))
        self.position = position

    def _go_back(self, position: Position | None) -> None:
        """Restore the position ``position``, after a backout."""
        self.position = position


def position_after(
    descriptor: Descriptor, length_bytes: int, *, in_unit: bool, is_logical: bool
) -> Position | None:
    """Return the position after a message with this descriptor and length.

    None when no further message of its group and no further segment follows. ``in_unit`` and
    ``is_logical`` say how the message was put or got.
    """
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
    """Return the feedback of a report, MQFB_NONE for any other message.

    Reports about a group have the GroupId of that group. The feedback tells them from its messages.
    """
    return feedback if msg_type == c.MQMT_REPORT else c.MQFB_NONE
