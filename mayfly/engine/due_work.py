"""Due work of an engine: its next moment, and its execution."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from mayfly.engine.bookkeeping import Bookkeeping
from mayfly.engine.claims.consumers import Claims
from mayfly.engine.core import Core
from mayfly.engine.delay.delay_processor import DelayProcessor
from mayfly.engine.errors import BROKEN
from mayfly.engine.expiry_scan import ExpiryScan
from mayfly.engine.membership import Membership
from mayfly.engine.pubsub.subscription_administration import end_expired
from mayfly.engine.triggering.triggering import triggering_of
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError

_LOG = logging.getLogger("mayfly")
#: After a full disk, work that is due is tried again after this.
POSTPONE_MS = SECOND_MS
_SURVIVED = (rc.MQRC_STORAGE_MEDIUM_FULL, rc.MQRC_CONNECTION_BROKEN)


class DueWork:
    """The due work of one engine, which its clock drives."""

    def __init__(
        self, core: Core, processor: DelayProcessor, claims: Claims, membership: Membership[Any]
    ) -> None:
        """Begin without a clock; the engine loads its store first."""
        self.core, self.processor, self.claims = core, processor, claims
        self.books = Bookkeeping(core)
        self._scan, self._triggering = ExpiryScan(core), triggering_of(core)
        self._membership = membership
        #: Held while due work is done.
        self.lock = core.runtime.reentrant_lock("due")
        #: Whether its engine is closed, or about to be.
        self.is_ended = False
        self._is_running = False
        #: Until then nothing that needs the disk is tried again, after the disk was full.
        self._postponed_to_ms = 0
        #: An error by a message, a claim or another item, which says nothing of the store.
        self._mistake: Exception | None = None

    def begin(self) -> None:
        """Let the clock drive it, and whatever has work for it wake the clock."""
        core = self.core
        core.do_due = self.run_due
        core.on_wake.append(partial(core.clock.wake, self))
        core.clock.attach(self)
        core.wake()

    def end(self) -> None:
        """Let the clock drive it no longer; another thread may still be doing due work."""
        self.is_ended = True
        self.core.clock.detach(self)

    def next_due_ms(self) -> int | None:
        """Return the clock's time of the next due work, None when nothing is to come."""
        core = self.core
        with core.engine_lock:
            if core.is_stopped:
                return None
            moments = [
                self.books.next_due_ms(),
                self.processor.next_due_ms(),
                self._scan.next_due_ms(),
                core.registry.subscriptions.next_end_ms(),
                self._triggering.next_due_ms(),
                self.claims.next_lapse_ms(),
            ]
            if self._membership.has_unfinished:
                moments.append(self._postponed_to_ms)
            work_ms = [max(m, self._postponed_to_ms) for m in moments if m is not None]
            ends = (self._next_end_ms(), core.marks.next_lapse_ms(core.waits.is_waited_on))
        due_ms = min([*work_ms, *(m for m in ends if m is not None)], default=None)
        return None if due_ms is None else due_ms - core.ahead_ms

    def run_due(self) -> None:
        """Do everything that is due now: release, scan, end waits, settle the ledger.

        A message that becomes available at the very end of a wait wins: waits end last. An error
        in one kind of work keeps no other kind from being done, and is raised in the end; that kind
        is tried again later. Where the store fails, or a wait cannot be ended, the queue manager
        stops.
        """
        core = self.core
        with self.lock:
            if core.is_stopped or self._is_running:
                return
            self._is_running = True
            is_done = False
            try:
                while self.run_pass() and not (self.is_ended or core.is_stopped):
                    pass
                is_done = True
            except KeyboardInterrupt:
                is_done = True
                raise
            finally:
                self._is_running = False
                if not is_done:
                    # Better no queue manager than one whose waits never end.
                    with core.engine_lock:
                        core.break_off("its due work has failed")
            mistake, self._mistake = self._mistake, None
            if mistake is not None:
                raise mistake

    def run_pass(self) -> bool:
        """Do a bounded part of the due work; return True if messages are still to be released."""
        core = self.core
        if self._postponed_to_ms <= core.now_ms():
            self._try(self._membership.finish)
        if self._postponed_to_ms <= core.now_ms():
            self._try(partial(end_expired, core))
            self._try(self.claims.end_lapsed)
            self._try(self.processor.run)
            self._try(partial(self._scan.run, self._is_release_due))
            self._try(self._triggering.run)
        self._end_waits()
        if self._postponed_to_ms <= core.now_ms():
            self._try(partial(self.books.run, self._is_release_due))
        self._membership.end_waits()
        return self._is_release_due()

    def _is_release_due(self) -> bool:
        with self.core.engine_lock:
            due_ms = self.release_due_ms()
        return due_ms is not None and due_ms <= self.core.now_ms()

    def release_due_ms(self) -> int | None:
        """Return when delayed messages are released next, None when none waits for it."""
        assert self.core.engine_lock.is_held()
        due_ms = self.processor.next_due_ms()
        return None if due_ms is None else max(due_ms, self._postponed_to_ms)

    def __repr__(self) -> str:
        """Say whose it is."""
        return f"<DueWork of {self.core.name}>"

    def _try(self, work: Callable[[], None]) -> None:
        """Do due work; work that a full disk refuses changes nothing and is tried again later."""
        core = self.core
        try:
            work()
        except MQError as error:
            # A failed store has stopped the queue manager; one that closes needs no such work.
            if error.reason not in _SURVIVED and not core.is_closing:
                raise
            self._postponed_to_ms = core.now_ms() + POSTPONE_MS
            _LOG.error("due work of %s postponed: %s", core.name, error)
        except BROKEN:
            raise
        except Exception as error:  # noqa: BLE001 - one item is not all the others' due work
            self._postponed_to_ms = core.now_ms() + POSTPONE_MS
            self._mistake = error

    def _next_end_ms(self) -> int | None:
        """Return when the next wait ends whose end is the engine's own to decide."""
        end_ms = self.core.waits.next_end_ms()
        is_open = end_ms is None or self._membership.may_bring(end_ms)
        return None if is_open else end_ms

    def _end_waits(self) -> None:
        core = self.core
        with core.engine_lock:
            core.marks.end_lapsed(core.now_ms(), core.waits.offer)
            core.waits.end_due(core.now_ms(), self._is_decided)
        core.committer.run_deferred()

    def _is_decided(self, queue_number: int, end_ms: int) -> bool:
        """Return True if a wait may end: no message still to be released can come in time."""
        if self._membership.may_bring(end_ms):
            return False
        due_ms, queue = self.release_due_ms(), self.core.registry.by_number(queue_number)
        return due_ms is None or queue is None or not queue.staged_for or end_ms < due_ms
