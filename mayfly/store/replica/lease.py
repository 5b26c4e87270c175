"""The lease of an owner: a time within which nobody else takes the queue manager.

One thread renews the lease, and writes files of the folder that have changed into the log
(files.py). Another closes the queue manager before the lease ends, whatever the first one waits
for. It goes by a clock of this machine that no one sets: the lease in the database begins after the
renewal was asked for, so it ends later than what is counted here. A process that was stopped finds
its lease over when it goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from mayfly.runtime import Loop, Runtime, elapsed_through_suspend_ms
from mayfly.store.replica.files import SharedFiles
from mayfly.store.replica.log import LogUnreachable, PostgresLog, ReplicaError, StandbyState

#: How long a lease lasts unless something else is asked for, and the shortest one.
LEASE_MS: Final = 4_000
LEAST_LEASE_MS: Final = 1_000
#: Renewals of a lease during its duration.
_RENEWALS: Final = 16
_LOG = logging.getLogger("mayfly.store")


def own_lease_ms(lease_ms: int) -> int:
    """Return how many ms an owner relies on a lease of ``lease_ms``: a quarter less."""
    return lease_ms * 3 // 4


def _nothing() -> None:
    """Do nothing: the default callback of a lease."""


class OwnerLease:
    """The lease of one owner, from :meth:`begin` until it is lost or closed."""

    def __init__(
        self, log: PostgresLog, lease_ms: int, on_lost: Callable[[str], None], runtime: Runtime
    ) -> None:
        """Hold no lease yet; ``log`` is a connection for this lease alone, which it closes.

        ``on_lost`` is called once, with the reason, by a thread of the lease, before the lease ends
        by the clock of the database.
        """
        self._log, self._on_lost = log, on_lost
        #: How long the lease lasts from a renewal on, by the clock of the database.
        self.lease_ms = lease_ms
        self._runtime = runtime
        self._instance, self._epoch, self._end_ms = "", 0, 0
        self._stopped, self._lock = runtime.event(), runtime.lock("lease")
        #: Set when the lease is to be renewed at once.
        self._hurried = runtime.event()
        self._is_lost = False
        self._addresses: Mapping[str, str] = {}
        #: The standbys that follow the log, as of the last renewal.
        self.standbys: list[StandbyState] = []
        #: The files of the folder, once they are as new as those in the log.
        self.files: SharedFiles | None = None
        #: Whether an operator has asked for a standby to become the owner, and the callback then.
        self.is_wanted = False
        self.on_wanted: Callable[[], None] = _nothing
        self._failure = "it was not renewed"
        self._loops: list[Loop] = []

    def begin(self, instance: str, epoch: int, began_ms: int) -> None:
        """Renew the lease of an epoch from now on.

        ``began_ms`` is :func:`elapsed_through_suspend_ms` from before it was taken.
        """
        self._instance, self._epoch = instance, epoch
        self._end_ms = began_ms + own_lease_ms(self.lease_ms)
        for turn, name in ((self._watch, "mayfly-lease-end"), (self._renew, "mayfly-lease")):
            loop = Loop(self._runtime, turn, name)
            self._loops.append(loop)
            loop.start()

    def announce(self, addresses: Mapping[str, str]) -> None:
        """Tell others where the owner listens, by the names of listeners."""
        self._addresses = addresses
        self._hurried.set()

    @property
    def age_ms(self) -> int:
        """How long ago the lease was renewed, in ms."""
        return elapsed_through_suspend_ms() - self._end_ms + own_lease_ms(self.lease_ms)

    def close(self) -> None:
        """End the threads and the connection, and give the lease up: another may have it at once.

        The queue manager must be closed. A database that does not answer is not waited for long.
        """
        self._stopped.set()
        self._hurried.set()
        for loop in self._loops:
            loop.join()
        if self._loops and not self._is_lost:
            try:
                self._write_files()
                self._log.release(self._instance, self._epoch)
            except ReplicaError as error:
                _LOG.warning("the lease is not given up, and ends by itself: %s", error.message)
        self._log.close()

    def _watch(self) -> bool:
        """Wait for the end of the lease as it is counted here; then lose it."""
        left_ms = self._end_ms - elapsed_through_suspend_ms()
        if left_ms <= 0:
            self._lose(f"its lease is over: {self._failure}")
            return False
        return not self._stopped.wait(left_ms / 1_000)

    def _renew(self) -> bool:
        """Wait for the next turn, then renew the lease, and write files that have changed."""
        self._hurried.wait(self.lease_ms / _RENEWALS / 1_000)
        self._hurried.clear()
        if self._stopped.is_set():
            return False
        began_ms = elapsed_through_suspend_ms()
        try:
            is_wanted = self._log.renew(self._instance, self._epoch, self.lease_ms, self._addresses)
            self._end_ms = began_ms + own_lease_ms(self.lease_ms)
            if is_wanted and not self.is_wanted:
                self.is_wanted = True
                self.on_wanted()
            self._write_files()
            self.standbys = self._log.standbys(self._instance)
        except LogUnreachable as error:
            self._failure = error.message
        except ReplicaError as error:
            self._lose(error.message)
            return False
        return True

    def _write_files(self) -> None:
        """Write files of the folder that have changed into the log; raises ReplicaError."""
        if self.files is not None:
            self.files.write_changed(self._log, self._instance, self._epoch)

    def _lose(self, reason: str) -> None:
        """Tell once that the lease is lost."""
        with self._lock:
            is_first, self._is_lost = not self._is_lost, True
        if is_first:
            self._on_lost(reason)
