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
_MOST: Final = 10_000


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

    def begin(self, user: str, password: str) -> str:
        """Return the token of a new login; the oldest of 10,000 ends for it."""
        while len(self._found) >= _MOST:
            del self._found[next(iter(self._found))]
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        until_ms = self._now_ms() + LIFE_SECONDS * SECOND_MS
        covered = _covered(password.encode(), token)
        self._found[_digest(token)] = _Session(user, covered, until_ms)
        return token

    def find(self, token: str) -> Credentials | None:
        """Return the user and password of a login; None for one that has ended."""
        digest = _digest(token)
        found = self._found.get(digest)
        if found is None:
            return None
        if self._now_ms() >= found.until_ms:
            del self._found[digest]
            return None
        password = _covered(found.covered, token).decode()
        return Credentials(Mechanism.FORM, found.user, password)

    def end(self, token: str) -> None:
        """Forget a login."""
        self._found.pop(_digest(token), None)


def _digest(token: str) -> bytes:
    return blake2b(token.encode(), digest_size=32).digest()


def _covered(text: bytes, token: str) -> bytes:
    stream = shake_256(token.encode()).digest(len(text))
    return bytes(a ^ b for a, b in zip(text, stream, strict=True))
