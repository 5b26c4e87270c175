"""One request to a resource of IBM's API, as handlers take it."""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from typing import NamedTuple

from starlette.requests import Request

from mayfly.mqi import reasons as rc
from mayfly.servers.http.line import Line, line_of
from mayfly.servers.http.rest.errors import (
    NO_QUEUE_MANAGER,
    RestError,
    wrong_value,
)
from mayfly.servers.http.service import Service, Visit


class Call(NamedTuple):
    """A request; ``names`` are the parts of the path that its pattern leaves open."""

    service: Service
    request: Request
    version: int
    names: tuple[str, ...]

    @property
    def line(self) -> Line:
        """The connection it came over."""
        return line_of(self.request)

    async def admit(self) -> Visit:
        """Let the program in to the queue manager that its path names; raises as admission."""
        return await self._let_in(self.service.channels.programs)

    async def admit_administrator(self) -> Visit:
        """Let a user in by the channel for administrators, whose role is still to be checked."""
        return await self._let_in(self.service.channels.administrators)

    def check_manager(self) -> None:
        """Raise RestError (404) when the queue manager of the path is not served here."""
        name = self.names[0]
        if name not in self.service.managers:
            said = f"queue manager {name!r} is not served here"
            reason = rc.MQRC_Q_MGR_NAME_ERROR
            raise RestError(HTTPStatus.NOT_FOUND, NO_QUEUE_MANAGER, said, reason=reason)

    async def _let_in(self, channel: str) -> Visit:
        self.check_manager()
        return await self.service.admit(self.request, channel, self.names[0])

    def headers(self) -> dict[str, str]:
        """Return the headers by their names in lower case, the first of those with one name.

        For many of them this is ten times as fast as ``request.headers``, which looks through all
        of them for each one.
        """
        given = reversed(self.request.scope["headers"])
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in given}

    def parameters(self, known: Collection[str]) -> dict[str, str]:
        """Return the query parameters; raises RestError for one that is not known, or twice."""
        found: dict[str, str] = {}
        if not self.request.scope["query_string"]:
            return found
        for name, value in self.request.query_params.multi_items():
            if name not in known:
                raise wrong_value("query parameter", name, f"one of {', '.join(known) or 'none'}")
            if name in found:
                raise wrong_value(name, value, "there only once")
            found[name] = value
        return found
