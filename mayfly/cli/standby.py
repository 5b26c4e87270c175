"""The roles of a queue manager with a replica in a server: it follows, owns, gives way, follows."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol

import apsw

from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.mqi.errors import MQError, StoreError
from mayfly.mqi.reasons import MQRC_CONNECTION_BROKEN
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Loop, Runtime, SystemClock, elapsed_ms
from mayfly.servers.addresses import listen_address
from mayfly.servers.managers import OwnerPlace
from mayfly.servers.settings import ServedFolder
from mayfly.store.replica.follower import Follower
from mayfly.store.replica.log import (
    LogUnreachable,
    Owned,
    Ownership,
    ReplicaError,
    StandbyNote,
)
from mayfly.store.replica.owner import Replica, process_name
from mayfly.store.replica.standing import (
    OWNER,
    STANDBY,
    ReplicaStanding,
    remove_standing,
    write_standing,
)

#: How often the end of the lease is looked for, and how often this process is heard of.
_LOOK_SECONDS: Final = 0.05
_HEARD_MS: Final = 1_000
#: The pause between two tries while the database is away, or the disk is full.
_FAILED_SECONDS: Final = 0.5
#: How long one that has given the queue manager up leaves it to others.
_GIVES_WAY_MS: Final = 5_000
#: How long one that has stopped by itself does nothing.
_STOPPED_SECONDS: Final = 1.0
#: At a switch programs have so long to end their work; what is open after that is backed out.
_SWITCH_DRAIN_MS: Final = 300
#: A clock that differs by more from that of the database releases and expires at wrong times.
_CLOCK_MS: Final = 5_000
#: The owner's files of MQ Everyplace are not in the log.
_EVERYPLACE_FILE: Final = "everyplace.db"
_ANYWHERE: Final = ("0.0.0.0", "::", "")
_LOG = logging.getLogger("mayfly.serve")


class RoleServer(Protocol):
    """The server of a queue manager with a replica, as its role sees it; threads share it."""

    def opened(
        self, served: ServedFolder, pause: Callable[[float], None]
    ) -> AbstractContextManager[QueueManager]:
        """Return a context with the open queue manager, ready for clients, who do not come yet.

        Raises CommandFailed, MQError, StoreError.
        """

    def owned(self, manager: QueueManager) -> AbstractContextManager[None]:
        """Return a context in which clients have a queue manager, and are told that it is here.

        At its end they are no longer told so; those who are there stay.
        """

    def give_way(self, manager: QueueManager, owner: OwnerPlace, timeout_ms: int, why: str) -> None:
        """Refuse clients of a queue manager, and end the present ones within a time."""

    def followed(self, name: str) -> AbstractContextManager[None]:
        """Return a context in which programs of this machine are told that it is a standby."""

    def stand_by(self, name: str, owner: OwnerPlace, *, is_following: bool) -> None:
        """Tell clients of a queue manager who owns it, and probes whether it could be owned here.

        It could while the folder ``is_following``: it has all of the log.
        """

    def fail(self, name: str) -> None:
        """Note that a queue manager is served no more, by an error."""

    @property
    def addresses(self) -> Mapping[str, str]:
        """The addresses of the listeners by name, as other machines know them."""


class _Ending(Exception):
    """The server is to end: what waits is given up."""


class ManagerRole:
    """One queue manager with a replica in a server: a standby, its owner, and so on in turn.

    A thread of its own does all of it, so that no queue manager waits for another one.
    """

    def __init__(
        self, served: ServedFolder, folder: Path, server: RoleServer, runtime: Runtime
    ) -> None:
        """Do nothing yet; ``folder`` is that of the queue manager."""
        self.name, self._served, self._folder = served.name, served, folder
        self._server, self._runtime = server, runtime
        #: Set when it is to end, and, as the last, when its clients have ended.
        self._ending, self._closed = runtime.event(), runtime.event()
        #: Held while clients are ended, which needs the listeners.
        self._giving_way = runtime.lock("role")
        #: Set when there may be something to do before the next look.
        self._woken = runtime.event()
        self._worker = Loop(runtime, self._run, f"mayfly-role-{served.name}")
        #: Whether it was standby or owner once.
        self.has_begun = False
        self.error: CommandFailed | MQError | StoreError | None = None

    def start(self) -> None:
        """Start the thread."""
        self._worker.start()

    def begin_end(self) -> None:
        """Follow no longer; an owner stays until :meth:`end`, and gives way to nobody.

        Clients that are being ended have ended on return.
        """
        self._ending.set()
        self._woken.set()
        with self._giving_way:
            return

    def end(self) -> None:
        """Close the queue manager, whose clients have ended, and return when that is done."""
        self.begin_end()
        self._closed.set()
        self._worker.join()

    def _run(self) -> bool:
        """Be standby and owner in turn until the end, or an error; the turn of the thread."""
        try:
            self._change_roles()
        except _Ending:
            pass
        except (CommandFailed, MQError, StoreError) as error:
            self.error = error
        except OSError as error:
            self.error = StoreError(f"{self._folder}: {error}", self._folder)
        finally:
            remove_standing(self._folder)
        if self.error is not None:
            if self.has_begun:
                _LOG.error("%s is served no more: %s", self.name, self.error)
            self._server.fail(self.name)
        return False

    def _change_roles(self) -> None:
        """Follow until nobody owns the queue manager, own it until it is lost; again and again."""
        gives_way = False
        while True:
            self._follow(gives_way=gives_way)
            gives_way = False
            try:
                gives_way = self._own()
            except Owned as error:
                _LOG.warning("%s", error)
            except (MQError, StoreError) as error:
                if not (self.has_begun and is_passing(error)):
                    raise
                _LOG.error("%s; %s follows from now on", error, self.name)
                self._pause(_STOPPED_SECONDS)
            if self._ending.is_set():
                return

    def _own(self) -> bool:
        """Open the queue manager, and serve it until it is wanted elsewhere, or has stopped.

        Returns True in the first case. Raises Owned if another process was first.
        """
        with self._server.opened(self._served, self._pause) as manager:
            replica = manager.engine.replica
            assert replica is not None
            replica.lease.on_wanted = self._woken.set
            if self._ending.is_set():
                return False
            with self._server.owned(manager):
                self.has_begun = True
                # Standbys name these addresses, and `mayfly switch` ends: clients may come.
                replica.lease.announce(self._server.addresses)
                is_wanted, why, timeout_ms = False, "an error", 0
                try:
                    self._stay(manager, replica)
                    is_wanted = not manager.is_stopped
                    why = replica.loss or "it has stopped"
                    if is_wanted:
                        why, timeout_ms = "another server becomes its owner", _SWITCH_DRAIN_MS
                finally:
                    remove_standing(self._folder)
                    self._give_way(manager, why, timeout_ms)
        if self._ending.is_set():
            return False
        if not is_wanted:
            # It has lost its lease or the database, or its disk fails, and then following does.
            _LOG.error("%s follows from now on", self.name)
            self._pause(_STOPPED_SECONDS)
        return is_wanted

    def _give_way(self, manager: QueueManager, why: str, timeout_ms: int) -> None:
        """End the clients of a queue manager; when the server ends, wait until it has ended all."""
        with self._giving_way:
            if not self._ending.is_set():
                _LOG.warning("gives %s up: %s", self.name, why)
                text = f"{self.name} is given up here: {why}"
                self._server.give_way(manager, OwnerPlace(), timeout_ms, text)
                return
        self._closed.wait()

    def _stay(self, manager: QueueManager, replica: Replica) -> None:
        """Return when the queue manager has stopped, is wanted elsewhere, or the server ends."""
        told_ms: int | None = None
        while not (manager.is_stopped or replica.lease.is_wanted or self._ending.is_set()):
            if told_ms is None or elapsed_ms() - told_ms >= _HEARD_MS:
                told_ms = elapsed_ms()
                self._tell(self._standing_of(replica))
            self._woken.wait(_LOOK_SECONDS)
            self._woken.clear()

    def _tell(self, standing: ReplicaStanding) -> None:
        """Let commands of this machine know; without room on the disk they learn nothing new."""
        with contextlib.suppress(OSError):
            write_standing(self._folder, standing)

    def _follow(self, *, gives_way: bool) -> None:
        """Follow the log into the folder; return when nobody owns the queue manager any more.

        One that ``gives_way`` has owned it, and leaves it to others first. At the first start a
        database that does not answer is not waited for. Room on the disk is waited for, and the
        queue manager is not owned meanwhile. Raises CommandFailed, FolderInUse, StoreError,
        OSError.
        """
        if (self._folder / _EVERYPLACE_FILE).exists():
            text = f"{self._folder / _EVERYPLACE_FILE} is not in the log of a replica"
            raise CommandFailed(ExitCode.FILE, f"{text}: move it away first")
        with contextlib.ExitStack() as stack:
            is_told = self.has_begun
            if is_told:
                # Also while the database is away.
                stack.enter_context(self._server.followed(self.name))
            follower = self._follower()
            stack.callback(follower.close)
            standby = _Standby(follower, self._server.addresses)
            stack.callback(standby.leave)
            until_ms = elapsed_ms() + (_GIVES_WAY_MS if gives_way else 0)
            while True:
                standing = standby.look(catches_up=is_told)
                if standing is not None and standing.lease_ms and standing.owner != process_name():
                    # Another one has it: the next switch need not wait for the rest of the time.
                    until_ms = elapsed_ms()
                if standby.is_free and elapsed_ms() >= until_ms:
                    return
                place = _place_of(standing)
                self._server.stand_by(self.name, place, is_following=standby.is_following)
                if not is_told:
                    stack.enter_context(self._server.followed(self.name))
                    is_told = self.has_begun = True
                if standby.has_news:
                    self._tell(standby.standing())
                self._pause(_FAILED_SECONDS if standby.failure else _LOOK_SECONDS)

    def _follower(self) -> Follower:
        """Return a follower of the log in the folder; raises FolderInUse, StoreError."""
        assert self._served.replica is not None
        told = ""
        while True:
            try:
                return Follower(self._served.replica, self.name, self._folder, Runtime())
            except (StoreError, OSError) as error:
                if not (self.has_begun and is_passing(error)):
                    raise
                if told != str(error):
                    _LOG.warning("%s; this server waits", error)
                told = str(error)
            self._pause(_FAILED_SECONDS)

    def _pause(self, seconds: float) -> None:
        """Wait for some seconds; raises _Ending once the server is to end."""
        if self._ending.wait(seconds):
            raise _Ending

    def _standing_of(self, replica: Replica) -> ReplicaStanding:
        """Return what the owner says of itself and its standbys."""
        position, own_name = replica.position, process_name()
        return ReplicaStanding(
            self.name,
            OWNER,
            own_name,
            self._server.addresses.get("mq", ""),
            position.epoch,
            position.number,
            lag_rows=0,
            lag_ms=0,
            lease_age_ms=replica.lease.age_ms,
            standbys=tuple(each for each in replica.standbys() if each.name != own_name),
            process_id=os.getpid(),
            at_ms=SystemClock().now_ms(),
        )


def is_passing(error: Exception) -> bool:
    """Return True for an error that ends by itself: the database is away, or a disk is full."""
    if isinstance(error, MQError):
        return error.reason == MQRC_CONNECTION_BROKEN
    cause = error.__cause__
    is_full = (
        isinstance(cause, apsw.FullError)
        # No room for the index of SQLite's log.
        or getattr(cause, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE
        or (isinstance(error, OSError) and error.errno == errno.ENOSPC)
    )
    return is_full or isinstance(error, LogUnreachable)


def _place_of(standing: Ownership | None) -> OwnerPlace:
    """Return who is to be named to clients: nobody when the lease has ended, or is not known."""
    if standing is None or not standing.lease_ms:
        return OwnerPlace()
    return OwnerPlace(standing.owner, standing.addresses)


def reachable(addresses: Mapping[str, str]) -> dict[str, str]:
    """Return addresses as other machines know them: this machine's name instead of any interface.

    That of Flight is a URL and has HOST:PORT in the result. An address of the loopback interface
    stays, and is of use on this machine alone.
    """
    found = {}
    for name, text in addresses.items():
        address = listen_address(text.rpartition("://")[2])
        if address.host in _ANYWHERE:
            address = address._replace(host=socket.gethostname())
        found[name] = str(address)
    return found


class _Standby:
    """What a standby knows of its owner and the log, as of its last look."""

    def __init__(self, follower: Follower, addresses: Mapping[str, str]) -> None:
        """Know nothing yet; others are shown the ``addresses`` of the listeners, by name."""
        self._follower, self._name = follower, process_name()
        self._addresses = addresses
        #: The row that the folder has, and what the log said when it got it: the epoch of the
        #: owner, its last row, and the last change of a file.
        self._number, self._seen = 0, (0, 0, 0)
        self._instance = ""
        self._heard_ms: int | None = None
        #: Why the last look has failed; empty when it has not.
        self.failure = ""
        self._has_told_of_clock = False
        #: Who has the queue manager, and the last row of the log, as the database has said last.
        self._standing: Ownership | None = None
        #: When the lease was last seen to be renewed, and the folder to be at the log's end.
        self._renewed_ms: int | None = None
        self._level_ms = elapsed_ms()
        self._told_ms: int | None = None
        #: Whether the folder had all of the log at the last look, so that it could take over.
        self.is_following = False
        #: Whether nobody owns the queue manager, and this process may.
        self.is_free = False

    def look(self, *, catches_up: bool) -> Ownership | None:
        """Return who has the queue manager, None if nobody has or that is not known.

        With ``catches_up`` the folder is then that of the log's end, and others hear of this
        standby. A database that does not answer and a full disk are told once. Raises StoreError,
        OSError.
        """
        log = self._follower.log
        try:
            standing = log.standing()
            self._note(standing)
            self.is_free = standing is None or (
                not standing.lease_ms and self._has_right_time(standing)
            )
            if standing is not None and catches_up:
                self._instance = standing.instance
                seen = standing.epoch, standing.last, standing.files
                if seen != self._seen:
                    self._number, self._seen = self._follower.catch_up().position.number, seen
                self._level_ms = elapsed_ms()
                if self._heard_ms is None or elapsed_ms() - self._heard_ms >= _HEARD_MS:
                    note = StandbyNote(self._name, self._number, standing.now_ms, self._addresses)
                    log.follow(standing.instance, note)
                    self._heard_ms = elapsed_ms()
                self.is_following = True
        except (StoreError, OSError) as error:
            if not is_passing(error):
                raise
            self.is_free = self.is_following = False
            if self.failure != str(error):
                _LOG.warning("%s; this standby waits", error)
            self.failure = str(error)
            return None
        self.failure = ""
        return standing

    def _note(self, standing: Ownership | None) -> None:
        """Keep what the database says, and when the lease was renewed."""
        before, self._standing = self._standing, standing
        if standing is not None and (before is None or before.lease_end != standing.lease_end):
            self._renewed_ms = elapsed_ms() if standing.lease_ms else None

    @property
    def has_news(self) -> bool:
        """Whether a second has passed since others on this machine were told of this standby."""
        return self._told_ms is None or elapsed_ms() - self._told_ms >= _HEARD_MS

    def standing(self) -> ReplicaStanding:
        """Return what this standby says of itself."""
        self._told_ms = now_ms = elapsed_ms()
        standing = self._standing
        place = OwnerPlace() if self.failure else _place_of(standing)
        last = self._number if standing is None else standing.last
        lag_rows = max(last - self._number, 0)
        return ReplicaStanding(
            self._follower.log.manager_name,
            STANDBY,
            place.name,
            place.addresses.get("mq", ""),
            0 if standing is None else standing.epoch,
            self._number,
            lag_rows=lag_rows,
            lag_ms=now_ms - self._level_ms if lag_rows or self.failure else 0,
            lease_age_ms=None if self._renewed_ms is None else now_ms - self._renewed_ms,
            standbys=(),
            process_id=os.getpid(),
            at_ms=SystemClock().now_ms(),
        )

    def _has_right_time(self, standing: Ownership) -> bool:
        """Return True if the clock of this machine is that of the database, by and large.

        Logs the difference once if it is not.
        """
        difference_ms = SystemClock().now_ms() - standing.now_ms
        if abs(difference_ms) <= _CLOCK_MS:
            return True
        if not self._has_told_of_clock:
            self._has_told_of_clock = True
            text = "the clock of this machine differs by %d ms from that of the database: set it"
            _LOG.error("%s right, this server does not become the owner", text % difference_ms)
        return False

    def leave(self) -> None:
        """Let others know that this process follows no longer."""
        if self._heard_ms is not None:
            with contextlib.suppress(ReplicaError):
                self._follower.log.stop_following(self._instance, self._name)
