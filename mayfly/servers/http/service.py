"""Queue managers and admission of a host, as the resources of HTTP use them."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from starlette.requests import Request

from mayfly.connection import LocalConnection
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import NotAuthorized, mq_error
from mayfly.queue_manager import QueueManager
from mayfly.security.applicant import Admitted, Applicant
from mayfly.servers.admitted import connection_of
from mayfly.servers.http.problems import Unauthorized
from mayfly.servers.standing import Standing, State
from mayfly.servers.wire.exchange import Admits

_APPLICATION: Final = "HTTP"


class Service(NamedTuple):
    """The queue managers of a host by name, the first one being asked where none is named.

    The rules of ``channel`` are for administrators.
    """

    managers: Mapping[str, QueueManager]
    admission: Admits
    channel: str
    standing: Standing

    async def admit(self, request: Request) -> Visit:
        """Admit the sender of a request.

        Raises Unauthorized for wrong or missing credentials, and MQError for other refusals.
        """
        if self.standing.state is State.DRAINING:
            raise mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server ends")
        applicant = self._applicant(request)
        try:
            # The answer to a wrong password comes late. A thread that waited for it would be lost
            # to other clients.
            admitted = await asyncio.wrap_future(self.admission.submit(applicant))
        except NotAuthorized as error:
            raise Unauthorized(_refused(applicant)) from error
        return Visit(self, applicant, admitted)

    def _applicant(self, request: Request) -> Applicant:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        user, password, channel = "", "", self.channel
        if scheme.lower() == "basic":
            user, password = _basic(given.strip())
        elif scheme.lower() == "bearer":
            # The operator's token, which is for no channel.
            user, password, channel = "", given.strip(), ""
        elif scheme:
            raise Unauthorized(f"{scheme!r} is neither Basic nor Bearer")
        return Applicant(
            queue_manager=next(iter(self.managers)),
            address="" if request.client is None else request.client.host,
            channel=channel,
            user=user,
            password=password,
            has_tls=request.url.scheme == "https",
            application=_APPLICATION,
        )


class Visit(NamedTuple):
    """One request of a user that was let in."""

    service: Service
    applicant: Applicant
    admitted: Admitted

    @contextmanager
    def connection(self) -> Iterator[LocalConnection]:
        """Have a connection to the queue manager for a block, which may wait for the disk."""
        made = connection_of(self.service.managers, self.applicant, self.admitted)
        try:
            yield made
        finally:
            made.close(commit=False)


def _basic(given: str) -> tuple[str, str]:
    """Return user and password of Basic credentials (RFC 7617, in UTF-8)."""
    try:
        text = base64.b64decode(given, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise Unauthorized("these Basic credentials are no base64 of UTF-8") from None
    user, colon, password = text.partition(":")
    if not colon:
        raise Unauthorized("Basic credentials are USER:PASSWORD, and these have no colon")
    return user, password


def _refused(applicant: Applicant) -> str:
    if not applicant.password:
        return "user and password are missing"
    return "user or password are refused; the log of the server says why"
