"""Finds delayed messages on the staging queue, by id, or by a filter in bounded steps."""

from __future__ import annotations

from mayfly.engine.core import Core
from mayfly.engine.delay.staging import DueWithPersistence, in_due_order
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found
from mayfly.lifetime.window import LATEST_DUE_MS
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.properties import read_properties
from mayfly.store.keys import STAGING_LOW, due_ms_of, id_hash, key_of_delayed_id, staging_key
from mayfly.store.messages import Due
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
