"""Hashes of passwords: argon2id, checked in two threads, with a bound for those that wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from argon2 import PasswordHasher

#: OWASP's choice: 19 MiB, two rounds, one lane. A check takes some 25 ms of one core; the defaults
#: of the library took 300 ms and 64 MiB.
_MEMORY_KIB, _ROUNDS, _LANES = 19 * 1024, 2, 1
_THREADS: Final = 2
_MOST_WAITING: Final = 32
_R = TypeVar("_R")


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=_ROUNDS, memory_cost=_MEMORY_KIB, parallelism=_LANES)


def hashed(password: str) -> str:
    """Return the hash of a password, with a salt of its own."""
    return _hasher().hash(password)


@cache
def _of_nobody() -> str:
    """Return a hash with which an unknown user is checked, so that it takes as long."""
    return hashed("nobody")


def is_right(password: str, password_hash: str) -> bool:
    """Return True if a password has this hash; an empty hash takes as long, and returns False."""
    from argon2.exceptions import InvalidHashError, VerificationError

    # Made for a known user too: else the first unknown one would be found by its time.
    of_nobody = _of_nobody()
    try:
        _hasher().verify(password_hash or of_nobody, password)
    except (VerificationError, InvalidHashError):
        return False
    return bool(password_hash)


class Checkers:
    """Two threads for checks that take their time; refuses more work when too much of it waits."""

    def __init__(self, name: str = "mayfly-password", most_waiting: int = _MOST_WAITING) -> None:
        """Begin without threads: the first check starts them."""
        self._threads = ThreadPoolExecutor(_THREADS, name)
        self._room = threading.BoundedSemaphore(most_waiting)

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
