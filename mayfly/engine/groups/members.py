"""A group as it lies on its queue, and which of its messages a get may return."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter
from typing import NamedTuple

from mayfly.engine.groups.fields import IN_GROUP, IN_SEGMENTS
from mayfly.engine.unit_of_work import UncommittedPut
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Grouping
from mayfly.store.messages import Outline

#: The get options that look at groups and segments.
GROUPING = (
    c.MQGMO_LOGICAL_ORDER
    | c.MQGMO_COMPLETE_MSG
    | c.MQGMO_ALL_MSGS_AVAILABLE
    | c.MQGMO_ALL_SEGMENTS_AVAILABLE
)
#: In these modes more than one message decides what of a group is available.
_OF_ALL = c.MQGMO_LOGICAL_ORDER | c.MQGMO_ALL_MSGS_AVAILABLE
_by_offset = attrgetter("offset", "key")
_offset = attrgetter("offset")
_by_key = attrgetter("key")


def mode_of(options: int) -> int:
    """Return the options that decide about availability; those that others imply are left out."""
    mode = options & GROUPING
    if mode & (c.MQGMO_COMPLETE_MSG | c.MQGMO_ALL_MSGS_AVAILABLE):
        mode &= ~c.MQGMO_ALL_SEGMENTS_AVAILABLE
    return mode


def is_by_message(mode: int) -> bool:
    """Return True if a mode takes each message of a group without regard to the others."""
    return not mode & _OF_ALL


class Entry:
    """One message on the queue; ``group`` is None for one that is neither in a group nor a segment.

    ``pending`` is an own uncommitted put, which is in memory only.
    """

    __slots__ = (
        "correl_hash",
        "end",
        "expire_at_ms",
        "flags",
        "group",
        "key",
        "msg_hash",
        "number",
        "offset",
        "pending",
        "persistence",
    )

    def __init__(
        self,
        outline: Outline,
        grouping: Grouping,
        persistence: int,
        pending: UncommittedPut | None = None,
    ) -> None:
        """Take what is needed of a message; a report counts as long as its original."""
        is_report = grouping.msg_type == c.MQMT_REPORT
        length = grouping.original_length if is_report else outline.body_bytes
        self.key, self.expire_at_ms = outline.k, outline.expire_at_ms
        self.msg_hash, self.correl_hash = outline.msg_hash, outline.correl_hash
        self.persistence = persistence
        self.flags = grouping.msg_flags
        self.number = grouping.msg_seq_number
        self.offset = grouping.offset
        self.end = grouping.offset + length
        self.group: Group | None = None
        self.pending = pending

    @property
    def is_segment(self) -> bool:
        """Whether it is a part of a message."""
        return bool(self.flags & IN_SEGMENTS)

    @property
    def is_last_of_group(self) -> bool:
        """Whether no other message of the group follows the one it is, or is a part of."""
        return bool(self.flags & c.MQMF_LAST_MSG_IN_GROUP) or not self.flags & IN_GROUP


class Completeness(NamedTuple):
    """That messages were all there: as long as nothing has left the queue or come to it since.

    ``dies_ms`` is when the first of them expires.
    """

    at: tuple[int, ...]
    dies_ms: int | None


class Group:
    """The messages of one GroupId: the segments of each by its number, in order of offset.

    A message in segments that is in no group is one here, too: its only message.
    """

    __slots__ = ("feedback", "group_id", "last_number", "messages", "seen", "spoiled")

    def __init__(self, group_id: bytes, feedback: int) -> None:
        """Begin with nothing."""
        self.group_id = group_id
        self.feedback = feedback
        self.messages: dict[int, list[Entry]] = {}
        #: The number of the last message, once it is known.
        self.last_number: int | None = None
        #: Messages known to have expired, so that gets that need them cannot have the group.
        self.spoiled: set[Entry] = set()
        #: By ``extent_of`` what a get has looked at last, so that the next one need not.
        self.seen: dict[int, Completeness] = {}

    def add(self, entry: Entry) -> None:
        """Add a message or segment."""
        entry.group = self
        self.seen.clear()
        insort(self.messages.setdefault(entry.number, []), entry, key=_by_offset)
        if entry.is_last_of_group:
            self.last_number = entry.number

    def remove(self, entry: Entry) -> None:
        """Forget a message or segment."""
        segments = self.messages[entry.number]
        del segments[bisect_left(segments, _by_offset(entry), key=_by_offset)]
        self.spoiled.discard(entry)
        self.seen.clear()
        if not segments:
            del self.messages[entry.number]
        was_last = entry.is_last_of_group and entry.number == self.last_number
        if was_last and not any(e.is_last_of_group for e in segments):
            self.last_number = None

    def message(self, number: int) -> list[Entry]:
        """Return a message whole, as its segments in order; nothing where one is missing."""
        parts: list[Entry] = []
        end = 0
        for entry in self.messages.get(number, ()):
            if entry.offset != end:
                continue
            parts.append(entry)
            end = entry.end
            if not entry.flags & c.MQMF_SEGMENT or entry.flags & c.MQMF_LAST_SEGMENT:
                return parts
        return []

    def segments_at(self, number: int, offset: int) -> list[Entry]:
        """Return what of a message stands at an offset: one, or several of which one counts."""
        segments = self.messages.get(number, [])
        low = bisect_left(segments, offset, key=_offset)
        return segments[low : bisect_right(segments, offset, low, key=_offset)]

    def at(self, mode: int, number: int, offset: int | None) -> list[Entry]:
        """Return what of a message a get in a mode that goes by message may begin with.

        With an offset, in a mode that asks for nothing else, it is what stands there.
        """
        if mode or offset is None:
            return self.available(mode, number)
        return self.segments_at(number, offset)

    def whole(self) -> list[Entry]:
        """Return the whole group in logical order; nothing where anything is missing."""
        if self.last_number is None or len(self.messages) < self.last_number:
            return []
        members: list[Entry] = []
        for number in range(1, self.last_number + 1):
            parts = self.message(number)
            if not parts:
                return []
            members += parts
        return members

    def available(
        self, mode: int, number: int | None = None, offset: int | None = None
    ) -> list[Entry]:
        """Return the entries of the group that a get in this mode may begin with, by key.

        In logical order that is its first message or segment alone. Otherwise it is each entry that
        the mode does not keep back; of a message that is to be returned complete, its first
        segment. An entry that needs expired ones is not available. ``number`` is for modes that go
        by message: only entries of the message with this number count.
        """
        found = self._present(mode, number)
        if self.spoiled:
            found = [
                entry
                for entry in found
                if self.spoiled.intersection(needed_by(entry, mode)).issubset(
                    returned_with(entry, mode)
                )
            ]
        return found

    def _present(self, mode: int, number: int | None) -> list[Entry]:
        if mode & c.MQGMO_LOGICAL_ORDER:
            return self._first(mode)
        if mode & c.MQGMO_ALL_MSGS_AVAILABLE:
            found = self.whole()
        else:
            numbers = self.messages if number is None else (number,)
            is_whole = mode & (c.MQGMO_COMPLETE_MSG | c.MQGMO_ALL_SEGMENTS_AVAILABLE)
            found = [
                entry
                for each in numbers
                for entry in (self.message(each) if is_whole else self.messages.get(each, ()))
            ]
        if mode & c.MQGMO_COMPLETE_MSG:
            found = [entry for entry in found if not entry.offset]
        return sorted(found, key=_by_key)

    def _first(self, mode: int) -> list[Entry]:
        if mode & c.MQGMO_ALL_MSGS_AVAILABLE:
            return self.whole()[:1]
        if mode & (c.MQGMO_COMPLETE_MSG | c.MQGMO_ALL_SEGMENTS_AVAILABLE):
            return self.message(1)[:1]
        return self.segments_at(1, 0)[:1]


def extent_of(entry: Entry, mode: int) -> int:
    """Return what of its group ``needed_by`` speaks of: the number of a message, 0 for all."""
    return 0 if mode & c.MQGMO_ALL_MSGS_AVAILABLE else entry.number


def returned_with(entry: Entry, mode: int) -> list[Entry]:
    """Return what a get in this mode returns together with a message: all segments, or it alone."""
    if entry.group is None or not mode & c.MQGMO_COMPLETE_MSG:
        return [entry]
    return entry.group.message(entry.number) or [entry]


def needed_by(entry: Entry, mode: int) -> list[Entry]:
    """Return what must be on the queue for a get in this mode to return a message."""
    if entry.group is None or not mode & ~c.MQGMO_LOGICAL_ORDER:
        return [entry]
    if mode & c.MQGMO_ALL_MSGS_AVAILABLE:
        return entry.group.whole() or [entry]
    return entry.group.message(entry.number) or [entry]
