"""The queue manager: opens and closes its store, hands out sessions, and runs what falls due."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path as FilePath
from types import TracebackType
from typing import Self

from mayfly.engine.attributes.attribute import QLOCAL, QMGR
from mayfly.engine.attributes.of_authority import AuthorityDefinition
from mayfly.engine.attributes.of_manager import ManagerDefinition
from mayfly.engine.attributes.of_queues import QueueDefinition
from mayfly.engine.attributes.of_topics import SubscriptionDefinition, TopicDefinition
from mayfly.engine.authority.records import USER_CHARACTERS, record_of
from mayfly.engine.bookkeeping import Bookkeeping
from mayfly.engine.bulk.stages import Stages
from mayfly.engine.claims.consumers import Claims
from mayfly.engine.configuration import Configuration, checked_configuration, configure
from mayfly.engine.core import Core
from mayfly.engine.counting import Counts, Verification, counts, verify
from mayfly.engine.delay.delay_processor import DelayProcessor
from mayfly.engine.delivery import Identifier
from mayfly.engine.end_non_persistent import end_non_persistent
from mayfly.engine.expiry_scan import ExpiryScan
from mayfly.engine.home import check_manager_name
from mayfly.engine.interrupted import count_interrupted
from mayfly.engine.membership import Membership
from mayfly.engine.objects.administration import set_up
from mayfly.engine.objects.client_objects import set_up_client_objects
from mayfly.engine.objects.definitions import stored_definitions
from mayfly.engine.open_handles import drop_ownerless
from mayfly.engine.open_managers import OpenManagers
from mayfly.engine.own_time import OwnTime, follow_wall, own_time, say_when_ahead
from mayfly.engine.pubsub.retained import load_retained
from mayfly.engine.pubsub.subscription_administration import end_expired, load_subscriptions
from mayfly.engine.pubsub.topic_administration import set_up_topics
from mayfly.engine.recovery import recover_totals
from mayfly.engine.session import Session
from mayfly.engine.settings import SettingValue
from mayfly.engine.shipments import Shipments
from mayfly.engine.triggering.triggering import Triggering
from mayfly.engine.whereabouts.answer import Whereabouts
from mayfly.engine.whereabouts.asking import Surroundings, whereabouts
from mayfly.lifetime.times import SECOND_MS, Clock
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.runtime import Runtime, SystemClock
from mayfly.store.ledger import Ledger
from mayfly.store.store import Store

_LOG = logging.getLogger("mayfly")
#: After a full disk, work that is due is tried again after this.
POSTPONE_MS = SECOND_MS
_BATCHES_BEFORE_OPEN = 10
_SURVIVED = (rc.MQRC_STORAGE_MEDIUM_FULL, rc.MQRC_CONNECTION_BROKEN)


class Manager(Core):
    """A queue manager without its command language; see ``mayfly.QueueManager`` for the whole."""

    takes_connections = True

    def __init__(
        self,
        name: str,
        path: str | FilePath | None = None,
        clock: Clock | None = None,
        *,
        platform: str | None = None,
        command_level: int | None = None,
        settings: Mapping[str, SettingValue] | None = None,
        user: str = "",
        runtime: Runtime | None = None,
        membership: Membership[Manager] | None = None,
    ) -> None:
        """Open the queue manager of a folder, made when missing, or one in memory without it.

        Platform, command level and settings that are left out are what the folder keeps, else the
        defaults; those given are kept (docs/SETTINGS.md). Sessions of ``user``, like those of no
        user, may do everything (docs/AUTHORITY.md). Raises ValueError for a wrong platform, command
        level or setting, MQRC_Q_MGR_NAME_ERROR for a wrong name, FolderInUse, NewerSchema,
        StoreDamaged or StoreError for a folder that cannot be used.
        """
        given = checked_configuration(platform, command_level, settings)
        check_manager_name(name)
        runtime = Runtime() if runtime is None else runtime
        clock = SystemClock(runtime=runtime) if clock is None else clock
        self._membership = Membership[Manager]() if membership is None else membership
        super().__init__(name, self._membership.lock(runtime), clock, runtime)
        self.registry.authority.opener = user[:USER_CHARACTERS]
        folder = None if path is None else FilePath(path)
        self.store = Store(folder, self.engine_lock, self.now_ms, runtime)
        self.ahead_ms = max(0, self.store.high_water_ms - self.clock.now_ms())
        say_when_ahead(self)
        self.triggering = self.committer.arrival_hook = Triggering(self)
        self._delay_processor = DelayProcessor(self)
        self._expiry_scan, self._books = ExpiryScan(self), Bookkeeping(self)
        #: What pipelines read from queues, and write to them, in bulk and exactly once.
        self.claims, self.stages = Claims(self, self._delay_processor), Stages(self)
        self.shipments = Shipments(self)
        self.sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._is_closed = False
        self._due_lock = self.runtime.reentrant_lock("due")
        self._is_running_due = False
        #: Until then nothing that needs the disk is tried again, after the disk was full.
        self._postponed_to_ms = 0
        try:
            self._start(given)
        except BaseException:
            self.store.close()
            raise
        self._open_to_all()

    def _start(self, given: Configuration) -> None:
        self.store.claim(self.name)
        configure(self, given)
        self._load()
        count_interrupted(self)
        # What fell due while it was closed is there when it is open; a flood follows.
        for _ in range(_BATCHES_BEFORE_OPEN):
            if not self._run_pass():
                break

    def _open_to_all(self) -> None:
        self.wake, self.do_due = lambda: self.clock.wake(self), self.run_due
        self.clock.attach(self)
        self.wake()
        _OPEN.enter(self)
        self._membership.admit()

    @property
    def ledger(self) -> Ledger:
        """The ledger of ended lives, by position."""
        return self.store.ledger

    def session(
        self,
        user: str | None = None,
        transacted: bool = False,
        program: str = "mayfly",
        *,
        groups: Sequence[str] = (),
    ) -> Session:
        """Connect; ``program`` becomes PutApplName.

        User and ``groups`` are taken at their word; None is who opened the queue manager. Raises
        MQRC_CONNECTION_BROKEN if closed, MQRC_NOT_AUTHORIZED for a user without CONNECT.
        """
        session = Session(self, user, transacted=transacted, program=program, groups=groups)
        with self.engine_lock:
            self.check_running()
            self.sessions.add(session)
        return session

    def counts(self, queue: str) -> Counts:
        """Return staged, live, uncommitted, locked and expired_present of a local queue."""
        with self.engine_lock:
            self.check_running()
            return counts(self, self.registry.resolve(queue).queue)

    def curdepth(self, queue: str) -> int:
        """Return CURDEPTH: committed and uncommitted, expired ones included (E12)."""
        with self.engine_lock:
            return self.registry.resolve(queue).queue.depth

    def why(self, identifier: Identifier) -> Whereabouts:
        """Say where the message with a MsgId or CorrelId is, or what became of it (docs/WHY.md).

        Raises MQRC_MD_ERROR for no id, or one of more than 24 bytes.
        """
        self.check_running()
        around = Surroundings(self.sessions, self._delay_processor.status())
        return whereabouts(self, around, identifier)

    def verify(self) -> Verification:
        """Recount everything and compare; see ``counting.verify``."""
        self.check_running()
        return verify(self)

    def own_time(self) -> OwnTime:
        """Return own time, the wall clock and what lies between; see ``own_time.own_time``."""
        return own_time(self)

    def follow_wall(self) -> OwnTime:
        """Follow the wall clock forward; see ``own_time.follow_wall``."""
        return follow_wall(self)

    def delay_processor_status(self) -> str:
        """Return how delayed messages go: ``running``, ``spark``, ``stopped:`` and why (D28)."""
        self.check_running()
        return self._delay_processor.status()

    def next_due_ms(self) -> int | None:
        """Return the clock's time of the next due work, None when nothing is to come."""
        with self.engine_lock:
            if self.is_stopped:
                return None
            moments = [
                self._books.next_due_ms(),
                self._delay_processor.next_due_ms(),
                self._expiry_scan.next_due_ms(),
                self.registry.subscriptions.next_end_ms(),
                self.triggering.next_due_ms(),
                self.claims.next_lapse_ms(),
            ]
            if self._membership.has_unfinished:
                moments.append(self._postponed_to_ms)
            work_ms = [max(m, self._postponed_to_ms) for m in moments if m is not None]
            ends = (self.waits.next_end_ms(), self.marks.next_lapse_ms(self.waits.is_waited_on))
        due_ms = min([*work_ms, *(m for m in ends if m is not None)], default=None)
        return None if due_ms is None else due_ms - self.ahead_ms

    def run_due(self) -> None:
        """Do everything that is due now: release, scan, end waits, settle the ledger.

        A message that becomes available at the very end of a wait wins: waits end last.
        """
        with self._due_lock:
            if self.is_stopped or self._is_running_due:
                return
            self._is_running_due = True
            is_done = False
            try:
                while self._run_pass() and not (self._is_closed or self.is_stopped):
                    pass
                is_done = True
            except KeyboardInterrupt:
                is_done = True
                raise
            finally:
                self._is_running_due = False
                if not is_done:
                    # Better no queue manager than one whose waits never end.
                    with self.engine_lock:
                        self.break_off("its due work has failed")

    def _run_pass(self) -> bool:
        """Do a bounded part of what is due; tell whether messages are left to be released now."""
        if self._postponed_to_ms <= self.now_ms():
            self._try(self._membership.finish)
        if self._postponed_to_ms <= self.now_ms():
            self._try(partial(end_expired, self))
            self._try(self.claims.end_lapsed)
            self._try(self._delay_processor.run)
            self._try(self._expiry_scan.run)
            self._try(self.triggering.run)
        self._end_waits()
        if self._postponed_to_ms <= self.now_ms():
            self._try(self._books.run)
        self._membership.end_waits()
        with self.engine_lock:
            due_ms = self.release_due_ms()
        return due_ms is not None and due_ms <= self.now_ms()

    def release_due_ms(self) -> int | None:
        """Return when delayed messages are released next, None when none waits for it."""
        assert self.engine_lock.is_held()
        due_ms = self._delay_processor.next_due_ms()
        return None if due_ms is None else max(due_ms, self._postponed_to_ms)

    def _try(self, transaction: Callable[[], None]) -> None:
        """Do due work; what a full disk refuses is as it was and tried again a little later."""
        try:
            transaction()
        except MQError as error:
            # A failed store has stopped the queue manager; one that closes needs no such work.
            if error.reason not in _SURVIVED and not self.is_closing:
                raise
            self._postponed_to_ms = self.now_ms() + POSTPONE_MS
            _LOG.error("due work of %s postponed: %s", self.name, error)

    def close(self) -> None:
        """End: backs out open units of work, records what a restart loses, closes the store."""
        with self.engine_lock:
            if self._is_closed:
                return
            self._is_closed = True
        self.clock.detach(self)
        _OPEN.leave(self)
        try:
            if not self.is_stopped:
                self._wind_up()
        finally:
            # Somebody may be doing due work without the clock.
            with self._due_lock:
                self.is_stopped = True
                self.store.close()
        self._membership.end()

    def crash(self) -> None:
        """End as ``kill -9`` ends its process, for tests of recovery (docs/TESTING.md).

        Nothing is backed out, wound up or written: units of work and non-persistent messages are
        lost, what was acknowledged as durable is there when the folder is opened again. Sessions
        get MQRC_CONNECTION_BROKEN.
        """
        with self.engine_lock:
            self.store.group.is_broken = True
            if not self.is_stopped:
                self.break_off("crash() was called")
        self.close()

    def stop_in_child(self) -> None:
        """Stop for good in a forked child; there is nothing to close either."""
        self._is_closed = True
        super().stop_in_child()

    def __repr__(self) -> str:
        """Say where it lives, and whether it has stopped."""
        folder = self.store.folder
        place = "in memory" if folder is None else f"in {folder}"
        stopped = ", stopped" if self.is_stopped else ""
        return f"<{type(self).__name__} {self.name} {place}{stopped}>"

    def __enter__(self) -> Self:
        """Return the queue manager."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def _wind_up(self) -> None:
        with self.engine_lock:
            self.is_closing = True
            self.committer.pause()
            # Who took a message before this and comes to run it later is refused.
            self.committer.closer = self.runtime.thread_id()
            self.committer.resume()
            self.waits.fail(mq_error(rc.MQRC_Q_MGR_STOPPING, f"{self.name} is closing"))
            steps: list[Callable[[], None]] = [
                partial(session.close, commit=False) for session in self.sessions
            ]
        # Sessions that were dropped just before are backed out like the others.
        steps.insert(0, partial(drop_ownerless, self))
        steps += [self.triggering.close, partial(end_non_persistent, self)]
        steps += [self.store.write_balances, self._books.stored_time.write]
        for step in steps:
            try:
                step()
            except MQError as error:
                # A full disk: what is on it is whole, the rest counts as lost at the next start.
                _LOG.error("while %s ends: %s", self.name, error)

    def _load(self) -> None:
        self._membership.join(self)
        stored, subscriptions = stored_definitions(self.store), list[SubscriptionDefinition]()
        for definition, number in stored:
            kind, name = definition.kind, definition.name
            if isinstance(definition, ManagerDefinition):
                self.registry.queue_manager = definition
            elif isinstance(definition, TopicDefinition):
                self.registry.topics.add(definition)
            elif isinstance(definition, AuthorityDefinition):
                self.registry.authority.enter(*record_of(definition))
            elif isinstance(definition, SubscriptionDefinition):
                subscriptions.append(definition)
            elif not isinstance(definition, QueueDefinition):
                self.registry.named[kind, name] = definition
            else:
                queue = self.registry.add(definition, number if kind == QLOCAL else None)
                if queue is not None:
                    self.triggering.restore(queue)
                    self.store.book.totals.open_queue(queue.number, name)
                    self.store.book.totals.open_queue(-queue.number, name)
        self._membership.recover()
        recover_totals(self)
        self.claims.load()
        self.shipments.load()
        self._delay_processor.look_ahead()
        if not any(definition.kind == QMGR for definition, _number in stored):
            set_up(self, self.platform)
        set_up_topics(self)
        set_up_client_objects(self)
        load_subscriptions(self, subscriptions)
        load_retained(self)

    def _end_waits(self) -> None:
        with self.engine_lock:
            self.marks.end_lapsed(self.now_ms(), self.waits.offer)
            self.waits.end_due(self.now_ms(), self._is_decided)
        self.committer.run_deferred()

    def _is_decided(self, queue_number: int, end_ms: int) -> bool:
        """Tell whether a wait may end: no message that is still to be released can come in time."""
        due_ms, queue = self.release_due_ms(), self.registry.by_number(queue_number)
        return due_ms is None or queue is None or not queue.staged_for or end_ms < due_ms


_OPEN = OpenManagers[Manager]()
managers_here = _OPEN.here
