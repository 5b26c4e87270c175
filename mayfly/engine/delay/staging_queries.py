"""Queries of the staging queue: delayed messages by id or by a filter, and counts by delivery time.

Delivery time and order of a delayed message are its key, and no index holds keys without data:
reading all takes half a second for a million. For counts they are read once, kept in memory (12
bytes a message), and updated by each transaction. A filter reads in bounded steps.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from mayfly.engine.core import Core
from mayfly.engine.delay.staging import DueWithPersistence, in_due_order
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.window import LATEST_DUE_MS
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.properties import read_properties
from mayfly.store.keys import (
    STAGING_LOW,
    STAGING_ORDER_BITS,
    due_ms_of,
    id_hash,
    key_of_delayed_id,
    staging_key,
)
from mayfly.store.messages import Due, staged_page
from mayfly.store.units import StoredMessage
from mayfly.verbs.schedule import Scheduled, ScheduleFilter

#: Rows looked at in one turn of the lock.
STEP = 1_000
#: More than any MsgId has; a statement with its own limit each time would be prepared each time.
_ALL_OF_ID = 1_000_000_000
_ZERO_ID = bytes(24)


def _accepts(where: ScheduleFilter, due: Due) -> bool:
    """Return True if target and sender of a message match a filter; properties are not looked at.

    False for a message without a target: its delay header is damaged.
    """
    if due.target is None or (where.queue is not None and due.target != where.queue):
        return False
    return where.sender is None or (
        where.sender == unpack_descriptor(due.descriptor).user_identifier
    )


def _accepts_content(where: ScheduleFilter, row: StoredMessage) -> bool:
    """Return True if a message has all message properties that a filter demands.

    Unreadable data has no property.
    """
    if not where.properties:
        return True
    descriptor = unpack_descriptor(row.descriptor)
    try:
        found = read_properties(
            descriptor.format, descriptor.encoding, descriptor.coded_char_set_id, row.body
        )
    except MQError:
        # Its data is not what its descriptor says: it has no property.
        return False
    return all(
        name in found and property_text(found[name]) == value for name, value in where.properties
    )


def scheduled(row: StoredMessage) -> Scheduled:
    """Return a row of the staging queue as the public description of a delayed message."""
    descriptor = unpack_descriptor(row.descriptor)
    return Scheduled(
        row.k,
        row.msg_id,
        row.correl_id or _ZERO_ID,
        row.target or "",
        row.put_ms,
        due_ms_of(row.k),
        row.expire_at_ms,
        descriptor.priority,
        bool(descriptor.persistence),
        len(row.body),
        descriptor.user_identifier,
    )


def found_by_id(core: Core, msg_id: bytes) -> list[Found]:
    """Return the delayed messages with a MsgId by delivery time; empty for none.

    Messages that a unit of work or a pipeline hides are included. Several can have one MsgId: a
    sender may set it more than once, and copies of a publication share it. The engine lock is held.
    """
    assert core.engine_lock.is_held()
    core.check_running()
    staging = core.registry.staging()
    if staging is None or not msg_id:
        return []
    key, found = key_of_delayed_id(msg_id), list[Found]()
    for persistence in (VOLATILE, PERSISTENT):
        if not staging.present[persistence]:
            continue
        messages, within = core.messages(persistence), (staging.low, staging.high)
        if key is not None:
            rows = messages.by_delayed_id(msg_id, key, *within, _ALL_OF_ID)
        else:
            rows = messages.by_msg_hash(id_hash(msg_id), *within, _ALL_OF_ID)
        found += [
            (staging, row, persistence)
            for row in rows
            if row.msg_id == msg_id and row.target is not None
        ]
    return sorted(found, key=lambda one: one[1].k)


class Scan:
    """Reads the staging queue step by step, by delivery time, for messages that match a filter."""

    def __init__(
        self,
        core: Core,
        where: ScheduleFilter,
        after: int | None = None,
        *,
        limit: int = STEP,
        shows_releasing: bool = False,
    ) -> None:
        """Begin after the key ``after`` or at the first message; a step finds up to ``limit``.

        ``shows_releasing`` includes messages that a pipeline is releasing, which cannot be changed.
        """
        self._core = core
        self._where = where
        self._limit = limit
        self._shows_releasing = shows_releasing
        #: The half-open range of staging keys in which messages are still to be looked for.
        self._low = STAGING_LOW if where.due_from_ms is None else _key_at(where.due_from_ms)
        self._high = 0 if where.due_before_ms is None else _key_at(where.due_before_ms)
        if after is not None:
            self._low = max(self._low, after + 1)
        self.is_done = False

    def step(self) -> list[Found]:
        """Return the visible messages that match among the next rows; the list may be empty.

        ``is_done`` is True when no rows are left.
        """
        assert self._core.engine_lock.is_held()
        found: list[Found] = []
        for due, persistence in self._entries():
            if len(found) == self._limit:
                self.is_done = False
                break
            self._low = due.k + 1
            meant = self._found(due, persistence)
            if meant is not None:
                found.append(meant)
        return found

    def _found(self, due: Due, persistence: int) -> Found | None:
        """Return a message with its row if it is visible and matches the filter, else None."""
        core, staging = self._core, self._core.registry.staging()
        is_hidden = not is_shown(core, due.k) if self._shows_releasing else due.k in core.hidden
        if staging is None or is_hidden or not _accepts(self._where, due):
            return None
        row = core.messages(persistence).row(due.k)
        if row is None or not _accepts_content(self._where, row):
            return None
        return staging, row, persistence

    def _entries(self) -> list[DueWithPersistence]:
        """Return the next staged rows by key, each with its persistence.

        Sets ``is_done`` when no rows follow.
        """
        core, staging = self._core, self._core.registry.staging()
        core.check_running()
        volatile, persistent = (
            core.messages(persistence).due(self._low, self._high, STEP)
            if staging is not None and staging.present[persistence]
            else []
            for persistence in (VOLATILE, PERSISTENT)
        )
        both = in_due_order(volatile, persistent)
        ends = [rows[-1].k for rows in (volatile, persistent) if len(rows) == STEP]
        self.is_done = not ends
        # Beyond the end of a full page there may be more of that persistence.
        return [e for e in both if e[0].k <= min(ends)] if ends else both


def is_shown(core: Core, key: int) -> bool:
    """Return True if a message of the staging queue is visible, or a pipeline is releasing it."""
    assert core.engine_lock.is_held()
    owner = core.hidden.get(key)
    return owner is None or owner is core.staging.releasing


def _key_at(due_ms: int) -> int:
    """Return the lowest staging key of a delivery time in ms; a time out of range is limited."""
    return staging_key(min(max(due_ms, 0), LATEST_DUE_MS + 1), 0)


def property_text(value: object) -> str:
    """Return a property value as a filter spells it: ``True`` -> ``"true"``, ``12`` -> ``"12"``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


#: Rows of one read: in memory others wait for it, some 5 ms.
_PAGE: Final = 20_000
#: With more changes than this since the last call it is faster to read all keys again.
MAX_CHANGES: Final = 200_000
#: The number of the target of a message that has none.
_NO_TARGET: Final = -1


class DelayTimeline(NamedTuple):
    """Counts of delayed messages, of one queue or all, by delivery time.

    ``counts`` has one number for each step of ``step_ms`` from ``from_ms`` on. The last step may
    end behind ``before_ms``, where messages are not counted in it. ``earlier`` and ``later`` count
    the messages outside. ``first_due_ms`` and ``last_due_ms`` cover all messages, None without any.
    """

    now_ms: int
    from_ms: int
    before_ms: int
    step_ms: int
    counts: list[int]
    earlier: int
    later: int
    first_due_ms: int | None
    last_due_ms: int | None


class Span(NamedTuple):
    """A half-open range of delivery times in steps; None means the first or the last message."""

    from_ms: int | None
    before_ms: int | None
    step_count: int


class StagedKeys:
    """The keys of all delayed messages in memory, with the numbers of their target queues.

    Every transaction updates them.
    """

    def __init__(self, core: Core) -> None:
        """Begin without keys in memory; the first :meth:`timeline` reads them."""
        self._core = core
        #: Held while a question is answered; it guards the arrays. The engine's lock comes after.
        self._asking = core.runtime.lock("timeline")
        #: How far the keys lie behind the lowest one, ascending, and the target of each.
        self._places, self._targets = array("Q"), array("i")
        #: Keys that have changed since then: their target, None of those that have left. There is
        #: no dictionary while nothing is kept.
        self._changes: dict[int, int | None] | None = None
        self._is_reading = False

    def timeline(self, span: Span, queue: str | None = None) -> DelayTimeline:
        """Return counts of delayed messages by delivery time, for one target queue or all.

        ``span`` has begin and end, and the number of equal steps that are counted; a begin or end
        of None is that of the first or last message. ``queue`` is the name of the target, None for
        all. Messages of open units of work are left out, as no other program can see them. Raises
        MQRC_UNKNOWN_OBJECT_NAME for an unknown queue, and MQRC_CONNECTION_BROKEN.
        """
        core = self._core
        with core.engine_lock:
            core.check_running()
            number = None if queue is None else core.registry.resolve(queue).queue.number
        with self._asking:
            self._keep()
            with core.engine_lock:
                changes, self._changes = self._changes or {}, {}
                hidden, now_ms = self._hidden(), core.now_ms()
            self._change(changes)
            return self._counted(span, now_ms, number, hidden)

    def _keep(self) -> None:
        """Read all keys into memory unless they are there; changes meanwhile are recorded."""
        core = self._core
        with core.engine_lock:
            if self._changes is not None:
                return
            self._changes, self._is_reading = {}, True
            core.on_effect.append(self._note)
        try:
            places, targets = self._read(VOLATILE)
            self._places, self._targets = self._read(PERSISTENT)
            volatile = zip(places, targets, strict=True)
            self._change({STAGING_LOW + place: target for place, target in volatile})
        except BaseException:
            with core.engine_lock:
                self._forget()
            raise
        finally:
            self._is_reading = False

    def _forget(self) -> None:
        """Drop the keys from memory and stop recording changes; the engine lock is held."""
        assert self._core.engine_lock.is_held()
        self._changes = None
        self._core.on_effect.remove(self._note)

    def _note(self, transaction: Transaction) -> None:
        """Record the staged messages that a transaction has added and removed.

        With more than 200,000 changes since the last call all keys are dropped instead.
        """
        changes = self._changes
        assert changes is not None
        for queue, row, _persistence in transaction.departures:
            if queue.is_staging:
                changes[row.k] = None
        for moving in transaction.moves:
            if moving.source.is_staging:
                changes.update(dict.fromkeys(moving.old_keys))
        for queue, row, _persistence in transaction.arrivals:
            if queue.is_staging:
                target = row.target_number
                changes[row.k] = _NO_TARGET if target is None else target
        if len(changes) > MAX_CHANGES and not self._is_reading:
            self._forget()

    def _read(self, persistence: int) -> tuple[array[int], array[int]]:
        """Return two arrays about all staged messages with one persistence, in key order.

        The first has their keys, less the lowest staging key, the second the numbers of their
        target queues.
        """
        core, places, targets = self._core, array("Q"), array("i")
        low = STAGING_LOW
        while True:
            bindings = (STAGING_LOW, low)
            if persistence == PERSISTENT:
                [page] = core.store.statistics_reader.rows(staged_page(_PAGE), bindings)
            else:
                with core.engine_lock:
                    core.check_running()
                    [page] = core.messages(persistence).fetch(staged_page(_PAGE), bindings)
            last, count, of_places, of_targets = page
            if not count:
                return places, targets
            low = last + 1
            for found, text in ((places, of_places), (targets, of_targets)):
                part = array(found.typecode, bytes.fromhex(text))
                if sys.byteorder == "little":
                    part.byteswap()
                found.extend(part)
            if count < _PAGE:
                return places, targets

    def _change(self, changes: Mapping[int, int | None]) -> None:
        """Apply changes to the arrays: key -> target number, None for a removed key."""
        if not changes:
            return
        old, old_targets = self._places, self._targets
        places, targets, done = array("Q"), array("i"), 0
        for key in sorted(changes):
            place, target = key - STAGING_LOW, changes[key]
            at = bisect_left(old, place, done)
            places.extend(old[done:at])
            targets.extend(old_targets[done:at])
            done = at + (at < len(old) and old[at] == place)
            if target is not None:
                places.append(place)
                targets.append(target)
        places.extend(old[done:])
        targets.extend(old_targets[done:])
        self._places, self._targets = places, targets

    def _hidden(self) -> list[int]:
        """Return the keys of hidden staged messages, except those that a pipeline releases."""
        core = self._core
        assert core.engine_lock.is_held()
        releasing = core.staging.releasing
        return [key for key, by in core.hidden.items() if key < 0 and by is not releasing]

    def _counted(
        self, span: Span, now_ms: int, number: int | None, hidden: list[int]
    ) -> DelayTimeline:
        """Return the counts for a span without the ``hidden`` keys.

        ``number`` is the number of the target queue; None counts all.
        """
        places = self._places
        first_ms = places[0] >> STAGING_ORDER_BITS if places else None
        last_ms = places[-1] >> STAGING_ORDER_BITS if places else None
        from_ms, before_ms, step_ms = _steps(span, first_ms, last_ms, now_ms)
        moments = [*range(from_ms, before_ms, step_ms), before_ms]
        ends = [bisect_left(places, moment_ms << STAGING_ORDER_BITS) for moment_ms in moments]
        out = self._places_of(hidden)
        # One count for each part between two ends; the first and the last lie outside.
        counts = [
            self._count(low, high, number, out) for low, high in pairwise([0, *ends, len(places)])
        ]
        return DelayTimeline(
            now_ms,
            from_ms,
            before_ms,
            step_ms,
            counts[1:-1],
            counts[0],
            counts[-1],
            first_ms,
            last_ms,
        )

    def _places_of(self, keys: list[int]) -> list[int]:
        """Return the array indexes of keys, ascending; unknown keys are left out."""
        places, found = self._places, list[int]()
        for key in keys:
            place = key - STAGING_LOW
            at = bisect_left(places, place)
            if at < len(places) and places[at] == place:
                found.append(at)
        return sorted(found)

    def _count(self, low: int, high: int, number: int | None, out: list[int]) -> int:
        """Return how many messages have an array index ``low <= i < high`` and not in ``out``.

        ``number`` is the number of the target queue; None counts all.
        """
        left_out = out[bisect_left(out, low) : bisect_left(out, high)]
        if number is None:
            return high - low - len(left_out)
        targets = self._targets
        return targets[low:high].count(number) - sum(targets[at] == number for at in left_out)


def _steps(
    span: Span, first_ms: int | None, last_ms: int | None, now_ms: int
) -> tuple[int, int, int]:
    """Return begin, end and step length in ms for a span; its open ends are set from the messages.

    ``first_ms`` and ``last_ms`` are the delivery times of the first and last message, None without
    any.
    """
    from_ms, before_ms, step_count = span
    if from_ms is None:
        from_ms = now_ms if first_ms is None else first_ms
        if before_ms is not None:
            from_ms = min(from_ms, before_ms)
    if before_ms is None:
        before_ms = max(from_ms, from_ms if last_ms is None else last_ms + 1)
    return from_ms, before_ms, max(1, -(-(before_ms - from_ms) // step_count))
