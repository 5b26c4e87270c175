"""The release of messages whose delivery time has come: to their targets, in bulk where possible.

Persistent messages of one descriptor and one target are moved together, by few statements for all
of them; so are copies of publications for one subscription. Other messages go one by one: those
with a report to send, for a full queue, with a damaged header, for a subscriber that is gone, or in
memory only. Both ways keep due order.
"""

from __future__ import annotations

import logging
from collections import Counter

from mayfly.engine import holding
from mayfly.engine.authority.checks import check_release
from mayfly.engine.core import Core
from mayfly.engine.delay.staging import CAP_AT_RELEASE
from mayfly.engine.delivery import Ids, OutgoingMessage, arrive, check_room, new_row, size_on
from mayfly.engine.disposal import as_given, dead_letter, original_of, send_report
from mayfly.engine.objects.registry import Path
from mayfly.engine.pubsub.delayed_copies import window_on
from mayfly.engine.queues import Found, LocalQueue
from mayfly.engine.remote.wrapping import seen_in_transit
from mayfly.engine.transaction import Moving, Transaction
from mayfly.lifetime.life import Event
from mayfly.lifetime.reports import Cause, is_owed
from mayfly.lifetime.window import Window
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQPER_PERSISTENT, MQRO_DISCARD_MSG
from mayfly.mqi.delay_header import HEADER_BYTES, STAGING_QUEUE
from mayfly.mqi.descriptor import Descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.messages import Alike, Due
from mayfly.store.units import Move, StoredMessage
from mayfly.verbs.contracts.outcomes import NOBODY, Ending

_LOG = logging.getLogger("mayfly.delay")


class _Lane:
    """Messages of one descriptor that go to one queue together."""

    def __init__(self, core: Core, path: Path, descriptor: Descriptor) -> None:
        """Begin with none; the path has been found open for them."""
        self.path = path
        self.descriptor = descriptor
        self.base_key = path.slots[as_given(core, descriptor).order_priority]
        self.largest_bytes = path.largest_bytes
        self.old_keys: list[int] = []
        self.new_keys: list[int] = []
        self.target_numbers: Counter[int | None] = Counter()

    def is_run(self) -> bool:
        """Return True if the new keys are consecutive, as those of one lane alone are.

        They rise, for so does the sequence number in them.
        """
        if self.new_keys[-1] - self.new_keys[0] != len(self.new_keys) - 1:
            return False
        return self.old_keys == sorted(self.old_keys)

    def pairs(self) -> str:
        """Return the old keys with the new ones as JSON, see store.units.Move."""
        pairs = zip(self.old_keys, self.new_keys, strict=True)
        return "{" + ",".join([f'"{old}":{new}' for old, new in pairs]) + "}"


class Release:
    """One batch of due messages: it is built under the lock, then its transactions are run."""

    def __init__(self, core: Core, staging: LocalQueue, now_ms: int) -> None:
        """Begin an empty batch."""
        assert core.engine_lock.is_held()
        self._core = core
        self._staging = staging
        self._now_ms = now_ms
        self._work = Transaction()
        self._failures: list[Transaction] = []
        self._lanes: dict[tuple[str | None, bytes | None, bytes], _Lane | None] = {}

    def take_in_bulk(self, due: Due) -> bool:
        """Add a persistent message to those that move together; False when it cannot."""
        lane = self._lane_for(due, due.body_bytes)
        if lane is None:
            return False
        queue = lane.path.queue
        if queue.depth >= lane.path.max_depth:
            return False
        holding.reserve(queue)
        lane.old_keys.append(due.k)
        lane.new_keys.append(lane.base_key | self._core.store.sequence.next())
        lane.target_numbers[due.target_number] += 1
        return True

    def take_alike(self, alike: Alike) -> bool:
        """Add persistent messages that are alike to those that move; False when not all can."""
        first, keys, largest_bytes = alike
        lane, count = self._lane_for(first, largest_bytes), len(keys)
        if lane is None or lane.path.queue.depth + count > lane.path.max_depth:
            return False
        holding.reserve(lane.path.queue, count)
        new_key = lane.base_key | self._core.store.sequence.next_run(count)
        lane.old_keys += keys
        lane.new_keys += range(new_key, new_key + count)
        lane.target_numbers[first.target_number] += count
        return True

    def take(self, found: Found) -> bool:
        """Release one message, or deal with its failure (D20); False when it must stay (D21)."""
        core, (_queue, row, _side) = self._core, found
        descriptor = unpack_descriptor(row.descriptor)
        ending = NOBODY if row.released_by is None else Ending(ended_by=row.released_by)
        try:
            self._deliver(row, descriptor)
        except MQError as failure:
            # A transaction of its own: it may have to be undone alone (D22).
            own = Transaction()
            self._failures.append(own)
            event = self._dispose(own, found, descriptor, failure.reason)
            if event is None:
                self._failures.pop()
                holding.withdraw_all(own)
                said = f"message for {row.target} stays on staging: {failure}"
                self._warn(("stays", row.target, failure.reason), said, row)
                return False
            holding.end(core, own, found, event, self._now_ms, ending=ending, reason=failure.reason)
        else:
            holding.end(core, self._work, found, Event.DUE, self._now_ms, ending=ending)
        return True

    def transactions(self) -> list[Transaction]:
        """Return what is to be run, with the lock free again."""
        for lane in self._lanes.values():
            if lane is not None and lane.old_keys:
                self._add_lane(lane)
        delivered = [self._work] if self._work.departures or self._work.moves else []
        return delivered + self._failures

    def _lane_for(self, due: Due, largest_bytes: int) -> _Lane | None:
        """Return the lane of messages with data of up to so many bytes, None when there is none."""
        # Messages for one subscription go together, whatever their topic.
        place = (due.target, due.sub_id, due.descriptor)
        if place not in self._lanes:
            self._lanes[place] = self._lane(due)
        lane = self._lanes[place]
        # The lives of those that move together say that nobody has had them before.
        if lane is None or largest_bytes > lane.largest_bytes or due.backout_count:
            return None
        return None if due.ttl_from_release == CAP_AT_RELEASE else lane

    def _lane(self, due: Due) -> _Lane | None:
        core, name = self._core, due.target
        if name is None:
            return None
        try:
            descriptor = unpack_descriptor(due.descriptor)
            if due.sub_id is not None:
                name = core.registry.subscriptions.destination(due, self._now_ms)
            # The second resolution (D15).
            path = core.registry.resolve_target(name)
            if due.sub_id is None:
                check_release(core, descriptor.user_identifier, name)
        except (MQError, UnicodeError):
            # Taken by itself, it says what is wrong.
            return None
        queue = path.queue
        hindered = (
            is_owed(Cause.COA, descriptor)
            or path.put_inhibited
            or path.remote is not None
            or queue.home is not core
            or queue.is_staging
            or path.is_temporary
        )
        return None if hindered else _Lane(core, path, descriptor)

    def _add_lane(self, lane: _Lane) -> None:
        transaction, count = self._work, len(lane.old_keys)
        descriptor, target = lane.descriptor, lane.path.queue
        is_run = lane.is_run()
        transaction.unit.move(
            self._staging.number,
            target.number,
            Move(
                "" if is_run else lane.pairs(),
                count,
                self._staging.name,
                self._now_ms,
                holding.RELEASED,
                descriptor.priority,
                descriptor.report,
                descriptor.reply_to_q,
                descriptor.user_identifier,
                HEADER_BYTES,
                min(lane.old_keys),
                max(lane.old_keys),
                lane.new_keys[0] if is_run else 0,
                lane.old_keys if is_run else None,
            ),
        )
        holding.leave(transaction, Moving(self._staging, target, lane.old_keys, lane.new_keys))
        for number, staged in lane.target_numbers.items():
            if number is not None:
                holding.count_released(transaction, self._staging, number, staged)

    def _deliver(self, row: StoredMessage, descriptor: Descriptor) -> None:
        """Resolve the target a second time (D15) and put the original message there."""
        core, transaction = self._core, self._work
        if row.target is None:
            raise mq_error(rc.MQRC_HEADER_ERROR, f"no delay header on {STAGING_QUEUE}")
        name = row.target
        if row.sub_id is not None:
            name = core.registry.subscriptions.destination(row, self._now_ms)
        path = core.registry.resolve_target(name)
        if row.sub_id is None:
            check_release(core, descriptor.user_identifier, name)
        prepared = as_given(core, descriptor)
        size_bytes = size_on(path, descriptor, len(row.body))
        check_room(path, size_bytes, persistent=prepared.persistent)
        window = _window(row)
        if row.ttl_from_release == CAP_AT_RELEASE:
            window = window_on(path, window)
        ids = Ids(row.msg_id, row.correl_id, row.shown_id)
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
        """Discard or dead-letter as the report options say (D20); None when that fails (D21).

        A publication is discarded when its subscriber is gone (D23), when its topic says
        USEDLQ(NO), and when it cannot be dead-lettered (D24): then whatever becomes of its report.
        """
        is_undone_without_report = descriptor.persistence == MQPER_PERSISTENT
        core, (queue, row, _side) = self._core, found
        original = original_of(queue, row, descriptor, self._now_ms)
        if descriptor.report & MQRO_DISCARD_MSG or self._is_dropped(row, reason):
            event = Event.DISCARD
        else:
            ids = Ids(original.msg_id, row.correl_id, row.shown_id)
            body = seen_in_transit(row, self._now_ms).body
            message = OutgoingMessage(as_given(core, descriptor), _window(row), ids, body)
            try:
                dead_letter(core, transaction, message, reason, row.target or STAGING_QUEUE)
                event = Event.DEAD_LETTER
            except MQError as error:
                said = f"dead-letter queue refuses a delayed message for {row.target}: {error}"
                self._warn(("letter", row.target, error.reason), said, row)
                if row.sub_id is None:
                    return None
                # D22 undoes an action that has succeeded; where this one fails, the source says, a
                # publication is discarded.
                event, is_undone_without_report = Event.DISCARD, False
        # Of this one the rule is that it goes to the dead-letter queue, whatever it asks for (D22).
        is_sent = send_report(
            core, transaction, Cause.EXCEPTION, original, reason, always_kept=True
        )
        # A persistent message does not go while its report can reach no queue (D22).
        if not is_sent and is_undone_without_report:
            return None
        return event

    def _warn(self, kind: tuple[object, ...], said: str, row: StoredMessage) -> None:
        self._core.alike_warnings.note(_LOG, kind, self._now_ms, said, key=row.k)

    def _is_dropped(self, row: StoredMessage, reason: int) -> bool:
        """Return True if a message is the copy of a publication that is to be dropped."""
        if row.topic is None:
            return False
        uses_dead_letters = self._core.registry.topics.values(row.topic).uses_dead_letters
        return reason == rc.MQRC_NO_SUBSCRIPTION or not uses_dead_letters


def _window(row: StoredMessage) -> Window:
    return Window(row.put_ms, row.deliver_at_ms or row.put_ms, row.expire_at_ms, row.capped_by)
