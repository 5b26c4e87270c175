"""State of one open queue manager: definitions, waits, time, warnings, and whether it runs.

Many warnings of one kind become one line of the log, with the number of messages.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakValueDictionary

import apsw

from mayfly.engine.callbacks import Callbacks
from mayfly.engine.delay.staging_state import Redeliveries, StagingState
from mayfly.engine.finding.read_ahead import RowMemory
from mayfly.engine.marks import Marks, OnDeparture
from mayfly.engine.objects.registry import Registry
from mayfly.engine.queues import Lateness, LocalQueue
from mayfly.engine.settings import Settings
from mayfly.engine.transaction import Transaction
from mayfly.engine.waiting import DEFINITIONS, Waits
from mayfly.lifetime.times import SECOND_MS, Clock
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import StoreError, mq_error
from mayfly.runtime import EngineLock, Runtime
from mayfly.runtime.compiling import mypyc_attr
from mayfly.store.messages import Messages
from mayfly.store.store import Store

#: At least so much time is between two lines of one kind; the later one has the number of messages.
SILENCE_MS: Final = 60 * SECOND_MS
#: Kinds of lines that are known at a time; the oldest is forgotten.
_MAX_KINDS: Final = 1_000


class _Kind:
    """The warnings of one kind, which share a log line."""

    def __init__(self, log: logging.Logger) -> None:
        """Begin with no warning counted and no line written; ``log`` receives the lines."""
        self.log = log
        self.text = ""
        self.count = 0
        #: Keys of messages that are tried again and again; each counts once a line.
        self.keys: set[int] = set()
        self.written_ms: int | None = None

    def write(self, now_ms: int) -> None:
        """Write one line for all counted warnings to the log, and set the count to 0.

        Does nothing when no warning is counted, or the last line is less than a minute old.
        """
        is_young = self.written_ms is not None and 0 <= now_ms - self.written_ms < SILENCE_MS
        if is_young or not self.count:
            return
        alike = "" if self.count == 1 else f" ({self.count:,} messages)"
        self.log.warning("%s%s", self.text, alike)
        self.keys.clear()
        self.count, self.written_ms = 0, now_ms


class AlikeWarnings:
    """The warnings of one queue manager: at most one log line a minute for each kind.

    The first of a kind is written at once. Later ones within a minute are counted, and the next
    line after that minute has their number. Within :meth:`batch` all are counted before one is
    written. Callers hold the engine lock.
    """

    def __init__(self) -> None:
        """Begin with no warning counted."""
        self._kinds: dict[Hashable, _Kind] = {}
        self._is_batch = False

    def note(
        self,
        log: logging.Logger,
        kind: Hashable,
        now_ms: int,
        text: str,
        *,
        key: int | None = None,
    ) -> None:
        """Count a warning; write it unless its ``kind`` was written less than a minute ago.

        ``log`` receives the line ``text``. ``kind`` is any value that equal warnings share. A
        message that is tried again and again passes its store key as ``key``; each line counts that
        message once. ``key`` None counts every call. A new kind beyond 1,000 replaces the kind that
        was noted longest ago.
        """
        found = self._kinds.pop(kind, None) or _Kind(log)
        if len(self._kinds) >= _MAX_KINDS:
            del self._kinds[next(iter(self._kinds))]
        self._kinds[kind] = found
        found.text = text
        if key is None or key not in found.keys:
            found.count += 1
        if key is not None:
            found.keys.add(key)
        if not self._is_batch:
            found.write(now_ms)

    @contextmanager
    def batch(self, now_ms: int) -> Iterator[None]:
        """Return a context that counts warnings, and writes one line for each kind at its end.

        Within another such context it does nothing.
        """
        if self._is_batch:
            yield
            return
        self._is_batch = True
        try:
            yield
        finally:
            self._is_batch = False
            for kind in self._kinds.values():
                kind.write(now_ms)


_LOG = logging.getLogger("mayfly")
#: Errors of a store that has failed or is damaged, or of an invariant: the queue manager stops. Any
#: other error is one of the item whose work has raised it.
BROKEN: Final = (StoreError, apsw.Error, OSError, AssertionError)


@mypyc_attr(allow_interpreted_subclasses=True)
class EngineState:
    """Data that verbs and transactions share, protected by the engine lock.

    ``hidden`` maps the key of a hidden message to its holder: a unit of work, a browsing handle,
    a channel, a Spark batch, or a transaction that is not durable yet.
    """

    #: Set by the engine at the start, like the next ones.
    store: Store
    #: The first bytes of the MsgIds that it generates.
    start_of_ids: bytes
    platform: str
    command_level: int
    settings: Settings

    def __init__(self, name: str, engine_lock: EngineLock, clock: Clock, runtime: Runtime) -> None:
        """Begin without a store; the engine opens it."""
        self.name, self.engine_lock, self.clock, self.runtime = name, engine_lock, clock, runtime
        self.hidden: dict[int, object] = {}
        self.row_memory = RowMemory()
        #: Set under the lock, acted on after leaving it: the clock may run what is due at once.
        self.must_wake = False
        #: Number of connections from other processes, and of Flight servers, which may bring some.
        #: Their threads cannot be counted here.
        self.foreign_client_count = 0
        #: Held while a definition changes.
        self.definitions_lock = runtime.reentrant_lock("administration")
        self.registry: Registry = Registry(self)
        self.staging = StagingState(self, self.registry.staging)
        #: Backed-out messages whose redelivery is delayed (BODELAY).
        self.redeliveries = Redeliveries(self)
        #: The functions that QueueOwner describes.
        self.target, self.note_due = self.registry.target, self.staging.note_due
        #: Warnings that many messages cause, as few log lines.
        self.alike_warnings = AlikeWarnings()
        #: How late messages were released, and expired ones discarded, for statistics.
        self.release_lateness, self.expiry_lateness = Lateness(), Lateness()
        #: Functions to call with messages that are got or leave their queue. A feature is here only
        #: while it stores something about messages, so that most gets call nothing.
        self.on_departure: list[OnDeparture] = []
        #: The last descriptor of a got message that asks for no COD report. The next one is mostly
        #: the same, and a comparison costs a tenth of unpacking it.
        self.unconfirmed_descriptor = b""
        #: Functions to call with expired messages (``watch_expiry``); none without telemetry.
        self.on_expiry: list[Callable[[Any], object]] = []
        #: Functions to call with transactions that have taken effect, under the same rule.
        self.on_effect: list[Callable[[Transaction], None]] = []
        #: The marks of browsing handles.
        self.marks = Marks(self.on_departure)
        #: Objects that programs have dropped without closing them.
        self.left_behind = LeftBehind()
        self.waits = Waits()
        self.registry.on_change = self._offer_definitions
        #: The session of each client id.
        self.client_ids = WeakValueDictionary[str, Any]()
        #: Calls back callers that do not wait.
        self.callbacks = Callbacks(runtime.lock("callbacks"))
        self.is_stopped = self.is_closing = False
        #: Called, without the lock, when work may fall due earlier than the clock knows.
        self.on_wake: list[Callable[[], None]] = []
        #: Functions to call with calls that are refused for want of authority (``Refusal``).
        self.on_refusal: list[Callable[[Any], None]] = []
        #: Does what is due now, without the clock; the queue manager sets it.
        self.do_due: Callable[[], None] = lambda: None
        #: How far the store's time was ahead of the clock at the opening; own time continues.
        self.ahead_ms = 0

    def _offer_definitions(self) -> None:
        """Let waits for a change of definitions try again.

        Called after each change of a definition.
        """
        with self.engine_lock:
            self.waits.offer(DEFINITIONS)

    def messages(self, persistence: int) -> Messages:
        """Return the store of persistent messages for PERSISTENT, of the others for VOLATILE."""
        return self.store.persistent if persistence else self.store.volatile

    @property
    def is_usable(self) -> bool:
        """True while the queue manager runs and is not closing."""
        return not (self.is_stopped or self.is_closing)

    def now_ms(self) -> int:
        """Return the time in ms since 1970, UTC; it is never before a time that was stored."""
        return now_ms_of(self)

    def note_departure(self, keys: Collection[int]) -> None:
        """Call the functions in ``on_departure`` with keys of messages that are got or leave."""
        for notify in tuple(self.on_departure):
            notify(keys)

    def wake(self) -> None:
        """Wake the clock, as work may be due earlier than it knows; call it without the lock."""
        for look in self.on_wake:
            look()

    def check_running(self) -> None:
        """Raise MQRC_CONNECTION_BROKEN after a stop, MQRC_Q_MGR_STOPPING during a close."""
        if self.store.group.is_broken and not self.is_stopped:
            # The store has read damage since, or lost its lease.
            with self.engine_lock:
                self.stop_now(self.store.stop_reason)
        if self.is_stopped:
            raise mq_error(rc.MQRC_CONNECTION_BROKEN, f"queue manager {self.name} has stopped")
        if self.is_closing:
            raise mq_error(rc.MQRC_Q_MGR_STOPPING, f"queue manager {self.name} is closing")

    def stop_in_child(self) -> None:
        """Stop in a forked child process, with new locks.

        The parent's threads may hold the old ones.
        """
        self.is_stopped = True
        self.engine_lock = self.runtime.engine_lock()
        self.definitions_lock = self.runtime.reentrant_lock("administration")
        self.store.stop_in_child(self.engine_lock)

    def stop_now(self, why: str) -> None:
        """Stop at once: log ``why``, and end every waiting get with MQRC_CONNECTION_BROKEN."""
        assert self.engine_lock.is_held()
        self.is_stopped = True
        _LOG.critical("queue manager %s stops: %s", self.name, why)
        self.waits.fail(mq_error(rc.MQRC_CONNECTION_BROKEN, f"{self.name} has stopped: {why}"))
        self.engine_lock.notify_all()


def now_ms_of(state: EngineState) -> int:
    """Return the time of a queue manager in ms, as ``EngineState.now_ms``, but faster.

    Compiled, a method of a class that Python may extend is looked up first, which takes a quarter
    more instructions.
    """
    return state.clock.now_ms() + state.ahead_ms


def ensure_running(state: EngineState) -> None:
    """Raise MQRC_CONNECTION_BROKEN after a stop, MQRC_Q_MGR_STOPPING during a close.

    It is a faster ``EngineState.check_running``.
    """
    if state.is_stopped or state.is_closing or state.store.group.is_broken:
        state.check_running()


class LeftBehind:
    """Sessions, other objects and temporary queues that programs have dropped without a close.

    The garbage collector runs at any moment, perhaps under a lock, so it only adds to these lists.
    The next thread without locks ends them.
    """

    __slots__ = ("objects", "queues", "sessions")

    def __init__(self) -> None:
        """Begin with empty lists."""
        #: A function for each session, which ends it.
        self.sessions: list[Callable[[], None]] = []
        #: A function for each other object, which ends it.
        self.objects: list[Callable[[], None]] = []
        #: Temporary queues to delete; under the lock.
        self.queues: list[LocalQueue] = []

    def share(self, other: LeftBehind) -> None:
        """Use the lists of sessions and objects of another queue manager; either may end them."""
        self.sessions, self.objects = other.sessions, other.objects


def end_all(ends: list[Callable[[], None]]) -> None:
    """Call and remove each function of a list; another thread may do the same at the same time."""
    while ends:
        try:
            end = ends.pop()
        except IndexError:
            # Another thread was faster.
            break
        end()
