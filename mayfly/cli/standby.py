"""A server as the standby of a queue manager that another one owns, until it may own it."""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import apsw

from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.served import READY, STANDBY, Served, ServedFile
from mayfly.mqi.errors import MQError, StoreError
from mayfly.mqi.reasons import MQRC_CONNECTION_BROKEN
from mayfly.runtime import Runtime, SystemClock, elapsed_ms
from mayfly.servers.addresses import listen_address
from mayfly.servers.listeners import import_listeners, tls_context
from mayfly.servers.settings import ServedFolder, ServeSettings
from mayfly.servers.standby import OwnerPlace, StandbyPorts
from mayfly.store.replica.follower import Follower
from mayfly.store.replica.log import LogUnreachable, Ownership, ReplicaError
from mayfly.store.replica.owner import process_name
from mayfly.verbs.contracts.access import MQ_SOCKET_FILE, FolderSocket

#: How often the end of the lease is looked for, and how often this standby is heard of.
_LOOK_SECONDS: Final = 0.05
_HEARD_MS: Final = 1_000
#: The pause between two tries while the database is away, or the disk is full.
_FAILED_SECONDS: Final = 0.5
#: How long one that has given the queue manager up leaves it to others.
_GIVES_WAY_MS: Final = 5_000
#: A clock that differs by more from that of the database releases and expires at wrong times.
_CLOCK_MS: Final = 5_000
#: The owner's files of MQ Everyplace are not in the log.
_EVERYPLACE_FILE: Final = "everyplace.db"
_ANYWHERE: Final = ("0.0.0.0", "::", "")
_LOG = logging.getLogger("mayfly.serve")


def stand_by(
    settings: ServeSettings,
    served: ServedFolder,
    folder: Path,
    pause: Callable[[float], None],
    announce: Callable[[Mapping[str, str]], None],
    *,
    gives_way: bool,
    waits: bool,
) -> None:
    """Follow the log of a queue manager into its folder; return when nobody owns it any more.

    Meanwhile the ports are bound and refuse clients with the owner's place. ``pause`` waits for
    some seconds, and ends the server after a signal. ``announce`` is called with the addresses once
    they are bound; never, when nobody owns the queue manager. One that ``gives_way`` has owned it,
    and leaves it to others first. With ``waits`` a database that does not answer is waited for.
    A standby waits for room on its disk, and does not become the owner meanwhile. Raises
    CommandFailed, FolderInUse, StoreError, OSError.
    """
    if served.replica is None:
        return
    if (folder / _EVERYPLACE_FILE).exists():
        text = f"{folder / _EVERYPLACE_FILE} is not in the log of a replica: move it away first"
        raise CommandFailed(ExitCode.FILE, text)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(contextlib.closing(ServedFile(folder)))
        follower = _follower(served, folder, pause, waits=waits)
        stack.callback(follower.close)
        standby = _Standby(follower)
        stack.callback(standby.leave)
        ports: StandbyPorts | None = None
        until_ms = elapsed_ms() + (_GIVES_WAY_MS if gives_way else 0)
        while True:
            standing = standby.look(catches_up=ports is not None)
            if standby.is_free and elapsed_ms() >= until_ms:
                return
            if ports is None:
                context = tls_context(settings.tls)
                ports = StandbyPorts(served.name, context, _place_of(standing), Runtime())
                stack.callback(ports.close)
                addresses = _listen(ports, settings, folder, file, stack)
                announce(addresses)
                # What takes a second is done before it is waited for.
                import_listeners(settings.listen)
            ports.owner = _place_of(standing)
            pause(_FAILED_SECONDS if standby.failure else _LOOK_SECONDS)


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
        return OwnerPlace("")
    return OwnerPlace(standing.owner, standing.addresses)


def reachable(addresses: Mapping[str, str]) -> dict[str, str]:
    """Return addresses as other machines know them: this machine's name instead of any interface.

    An address of the loopback interface stays, and is of use on this machine alone.
    """
    found = {}
    for name, text in addresses.items():
        address = listen_address(text)
        if address.host in _ANYWHERE:
            address = address._replace(host=socket.gethostname())
        found[name] = str(address)
    return found


class _Standby:
    """What a standby knows of its owner and the log, as of its last look."""

    def __init__(self, follower: Follower) -> None:
        """Know nothing yet."""
        self._follower, self._name = follower, process_name()
        self._number = 0
        self._instance = ""
        self._heard_ms: int | None = None
        #: Why the last look has failed; empty when it has not.
        self.failure = ""
        self._has_told_of_clock = False
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
            self.is_free = standing is None or (
                not standing.lease_ms and self._has_right_time(standing)
            )
            if standing is not None and catches_up:
                self._instance = standing.instance
                if standing.last != self._number:
                    self._number = self._follower.catch_up().position.number
                if self._heard_ms is None or elapsed_ms() - self._heard_ms >= _HEARD_MS:
                    log.follow(standing.instance, self._name, self._number)
                    self._heard_ms = elapsed_ms()
        except (StoreError, OSError) as error:
            if not is_passing(error):
                raise
            self.is_free = False
            if self.failure != str(error):
                _LOG.warning("%s; this standby waits", error)
            self.failure = str(error)
            return None
        self.failure = ""
        return standing

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


def _follower(
    served: ServedFolder, folder: Path, pause: Callable[[float], None], *, waits: bool
) -> Follower:
    """Return a follower of the log in a folder; raises FolderInUse, StoreError."""
    assert served.replica is not None
    told = ""
    while True:
        try:
            return Follower(served.replica, served.name, folder, Runtime())
        except LogUnreachable as error:
            if not waits:
                raise
            if told != error.message:
                _LOG.warning("%s; this server waits", error.message)
            told = error.message
        pause(1.0)


def _listen(
    ports: StandbyPorts,
    settings: ServeSettings,
    folder: Path,
    file: ServedFile,
    stack: contextlib.ExitStack,
) -> dict[str, str]:
    """Bind all ports of the settings and the socket of the folder, and say so in the folder."""
    try:
        addresses = ports.listen(settings.listen)
        short = stack.enter_context(contextlib.closing(FolderSocket(folder)))
        ports.listen_unix(short.path)
    except OSError as error:
        raise CommandFailed(ExitCode.PIPELINE, str(error)) from error
    stack.callback((folder / MQ_SOCKET_FILE).unlink, missing_ok=True)
    socket_file = str((folder / MQ_SOCKET_FILE).absolute())
    told = Served(None, mq_socket=socket_file, role=STANDBY, is_ready=READY)
    stack.enter_context(file.announced(told))
    return addresses
