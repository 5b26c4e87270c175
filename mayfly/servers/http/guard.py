"""Headers of all answers, which restrict what a browser may do; the names a server answers to."""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mayfly.servers.http.problems import problem

#: The policy of answers without one. A page sets its own, which never allows inline scripts.
POLICY: Final = b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_POLICY_HEADER: Final = (b"content-security-policy", POLICY)
_CACHE_HEADER: Final = (b"cache-control", b"no-store")
#: A browser says so of requests by scripts, and no script can change it.
_FETCHED: Final = (b"sec-fetch-dest", b"empty")
#: Headers that are the same in all answers.
FOR_ALL: Final = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
]


class Guard:
    """Adds headers to the answers of an application where it does not say them itself.

    A server on the loopback interface answers to names of this machine alone. Else a page of
    another site could lead its own name to this machine (DNS rebinding), and its scripts would be
    those of the server.
    """

    def __init__(self, application: ASGIApp, *, is_loopback: bool = False) -> None:
        """Take the application."""
        self._application, self._is_loopback = application, is_loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        application = self._application
        if self._is_loopback:
            for name, value in scope["headers"]:
                if name == b"host" and not is_of_this_machine(value):
                    application = _misdirected
        # At a challenge to a script of a page, a browser would ask for a password by itself.
        is_script = _FETCHED in scope["headers"]

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = _with(list(message.get("headers", ())))
                message["headers"] = _unchallenged(headers) if is_script else headers
            await send(message)

        await application(scope, receive, send_guarded)


@lru_cache(maxsize=64)
def is_of_this_machine(host: bytes) -> bool:
    """Return True if a Host header can only mean the machine of its client.

    It is an address, ``localhost``, or a name without a dot, which no other site has.
    """
    name = host.decode("latin-1").lower()
    if name.startswith("["):
        name, bracket, port = name[1:].partition("]")
        return bool(bracket) and _is_address(name) and (not port or port.startswith(":"))
    name = name.partition(":")[0].removesuffix(".")
    return "." not in name or name.endswith(".localhost") or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


async def _misdirected(scope: Scope, receive: Receive, send: Send) -> None:
    said = "on the loopback interface the server answers to localhost and to addresses alone"
    made = problem(HTTPStatus.MISDIRECTED_REQUEST, f"{said}: the header Host names another site")
    await made(scope, receive, send)


def _with(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    given = {name for name, _value in headers}
    if b"content-security-policy" not in given:
        headers.append(_POLICY_HEADER)
    if b"cache-control" not in given:
        # A cache on the way would answer for a server that is gone, or another user.
        headers.append(_CACHE_HEADER)
    return headers


def _unchallenged(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [each for each in headers if each[0].lower() != b"www-authenticate"]
