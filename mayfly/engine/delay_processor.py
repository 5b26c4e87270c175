"""The delivery delay processor: moves messages whose time has come from staging to their target."""

from __future__ import annotations

import logging

from mayfly.engine.alive import Found
from mayfly.engine.core import Core, Work
from mayfly.engine.delivery import Outgoing, arrive, check_room, life_of, new_row
from mayfly.engine.disposal import as_given, dead_letter, discard_expired, remove, send_report
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue
from mayfly.engine.staging import Staged, read_staged
from mayfly.lifetime.life import Event, State, next_state
from mayfly.lifetime.reports import Cause, Original, is_owed
from mayfly.lifetime.times import SECOND_MS
from mayfly.lifetime.window import Window, is_expired, remaining_ms
from mayfly.mqi.constants import MQPER_PERSISTENT, MQRO_DISCARD_MSG
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.mqi.errors import MQError
from mayfly.store.keys import STAGING_LOW, due_ms_of, staging_key
from mayfly.store.units import StoredMessage

_LOG = logging.getLogger("mayfly.delay")
#: Bounded, so that a flood of due messages never holds other clients up for long.
_BATCH = 1_000
#: When a message can neither be delivered nor disposed of, the next try comes after this (D21).
RETRY_MS = 10 * SECOND_MS
_RELEASED = next_state(State.DELAYED, Event.DUE)
_DISCARDED = next_state(State.DELAYED, Event.DISCARD)
_DEAD_LETTERED = next_state(State.DELAYED, Event.DEAD_LETTER)


class DelayProcessor:
    """Releases due messages in batches: by delivery time, then put order."""

    def __init__(self, core: Core) -> None:
        """Begin; the store is asked at the first look."""
        self._core = core
        #: Messages that failed, by key, and when to try again.
        self._retry_at_ms: dict[int, int] = {}

    def next_due_ms(self) -> int | None:
        """Return the earliest delivery or retry time, None when nothing waits."""
        due = [t for t in (self._core.staging_due_ms, self._next_retry_ms()) if t is not None]
        return min(due, default=None)

    def run(self) -> None:
        """Release everything that is due."""
        core = self._core
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > core.now_ms():
            return
        while self._release_batch() == _BATCH:
            pass
        with core.latch:
            core.staging_due_ms = self._earliest()

    def _release_batch(self) -> int:
        core = self._core
        with core.latch:
            queue = core.registry.staging()
            if queue is None:
                return 0
            now_ms = core.now_ms()
            found = self._due(queue, now_ms)
            expired = [f for f in found if is_expired(f[1].expire_at_ms, now_ms)]
            work = Work()
            works = [work]
            for due in found:
                if not is_expired(due[1].expire_at_ms, now_ms):
                    works.extend(self._release(work, due, now_ms))
            works = [w for w in works if w.departures]
            if expired:
                works.append(discard_expired(core, expired, now_ms))
        if works:
            core.run(*works)
        return len(found)

    def _due(self, queue: LocalQueue, now_ms: int) -> list[Found]:
        """Return the next batch of both sides by key, without hidden ones and those that failed."""
        core = self._core
        for key in [k for k, at_ms in self._retry_at_ms.items() if at_ms <= now_ms]:
            del self._retry_at_ms[key]
        found: list[Found] = []
        for side in (VOLATILE, PERSISTENT):
            low = max(STAGING_LOW, queue.first[side])
            high = staging_key(now_ms + 1, 0)
            while queue.present[side]:
                rows = core.messages(side).in_order(low, high, _BATCH)
                visible = [r for r in rows if self._is_free(r)]
                found.extend((queue, row, side) for row in visible)
                if visible or len(rows) < _BATCH:
                    break
                low = rows[-1].k + 1
        found.sort(key=lambda f: f[1].k)
        return found[:_BATCH]

    def _is_free(self, row: StoredMessage) -> bool:
        return row.k not in self._core.hidden and row.k not in self._retry_at_ms

    def _release(self, work: Work, found: Found, now_ms: int) -> list[Work]:
        """Add a delivery to a work, or return the work that deals with its failure (D20, D21)."""
        core = self._core
        queue, row, _side = found
        descriptor = unpack_descriptor(row.descriptor)
        staged = read_staged(row, descriptor)
        try:
            self._deliver(work, row, staged)
        except MQError as failure:
            # A work of its own: it may have to be undone alone (D22).
            own, reason = Work(), failure.reason
            outcome = self._dispose(own, row, staged, reason)
            if outcome is None:
                core.unreserve(own)
                self._retry_at_ms[row.k] = now_ms + RETRY_MS
                _LOG.warning("message for %s stays on staging: %s", staged.target, failure)
                return []
            life = life_of(queue, row, descriptor, now_ms, outcome, reason=reason)
            remove(core, own, found, life)
            return [own]
        remove(core, work, found, life_of(queue, row, descriptor, now_ms, _RELEASED))
        return []

    def _deliver(self, work: Work, row: StoredMessage, staged: Staged) -> None:
        """Resolve the target a second time (D15) and put the original message there."""
        core = self._core
        path = core.registry.resolve(staged.target)
        prepared = as_given(core, staged.descriptor)
        check_room(core, path, len(staged.body), persistent=prepared.persistent)
        window = Window(row.put_ms, due_ms_of(row.k), row.expire_at_ms)
        target = new_row(core, path, Outgoing(prepared, window, staged.ids, staged.body))
        arrive(core, work, path, prepared, target)
        original = self._original(row, staged)
        if is_owed(Cause.COA, staged.descriptor):
            send_report(core, work, Cause.COA, original)

    def _dispose(self, work: Work, row: StoredMessage, staged: Staged, reason: int) -> State | None:
        """Discard or dead-letter as the report options say (D20); None when that fails (D21)."""
        core = self._core
        if staged.descriptor.report & MQRO_DISCARD_MSG:
            outcome = _DISCARDED
        else:
            window = Window(row.put_ms, due_ms_of(row.k), row.expire_at_ms)
            prepared = as_given(core, staged.descriptor)
            message = Outgoing(prepared, window, staged.ids, staged.body)
            try:
                dead_letter(core, work, message, reason, staged.target)
            except MQError as error:
                _LOG.warning("dead-letter queue refuses a delayed message: %s", error)
                return None
            outcome = _DEAD_LETTERED
        is_sent = send_report(core, work, Cause.EXCEPTION, self._original(row, staged), reason)
        # A persistent message does not go while its report can reach no queue (D22).
        if not is_sent and staged.descriptor.persistence == MQPER_PERSISTENT:
            return None
        return outcome

    def _original(self, row: StoredMessage, staged: Staged) -> Original:
        left_ms = remaining_ms(row.expire_at_ms, self._core.now_ms())
        return Original(
            staged.descriptor, staged.ids.msg_id, staged.ids.correl_id, staged.body, left_ms
        )

    def _next_retry_ms(self) -> int | None:
        return min(self._retry_at_ms.values(), default=None)

    def _earliest(self) -> int | None:
        core = self._core
        queue = core.registry.staging()
        if queue is None:
            return None
        keys = [
            key
            for side in (VOLATILE, PERSISTENT)
            if queue.present[side] and (key := self._lowest_free(queue, side)) is not None
        ]
        return due_ms_of(min(keys)) if keys else None

    def _lowest_free(self, queue: LocalQueue, side: int) -> int | None:
        messages, low = self._core.messages(side), STAGING_LOW
        while (key := messages.lowest_key(low, queue.high)) is not None:
            if key not in self._core.hidden and key not in self._retry_at_ms:
                return key
            low = key + 1
        return None
