"""The delivery delay processor: moves messages whose time has come from staging to their target."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge

from mayfly.engine.attributes.of_manager import DDELAY_SPARK
from mayfly.engine.core import Core
from mayfly.engine.delay.alike import due_alike
from mayfly.engine.delay.release import Release
from mayfly.engine.delay.staging import why_unsuitable
from mayfly.engine.expiry import discard_expired
from mayfly.engine.holding import pass_over
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found, LocalQueue
from mayfly.engine.state import BROKEN
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.moments import is_expired
from mayfly.lifetime.times import SECOND_MS
from mayfly.lifetime.window import DELAY_COMMAND_LEVEL
from mayfly.mqi.constants import MQQA_GET_INHIBITED, MQQA_PUT_INHIBITED
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.store.keys import STAGING_LOW, due_ms_of, due_times_of, staging_key
from mayfly.store.messages import Due
from mayfly.verbs.contracts.outcomes import MetBy

#: Bounded, so that a flood of due messages never holds other clients up for long; large enough
#: that the pages which one transaction dirties are shared by many messages.
BATCH = 2_000
#: A staged message and its side.
DueOfSide = tuple[Due, int]
#: When a message can neither be delivered nor disposed of, the next try comes after this (D21).
RETRY_MS = 10 * SECOND_MS
_LOG = logging.getLogger("mayfly.delay")


class DelayProcessor:
    """Releases due messages in batches: by delivery time, then put order.

    It runs whenever the staging queue lets it. On z/OS it also shuts down when the queue is not as
    it must be, and then stays down until an operator restarts it (D28). With DDELAY(SPARK) it
    leaves the release to a pipeline, which takes what is due here and lets it go here
    (claims/staging_queue.py).
    """

    def __init__(self, core: Core) -> None:
        """Begin; the store is asked at the first look."""
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
        """Whether a pipeline releases delayed messages: DDELAY(SPARK)."""
        return self._core.registry.queue_manager.ddelay == DDELAY_SPARK

    def status(self) -> str:
        """Return ``running``, ``spark`` when a pipeline is to do it, or ``stopped:`` and why."""
        with self._core.engine_lock:
            why = self.why_stopped()
        if why:
            return f"stopped: {why}"
        return "spark" if self.is_left_to_spark else "running"

    def next_due_ms(self) -> int | None:
        """Return the earliest delivery or retry time, None when nothing waits for it."""
        return None if self.is_left_to_spark else self.next_release_ms()

    def next_release_ms(self) -> int | None:
        """Return the earliest delivery or retry time, None when nothing waits or may go."""
        if self.why_stopped():
            return None
        due = [t for t in (self._core.staging.due_ms, self._next_retry_ms()) if t is not None]
        return min(due, default=None)

    def run(self) -> None:
        """Release one batch of what is due; more is due when ``next_due_ms`` says so."""
        core = self._core
        with core.engine_lock:
            due_ms, now_ms = self.next_due_ms(), core.now_ms()
            if due_ms is None or due_ms > now_ms:
                return
            transactions = self._let_go_alike(now_ms) if self._is_flooded else []
            if not transactions:
                dues = self.due(now_ms, BATCH)
                self._is_flooded = len(dues) == BATCH
                transactions = self.let_go(dues, now_ms)
        if transactions:
            core.committer.run(*transactions)
        self.look_ahead()

    def look_ahead(self) -> None:
        """Note when the next message is due."""
        with self._core.engine_lock:
            self._core.staging.due_ms = self._earliest()

    def why_stopped(self) -> str:
        """Say why nothing is released now, empty when it is."""
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
        if self._enabled_count != self._core.staging.enabled_count:
            self._enabled_count = self._core.staging.enabled_count
            self._shut_down_because = ""
        if queue.definition.get == MQQA_GET_INHIBITED:
            return f"GET(DISABLED) on {STAGING_QUEUE}"
        if queue.definition.put == MQQA_PUT_INHIBITED:
            return f"PUT(DISABLED) on {STAGING_QUEUE}"
        self._shut_down_because = self._shut_down_because or why_unsuitable(self._core, queue)
        return self._shut_down_because

    def due(self, up_to_ms: int, limit: int) -> list[DueOfSide]:
        """Return what is due, in order, without hidden messages and those that failed.

        Of both sides together there may be fewer than ``limit`` although more are due.
        """
        assert self._core.engine_lock.is_held()
        queue = self._core.registry.staging()
        if queue is None:
            return []
        now_ms = self._core.now_ms()
        for key in [k for k, at_ms in self._retry_at_ms.items() if at_ms <= now_ms]:
            del self._retry_at_ms[key]
        volatile, volatile_end = self._due_of_side(queue, VOLATILE, up_to_ms, limit)
        persistent, persistent_end = self._due_of_side(queue, PERSISTENT, up_to_ms, limit)
        # Behind what was read of one side nothing of the other may go first.
        end = min(volatile_end, persistent_end)
        both = _in_order(volatile, persistent)
        return [entry for entry in both if entry[0].k < end][:limit]

    def of_keys(self, keys: Sequence[int]) -> list[DueOfSide]:
        """Return what there is of some keys, hidden or not, in order."""
        assert self._core.engine_lock.is_held()
        low, high, wanted = keys[0], keys[-1] + 1, frozenset(keys)
        volatile, persistent = (
            [due for due in self._between(persistence, low, high) if due.k in wanted]
            for persistence in (VOLATILE, PERSISTENT)
        )
        return _in_order(volatile, persistent)

    def pass_over(self, key: int) -> None:
        """Note that everything up to a key is hidden, so that nobody walks past it."""
        assert self._core.engine_lock.is_held()
        queue = self._core.registry.staging()
        if queue is not None and not self._retry_at_ms:
            for persistence in (VOLATILE, PERSISTENT):
                pass_over(queue, persistence, key)

    def let_go(self, dues: Iterable[DueOfSide], now_ms: int) -> list[Transaction]:
        """Return what sends due messages to their targets, or discards them.

        A message that fails for now stays where it is and is tried again later (D21). So does one
        that raises an error nobody has expected: it holds no others back.
        """
        assert self._core.engine_lock.is_held()
        left = list(dues)
        with self._core.alike_warnings.batch(now_ms):
            while (transactions := self._let_go(left, now_ms)) is None:
                left = [each for each in left if each[0].k not in self._retry_at_ms]
        return transactions

    def _let_go(self, dues: Iterable[DueOfSide], now_ms: int) -> list[Transaction] | None:
        """Return what sends due messages to their targets; None when one is to be left out."""
        core, staging = self._core, self._core.registry.staging()
        if staging is None:
            return []
        release = Release(core, staging, now_ms)
        expired: list[Found] = []
        released_ms = []
        for due, persistence in dues:
            is_over = is_expired(due.expire_at_ms, now_ms)
            if not is_over and persistence == PERSISTENT and release.take_in_bulk(due):
                released_ms.append(due_ms_of(due.k))
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
                released_ms.append(due_ms_of(due.k))
            else:
                self._retry_at_ms[due.k] = now_ms + RETRY_MS
        core.release_lateness.note(released_ms, now_ms)
        transactions = release.transactions()
        if expired:
            transactions.append(discard_expired(core, expired, now_ms, MetBy.RELEASE))
        return transactions

    def _let_go_alike(self, now_ms: int) -> list[Transaction]:
        """Return what sends the next due messages to their target, empty unless they are alike."""
        core, staging = self._core, self._core.registry.staging()
        if staging is None or self._retry_at_ms:
            return []
        alike = due_alike(core, staging, staging_key(now_ms + 1, 0), now_ms, BATCH)
        release = Release(core, staging, now_ms)
        if alike is None or not release.take_alike(alike):
            return []
        core.release_lateness.note(due_times_of(alike.keys), now_ms)
        return release.transactions()

    def _due_of_side(
        self, queue: LocalQueue, persistence: int, up_to_ms: int, limit: int
    ) -> tuple[list[Due], int]:
        """Return some messages of one side, and the key before which these are all there are."""
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
        while low < high:
            rows = self._core.messages(persistence).due(low, high, BATCH)
            yield from rows
            low = rows[-1].k + 1 if len(rows) == BATCH else high

    def _next_retry_ms(self) -> int | None:
        return min(self._retry_at_ms.values(), default=None)

    def _earliest(self) -> int | None:
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
        messages, low = self._core.messages(persistence), max(STAGING_LOW, queue.first[persistence])
        while (key := messages.lowest_key(low, queue.high)) is not None:
            if key not in self._core.hidden and key not in self._retry_at_ms:
                return key
            low = key + 1
        return None


def _in_order(volatile: list[Due], persistent: list[Due]) -> list[DueOfSide]:
    return list(merge(((d, VOLATILE) for d in volatile), ((d, PERSISTENT) for d in persistent)))
