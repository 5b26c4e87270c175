"""The delivery delay processor: moves due messages from the staging queue to their targets.

Persistent messages with one descriptor and one target are moved together, by a few SQL statements;
so are copies of publications for one subscription. Other messages are moved one by one: those in
memory, those that owe a report, and those that fail because of a full queue, a damaged header or a
missing subscriber. Both ways keep the order of delivery times.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mayfly.engine import queue_state
from mayfly.engine.attributes import DDELAY_SPARK
from mayfly.engine.authority.checks import check_release
from mayfly.engine.core import Core
from mayfly.engine.delay.staging import (
    CAP_AT_RELEASE,
    DueWithPersistence,
    in_due_order,
    why_unsuitable,
)
from mayfly.engine.delivery import (
    MessageIds,
    OutgoingMessage,
    arrive,
    check_capacity,
    new_row,
)
from mayfly.engine.disposal import dead_letter, original_of, prepared_with_own_context, send_report
from mayfly.engine.expiry import discard_expired
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.engine.pubsub.publish import window_on
from mayfly.engine.queue_state import pass_over
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found, LocalQueue
from mayfly.engine.remote_queues import seen_in_transit
from mayfly.engine.state import BROKEN
from mayfly.engine.transaction import Moving, Transaction
from mayfly.lifetime.life import Event
from mayfly.lifetime.moments import is_expired
from mayfly.lifetime.reports import Cause, is_owed
from mayfly.lifetime.times import SECOND_MS
from mayfly.lifetime.window import DELAY_COMMAND_LEVEL, Window
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import (
    MQPER_PERSISTENT,
    MQQA_GET_INHIBITED,
    MQQA_PUT_INHIBITED,
    MQRO_DISCARD_MSG,
)
from mayfly.mqi.delay_header import HEADER_BYTES, STAGING_QUEUE
from mayfly.mqi.descriptor import Descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.keys import STAGING_LOW, due_ms_of, due_times_of, staging_key
from mayfly.store.messages import Alike, Due
from mayfly.store.units import StagedMove, StoredMessage
from mayfly.verbs.contracts.outcomes import NOBODY, DetectedBy, TerminatedBy

#: Bounded, so that a flood of due messages never holds other clients up for long; large enough
#: that the pages which one transaction dirties are shared by many messages.
BATCH = 2_000
#: When a message can neither be delivered nor disposed of, the next try comes after this (D21).
RETRY_MS = 10 * SECOND_MS
_LOG = logging.getLogger("mayfly.delay")
#: Messages that are compared before a statement looks for more of their kind.
_FIRST: Final = 16


class DelayProcessor:
    """Releases due messages in batches: by delivery time, then put order.

    It runs while the staging queue is usable. On z/OS it also shuts down when the queue is defined
    wrongly, until an operator restarts it (D28). With DDELAY(SPARK) a pipeline releases the
    messages instead, by the methods of this class (claims/claims.py).
    """

    def __init__(self, core: Core) -> None:
        """Begin with no message waiting for a retry; no delivery time is known yet."""
        self._core = core
        #: Messages that failed, by key, and when to try again.
        self._retry_at_ms: dict[int, int] = {}
        #: Why it has shut down by itself (z/OS), empty while it has not.
        self._shut_down_because = ""
        self._enabled_count = 0
        #: Whether the last batch was a full one: as many are likely to be due now.
        self._is_flooded = False

    @property
    def is_left_to_spark(self) -> bool:
        """Whether a pipeline, not this processor, releases delayed messages: DDELAY(SPARK)."""
        return self._core.registry.queue_manager.ddelay == DDELAY_SPARK

    def status(self) -> str:
        """Return ``running``, ``spark`` when a pipeline releases, or ``stopped:`` and why."""
        with self._core.engine_lock:
            why = self.why_stopped()
        if why:
            return f"stopped: {why}"
        return "spark" if self.is_left_to_spark else "running"

    def next_due_ms(self) -> int | None:
        """Return when this process must release or retry next, in ms since 1970; None for never.

        It is None while no message waits, while releases are stopped, and with DDELAY(SPARK).
        """
        return None if self.is_left_to_spark else self.next_release_ms()

    def next_release_ms(self) -> int | None:
        """Return the earliest delivery or retry time, also with DDELAY(SPARK), in ms since 1970.

        None while no message waits or releases are stopped.
        """
        if self.why_stopped():
            return None
        due_ms, moments = self._core.staging.due_ms, list(self._retry_at_ms.values())
        if due_ms is not None:
            moments.append(due_ms)
        return min(moments, default=None)

    def run(self) -> None:
        """Release one batch of due messages to their targets; does nothing when none is due.

        ``next_due_ms`` is in the past while more are due.
        """
        core = self._core
        with core.engine_lock:
            due_ms, now_ms = self.next_due_ms(), core.now_ms()
            if due_ms is None or due_ms > now_ms:
                return
            transactions = self._release_alike(now_ms) if self._is_flooded else []
            if not transactions:
                dues = self.due(now_ms, BATCH)
                self._is_flooded = len(dues) == BATCH
                transactions = self.release(dues, now_ms)
        if transactions:
            core.committer.run(*transactions)
        self.look_ahead()

    def look_ahead(self) -> None:
        """Read the earliest delivery time from the staging queue, and keep it for the clock."""
        with self._core.engine_lock:
            self._core.staging.due_ms = self._earliest()

    def why_stopped(self) -> str:
        """Return why no message is released now, as text; empty while releases run.

        The engine lock is held.
        """
        assert self._core.engine_lock.is_held()
        core = self._core
        if core.command_level < DELAY_COMMAND_LEVEL:
            return f"command level {core.command_level} knows no delivery delay"
        queue = core.registry.staging()
        if queue is None:
            return f"{STAGING_QUEUE} is not defined"
        if core.platform == "zos":
            return self._why_stopped_on_zos(queue)
        if queue.definition.get == MQQA_GET_INHIBITED:
            return f"GET(DISABLED) on {STAGING_QUEUE}"
        return ""

    def _why_stopped_on_zos(self, queue: LocalQueue) -> str:
        """Return why the processor is stopped on z/OS, as text; empty while it runs.

        A wrong definition of the staging queue stops it until an operator restarts it.
        """
        if self._enabled_count != self._core.staging.enabled_count:
            self._enabled_count = self._core.staging.enabled_count
            self._shut_down_because = ""
        if queue.definition.get == MQQA_GET_INHIBITED:
            return f"GET(DISABLED) on {STAGING_QUEUE}"
        if queue.definition.put == MQQA_PUT_INHIBITED:
            return f"PUT(DISABLED) on {STAGING_QUEUE}"
        self._shut_down_because = self._shut_down_because or why_unsuitable(self._core, queue)
        return self._shut_down_because

    def due(self, up_to_ms: int, limit: int) -> list[DueWithPersistence]:
        """Return up to ``limit`` messages due at or before ``up_to_ms``, by delivery time.

        Left out are messages that a unit of work, a browse lock or a pipeline hides, and those that
        wait for a retry. The list may be shorter than ``limit``, even empty, although more messages
        are due. The engine lock is held.
        """
        assert self._core.engine_lock.is_held()
        queue = self._core.registry.staging()
        if queue is None:
            return []
        now_ms = self._core.now_ms()
        for key in [k for k, at_ms in self._retry_at_ms.items() if at_ms <= now_ms]:
            del self._retry_at_ms[key]
        volatile, volatile_end = self._due_of_persistence(queue, VOLATILE, up_to_ms, limit)
        persistent, persistent_end = self._due_of_persistence(queue, PERSISTENT, up_to_ms, limit)
        # No message behind the last one read of either persistence may be released now.
        end = min(volatile_end, persistent_end)
        both = in_due_order(volatile, persistent)
        return [entry for entry in both if entry[0].k < end][:limit]

    def of_keys(self, keys: Sequence[int]) -> list[DueWithPersistence]:
        """Return staged messages by ascending keys, each with its persistence.

        Messages that a unit of work, a browse lock or a pipeline hides are included. Keys without a
        message are left out.
        """
        assert self._core.engine_lock.is_held()
        low, high, wanted = keys[0], keys[-1] + 1, frozenset(keys)
        volatile, persistent = (
            [due for due in self._between(persistence, low, high) if due.k in wanted]
            for persistence in (VOLATILE, PERSISTENT)
        )
        return in_due_order(volatile, persistent)

    def pass_over(self, key: int) -> None:
        """Note that all staged messages up to a key are hidden: searches begin after that key.

        They are hidden by a unit of work, a browse lock or a pipeline. Does nothing while a message
        waits for a retry.
        """
        assert self._core.engine_lock.is_held()
        queue = self._core.registry.staging()
        if queue is not None and not self._retry_at_ms:
            for persistence in (VOLATILE, PERSISTENT):
                pass_over(queue, persistence, key)

    def release(self, dues: Iterable[DueWithPersistence], now_ms: int) -> list[Transaction]:
        """Return the transactions that move due messages to their targets, or discard expired ones.

        The caller runs them. A message that cannot be delivered now stays and is tried again after
        10 seconds (D21). So does one that raises an unexpected error; it does not delay others.
        """
        assert self._core.engine_lock.is_held()
        left = list(dues)
        with self._core.alike_warnings.batch(now_ms):
            while (transactions := self._release(left, now_ms)) is None:
                left = [each for each in left if each[0].k not in self._retry_at_ms]
        return transactions

    def _release(self, dues: Iterable[DueWithPersistence], now_ms: int) -> list[Transaction] | None:
        """Return the transactions of :meth:`release`.

        None when a message raised an unexpected error. After None the transactions are undone, and
        the caller tries again without that message.
        """
        core, staging = self._core, self._core.registry.staging()
        if staging is None:
            return []
        release = ReleaseBatch(core, staging, now_ms)
        expired: list[Found] = []
        released_ms = dict[int | None, list[int]]()
        for due, persistence in dues:
            is_over = is_expired(due.expire_at_ms, now_ms)
            if not is_over and persistence == PERSISTENT and release.take_in_bulk(due):
                released_ms.setdefault(due.target_number, []).append(due_ms_of(due.k))
                continue
            row = core.messages(persistence).row(due.k)
            assert row is not None
            if is_over:
                expired.append((staging, row, persistence))
                continue
            try:
                is_released = release.take((staging, row, persistence))
            except BROKEN:
                raise
            except Exception:  # noqa: BLE001 - it says something of this message alone
                _LOG.exception("a delayed message stays on staging")
                for transaction in release.transactions():
                    core.committer.take_back(transaction)
                self._retry_at_ms[due.k] = now_ms + RETRY_MS
                return None
            if is_released:
                released_ms.setdefault(due.target_number, []).append(due_ms_of(due.k))
            else:
                self._retry_at_ms[due.k] = now_ms + RETRY_MS
        for target_number, due_times_ms in released_ms.items():
            self._note_released(target_number, due_times_ms, now_ms)
        transactions = release.transactions()
        if expired:
            transactions.append(discard_expired(core, expired, now_ms, DetectedBy.RELEASE))
        return transactions

    def _release_alike(self, now_ms: int) -> list[Transaction]:
        """Return the transactions that move the next due messages by one statement.

        The list is empty unless all of them have one target and descriptor, and all fit on the
        target.
        """
        core, staging = self._core, self._core.registry.staging()
        if staging is None or self._retry_at_ms:
            return []
        alike = due_alike(core, staging, staging_key(now_ms + 1, 0), now_ms, BATCH)
        release = ReleaseBatch(core, staging, now_ms)
        if alike is None or not release.take_alike(alike):
            return []
        self._note_released(alike.first.target_number, due_times_of(alike.keys), now_ms)
        return release.transactions()

    def _note_released(
        self, target_number: int | None, due_times_ms: list[int], now_ms: int
    ) -> None:
        """Count how late messages for one queue are released; None has no queue of its own."""
        self._core.release_lateness.note(due_times_ms, now_ms)
        target = None if target_number is None else self._core.target(target_number)
        if target is not None:
            target.release_lateness = target.release_lateness.plus(due_times_ms, now_ms)

    def _due_of_persistence(
        self, queue: LocalQueue, persistence: int, up_to_ms: int, limit: int
    ) -> tuple[list[Due], int]:
        """Return due messages with one persistence, and a key before which none is missing.

        The messages are due at ``up_to_ms``. At most ``limit`` are read; the list is empty when
        none is due.
        """
        core = self._core
        low, high = max(STAGING_LOW, queue.first[persistence]), staging_key(up_to_ms + 1, 0)
        while queue.present[persistence]:
            rows = core.messages(persistence).due(low, high, limit)
            free = [r for r in rows if r.k not in core.hidden and r.k not in self._retry_at_ms]
            if len(rows) < limit:
                return free, high
            low = rows[-1].k + 1
            if free:
                return free, low
        return [], high

    def _between(self, persistence: int, low: int, high: int) -> Iterator[Due]:
        """Yield the staged messages with one persistence, keys from ``low`` to before ``high``."""
        while low < high:
            rows = self._core.messages(persistence).due(low, high, BATCH)
            yield from rows
            low = rows[-1].k + 1 if len(rows) == BATCH else high

    def _earliest(self) -> int | None:
        """Return the earliest delivery time of a visible message not awaiting retry, or None."""
        core = self._core
        queue = core.registry.staging()
        if queue is None:
            return None
        keys = [
            key
            for persistence in (VOLATILE, PERSISTENT)
            if queue.present[persistence]
            and (key := self._lowest_free(queue, persistence)) is not None
        ]
        return due_ms_of(min(keys)) if keys else None

    def _lowest_free(self, queue: LocalQueue, persistence: int) -> int | None:
        """Return the lowest key with one persistence, not hidden or awaiting retry; else None."""
        messages, low = self._core.messages(persistence), max(STAGING_LOW, queue.first[persistence])
        while (key := messages.lowest_key(low, queue.high)) is not None:
            if key not in self._core.hidden and key not in self._retry_at_ms:
                return key
            low = key + 1
        return None


def due_alike(
    core: Core, staging: LocalQueue, before: int, now_ms: int, limit: int
) -> Alike | None:
    """Return the next due persistent messages before a key, if one statement can move them.

    ``staging`` is the staging queue. At most ``limit`` are returned. They have one target,
    subscription and descriptor. None when they must be examined one by one: they differ, are
    hidden, mix with non-persistent ones, or are too few.
    """
    assert core.engine_lock.is_held()
    messages, low = core.messages(PERSISTENT), max(STAGING_LOW, staging.first[PERSISTENT])
    first_count = min(_FIRST, limit)
    firsts = messages.due(low, before, first_count) if staging.present[PERSISTENT] else []
    if len(firsts) < first_count or any(_kind(due) != _kind(firsts[0]) for due in firsts):
        return None
    alike = messages.due_alike(firsts[0], before, now_ms, limit)
    if alike is None or not core.hidden.keys().isdisjoint(alike.keys):
        return None
    if staging.present[VOLATILE]:
        until = alike.keys[-1] + 1
        if core.messages(VOLATILE).lowest_key(staging.first[VOLATILE], until) is not None:
            return None
    return alike


def _kind(due: Due) -> tuple[str | None, int | None, bytes | None, bytes]:
    """Return target, its queue number, subscription id and descriptor of a delayed message.

    One statement can move messages only where all four are equal.
    """
    return due.target, due.target_number, due.sub_id, due.descriptor


class _BulkMove:
    """Persistent staged messages with one descriptor that move to one queue together."""

    def __init__(self, core: Core, path: ResolvedQueue, descriptor: Descriptor) -> None:
        """Begin without messages; all will have this descriptor and the queue of ``path``."""
        self.path = path
        self.descriptor = descriptor
        self.base_key = path.slots[prepared_with_own_context(core, descriptor).order_priority]
        self.largest_bytes = path.largest_bytes
        self.old_keys: list[int] = []
        self.new_keys: list[int] = []
        self.target_numbers: Counter[int | None] = Counter()

    def is_consecutive(self) -> bool:
        """Return True if the new keys are consecutive and the old ones ascend.

        False when another batch took sequence numbers in between.
        """
        if self.new_keys[-1] - self.new_keys[0] != len(self.new_keys) - 1:
            return False
        return self.old_keys == sorted(self.old_keys)

    def pairs(self) -> str:
        """Return old and new keys as JSON, ``{"-9":281,"-8":282}``; see store.units.Move."""
        pairs = zip(self.old_keys, self.new_keys, strict=True)
        return "{" + ",".join([f'"{old}":{new}' for old, new in pairs]) + "}"


class ReleaseBatch:
    """One batch of due messages to be released, collected under the engine lock as transactions."""

    def __init__(self, core: Core, staging: LocalQueue, now_ms: int) -> None:
        """Begin without messages; ``staging`` is the staging queue.

        ``now_ms`` is the time of the releases. The engine lock is held.
        """
        assert core.engine_lock.is_held()
        self._core = core
        self._staging = staging
        self._now_ms = now_ms
        self._work = Transaction()
        self._failures: list[Transaction] = []
        self._batches: dict[tuple[str | None, bytes | None, bytes], _BulkMove | None] = {}

    def take_in_bulk(self, due: Due) -> bool:
        """Add a persistent message to those that move together.

        Returns False, with nothing added, when it must move by itself or its target queue is full.
        """
        # By take_alike, as the one of its kind, each would take 1.5 µs more.
        batch = self._batch_for(due, due.body_bytes)
        if batch is None:
            return False
        queue = batch.path.queue
        if queue.depth >= batch.path.max_depth:
            return False
        queue_state.reserve(queue)
        batch.old_keys.append(due.k)
        batch.new_keys.append(batch.base_key | self._core.store.sequence.next())
        batch.target_numbers[due.target_number] += 1
        return True

    def take_alike(self, alike: Alike) -> bool:
        """Add messages with one target and descriptor to those that move together.

        Returns False, with nothing added, when they must move one by one or do not all fit.
        """
        first, keys, largest_bytes = alike
        batch, count = self._batch_for(first, largest_bytes), len(keys)
        if batch is None or batch.path.queue.depth + count > batch.path.max_depth:
            return False
        queue_state.reserve(batch.path.queue, count)
        new_key = batch.base_key | self._core.store.sequence.next_range(count)
        batch.old_keys += keys
        batch.new_keys += range(new_key, new_key + count)
        batch.target_numbers[first.target_number] += count
        return True

    def take(self, found: Found) -> bool:
        """Add the release of one message; when its delivery fails, discard or dead-letter it (D20).

        Returns False, with nothing changed, if it must stay on the staging queue (D21).
        """
        core, (_queue, row, _persistence) = self._core, found
        descriptor = unpack_descriptor(row.descriptor)
        terminated_by = (
            NOBODY if row.released_by is None else TerminatedBy(ended_by=row.released_by)
        )
        try:
            self._deliver(row, descriptor)
        except MQError as failure:
            # A separate transaction, as it may have to be undone alone (D22).
            own = Transaction()
            self._failures.append(own)
            event = self._dispose(own, found, descriptor, failure.reason)
            if event is None:
                self._failures.pop()
                queue_state.withdraw_all(own)
                text = f"message for {row.target} stays on staging: {failure}"
                self._warn(("stays", row.target, failure.reason), text, row)
                return False
            queue_state.end(
                core,
                own,
                found,
                event,
                self._now_ms,
                terminated_by=terminated_by,
                reason=failure.reason,
            )
        else:
            queue_state.end(
                core, self._work, found, Event.DUE, self._now_ms, terminated_by=terminated_by
            )
        return True

    def transactions(self) -> list[Transaction]:
        """Return the transactions of this batch, to be run after the engine lock is released."""
        for batch in self._batches.values():
            if batch is not None and batch.old_keys:
                self._add_batch(batch)
        delivered = [self._work] if self._work.departures or self._work.moves else []
        return delivered + self._failures

    def _batch_for(self, due: Due, largest_bytes: int) -> _BulkMove | None:
        """Return the batch in which a message with up to ``largest_bytes`` of data can move.

        None when such messages must move one by one.
        """
        # Messages for one subscription go together, whatever their topic.
        place = (due.target, due.sub_id, due.descriptor)
        if place not in self._batches:
            self._batches[place] = self._new_batch(due)
        batch = self._batches[place]
        # The records of a batch have the backout count 0.
        if batch is None or largest_bytes > batch.largest_bytes or due.backout_count:
            return None
        return None if due.ttl_from_release == CAP_AT_RELEASE else batch

    def _new_batch(self, due: Due) -> _BulkMove | None:
        """Return a new batch for messages like ``due``, None if such messages must move singly."""
        core = self._core
        if due.target is None:
            return None
        try:
            descriptor = unpack_descriptor(due.descriptor)
            path = self._path_of(due, descriptor)
        except (MQError, UnicodeError):
            # Taken by itself, it says what is wrong.
            return None
        queue = path.queue
        hindered = (
            is_owed(Cause.COA, descriptor)
            or path.put_inhibited
            or path.remote is not None
            or queue.owner is not core
            or queue.is_staging
            or path.is_temporary
        )
        return None if hindered else _BulkMove(core, path, descriptor)

    def _path_of(self, message: Due | StoredMessage, descriptor: Descriptor) -> ResolvedQueue:
        """Return the path to the target of a due message, which is resolved a second time (D15).

        Raises MQRC_NOT_AUTHORIZED, MQRC_NO_SUBSCRIPTION for a copy whose subscription is gone, and
        the errors of ``resolve_target``.
        """
        assert message.target is not None
        registry = self._core.registry
        if message.sub_id is not None:
            return registry.resolve_target(
                registry.subscriptions.destination(message, self._now_ms)
            )
        path = registry.resolve_target(message.target)
        check_release(self._core, descriptor.user_identifier, message.target)
        return path

    def _add_batch(self, batch: _BulkMove) -> None:
        """Add the move of one batch of messages to the transaction."""
        transaction, count = self._work, len(batch.old_keys)
        descriptor, target = batch.descriptor, batch.path.queue
        is_consecutive = batch.is_consecutive()
        transaction.unit.move(
            self._staging.number,
            target.number,
            StagedMove(
                "" if is_consecutive else batch.pairs(),
                count,
                self._staging.name,
                self._now_ms,
                queue_state.RELEASED,
                descriptor.priority,
                descriptor.report,
                descriptor.reply_to_q,
                descriptor.user_identifier,
                HEADER_BYTES,
                min(batch.old_keys),
                max(batch.old_keys),
                batch.new_keys[0] if is_consecutive else 0,
                batch.old_keys if is_consecutive else None,
            ),
        )
        queue_state.add_move(
            transaction, Moving(self._staging, target, batch.old_keys, batch.new_keys)
        )
        for number, staged in batch.target_numbers.items():
            if number is not None:
                queue_state.count_released(transaction, self._staging, number, staged)

    def _deliver(self, row: StoredMessage, descriptor: Descriptor) -> None:
        """Add the put of a due message to its target.

        Its COA report is added too. Raises the MQError with which a put refuses the message, such
        as MQRC_Q_FULL, and MQRC_HEADER_ERROR for a message without a target.
        """
        core, transaction = self._core, self._work
        if row.target is None:
            raise mq_error(rc.MQRC_HEADER_ERROR, f"no delay header on {STAGING_QUEUE}")
        path = self._path_of(row, descriptor)
        prepared = prepared_with_own_context(core, descriptor)
        check_capacity(path, prepared, len(row.body))
        window = _window(row)
        if row.ttl_from_release == CAP_AT_RELEASE:
            window = window_on(path, window)
        ids = MessageIds(row.msg_id, row.correl_id, row.shown_id)
        message = OutgoingMessage(prepared, window, ids, row.body)
        arrive(
            core,
            transaction,
            path,
            prepared,
            new_row(core, path, message)._replace(topic=row.topic, released_by=row.released_by),
        )
        if path.remote is None and is_owed(Cause.COA, descriptor):
            original = original_of(self._staging, row, descriptor, self._now_ms)
            send_report(core, transaction, Cause.COA, original)

    def _dispose(
        self, transaction: Transaction, found: Found, descriptor: Descriptor, reason: int
    ) -> Event | None:
        """Discard or dead-letter an undeliverable message, and send its exception report (D20).

        Report options decide. Returns DISCARD or DEAD_LETTER, or None when the message must stay
        (D21). A publication is discarded, even without a report, when its subscription is gone
        (D23), its topic has USEDLQ(NO), or it cannot be dead-lettered (D24). ``reason`` is why it
        cannot be delivered.
        """
        is_undone_without_report = descriptor.persistence == MQPER_PERSISTENT
        core, (queue, row, _persistence) = self._core, found
        original = original_of(queue, row, descriptor, self._now_ms)
        if descriptor.report & MQRO_DISCARD_MSG or self._is_dropped(row, reason):
            event = Event.DISCARD
        else:
            ids = MessageIds(original.msg_id, row.correl_id, row.shown_id)
            body = seen_in_transit(row, self._now_ms).body
            message = OutgoingMessage(
                prepared_with_own_context(core, descriptor), _window(row), ids, body
            )
            try:
                dead_letter(core, transaction, message, reason, row.target or STAGING_QUEUE)
                event = Event.DEAD_LETTER
            except MQError as error:
                text = f"dead-letter queue refuses a delayed message for {row.target}: {error}"
                self._warn(("letter", row.target, error.reason), text, row)
                if row.sub_id is None:
                    return None
                # D22 undoes an action that has succeeded; where this one fails, the source says, a
                # publication is discarded.
                event, is_undone_without_report = Event.DISCARD, False
        # This report goes to the dead-letter queue even if its options ask to discard it (D22).
        is_sent = send_report(
            core, transaction, Cause.EXCEPTION, original, reason, always_kept=True
        )
        # A persistent message does not go while its report can reach no queue (D22).
        if not is_sent and is_undone_without_report:
            return None
        return event

    def _warn(self, kind: tuple[object, ...], text: str, row: StoredMessage) -> None:
        """Log a warning about the message ``row``; one line has all warnings of a kind in a batch.

        ``kind`` is any value that equal warnings share, ``text`` the line.
        """
        self._core.alike_warnings.note(_LOG, kind, self._now_ms, text, key=row.k)

    def _is_dropped(self, row: StoredMessage, reason: int) -> bool:
        """Return True for a publication that is never dead-lettered.

        Its subscription is gone, or its topic has USEDLQ(NO). ``reason`` is why it cannot be
        delivered.
        """
        if row.topic is None:
            return False
        uses_dead_letters = self._core.registry.topics.values(row.topic).uses_dead_letters
        return reason == rc.MQRC_NO_SUBSCRIPTION or not uses_dead_letters


def _window(row: StoredMessage) -> Window:
    """Return put, delivery and expiry time of a staged message."""
    return Window(row.put_ms, row.deliver_at_ms or row.put_ms, row.expire_at_ms, row.capped_by)
