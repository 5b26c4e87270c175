"""Headers of all answers, which restrict what a browser may do with an answer."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
    """Adds headers to the answers of an application where it does not say them itself."""

    def __init__(self, application: ASGIApp) -> None:
        """Take the application."""
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        # At a challenge to a script of a page, a browser would ask for a password by itself.
        is_script = _FETCHED in scope["headers"]

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = _with(list(message.get("headers", ())))
                message["headers"] = _unchallenged(headers) if is_script else headers
            await send(message)

        await self._application(scope, receive, send_guarded)


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
