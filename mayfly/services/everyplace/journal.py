"""Journal of a durable queue manager, in the database of its folder, and the lock around its verbs.

A verb is one transaction of the database. The lock lets a trickle run on a thread.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Never, ParamSpec, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, WeakSet

import apsw

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import NewerSchema, StoreDamaged, StoreError
from mayfly.runtime import Runtime
from mayfly.services.everyplace.errors import Ended, EveryplaceError
from mayfly.store.folder_lock import FolderLock
from mayfly.verbs.contracts.config_files import local_path

Statement: TypeAlias = tuple[str, tuple[Any, ...]]

DATABASE_FILE = "everyplace.db"
VERSION = 1
#: An era fits into an integer of SQLite.
_ERA_BYTES = 7
_BUSY_MS = 10_000
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
)
#: ``partner`` of a queue, and of a message on it, is empty for a local queue; exchanges are JSON
#: lists. A queue that has a rule says of which class, for the rule itself is code.
_SCHEMA = """
CREATE TABLE manager (name TEXT NOT NULL, era INTEGER NOT NULL);
CREATE TABLE queue (
    name TEXT NOT NULL,
    partner TEXT NOT NULL,
    kind TEXT NOT NULL,
    attributes TEXT NOT NULL,
    rule TEXT,
    PRIMARY KEY (name, partner)
) WITHOUT ROWID;
CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    partner TEXT NOT NULL,
    body BLOB NOT NULL,
    arrived_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    confirm_id INTEGER NOT NULL,
    exchange TEXT,
    is_acknowledged INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    place INTEGER NOT NULL
);
CREATE TABLE home (
    name TEXT PRIMARY KEY,
    partner TEXT NOT NULL,
    asked TEXT,
    stored TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE withdrawn (queue TEXT, partner TEXT, exchange TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE begun (partner TEXT PRIMARY KEY, next_number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE finished (
    beginner TEXT PRIMARY KEY, era INTEGER NOT NULL, below INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE finished_number (
    beginner TEXT, number INTEGER, PRIMARY KEY (beginner, number)
) WITHOUT ROWID;
"""

#: Kinds of queues in the table ``queue``.
LOCAL, ASYNCHRONOUS, SYNCHRONOUS = "local", "asynchronous", "synchronous"

SAVE_QUEUE = "INSERT OR REPLACE INTO queue VALUES (?, ?, ?, ?, ?)"
FORGET_QUEUE = "DELETE FROM queue WHERE name = ? AND partner = ?"
ADD_MESSAGE = "INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
CHANGE_MESSAGE = (
    "UPDATE message SET state = ?, confirm_id = ?, exchange = ?, is_acknowledged = ?, rank = ?,"
    " place = ? WHERE id = ?"
)
FORGET_MESSAGE = "DELETE FROM message WHERE id = ?"
SAVE_HOME_SERVER = "INSERT OR REPLACE INTO home VALUES (?, ?, ?, ?)"
FORGET_HOME_SERVER = "DELETE FROM home WHERE name = ?"
SAVE_WITHDRAWN = "INSERT OR REPLACE INTO withdrawn VALUES (?, ?, ?)"
FORGET_WITHDRAWN = "DELETE FROM withdrawn WHERE exchange = ?"
SAVE_BEGUN = "INSERT OR REPLACE INTO begun VALUES (?, ?)"
SAVE_FINISHED = "INSERT OR REPLACE INTO finished VALUES (?, ?, ?)"
FORGET_NUMBERS = "DELETE FROM finished_number WHERE beginner = ? AND number < ?"
FORGET_ALL_NUMBERS = "DELETE FROM finished_number WHERE beginner = ?"
SAVE_NUMBER = "INSERT OR REPLACE INTO finished_number VALUES (?, ?)"


def new_era(runtime: Runtime) -> int:
    """Return a random number that distinguishes a queue manager from all others of its name."""
    return int.from_bytes(runtime.random_bytes(_ERA_BYTES), "big")


def open_tables(folder: Path, manager: str, runtime: Runtime) -> apsw.Connection:
    """Open the database in the folder of a queue manager; the database is created when missing.

    Raises StoreError for the folder of another queue manager, a full disk or a file that cannot be
    opened, NewerSchema for tables of a newer Mayfly, and StoreDamaged.
    """
    file = folder / DATABASE_FILE
    try:
        # SQLite would make it readable by all users.
        runtime.files.make(file)
        connection = apsw.Connection(str(file))
        # Somebody may be looking at it with another program.
        connection.set_busy_timeout(_BUSY_MS)
        try:
            _prepare(connection, folder, manager, runtime)
        except BaseException:
            connection.close(force=True)
            raise
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise StoreDamaged(f"{file} is damaged: {error}", folder) from error
    except apsw.FullError as error:
        raise StoreError(f"{file}: the disk is full", folder) from error
    except (apsw.CantOpenError, apsw.IOError, apsw.ReadOnlyError, apsw.BusyError) as error:
        raise StoreError(f"{file} cannot be opened: {error}", folder) from error
    except OSError as error:
        raise StoreError(f"{file} cannot be made: {error.strerror}", folder) from error
    return connection


def _prepare(connection: apsw.Connection, folder: Path, manager: str, runtime: Runtime) -> None:
    """Set pragmas, create the tables of a new database, and check its version and owner.

    Raises NewerSchema for tables of a newer Mayfly, StoreError for the folder of another queue
    manager.
    """
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    version: int = connection.pragma("user_version")
    if version > VERSION:
        raise NewerSchema(
            f"{folder} was written by a newer Mayfly: Everyplace tables {version}, known {VERSION}",
            folder,
        )
    if version == 0:
        with connection:
            connection.execute(_SCHEMA)
            connection.execute("INSERT INTO manager VALUES (?, ?)", (manager, new_era(runtime)))
            connection.pragma("user_version", VERSION)
    [(owner,)] = connection.execute("SELECT name FROM manager").fetchall()
    if owner != manager:
        raise StoreError(f"{folder} is the folder of Everyplace queue manager {owner}", folder)


#: Returns what makes the tables say of a thing what memory says of it now.
Saving = Callable[[], Iterable[Statement]]


class Closed:
    """The gate of a closed queue manager: to enter it, as each verb does, raises Ended."""

    def __enter__(self) -> Never:
        raise Ended(rc.MQRC_CONNECTION_BROKEN, "the queue manager is closed")

    def __exit__(self, *_: object) -> None:
        """Never called, because ``__enter__`` always raises."""


class Journal:
    """The folder of a queue manager, and the changes of the present verb; each verb enters it.

    Leaving the outermost verb writes the changes. A verb that ends by an error other than
    EveryplaceError may be half done: none of its changes are written, and the queue manager has
    ended.
    """

    def __init__(self, folder: Path, manager: str, runtime: Runtime) -> None:
        """Open the folder, created when missing.

        Raises StoreError, NewerSchema, StoreDamaged or FolderInUse.
        """
        self.folder = folder
        self._lock = FolderLock(folder)
        try:
            self._lock.make_private(DATABASE_FILE)
            self.connection = open_tables(folder, manager, runtime)
        except BaseException:
            self._lock.release()
            raise
        self._changed: dict[object, Saving] = {}
        self._depth = 0
        self._must_not_leave = False
        self._has_ended: Ended | None = None
        self._pid = os.getpid()
        self._last_id = 0

    @property
    def is_open(self) -> bool:
        """True while verbs may begin; False after a failed write or a verb that was broken off.

        False also in a forked child process, because the parent owns the folder.
        """
        return self._has_ended is None and os.getpid() == self._pid

    def __enter__(self) -> None:
        """Begin a verb, possibly inside another one; raises Ended when the journal is not open."""
        if not self.is_open:
            raise self._has_ended or Ended(rc.MQRC_CONNECTION_BROKEN, "the folder is the parent's")
        self._depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End a verb.

        The end of the outermost verb writes the changes, and raises Ended if that fails.
        """
        self._depth -= 1
        if isinstance(error, EveryplaceError | None):
            if not self._depth:
                self._write()
        elif self._changed:
            self._end(Ended(rc.MQRC_CONNECTION_BROKEN, f"a verb was broken off by {error!r}"))

    def note(self, thing: object, saving: Saving, *, before_sending: bool = False) -> None:
        """Register a changed object, ``thing``, to be written at the end of the verb.

        ``saving`` is called when the change is written, and returns the SQL statements. A later
        call with the same ``thing`` replaces it. With ``before_sending`` they are written before
        the next transmission is sent.
        """
        self._changed[thing] = saving
        self._must_not_leave |= before_sending

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Return a context for a transmission, entered before it is sent.

        Entering it writes all changes noted so far, if one of them was noted with
        ``before_sending``. Verbs that the transmission starts in this queue manager are
        transactions by themselves. Entering it raises Ended if the write fails.
        """
        if self._must_not_leave:
            self._write()
        depth, self._depth = self._depth, 0
        try:
            yield
        finally:
            self._depth = depth

    def restore(self, row_id: int) -> None:
        """Record that the tables use a row number; :meth:`new_id` returns higher ones."""
        self._last_id = max(self._last_id, row_id)

    def new_id(self) -> int:
        """Return the next unused row number for a message."""
        self._last_id += 1
        return self._last_id

    def close(self) -> None:
        """Close the database and free the folder; changes that are not written are lost.

        A forked child process closes nothing. A second call does nothing.
        """
        if os.getpid() == self._pid:
            self.connection.close(force=True)
            self._lock.release()

    def _write(self) -> None:
        """Write the noted changes in one transaction.

        Raises Ended if that fails, or has failed before.
        """
        if self._has_ended is not None:
            raise self._has_ended
        if not self._changed:
            return
        execute = self.connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            for saving in self._changed.values():
                for sql, bindings in saving():
                    execute(sql, bindings)
            execute("COMMIT")
        except apsw.FullError as error:
            full = Ended(rc.MQRC_STORAGE_MEDIUM_FULL, f"the disk is full: {error}")
            self._end(full)
            raise full from error
        except apsw.Error as error:
            unknown = Ended(rc.MQRC_CONNECTION_BROKEN, f"nobody knows what is written: {error}")
            self._end(unknown)
            raise unknown from error
        except BaseException as error:
            self._end(Ended(rc.MQRC_CONNECTION_BROKEN, f"writing was broken off by {error!r}"))
            raise
        self._changed.clear()
        self._must_not_leave = False

    def _end(self, why: Ended) -> None:
        """Close the journal after a failure; later verbs raise ``why``."""
        # Closing undoes what is not committed; the folder is free for who opens it again.
        self._has_ended = self._has_ended or why
        self._changed.clear()
        self.close()


def checked_folder(folder: object) -> Path:
    """Return the path of a folder on this machine; nothing is created.

    Raises MQRC_OPTIONS_ERROR for a value that is no local path.
    """
    if not isinstance(folder, (str, Path)) or not str(folder):
        raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"folder {folder!r} is no path")
    try:
        return local_path(folder)
    except ValueError as error:
        raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"folder: {error}") from error


class LockQueue:
    """The threads that wait for the verb lock of a runtime, first in, first out; the first has it.

    A thread that releases the lock goes to the end of the queue. Otherwise a thread that calls
    verbs without a pause would keep all others waiting.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Begin empty.

        ``runtime`` supplies the condition of the threads. It is not stored, so that the lock is
        freed with the runtime.
        """
        self.changed = runtime.condition()
        self.threads: deque[int] = deque()
        #: Verbs that the first thread is in: a rule may call one within another.
        self.depth = 0
        self.verb_gates: WeakSet[VerbGate] = WeakSet()
        #: Whether a trickle has begun.
        self.is_used = False


#: One for all queue managers that are given none, so that they take turns with each other.
OF_THIS_PROCESS = Runtime()
_lines: WeakKeyDictionary[Runtime, LockQueue] = WeakKeyDictionary()


class VerbLock:
    """The verb lock as one queue manager uses it.

    All queue managers of a runtime share one lock.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Use the lock of a runtime, which is made for the first queue manager of the runtime."""
        line = _lines.get(runtime)
        if line is None:
            line = _lines.setdefault(runtime, LockQueue(runtime))
        self._thread_id, self._line = runtime.thread_id, line

    def join(self, verb_gate: VerbGate) -> None:
        """Register the verbs of a queue manager; they take the lock once it is used.

        It is used from the first trickle on (:meth:`begin`): a trickle transmits messages
        periodically, on another thread.
        """
        line = self._line
        with line.changed:
            line.verb_gates.add(verb_gate)
            if line.is_used:
                verb_gate.lock_verbs()

    def is_shared_with(self, other: VerbLock) -> bool:
        """Return True if both queue managers have the same runtime, and so one lock."""
        return self._line is other._line

    def begin(self) -> None:
        """Make the verbs of all queue managers of the runtime take the lock from now on."""
        line = self._line
        with line.changed:
            if not line.is_used:
                line.is_used = True
                for verb_gate in list(line.verb_gates):
                    verb_gate.lock_verbs()

    def enter(self, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Wait for the lock and return True; a thread that has it enters again at once.

        Returns False, without the lock, once ``is_over`` returns True. The thread that makes
        ``is_over`` true must call :meth:`wake_waiting`.
        """
        line, thread = self._line, self._thread_id()
        with line.changed:
            is_within = bool(line.threads) and line.threads[0] == thread
            if not is_within:
                line.threads.append(thread)
            has_turn = False
            try:
                while line.threads[0] != thread and not is_over():
                    line.changed.wait()
                has_turn = not is_over()
            finally:
                # An interrupt may end the wait as well.
                if not has_turn and not is_within:
                    line.threads.remove(thread)
                    line.changed.notify_all()
            line.depth += has_turn
        return has_turn

    def leave(self) -> None:
        """End one :meth:`enter`; the last one of the thread gives the lock to the next thread."""
        line = self._line
        with line.changed:
            line.depth -= 1
            if not line.depth:
                line.threads.popleft()
                line.changed.notify_all()

    def wake_waiting(self) -> None:
        """Wake the threads that wait in :meth:`enter`, so that they test ``is_over`` again."""
        with self._line.changed:
            self._line.changed.notify_all()


P = ParamSpec("P")
R = TypeVar("R")
#: Entered by each verb: a journal makes it a transaction, Closed refuses it.
Gate: TypeAlias = Journal | Closed | None

_verbs: list[str] = []


def verb(method: Callable[P, R]) -> Callable[P, R]:
    """Mark a method as one transaction of a durable queue manager, refused once it is closed.

    The method is not wrapped until a gate is set: in memory, without a trickle, a gate would cost a
    tenth of its speed.
    """
    _verbs.append(method.__name__)
    return method


class _LockGate:
    """A context that takes the verb lock, then enters the gate (journal or refusal) inside it."""

    def __init__(self, gate: Gate, verb_lock: VerbLock) -> None:
        """Take the gate to enter within the lock; None is no gate."""
        self._gate, self._verb_lock = gate, verb_lock

    def __enter__(self) -> None:
        self._verb_lock.enter()
        try:
            if self._gate is not None:
                self._gate.__enter__()
        except BaseException:
            self._verb_lock.leave()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._gate is not None:
                self._gate.__exit__(kind, error, traceback)
        finally:
            self._verb_lock.leave()


class VerbGate:
    """The context around each verb of one queue manager: journal, refusal when closed, or lock."""

    def __init__(self, manager: object, verb_lock: VerbLock) -> None:
        """Begin without a gate: verbs run at once."""
        self._manager, self.verb_lock = manager, verb_lock
        self._gate: Gate = None
        self._entry: AbstractContextManager[object] | None = None

    @property
    def is_open(self) -> bool:
        """True while verbs may run: the queue manager is not closed or ended by a disk failure."""
        return self._gate is None or (isinstance(self._gate, Journal) and self._gate.is_open)

    def set_gate(self, gate: Journal | Closed) -> None:
        """Make each verb enter ``gate`` from now on: a journal, or Closed, which refuses verbs."""
        self._gate = gate
        self._admit_by(
            _LockGate(gate, self.verb_lock) if isinstance(self._entry, _LockGate) else gate
        )

    def lock_verbs(self) -> None:
        """Make each verb take the verb lock from now on."""
        self._admit_by(_LockGate(self._gate, self.verb_lock))

    def unit(self) -> AbstractContextManager[object]:
        """Return a context within which all calls together are one verb, so one transaction.

        Without a gate the context does nothing.
        """
        return self._entry or nullcontext()

    def _admit_by(self, entry: AbstractContextManager[object]) -> None:
        """Replace all verbs of the queue manager by methods that run within a context."""
        self._entry, manager = entry, self._manager
        for name in _verbs:
            setattr(manager, name, _gated(entry, getattr(type(manager), name).__get__(manager)))


def _gated(gate: AbstractContextManager[object], method: Callable[P, R]) -> Callable[P, R]:
    """Return a method that enters ``gate``, then calls ``method``."""

    @wraps(method)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with gate:
            return method(*args, **kwargs)

    return run
