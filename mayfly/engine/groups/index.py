"""Index in memory of the message groups on one queue, so that a get need not read the queue."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple
from weakref import WeakSet

from mayfly.engine.core import Core
from mayfly.engine.finding.search import Match
from mayfly.engine.groups.place import IN_GROUP, feedback_of
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue
from mayfly.engine.requester import Requester
from mayfly.engine.unit_of_work import UncommittedPut
from mayfly.mqi import constants as c
from mayfly.mqi.constants import MQ_GROUP_ID_LENGTH
from mayfly.mqi.descriptor import Grouping, grouping_of
from mayfly.runtime.compiling import weakly_held
from mayfly.store.messages import Outline

#: The get options that look at groups and segments.
GROUPING = (
    c.MQGMO_LOGICAL_ORDER
    | c.MQGMO_COMPLETE_MSG
    | c.MQGMO_ALL_MSGS_AVAILABLE
    | c.MQGMO_ALL_SEGMENTS_AVAILABLE
)
#: In these modes more than one message decides which entries of a group are available.
_OF_ALL = c.MQGMO_LOGICAL_ORDER | c.MQGMO_ALL_MSGS_AVAILABLE
_by_offset = attrgetter("offset", "key")
_offset = attrgetter("offset")
_by_key = attrgetter("key")
#: Messages that are read in one turn of the lock: some 5 ms.
_PAGE = 2_000
#: The most arrivals noted between two searches; after more the next search reads the whole queue.
_ARRIVALS_MAX = 20_000


def mode_of(options: int) -> int:
    """Return the MQGMO options for groups among ``options``, without those that others imply.

    MQGMO_COMPLETE_MSG and MQGMO_ALL_MSGS_AVAILABLE imply MQGMO_ALL_SEGMENTS_AVAILABLE.
    """
    mode = options & GROUPING
    if mode & (c.MQGMO_COMPLETE_MSG | c.MQGMO_ALL_MSGS_AVAILABLE):
        mode &= ~c.MQGMO_ALL_SEGMENTS_AVAILABLE
    return mode


def is_by_message(mode: int) -> bool:
    """Return True unless the options make a message depend on other messages of its group.

    ``mode`` is the result of ``mode_of``.
    """
    return not mode & _OF_ALL


class Entry:
    """One message of the queue in the index.

    ``group`` is None when the message is neither in a group nor a segment. ``pending`` is the put
    of an open unit of work; else None.
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
        """Take the fields that the index needs from a message: ``outline`` and its group fields.

        ``grouping`` are MsgFlags, MsgSeqNumber and Offset. A report about a segment counts with the
        length of its original. ``pending`` is the put of an open unit of work, None for a committed
        message.
        """
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
    def is_last_of_group(self) -> bool:
        """Whether the message is the last of its group, or in no group."""
        return bool(self.flags & c.MQMF_LAST_MSG_IN_GROUP) or not self.flags & IN_GROUP


class Completeness(NamedTuple):
    """A note that all needed messages of a group were visible.

    It is valid while ``GroupIndex.moment`` is ``at``. ``dies_ms`` is when the first of them
    expires, None for never.
    """

    at: tuple[int, ...]
    dies_ms: int | None


class Group:
    """The messages of one GroupId: for each MsgSeqNumber its segments, in order of offset.

    A segmented message that is in no group is a group with one message.
    """

    __slots__ = ("feedback", "group_id", "last_number", "messages", "seen", "spoiled")

    def __init__(self, group_id: bytes, feedback: int) -> None:
        """Begin without messages.

        ``feedback`` is MQFB_NONE, or that of the reports in this group.
        """
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
        """Add a message or segment to this group, and note whether it is the last message."""
        entry.group = self
        self.seen.clear()
        insort(self.messages.setdefault(entry.number, []), entry, key=_by_offset)
        if entry.is_last_of_group:
            self.last_number = entry.number

    def remove(self, entry: Entry) -> None:
        """Remove a message or segment from this group; it must be present."""
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
        """Return all segments of the message with MsgSeqNumber ``number``, in order of offset.

        Empty when the message or one of its segments is missing.
        """
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
        """Return the segments of the message with MsgSeqNumber ``number`` at one offset.

        Empty without one, several for duplicates.
        """
        segments = self.messages.get(number, [])
        low = bisect_left(segments, offset, key=_offset)
        return segments[low : bisect_right(segments, offset, low, key=_offset)]

    def at(self, mode: int, number: int, offset: int | None) -> list[Entry]:
        """Return the segments of a message with which a get with the options ``mode`` may begin.

        ``number`` is the MsgSeqNumber. Without options (``mode`` 0) and with an ``offset``, they
        are the segments at that offset.
        """
        if mode or offset is None:
            return self.available(mode, number)
        return self.segments_at(number, offset)

    def complete(self) -> list[Entry]:
        """Return all messages of the group in logical order; empty when one is missing."""
        if self.last_number is None or len(self.messages) < self.last_number:
            return []
        members: list[Entry] = []
        for number in range(1, self.last_number + 1):
            parts = self.message(number)
            if not parts:
                return []
            members += parts
        return members

    def available(self, mode: int, number: int | None = None) -> list[Entry]:
        """Return the messages with which a get with options ``mode`` may begin, by key.

        In logical order that is the first message or segment alone. Otherwise it is every one that
        the options allow; of a message that must be returned complete, its first segment. One that
        needs expired messages is left out. ``number`` limits the result to one MsgSeqNumber.
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
        """Return the messages of :meth:`available`, including those that need expired ones.

        ``mode`` has the MQGMO options about groups. ``number`` is the MsgSeqNumber, None for any.
        """
        if mode & c.MQGMO_LOGICAL_ORDER:
            return self._first(mode)
        if mode & c.MQGMO_ALL_MSGS_AVAILABLE:
            found = self.complete()
        else:
            numbers = self.messages if number is None else (number,)
            is_complete = mode & (c.MQGMO_COMPLETE_MSG | c.MQGMO_ALL_SEGMENTS_AVAILABLE)
            found = [
                entry
                for each in numbers
                for entry in (self.message(each) if is_complete else self.messages.get(each, ()))
            ]
        if mode & c.MQGMO_COMPLETE_MSG:
            found = [entry for entry in found if not entry.offset]
        return sorted(found, key=_by_key)

    def _first(self, mode: int) -> list[Entry]:
        """Return the first message in logical order, as a list.

        Empty when that message is missing, or another one that the options ``mode`` demand.
        """
        if mode & c.MQGMO_ALL_MSGS_AVAILABLE:
            return self.complete()[:1]
        if mode & (c.MQGMO_COMPLETE_MSG | c.MQGMO_ALL_SEGMENTS_AVAILABLE):
            return self.message(1)[:1]
        return self.segments_at(1, 0)[:1]


def extent_of(entry: Entry, mode: int) -> int:
    """Return which part of a group a get of a message needs: its MsgSeqNumber, or 0 for all.

    ``mode`` are the group options of the get.
    """
    return 0 if mode & c.MQGMO_ALL_MSGS_AVAILABLE else entry.number


def returned_with(entry: Entry, mode: int) -> list[Entry]:
    """Return the segments that a get with options ``mode`` returns together with ``entry``."""
    if entry.group is None or not mode & c.MQGMO_COMPLETE_MSG:
        return [entry]
    return entry.group.message(entry.number) or [entry]


def needed_by(entry: Entry, mode: int) -> list[Entry]:
    """Return the messages that must be present for a get with options ``mode`` of ``entry``."""
    if entry.group is None or not mode & ~c.MQGMO_LOGICAL_ORDER:
        return [entry]
    if mode & c.MQGMO_ALL_MSGS_AVAILABLE:
        return entry.group.complete() or [entry]
    return entry.group.message(entry.number) or [entry]


class StartKeys:
    """The sorted keys of the messages with which gets with the same group options may begin.

    They are those of all groups, or of the groups with one GroupId.
    """

    __slots__ = ("_by_place", "_mode", "keys")

    def __init__(self, mode: int, groups: Iterable[Group], alone: Iterable[int]) -> None:
        """Collect the keys of messages with which gets may begin.

        They are messages of ``groups``, and ``alone``, the keys of messages in no group. ``mode``
        are the group options (MQGMO) of the gets.
        """
        self._mode = mode
        #: The keys of a group, or in a mode that goes by message of each message by its number.
        self._by_place: dict[tuple[Group, int | None], list[int]] = {}
        self.keys = [*alone]
        for group in groups:
            for number in group.messages if is_by_message(mode) else (None,):
                self.keys += self._taken_over(group, number)
        self.keys.sort()

    def add(self, key: int) -> None:
        """Add a key in sorted order; it must not be present."""
        insort(self.keys, key)

    def remove(self, key: int) -> None:
        """Remove a key, which must be present."""
        del self.keys[bisect_left(self.keys, key)]

    def settle(self, group: Group, changed: Mapping[Entry, bool]) -> None:
        """Update the keys after changes of a group: message -> whether it is present now."""
        if not self._mode:
            self._settle_each(changed)
            return
        numbers = {entry.number for entry in changed}
        for number in numbers if is_by_message(self._mode) else (None,):
            before = self._by_place.pop((group, number), [])
            now = self._taken_over(group, number)
            for key in set(before).difference(now):
                self.remove(key)
            for key in set(now).difference(before):
                self.add(key)

    def _settle_each(self, changed: Mapping[Entry, bool]) -> None:
        """Update the keys for gets without conditions, where each message is available alone."""
        for entry, is_there in changed.items():
            place = bisect_left(self.keys, entry.key)
            was_there = place < len(self.keys) and self.keys[place] == entry.key
            if is_there and not was_there:
                self.keys.insert(place, entry.key)
            elif was_there and not is_there:
                del self.keys[place]

    def _taken_over(self, group: Group, number: int | None) -> list[int]:
        """Store and return the available keys of a group.

        ``number`` is the MsgSeqNumber of the message that is wanted, None for all.
        """
        keys = [entry.key for entry in group.available(self._mode, number)]
        if keys:
            self._by_place[group, number] = keys
        return keys


@weakly_held
class GroupIndex:
    """All messages of a queue by group, and the entries that gets of each mode may begin with.

    It lives as long as a handle that uses groups. It contains at least all visible messages: the
    queue notifies it of each that appears. A message that has gone is noticed when a search finds
    it missing. All methods but :meth:`catch_up` need the engine lock.
    """

    def __init__(self, core: Core, queue: LocalQueue) -> None:
        """Begin with no message; :func:`index_of` returns the one index that all handles share."""
        self._core = core
        self._queue = queue
        #: Where the queue's messages are.
        self.owner = queue.owner
        self._entries: dict[int, Entry] = {}
        self._families: dict[bytes, dict[int, Group]] = {}
        self._starts: dict[int, StartKeys] = {}
        #: By GroupId, for those that gets have matched.
        self._starts_of: dict[bytes, dict[int, StartKeys]] = {}
        #: Changes since the start keys were updated, by group: is an entry there now.
        self._changed: dict[Group, dict[Entry, bool]] = {}
        self._arrived: set[int] = set()
        #: The number of arrivals so far, by which a search that was interrupted detects new ones.
        self.arrival_count = 0
        #: By persistence the key from which on messages must be read; None when all are read.
        self._behind: list[int | None] = [queue.low, queue.low]

    def lower(self, key: int) -> None:
        """Note that the message with this key has become visible; the next search reads it.

        After 20,000 such notes all messages are read again instead.
        """
        self.arrival_count += 1
        self._arrived.add(key)
        if len(self._arrived) > _ARRIVALS_MAX:
            self._forget()

    def lower_from(self, key: int) -> None:
        """Note that messages with this key or higher ones have become visible; read them again."""
        self.arrival_count += 1
        self._behind = [key if low is None else min(low, key) for low in self._behind]

    def catch_up(self) -> None:
        """Read all messages that are not in the index, one page in each turn of the engine lock.

        Call it without the engine lock. Raises MQRC_CONNECTION_BROKEN when the queue manager stops.
        """
        is_done = False
        while not is_done:
            with self._core.engine_lock:
                self._core.check_running()
                is_done = self.refresh(at_once=False)

    def refresh(self, *, at_once: bool) -> bool:
        """Read messages that have become visible into the index; return False when some are left.

        With ``at_once`` all of them are read, without it at most one page.
        """
        if len(self._entries) > 2 * sum(self._queue.present) + _ARRIVALS_MAX:
            # Most of it has gone unnoticed: members of groups that were never complete.
            self._forget()
        arrived = {key for key in self._arrived if key not in self._entries}
        self._arrived.clear()
        for persistence in (VOLATILE, PERSISTENT):
            if arrived and self._queue.present[persistence]:
                self._add_all(self.owner.messages(persistence).outlines_of(arrived), persistence)
        for persistence in (VOLATILE, PERSISTENT):
            while self._behind[persistence] is not None:
                self._read_page(persistence)
                if not at_once:
                    return False
        return True

    def entry(self, key: int) -> Entry | None:
        """Return the message with this key, None when the index has none."""
        return self._entries.get(key)

    def is_there(self, entry: Entry, requester: Requester | None) -> bool:
        """Return True if a message is still on the queue and visible to the requester."""
        if self.owner.hidden.get(entry.key, requester) is not requester:
            return False
        return bool(self.owner.messages(entry.persistence).present((entry.key,)))

    def next(self, mode: int, low: int, match: Match) -> Entry | None:
        """Return the first message, from the key ``low`` on, with which a get may begin.

        None without one. ``mode`` are the group options (MQGMO) of the get. A GroupId in ``match``
        limits the search to groups with it. The caller checks the other conditions of the match.
        """
        group_id = match.group_id
        self._settle()
        if group_id is None:
            start_keys = self._starts_in(mode)
        else:
            group_id = group_id.ljust(MQ_GROUP_ID_LENGTH, b"\0")
            if group_id not in self._families:
                return None
            start_keys = self._starts_in_group(group_id, mode)
        place = bisect_left(start_keys.keys, low)
        if place == len(start_keys.keys):
            return None
        entry, number = self._entries[start_keys.keys[place]], match.msg_seq_number
        if group_id is None or number is None or not is_by_message(mode):
            return entry
        if entry.number == number and match.offset in (None, entry.offset):
            return entry
        groups = self._families[group_id].values()
        found = [each for group in groups for each in group.at(mode, number, match.offset)]
        return min((each for each in found if each.key >= low), key=_by_key, default=None)

    @property
    def moment(self) -> tuple[int, ...]:
        """A value that changes when a message becomes visible, is hidden, or leaves the queue."""
        queue = self._queue
        return self.arrival_count, queue.depth - queue.uncommitted, queue.browse_locked

    def group(self, group_id: bytes, feedback: int) -> Group | None:
        """Return the group with a GroupId, None without one.

        With a ``feedback`` other than 0 it is the group of the reports with this feedback about it.
        """
        return self._families.get(group_id, {}).get(feedback)

    def include(self, pendings: Iterable[UncommittedPut]) -> list[Entry]:
        """Add puts of an open unit of work to the index for one search, and return their entries.

        The caller removes them after the search.
        """
        entries: list[Entry] = []
        for pending in pendings:
            row = pending.row
            hashes = row.msg_hash, row.correl_hash
            outline = Outline(row.k, row.expire_at_ms, *hashes, row.descriptor, len(row.body))
            entries.append(self._add(outline, int(pending.persistent), pending))
        return entries

    def remove(self, entry: Entry) -> None:
        """Remove a message that is gone or taken; does nothing when it is not in the index.

        ``lower`` adds it again when it becomes visible.
        """
        if self._entries.pop(entry.key, None) is None:
            return
        group = entry.group
        if group is None:
            for start_keys in self._starts.values():
                start_keys.remove(entry.key)
            return
        group.remove(entry)
        self._note(entry, group, is_there=False)
        if not group.messages:
            self._settle()
            family = self._families[group.group_id]
            del family[group.feedback]
            if not family:
                del self._families[group.group_id]
                self._starts_of.pop(group.group_id, None)

    def spoil(self, entry: Entry) -> None:
        """Note that a message of a group has expired, and stays on the queue.

        From now on a get that needs this message, and would not return it, does not find the group.
        """
        assert entry.group is not None
        entry.group.spoiled.add(entry)
        self._note(entry, entry.group, is_there=True)

    def _note(self, entry: Entry, group: Group, *, is_there: bool) -> None:
        """Note the change of a message of a group, for the next call of :meth:`_settle`.

        ``is_there`` says whether the message is present now.
        """
        self._changed.setdefault(group, {})[entry] = is_there

    def _starts_in(self, mode: int) -> StartKeys:
        """Return the keys with which gets may begin on the whole queue; created at first use.

        ``mode`` has the MQGMO options about groups.
        """
        start_keys = self._starts.get(mode)
        if start_keys is None:
            groups = [group for family in self._families.values() for group in family.values()]
            alone = [key for key, entry in self._entries.items() if entry.group is None]
            start_keys = self._starts[mode] = StartKeys(mode, groups, alone)
        return start_keys

    def _starts_in_group(self, group_id: bytes, mode: int) -> StartKeys:
        """Return the keys with which gets of one GroupId may begin; created at first use.

        ``mode`` has the MQGMO options about groups.
        """
        by_mode = self._starts_of.setdefault(group_id, {})
        if mode not in by_mode:
            by_mode[mode] = StartKeys(mode, self._families[group_id].values(), ())
        return by_mode[mode]

    def _settle(self) -> None:
        """Update the keys with which gets may begin, after changes of groups."""
        changed, self._changed = self._changed, {}
        for group, entries in changed.items():
            of_group_id = self._starts_of.get(group.group_id, {})
            for start_keys in (*self._starts.values(), *of_group_id.values()):
                start_keys.settle(group, entries)

    def _add_all(self, rows: Iterable[Outline], persistence: int) -> None:
        """Add messages to the index; those that it has already are skipped."""
        for row in rows:
            if row.k not in self._entries:
                self._add(row, persistence, None)

    def _add(self, row: Outline, persistence: int, pending: UncommittedPut | None) -> Entry:
        """Add a message to the index, to its group if it has one, and return its entry.

        ``pending`` is None for a committed message.
        """
        grouping = grouping_of(row.descriptor)
        entry = self._entries[row.k] = Entry(row, grouping, persistence, pending)
        if not grouping.group_id:
            for start_keys in self._starts.values():
                start_keys.add(row.k)
            return entry
        feedback = feedback_of(grouping.msg_type, grouping.feedback)
        self._remove_gone(self.group(grouping.group_id, feedback), entry)
        family = self._families.setdefault(grouping.group_id, {})
        group = family.get(feedback)
        if group is None:
            group = family[feedback] = Group(grouping.group_id, feedback)
        group.add(entry)
        self._note(entry, group, is_there=True)
        return entry

    def _remove_gone(self, group: Group | None, entry: Entry) -> None:
        """Remove messages with number and offset of ``entry`` that left the queue unnoticed.

        Else these messages would still count as members of the group.
        """
        found = [] if group is None else group.segments_at(entry.number, entry.offset)
        for each in found:
            if not self.is_there(each, None):
                self.remove(each)

    def _read_page(self, persistence: int) -> None:
        """Read the next page of messages with one persistence into the index."""
        low = self._behind[persistence]
        assert low is not None
        rows: list[Outline] = []
        if self._queue.present[persistence]:
            rows = self.owner.messages(persistence).outlines(low, self._queue.high, _PAGE)
        self._add_all(rows, persistence)
        self._behind[persistence] = rows[-1].k + 1 if len(rows) == _PAGE else None

    def _forget(self) -> None:
        """Empty the index; all messages must be read again."""
        self._entries, self._families, self._starts, self._starts_of = {}, {}, {}, {}
        self._changed, self._arrived = {}, set()
        self._behind = [self._queue.low, self._queue.low]


def index_of(core: Core, queue: LocalQueue) -> GroupIndex:
    """Return the group index of a queue, up to date; it is created when no handle has one.

    Call it without the engine lock. Raises MQRC_CONNECTION_BROKEN when the queue manager stops.
    """
    with core.engine_lock:
        if queue.watchers is None:
            queue.watchers = WeakSet()
        known = [watcher for watcher in queue.watchers if isinstance(watcher, GroupIndex)]
        index = known[0] if known else GroupIndex(core, queue)
        queue.watchers.add(index)
    index.catch_up()
    return index
