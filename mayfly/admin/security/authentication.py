"""Authentication: whether a password is right, and how long a guesser of passwords waits.

A right password is remembered for some minutes, so that a program that connects for each request
pays argon2 once. A keyed hash of it is kept, and counts as long as the user's hash stays the same.
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

from mayfly.admin.security.users import User, is_right
from mayfly.lifetime.times import SECOND_MS
from mayfly.runtime import Loop, Runtime, SystemClock

REMEMBERED_MS: Final = 300 * SECOND_MS
#: So many wrong passwords in a row cost nothing but FAILDLAY; each one after them closes the
#: address for twice as long as the one before.
_FREE_FAILURES: Final = 5
_FIRST_PENALTY_MS: Final = SECOND_MS
_LONGEST_PENALTY_MS: Final = 60 * SECOND_MS
#: As many of one user, over all addresses, before the name is closed to strange addresses.
_FREE_FAILURES_OF_NAME: Final = 10
#: A name that nobody guesses at for so long begins anew.
_QUIET_MS: Final = 15 * 60 * SECOND_MS
_MAX_SOURCES: Final = 10_000
#: Addresses that a user is known to come from.
_MAX_KNOWN: Final = 100
_MAX_REMEMBERED: Final = 10_000
_THREADS: Final = 2
_MAX_WAITING: Final = 32
_R = TypeVar("_R")
_MAX_DELAYED: Final = 1_000
_LOG = logging.getLogger("mayfly.security")


class _Remembered(NamedTuple):
    digest: bytes
    password_hash: str
    until_ms: int


class Memory:
    """Passwords that were right a short time ago; any thread may ask."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """Begin with none, and with a key that nobody knows."""
        self._now_ms = now_ms
        self._key = secrets.token_bytes(32)
        self._found: dict[tuple[str, str], _Remembered] = {}

    def knows(self, manager: str, user: User, password: str) -> bool:
        """Return True if a password was right lately, and the user's hash is still the same."""
        found = self._found.get((manager, user.name))
        if found is None or found.password_hash != user.password_hash:
            return False
        is_same = hmac.compare_digest(found.digest, self._digest(password))
        return is_same and self._now_ms() < found.until_ms

    def note(self, manager: str, user: User, password: str) -> None:
        """Remember a password that was right."""
        if len(self._found) >= _MAX_REMEMBERED:
            self._found.clear()
        until_ms = self._now_ms() + REMEMBERED_MS
        made = _Remembered(self._digest(password), user.password_hash, until_ms)
        self._found[manager, user.name] = made

    def forget(self) -> None:
        """Forget all passwords, as REFRESH SECURITY does."""
        self._found = {}

    def _digest(self, password: str) -> bytes:
        return blake2b(password.encode(), key=self._key).digest()


class Failures:
    """Wrong passwords by source: after some in a row the source is closed for a time."""

    def __init__(
        self, now_ms: Callable[[], int], free: int = _FREE_FAILURES, quiet_ms: int | None = None
    ) -> None:
        """Begin with none.

        ``free`` failures close nothing. A source without a failure for ``quiet_ms`` begins anew;
        None: only a right password lets it do so.
        """
        self._now_ms, self._free, self._quiet_ms = now_ms, free, quiet_ms
        self._changing = threading.Lock()
        #: Source -> failures in a row, and until when it is closed; the oldest first.
        self._found: dict[str, tuple[int, int]] = {}

    def closed_ms(self, source: str) -> int:
        """Return for how long a source is still closed, 0 for an open one."""
        with self._changing:
            _count, until_ms = self._found.get(source, (0, 0))
        return max(0, until_ms - self._now_ms())

    def note(self, source: str) -> None:
        """Count a wrong password of a source, and close it for longer after each one too many."""
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
                # It has been quiet for the longest time: a name that is guessed at stays.
                del self._found[next(iter(self._found))]
            self._found[source] = count, until_ms

    def forget(self, source: str) -> None:
        """Begin anew for a source, whose password was right."""
        with self._changing:
            self._found.pop(source, None)


class Source(NamedTuple):
    """Where a password comes from: from an address, or from this machine, for a name."""

    manager: str
    user: str
    #: Empty for this machine, where the address is that of everybody.
    address: str

    @property
    def place(self) -> str:
        """The source that wrong passwords close: an address, or the name on this machine."""
        return self.address or f"local {self.user}"

    @property
    def name(self) -> str:
        """The user that is guessed at from other machines."""
        return f"{self.manager} {self.user}"


class Authenticator:
    """Checks passwords of the users of all queue managers of a server."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """Take the time from a clock."""
        self.memory = Memory(now_ms)
        self._places = Failures(now_ms)
        self._names = Failures(now_ms, _FREE_FAILURES_OF_NAME, _QUIET_MS)
        #: Name -> addresses of other machines that have come in by it, the last one last.
        self._known: dict[str, dict[str, None]] = {}
        self._noting = threading.Lock()

    def closed_ms(self, source: Source) -> int:
        """Return for how long no password is taken from a source, 0 for one that is open.

        A name that is guessed at from many addresses is closed to those that have not come in by it
        before.
        """
        closed_ms = self._places.closed_ms(source.place)
        if source.address and source.address not in self._known.get(source.name, ()):
            closed_ms = max(closed_ms, self._names.closed_ms(source.name))
        return closed_ms

    def check(self, user: User | None, password: str) -> bool:
        """Return True if a password is right; an unknown user takes as long as a known one."""
        return is_right(password, "" if user is None else user.password_hash)

    def note_refused(self, source: Source) -> None:
        """Count a refusal: of a wrong password, and of a user who is kept out with a right one."""
        self._places.note(source.place)
        if source.address:
            self._names.note(source.name)

    def note_admitted(self, source: Source) -> None:
        """Let the place begin anew, and the address be known; a name is guessed at all the same."""
        self._places.forget(source.place)
        if source.address:
            with self._noting:
                known = self._known.setdefault(source.name, {})
                known.pop(source.address, None)
                if len(known) >= _MAX_KNOWN:
                    del known[next(iter(known))]
                known[source.address] = None


class Checkers:
    """Two threads for checks that take their time; refuses more work when too much of it waits."""

    def __init__(self, name: str = "mayfly-password") -> None:
        """Begin without threads: the first check starts them."""
        self._threads = ThreadPoolExecutor(_THREADS, name)
        self._room = threading.BoundedSemaphore(_MAX_WAITING)

    def submit(self, work: Callable[[], _R]) -> Future[_R] | None:
        """Let a thread do some work; None when there is no room to wait."""
        if not self._room.acquire(blocking=False):
            return None
        future = self._threads.submit(work)
        future.add_done_callback(lambda _future: self._room.release())
        return future

    def close(self) -> None:
        """End the threads after their present checks; checks that wait are cancelled."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Delays:
    """Calls functions later, in one thread, which the first of them starts."""

    def __init__(self, runtime: Runtime) -> None:
        """Take the runtime whose thread calls the functions."""
        self._runtime, self._clock = runtime, SystemClock()
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._loop: Loop | None = None
        self._is_closed = False

    def call_after(self, delay_ms: int, function: Callable[[], None]) -> None:
        """Call a function after a time.

        It is called at once when too many wait already, when there is no thread, or behind the end.
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
        """Call all that wait now, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _has_thread(self) -> bool:
        """Start the thread where there is none; False without one, or at the end."""
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
        """Wait for the next function and call it; False at the end."""
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
        return self._waiting[0][0] - self._clock.now_ms()
