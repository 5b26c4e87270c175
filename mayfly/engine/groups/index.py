"""The groups on one queue, in memory, so that no get has to walk the queue for them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from weakref import WeakSet

from mayfly.engine.core import Core
from mayfly.engine.groups.members import Entry, Group
from mayfly.engine.groups.position import feedback_of
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue
from mayfly.engine.unit_of_work import Pending
from mayfly.mqi.descriptor import grouping_of
from mayfly.mqi.selectors import MQ_GROUP_ID_LENGTH
from mayfly.store.outlines import Outline, outlines, outlines_of, present

#: Messages that are read in one turn of the latch: some 5 ms.
_PAGE = 2_000
#: What has come since the last look; with more of it all is read anew, when somebody looks again.
_TOLD_MAX = 20_000


class Line:
    """The keys that gets of one mode may begin with."""

    __slots__ = ("keys", "of_group")

    def __init__(self) -> None:
        """Begin with none."""
        self.keys: list[int] = []
        self.of_group: dict[Group, list[int]] = {}

    def add(self, key: int) -> None:
        """Add a key in its place."""
        insort(self.keys, key)

    def remove(self, key: int) -> None:
        """Remove a key."""
        del self.keys[bisect_left(self.keys, key)]

    def settle(self, group: Group, mode: int) -> None:
        """Take over what of a group is available now."""
        before = self.of_group.pop(group, [])
        now = [entry.key for entry in group.available(mode)]
        if now:
            self.of_group[group] = now
        for key in set(before).difference(now):
            self.remove(key)
        for key in set(now).difference(before):
            self.add(key)


class GroupIndex:
    """All messages of a queue by group, and by what gets of each mode may begin with.

    It lives as long as a handle that has asked for groups. It holds at least what can be seen: what
    comes, or comes back, it is told of; what has gone is found out by who meets it. All of it is
    under the latch, but :meth:`catch_up`.
    """

    def __init__(self, core: Core, queue: LocalQueue) -> None:
        """Begin knowing nothing; :func:`index_of` gives one index to all who ask."""
        self._core = core
        self._queue = queue
        #: Where the queue's messages are.
        self.home = queue.home or core
        self._entries: dict[int, Entry] = {}
        self._families: dict[bytes, dict[int, Group]] = {}
        self._lines: dict[int, Line] = {}
        self._changed: set[Group] = set()
        self._told: set[int] = set()
        #: How often something was told; who walks on after a pause knows by it what it may miss.
        self.told_count = 0
        #: By side the key from which on all is to be read; None where that has been done.
        self._behind: list[int | None] = [queue.low, queue.low]

    def lower(self, key: int) -> None:
        """Note that a message has become visible."""
        self.told_count += 1
        self._told.add(key)
        if len(self._told) > _TOLD_MAX:
            self._forget()

    def lower_from(self, key: int) -> None:
        """Note that messages have become visible at a key and behind it."""
        self.told_count += 1
        self._behind = [key if low is None else min(low, key) for low in self._behind]

    def catch_up(self) -> None:
        """Read what has to be read, a page in each turn of the latch."""
        is_done = False
        while not is_done:
            with self._core.latch:
                self._core.check_running()
                is_done = self.refresh(at_once=False)

    def refresh(self, *, at_once: bool) -> bool:
        """Read what has come; tell whether that was all: not ``at_once`` it is one page at most."""
        if len(self._entries) > 2 * sum(self._queue.present) + _TOLD_MAX:
            # Most of it has gone, and nobody has met it: members of groups that were never whole.
            self._forget()
        told = {key for key in self._told if key not in self._entries}
        self._told.clear()
        for side in (VOLATILE, PERSISTENT):
            if told and self._queue.present[side]:
                self._add_all(outlines_of(self.home.messages(side), told), side)
        for side in (VOLATILE, PERSISTENT):
            while self._behind[side] is not None:
                self._read_page(side)
                if not at_once:
                    return False
        return True

    def entry(self, key: int) -> Entry | None:
        """Return the message with a key."""
        return self._entries.get(key)

    def next(self, mode: int, low: int) -> Entry | None:
        """Return the first message from a key on that a get in this mode may begin with."""
        keys = self._line(mode).keys
        place = bisect_left(keys, low)
        return self._entries[keys[place]] if place < len(keys) else None

    def of_group_id(self, group_id: bytes, mode: int, low: int) -> list[Entry]:
        """Return what a get in this mode may begin with of what has a GroupId, by key."""
        groups = self._families.get(group_id.ljust(MQ_GROUP_ID_LENGTH, b"\0"), {}).values()
        found = [e for group in groups for e in group.available(mode) if e.key >= low]
        return sorted(found, key=lambda entry: entry.key)

    def group(self, group_id: bytes, feedback: int) -> Group | None:
        """Return a group, or that of the reports on one."""
        return self._families.get(group_id, {}).get(feedback)

    def include(self, pendings: Iterable[Pending]) -> list[Entry]:
        """Add own uncommitted puts for the length of one look; :meth:`remove` them after it."""
        return [
            self._add(_outline_of(pending), int(pending.persistent), pending)
            for pending in pendings
        ]

    def remove(self, entry: Entry) -> None:
        """Forget a message that is gone, or taken: should it come back, it is told."""
        if self._entries.pop(entry.key, None) is None:
            return
        group = entry.group
        if group is None:
            for line in self._lines.values():
                line.remove(entry.key)
            return
        group.remove(entry)
        self._changed.add(group)
        if not group.messages:
            self._settle()
            family = self._families[group.group_id]
            del family[group.feedback]
            if not family:
                del self._families[group.group_id]

    def spoil(self, entry: Entry) -> None:
        """Note that a message of a group has expired: what needs it cannot be had any more."""
        assert entry.group is not None
        entry.group.spoiled.add(entry)
        self._changed.add(entry.group)

    def _line(self, mode: int) -> Line:
        self._settle()
        line = self._lines.get(mode)
        if line is None:
            line = self._lines[mode] = Line()
            for family in self._families.values():
                for group in family.values():
                    keys = [entry.key for entry in group.available(mode)]
                    if keys:
                        line.of_group[group] = keys
                        line.keys += keys
            line.keys += [key for key, entry in self._entries.items() if entry.group is None]
            line.keys.sort()
        return line

    def _settle(self) -> None:
        changed, self._changed = self._changed, set()
        for group in changed:
            for mode, line in self._lines.items():
                line.settle(group, mode)

    def _add_all(self, rows: Iterable[Outline], side: int) -> None:
        for row in rows:
            if row.k not in self._entries:
                self._add(row, side, None)

    def _add(self, row: Outline, side: int, pending: Pending | None) -> Entry:
        grouping = grouping_of(row.descriptor)
        entry = self._entries[row.k] = Entry(row, grouping, side, pending)
        if not grouping.group_id:
            for line in self._lines.values():
                line.add(row.k)
            return entry
        feedback = feedback_of(grouping.msg_type, grouping.feedback)
        self._forget_twins(self.group(grouping.group_id, feedback), entry)
        family = self._families.setdefault(grouping.group_id, {})
        group = family.get(feedback)
        if group is None:
            group = family[feedback] = Group(grouping.group_id, feedback)
        group.add(entry)
        self._changed.add(group)
        return entry

    def _forget_twins(self, group: Group | None, entry: Entry) -> None:
        """Forget what stood in the place of a message and is not there any more.

        Nobody has met it since, and it would be taken for a member of the group.
        """
        others = () if group is None else group.messages.get(entry.number, ())
        for twin in [other for other in others if other.offset == entry.offset]:
            if twin.key in self.home.hidden or not present(
                self.home.messages(twin.side), (twin.key,)
            ):
                self.remove(twin)

    def _read_page(self, side: int) -> None:
        low = self._behind[side]
        assert low is not None
        rows: list[Outline] = []
        if self._queue.present[side]:
            rows = outlines(self.home.messages(side), low, self._queue.high, _PAGE)
        self._add_all(rows, side)
        self._behind[side] = rows[-1].k + 1 if len(rows) == _PAGE else None

    def _forget(self) -> None:
        self._entries, self._families, self._lines = {}, {}, {}
        self._changed, self._told = set(), set()
        self._behind = [self._queue.low, self._queue.low]


def index_of(core: Core, queue: LocalQueue) -> GroupIndex:
    """Return the index of a queue's groups, a new one where nobody has one, knowing all there is.

    Call it without the latch.
    """
    with core.latch:
        if queue.watchers is None:
            queue.watchers = WeakSet()
        known = [watcher for watcher in queue.watchers if isinstance(watcher, GroupIndex)]
        index = known[0] if known else GroupIndex(core, queue)
        queue.watchers.add(index)
    index.catch_up()
    return index


def _outline_of(pending: Pending) -> Outline:
    row = pending.row
    return Outline(
        row.k, row.expire_at_ms, row.msg_hash, row.correl_hash, row.descriptor, len(row.body)
    )
