"""Authentication: whether a user's password is right, and how often an address may be wrong.

A right password is remembered for some minutes, so that a program that connects for each request
pays argon2 once. A keyed hash of it is kept, and counts as long as the user's hash stays the same.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, NamedTuple

from mayfly.lifetime.times import SECOND_MS
from mayfly.security.passwords import is_right
from mayfly.security.users import User

REMEMBERED_MS: Final = 300 * SECOND_MS
#: So many wrong passwords in a row cost nothing but FAILDLAY; each one after them closes the
#: address for twice as long as the one before.
_FREE_FAILURES: Final = 5
_FIRST_PENALTY_MS: Final = SECOND_MS
_LONGEST_PENALTY_MS: Final = 60 * SECOND_MS
_MOST_ADDRESSES: Final = 10_000
_MOST_REMEMBERED: Final = 10_000


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
        if len(self._found) >= _MOST_REMEMBERED:
            self._found.clear()
        until_ms = self._now_ms() + REMEMBERED_MS
        made = _Remembered(self._digest(password), user.password_hash, until_ms)
        self._found[manager, user.name] = made

    def forget(self) -> None:
        """Forget all of them."""
        self._found = {}

    def _digest(self, password: str) -> bytes:
        return blake2b(password.encode(), key=self._key).digest()


class Failures:
    """Wrong passwords by source: after some in a row the source is closed for a time."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """Begin with none."""
        self._now_ms = now_ms
        self._changing = threading.Lock()
        #: Source -> failures in a row, and until when it is closed; the oldest first.
        self._found: dict[str, tuple[int, int]] = {}

    def closed_ms(self, source: str) -> int:
        """Return for how long a source is still closed, 0 for an open one."""
        with self._changing:
            _count, until_ms = self._found.get(source, (0, 0))
        return max(0, until_ms - self._now_ms())

    def note(self, source: str) -> None:
        """Count a wrong password."""
        with self._changing:
            count = self._found.pop(source, (0, 0))[0] + 1
            over = count - _FREE_FAILURES
            until_ms = 0
            if over >= 0:
                penalty_ms = min(_FIRST_PENALTY_MS << min(over, 10), _LONGEST_PENALTY_MS)
                until_ms = self._now_ms() + penalty_ms
            if len(self._found) >= _MOST_ADDRESSES:
                del self._found[next(iter(self._found))]
            self._found[source] = count, until_ms

    def forget(self, source: str) -> None:
        """Begin anew for a source, whose password was right."""
        with self._changing:
            self._found.pop(source, None)


class Authenticator:
    """Checks passwords of the users of all queue managers of a server."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """Take the time from a clock."""
        self.memory = Memory(now_ms)
        self.failures = Failures(now_ms)

    def check(self, manager: str, user: User | None, password: str, source: str) -> bool:
        """Return True if a password is right; an unknown user takes as long as a known one."""
        if user is not None and self.memory.knows(manager, user, password):
            return True
        if not is_right(password, "" if user is None else user.password_hash):
            self.failures.note(source)
            return False
        self.failures.forget(source)
        assert user is not None
        self.memory.note(manager, user, password)
        return True
