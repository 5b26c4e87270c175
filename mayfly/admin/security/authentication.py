"""Authentication: remembers right passwords, and slows down the guessing of passwords.

A right password is cached for five minutes, so that a program that connects for each request pays
argon2 once. The cache has a keyed hash of the password, valid while the user's hash stays the same.
"""

from __future__ import annotations

import heapq
import hmac
import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from itertools import count
from typing import Final, NamedTuple, TypeVar

from mayfly.admin.security.users import User
from mayfly.lifetime.times import SECOND_MS
from mayfly.runtime import Loop, Runtime, SystemClock

REMEMBERED_MS: Final = 300 * SECOND_MS
#: Wrong passwords in a row that are delayed by FAILDLAY only. Each one after them closes its source
#: for twice as long as the one before.
_FREE_FAILURES: Final = 5
_FIRST_PENALTY_MS: Final = SECOND_MS
_LONGEST_PENALTY_MS: Final = 60 * SECOND_MS
#: Wrong passwords for one user, from all addresses, before it is closed for unknown addresses.
_FREE_FAILURES_OF_NAME: Final = 10
#: After this time without a wrong password the count for a user starts again.
_QUIET_MS: Final = 15 * 60 * SECOND_MS
_MAX_SOURCES: Final = 10_000
#: Addresses remembered for each user from which it has connected.
_MAX_KNOWN: Final = 100
_MAX_REMEMBERED: Final = 10_000
_THREADS: Final = 2
_MAX_WAITING: Final = 32
_R = TypeVar("_R")
_MAX_DELAYED: Final = 1_000
_LOG = logging.getLogger("mayfly.security")


class _Remembered(NamedTuple):
    """A cached right password: its keyed digest, the user's hash, and its end in ms since 1970."""

    digest: bytes
    password_hash: str
    until_ms: int


class RememberedPasswords:
    """A cache of passwords that were right in the last five minutes; any thread may call it."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """Start empty, with a new random key; ``now_ms`` returns ms since 1970."""
        self._now_ms = now_ms
        self._key = secrets.token_bytes(32)
        self._found: dict[tuple[str, str], _Remembered] = {}

    def knows(self, manager: str, user: User, password: str) -> bool:
        """Return True if a password is cached as right for a user whose hash has not changed.

        Returns False for a wrong, unknown or outdated password.
        """
        found = self._found.get((manager, user.name))
        if found is None or found.password_hash != user.password_hash:
            return False
        is_same = hmac.compare_digest(found.digest, self._digest(password))
        return is_same and self._now_ms() < found.until_ms

    def note(self, manager: str, user: User, password: str) -> None:
        """Cache a password that was right, for five minutes.

        A full cache (10 000 users) is emptied first.
        """
        if len(self._found) >= _MAX_REMEMBERED:
            self._found.clear()
        until_ms = self._now_ms() + REMEMBERED_MS
        made = _Remembered(self._digest(password), user.password_hash, until_ms)
        self._found[manager, user.name] = made

    def forget(self) -> None:
        """Empty the cache, for REFRESH SECURITY."""
        self._found = {}

    def _digest(self, password: str) -> bytes:
        """Return the keyed BLAKE2b digest of a password."""
        return blake2b(password.encode(), key=self._key).digest()


class Failures:
    """Counts wrong passwords by key (a text); after several in a row it closes the key."""

    def __init__(
        self, now_ms: Callable[[], int], free: int = _FREE_FAILURES, quiet_ms: int | None = None
    ) -> None:
        """Start without counts. A source of passwords is an address or a user name, as text.

        From failure number ``free`` of a source on, each failure makes its passwords be refused
        unchecked for a time. The count of a source without a failure for ``quiet_ms`` starts again
        from 0. With None only a right password resets it. ``now_ms`` returns ms since 1970.
        """
        self._now_ms, self._free, self._quiet_ms = now_ms, free, quiet_ms
        self._changing = threading.Lock()
        #: Source -> failures in a row, and until when it is closed; the oldest first.
        self._found: dict[str, tuple[int, int]] = {}

    def closed_ms(self, source: str) -> int:
        """Return for how many ms passwords from ``source`` are still refused unchecked.

        ``source`` is an address or a user name, as text. Returns 0 if its passwords are checked.
        """
        with self._changing:
            _count, until_ms = self._found.get(source, (0, 0))
        return max(0, until_ms - self._now_ms())

    def note(self, source: str) -> None:
        """Count a wrong password of a source: an address or a user name, as text.

        From number ``free`` on, each one makes passwords of the source be refused unchecked for a
        time: one second at first, then twice as long each time, at most one minute.
        """
        with self._changing:
            now_ms = self._now_ms()
            count, until_ms = self._found.pop(source, (0, now_ms))
            if self._quiet_ms is not None and now_ms - until_ms >= self._quiet_ms:
                count = 0
            count, until_ms = count + 1, now_ms
            over = count - self._free
            if over >= 0:
                until_ms += min(_FIRST_PENALTY_MS << min(over, 10), _LONGEST_PENALTY_MS)
            if len(self._found) >= _MAX_SOURCES:
                # The source without failures for the longest time: one under attack stays.
                del self._found[next(iter(self._found))]
            self._found[source] = count, until_ms

    def forget(self, source: str) -> None:
        """Set the count of a source to 0, so that its passwords are checked."""
        with self._changing:
            self._found.pop(source, None)


class Source(NamedTuple):
    """The sender of a password: queue manager, user, and address."""

    manager: str
    user: str
    #: Empty for this machine, where all users have the same address.
    address: str

    @property
    def address_key(self) -> str:
        """The key for counting wrong passwords: the address, or the user on this machine."""
        return self.address or f"local {self.user}"

    @property
    def user_key(self) -> str:
        """The key for counting wrong passwords for one user from all other machines."""
        return f"{self.manager} {self.user}"


class PasswordGuard:
    """Slows down the guessing of passwords at all queue managers of a server.

    A source (queue manager, user, address) is closed for a time after several wrong passwords.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """Start without counts and known addresses; ``now_ms`` returns ms since 1970."""
        self._by_address = Failures(now_ms)
        self._by_user = Failures(now_ms, _FREE_FAILURES_OF_NAME, _QUIET_MS)
        #: User -> addresses of other machines from which it has connected, the latest last.
        self._known: dict[str, dict[str, None]] = {}
        self._noting = threading.Lock()

    def closed_ms(self, source: Source) -> int:
        """Return for how many ms passwords from a source are refused, 0 if they are checked.

        A source is queue manager, user and address. After many wrong passwords for one user, that
        user is refused from addresses from which the user has never connected.
        """
        closed_ms = self._by_address.closed_ms(source.address_key)
        if source.address and source.address not in self._known.get(source.user_key, ()):
            closed_ms = max(closed_ms, self._by_user.closed_ms(source.user_key))
        return closed_ms

    def note_refused(self, source: Source) -> None:
        """Count a refusal against the address and the user name of a source.

        A refusal is a wrong password, or a right one of a user who is blocked. After several of
        them passwords of the source are refused unchecked for a time.
        """
        self._by_address.note(source.address_key)
        if source.address:
            self._by_user.note(source.user_key)

    def note_admitted(self, source: Source) -> None:
        """Set the count of wrong passwords from this address to 0; record the address as known.

        The count of the user name stays. For each user the last 100 addresses are known.
        """
        self._by_address.forget(source.address_key)
        if source.address:
            with self._noting:
                known = self._known.setdefault(source.user_key, {})
                known.pop(source.address, None)
                if len(known) >= _MAX_KNOWN:
                    del known[next(iter(known))]
                known[source.address] = None


class Checkers:
    """Two threads for slow checks, with a queue of at most 32."""

    def __init__(self, name: str = "mayfly-password") -> None:
        """Prepare two threads, which start when needed; ``name`` begins their names."""
        self._threads = ThreadPoolExecutor(_THREADS, name)
        self._capacity = threading.BoundedSemaphore(_MAX_WAITING)

    def submit(self, work: Callable[[], _R]) -> Future[_R] | None:
        """Run work in a thread; return its future, None if 32 checks already run or wait."""
        if not self._capacity.acquire(blocking=False):
            return None
        future = self._threads.submit(work)
        future.add_done_callback(lambda _future: self._capacity.release())
        return future

    def close(self) -> None:
        """Cancel the work that waits; let the threads end after their current work.

        Does not wait for them.
        """
        self._threads.shutdown(wait=False, cancel_futures=True)


class Delays:
    """Calls functions after a delay, in one thread that the first delay starts."""

    def __init__(self, runtime: Runtime) -> None:
        """Prepare the thread, which ``runtime`` makes; the delays are of the system clock."""
        self._runtime, self._clock = runtime, SystemClock()
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._loop: Loop | None = None
        self._is_closed = False

    def call_after(self, delay_ms: int, function: Callable[[], None]) -> None:
        """Call a function after ``delay_ms``, in the thread.

        The caller's thread calls it at once for a delay of 0, after :meth:`close`, when 1000
        functions wait, or when no thread can be started.
        """
        with self._changed:
            is_kept_back = delay_ms > 0 and len(self._waiting) < _MAX_DELAYED and self._has_thread()
            if is_kept_back:
                due_ms = self._clock.now_ms() + delay_ms
                heapq.heappush(self._waiting, (due_ms, next(self._numbers), function))
                self._changed.notify()
        if not is_kept_back:
            function()

    def close(self) -> None:
        """Make the thread call all waiting functions now, and end; does not wait for that."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _has_thread(self) -> bool:
        """Start the thread unless it runs; return True if it runs. The lock must be held.

        Returns False if the start fails (logged), or after :meth:`close`.
        """
        if self._loop is None and not self._is_closed:
            loop = Loop(self._runtime, self._call_next, "mayfly-refusals")
            try:
                loop.start()
            except RuntimeError as error:
                _LOG.error("a wrong password is refused at once: %s", error)
            else:
                self._loop = loop
        return self._loop is not None and not self._is_closed

    def _call_next(self) -> bool:
        """Wait for the next function that is due and call it; log its exception.

        Returns False if it is closed and no function waits, otherwise True.
        """
        with self._changed:
            while not self._is_closed and (not self._waiting or self._left_ms() > 0):
                left_s = self._left_ms() / SECOND_MS if self._waiting else None
                self._changed.wait(left_s)
            if not self._waiting:
                return False
            _due_ms, _number, function = heapq.heappop(self._waiting)
        try:
            function()
        except Exception:  # noqa: BLE001 - one client's answer is not the others'
            _LOG.exception("a refusal cannot be answered")
        return True

    def _left_ms(self) -> int:
        """Return the ms until the next function is due, 0 or less if overdue.

        The lock must be held, and a function must wait.
        """
        return self._waiting[0][0] - self._clock.now_ms()
