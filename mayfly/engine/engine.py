"""One open engine: the core with its features, from the opening of its store to the close."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from mayfly.engine.attributes import (
    QLOCAL,
    QMGR,
    AuthorityDefinition,
    ManagerDefinition,
    QueueDefinition,
    SubscriptionDefinition,
    TopicDefinition,
)
from mayfly.engine.authority.checks import keep_groups, load_groups
from mayfly.engine.authority.records import ADMINISTRATORS, USER_CHARACTERS, FileOfUsers, record_of
from mayfly.engine.bulk.stages import Stages
from mayfly.engine.claims.claims import ConsumerClaims
from mayfly.engine.configuration import Configuration, checked_configuration, configure
from mayfly.engine.core import Core
from mayfly.engine.delay.delay_processor import DelayProcessor
from mayfly.engine.delay.staging_queries import StagedKeys
from mayfly.engine.due_work import DueWork, count_interrupted, end_non_persistent, recover_totals
from mayfly.engine.events.catalog import Q_MGR_ACTIVE, Q_MGR_NOT_ACTIVE
from mayfly.engine.events.messages import emit, report_refusal
from mayfly.engine.events.performance import PerformanceEvents
from mayfly.engine.membership import Membership
from mayfly.engine.objects.administration import set_up, set_up_client_objects, stored_definitions
from mayfly.engine.open_handles import drop_ownerless
from mayfly.engine.own_time import warn_if_ahead
from mayfly.engine.pubsub.administration import load_subscriptions, set_up_topics
from mayfly.engine.pubsub.publish import load_retained
from mayfly.engine.session import Session
from mayfly.engine.settings import SettingValue
from mayfly.engine.state import now_ms_of
from mayfly.engine.transaction import Transaction
from mayfly.engine.transit import ChannelStates
from mayfly.engine.triggering import Triggering
from mayfly.lifetime.times import Clock
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.event_constants import MQIACF_REASON_QUALIFIER, MQRQ_Q_MGR_STOPPING
from mayfly.runtime import Runtime, SystemClock
from mayfly.store.keys import start_of_ids
from mayfly.store.replica.lease import LEASE_MS
from mayfly.store.replica.owner import opened_replica
from mayfly.store.store import Store
from mayfly.verbs.checks import check_manager_name
from mayfly.verbs.contracts.config_files import local_path

_LOG = logging.getLogger("mayfly")
_BATCHES_BEFORE_OPEN = 10
#: The engines that are open in this process; two may have one name, in different folders.
_OPEN: weakref.WeakSet[Engine] = weakref.WeakSet()


class Engine(Core):
    """The engine of a queue manager, or of a queue-sharing group for its shared queues.

    Functions of the engine take it as parameter ``core``. Programs use it through
    ``mayfly.QueueManager``.
    """

    def __init__(
        self,
        name: str,
        path: str | Path | None = None,
        clock: Clock | None = None,
        *,
        platform: str | None = None,
        command_level: int | None = None,
        settings: Mapping[str, SettingValue] | None = None,
        user: str = "",
        runtime: Runtime | None = None,
        membership: Membership[Engine] | None = None,
        users: FileOfUsers | None = None,
        replica: str | None = None,
        replica_lease_ms: int = LEASE_MS,
    ) -> None:
        """Open the engine of a folder, made when missing; ``path`` None keeps all in memory.

        ``clock`` None is the time of the machine. ``platform``, ``command_level`` and ``settings``
        are the configuration; what is left out is as stored in the folder. ``user`` has opened the
        queue manager and may do everything. ``runtime`` replaces threads, locks and files in tests.
        ``users`` has the groups of users with a password, ``membership`` is that of a queue-sharing
        group. ``replica`` is the URL of a database with a log of all commits, whose owner has
        a lease of ``replica_lease_ms``. The errors are those of ``mayfly.QueueManager``.
        """
        given = checked_configuration(platform, command_level, settings)
        check_manager_name(name)
        runtime = Runtime() if runtime is None else runtime
        clock = SystemClock(runtime=runtime) if clock is None else clock
        self._membership = Membership[Engine]() if membership is None else membership
        super().__init__(name, self._membership.lock(runtime), clock, runtime)
        #: The users with a password, where there can be some.
        self.users = self.registry.authority.users.file = users
        self.registry.authority.opener = user[:USER_CHARACTERS]
        folder = None if path is None else local_path(path)
        #: Its replica in a database, None without one.
        self.replica = None
        if replica is not None:
            self.replica = opened_replica(replica, name, runtime, replica_lease_ms)
        self.store = Store(
            folder, self.engine_lock, partial(now_ms_of, self), runtime, self.replica
        )
        self.store.on_stop = self._stop_with_store
        self.start_of_ids = start_of_ids(name, self.store.sequence.instance)
        #: Where it keeps everything, None in memory; and its record of ended lives.
        self.folder, self.ledger = folder, self.store.ledger
        self.ahead_ms = max(0, self.store.high_water_ms - self.clock.now_ms())
        warn_if_ahead(self)
        self.triggering = self.committer.arrival_hook = Triggering(self)
        self.performance = PerformanceEvents(self)
        self.on_refusal.append(partial(report_refusal, self))
        self.delay_processor = DelayProcessor(self)
        #: Bulk reads and writes of pipelines, each message exactly once.
        self.claims, self.stages = ConsumerClaims(self, self.delay_processor), Stages(self)
        self.channel_states, self.staged_keys = ChannelStates(self), StagedKeys(self)
        self.due_work = DueWork(self, self.delay_processor, self.claims, self._membership)
        #: Those that are connected.
        self.sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        #: Functions to be called before the engine ends, in this order.
        self.before_close: list[Callable[[], None]] = []
        self._is_closed = False
        try:
            self._start(given)
        except BaseException:
            self.store.close()
            raise
        _OPEN.add(self)
        self.due_work.begin()
        self._membership.admit()
        emit(self, Q_MGR_ACTIVE, {})

    def _start(self, given: Configuration) -> None:
        """Load the store, and do work that fell due while the queue manager was closed.

        Of much such work only a part is done here; the clock does the rest.
        """
        self.store.bind_to_manager(self.name)
        configure(self, given)
        self._load()
        load_groups(self)
        # Its messages may be reported or released when another user has opened the queue manager.
        keep_groups(self, self.registry.authority.opener, (ADMINISTRATORS,))
        count_interrupted(self)
        # Work that fell due while it was closed is done before it opens; of a flood only a part.
        for _ in range(_BATCHES_BEFORE_OPEN):
            if not self.due_work.run_pass():
                break

    @property
    def label(self) -> str:
        """Name, folder, and whether the engine has stopped.

        For logs: ``'QM1 in /var/qm1, stopped'``.
        """
        place = "in memory" if self.folder is None else f"in {self.folder}"
        return f"{self.name} {place}{', stopped' if self.is_stopped else ''}"

    def session(
        self,
        user: str | None = None,
        transacted: bool = False,
        program: str = "mayfly",
        *,
        groups: Sequence[str] | None = (),
        known_as: str = "",
        address: str = "",
        channel: str = "",
        is_foreign_client: bool = False,
    ) -> Session:
        """Return a new session of a user, as ``mayfly.QueueManager.session``.

        ``user`` None has all authority. With ``transacted`` its puts and gets wait for a commit.
        ``program`` is the name of the application. ``groups`` are the user's groups; None takes
        those that are known of the user. ``known_as`` is the name that a session without authority
        checks shows in messages, ledger and audit. ``address`` and ``channel`` are those of a
        client, for events. ``is_foreign_client`` is True for a program in another process. Raises
        MQRC_NOT_AUTHORIZED, and MQRC_CONNECTION_BROKEN after a stop.
        """
        session = Session(
            self,
            user,
            transacted=transacted,
            program=program,
            groups=groups,
            known_as=known_as,
            address=address,
            channel=channel,
            is_foreign_client=is_foreign_client,
        )
        with self.engine_lock:
            self.check_running()
            self.sessions.add(session)
        return session

    def has_session(self, number: int) -> bool:
        """Return True if an open session has this number."""
        with self.engine_lock:
            return any(each.number == number and each.is_open for each in self.sessions)

    def close(self) -> None:
        """Back out open units of work, record non-persistent messages as lost, and close the store.

        A second call does nothing.
        """
        for end in self.before_close:
            end()
        with self.engine_lock:
            if self._is_closed:
                return
            self._is_closed = True
        emit(self, Q_MGR_NOT_ACTIVE, {MQIACF_REASON_QUALIFIER: MQRQ_Q_MGR_STOPPING})
        self.due_work.end()
        try:
            if not self.is_stopped:
                self._wind_up()
        finally:
            # Somebody may be doing due work without the clock.
            with self.due_work.lock:
                self.is_stopped = True
                self.store.close()
        self._membership.end()

    def crash(self) -> None:
        """Stop as ``kill -9`` would, for tests.

        No unit of work is backed out, nothing is written.
        """
        with self.engine_lock:
            self.store.group.is_broken = True
            if not self.is_stopped:
                self.stop_now("crash() was called")
        self.close()

    def _stop_with_store(self) -> None:
        """Stop because the store has stopped by itself."""
        with self.engine_lock:
            if not self.is_stopped:
                self.stop_now(self.store.stop_reason)

    def stop_in_child(self) -> None:
        """Stop the copy of the engine in a forked child, without touching its files."""
        self._is_closed = True
        super().stop_in_child()

    def _wind_up(self) -> None:
        """Refuse transactions, close all sessions, and write the data that the next start needs.

        An MQError of one step, such as a full disk, is logged, and the other steps are done.
        """
        with self.engine_lock:
            self.is_closing = True
            self.committer.pause()
            # A thread that has taken a message and runs its transaction from now on is refused.
            self.committer.closer = self.runtime.thread_id()
            self.committer.resume()
            self.waits.fail(mq_error(rc.MQRC_Q_MGR_STOPPING, f"{self.name} is closing"))
            steps: list[Callable[[], None]] = [
                partial(session.close, commit=False) for session in self.sessions
            ]
        # Sessions that were dropped just before are backed out like the others.
        steps.insert(0, partial(drop_ownerless, self))
        steps += [self.triggering.close, partial(end_non_persistent, self)]
        steps += [self.store.write_balances, self.due_work.housekeeping.write_time]
        for step in steps:
            try:
                step()
            except MQError as error:
                # A full disk: its content is whole, the rest counts as lost at the next start.
                _LOG.error("while %s ends: %s", self.name, error)

    def _load(self) -> None:
        """Load definitions, totals, messages reserved by Spark, and channel states from the store.

        A new store gets the default objects, all in one transaction. Retained publications are
        loaded, too.
        """
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
                    self.store.ledger_writer.totals.open_queue(queue.number, name)
                    self.store.ledger_writer.totals.open_queue(-queue.number, name)
        self._membership.recover()
        recover_totals(self)
        self.claims.load()
        self.channel_states.load()
        self.delay_processor.look_ahead()
        opening = Transaction()
        if not any(definition.kind == QMGR for definition, _number in stored):
            set_up(self, self.platform, opening)
        set_up_topics(self, opening)
        set_up_client_objects(self, opening)
        if opening.unit.statements:
            self.committer.run(opening)
        load_subscriptions(self, subscriptions)
        load_retained(self)
        for queue in self.registry.queues():
            self.performance.watch(queue)


def _stop_in_child() -> None:
    """Stop the copies of engines in a forked child.

    The child shares files with its parent, and its locks may be held by threads that it lacks.
    """
    for engine in list(_OPEN):
        engine.stop_in_child()


os.register_at_fork(after_in_child=_stop_in_child)
