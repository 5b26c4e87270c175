"""Logins: a random token in a cookie stands for a user and a password for a time.

The server keeps a digest of the token, and the password encrypted with a key made of the token. So
the table of logins reveals neither.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hashlib import blake2b, shake_256
from typing import Final, NamedTuple

from mayfly.lifetime.times import SECOND_MS
from mayfly.servers.http.credentials import Credentials, Mechanism

#: As with IBM MQ.
LIFE_SECONDS: Final = 7_200
_TOKEN_BYTES: Final = 32
#: Logins of one user. A user who logs in for each request, and never logs out, ends its own alone.
MOST_OF_A_USER: Final = 100


class _Session(NamedTuple):
    user: str
    covered: bytes
    until_ms: int


class Sessions:
    """The logins of one listener; they belong to its loop."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """Begin with none; logins end by the time of ``now_ms``."""
        self._now_ms = now_ms
        #: Cookies know no port: two servers of a machine must not take each other's away.
        self.cookie = f"LtpaToken2_{secrets.token_hex(4)}"
        self._found: dict[bytes, _Session] = {}
        #: The digests of the logins of each user, the oldest first.
        self._of_users: dict[str, dict[bytes, None]] = {}

    def begin(self, user: str, password: str) -> str:
        """Return the token of a new login; the oldest of 100 of this user ends for it."""
        of_user = self._of_users.get(user, {})
        while of_user:
            oldest = next(iter(of_user))
            is_over = self._now_ms() >= self._found[oldest].until_ms
            if not is_over and len(of_user) < MOST_OF_A_USER:
                break
            self._forget(oldest)
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        until_ms = self._now_ms() + LIFE_SECONDS * SECOND_MS
        covered = _covered(password.encode(), token)
        digest = _digest(token)
        self._found[digest] = _Session(user, covered, until_ms)
        self._of_users.setdefault(user, {})[digest] = None
        return token

    def find(self, token: str) -> Credentials | None:
        """Return the user and password of a login; None for one that has ended."""
        digest = _digest(token)
        found = self._found.get(digest)
        if found is None:
            return None
        if self._now_ms() >= found.until_ms:
            self._forget(digest)
            return None
        password = _covered(found.covered, token).decode()
        return Credentials(Mechanism.FORM, found.user, password)

    def end(self, token: str) -> None:
        """Forget a login."""
        self._forget(_digest(token))

    def _forget(self, digest: bytes) -> None:
        found = self._found.pop(digest, None)
        if found is not None:
            of_user = self._of_users[found.user]
            del of_user[digest]
            if not of_user:
                del self._of_users[found.user]


def _digest(token: str) -> bytes:
    return blake2b(token.encode(), digest_size=32).digest()


def _covered(text: bytes, token: str) -> bytes:
    stream = shake_256(token.encode()).digest(len(text))
    return bytes(a ^ b for a, b in zip(text, stream, strict=True))
