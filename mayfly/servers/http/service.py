"""Queue managers and admission of a host, as the resources of HTTP use them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple

from starlette.requests import Request

from mayfly.admin.security.applicant import Admitted, Applicant
from mayfly.client.connection import Connection, LocalConnection
from mayfly.client.connection.instruments import instrumented
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, NotAuthorized, mq_error
from mayfly.queue_manager import QueueManager
from mayfly.runtime import SystemClock
from mayfly.servers.clients import Instances, Place, connection_of
from mayfly.servers.http.clients import APPLICATION
from mayfly.servers.http.credentials import Credentials, Mechanism, cookie_of, of_header
from mayfly.servers.http.experiments import Experiments
from mayfly.servers.http.feed import Feeds
from mayfly.servers.http.line import Entered, Key, Line, line_of
from mayfly.servers.http.outcomes import Outcomes
from mayfly.servers.http.problems import Unauthorized, wrong_request
from mayfly.servers.http.sessions import Sessions
from mayfly.servers.http.waits import Waits
from mayfly.servers.standing import Standing, State
from mayfly.servers.wire.exchange import Admits

#: Other sites cannot make a browser send it, so a request with it was meant. Any value will do.
CSRF_HEADER: Final = "ibm-mq-rest-csrf-token"
SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_LOG = logging.getLogger("mayfly.http")


class Channels(NamedTuple):
    """The channels whose rules are for clients by HTTP."""

    programs: str
    administrators: str


class Service:
    """The queue managers of a host by name, the first one being asked where none is named."""

    def __init__(
        self,
        managers: Mapping[str, QueueManager],
        admission: Admits,
        channels: Channels,
        standing: Standing,
    ) -> None:
        """Take the parts of a host."""
        self.managers, self.channels, self.standing = managers, channels, standing
        self.sessions = Sessions(SystemClock().now_ms)
        self.outcomes, self.message_waits = Outcomes(), Waits()
        self.feeds, self.experiments = Feeds(), Experiments()
        self._instances = Instances()
        self._admission = admission

    async def admit(
        self, request: Request, channel: str | None = None, manager: str | None = None
    ) -> Visit:
        """Admit the sender of a request: an administrator, unless a channel of others is named.

        Raises Unauthorized for wrong or missing credentials, HTTPException (403) for a cookie
        without the header CSRF_HEADER, and MQError for other refusals. The visit is remembered on
        its connection for REMEMBERED_SECONDS.
        """
        if self.standing.state is State.DRAINING:
            raise mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server ends")
        channel = self.channels.administrators if channel is None else channel
        manager = next(iter(self.managers)) if manager is None else manager
        remembered = line_of(request).remembered
        # A header is not read again; a cookie is: its login may have ended.
        header = request.headers.get("authorization", "")
        key = manager, channel, header or self.credentials(request)
        known = remembered.get(key)
        if isinstance(known, Visit):
            return known
        visit = await self.let_in(request, self.credentials(request), channel, manager)
        remembered.note(key, visit)
        return visit

    def credentials(self, request: Request) -> Credentials:
        """Return the credentials of a request.

        Raises Unauthorized for a header that cannot be read and for a login that has ended,
        HTTPException (403) for a cookie that another site may have sent.
        """
        given = request.headers.get("authorization", "")
        if given:
            return of_header(given)
        token = cookie_of(request, self.sessions.cookie)
        if token:
            if request.method not in SAFE_METHODS and CSRF_HEADER not in request.headers:
                said = f"the header {CSRF_HEADER} is missing"
                raise wrong_request(HTTPStatus.FORBIDDEN, said)
            found = self.sessions.find(token)
            if found is None:
                raise Unauthorized("the login has ended: log in again", is_login=True)
            return found
        if line_of(request).peer.certificate_subject:
            return Credentials(Mechanism.CERTIFICATE)
        return Credentials()

    async def let_in(
        self, request: Request, credentials: Credentials, channel: str, manager: str
    ) -> Visit:
        """Admit a user by credentials; raises Unauthorized, and MQError as admission.

        Raises MQRC_CHANNEL_NOT_AVAILABLE for one connection too many of a channel.
        """
        line = line_of(request)
        peer = line.peer
        is_operator = credentials.mechanism is Mechanism.TOKEN
        applicant = Applicant(
            queue_manager=manager,
            address=peer.address,
            # The operator's token is for no channel.
            channel="" if is_operator else channel,
            user=credentials.user,
            password=credentials.password,
            has_tls=peer.has_tls,
            certificate_subject=peer.certificate_subject,
            certificate_issuer=peer.certificate_issuer,
            application=APPLICATION,
            must_prove_user=True,
        )
        try:
            # The answer to a wrong password comes late. A thread that waited for it would be lost
            # to other clients.
            admitted = await asyncio.wrap_future(self._admission.submit(applicant))
        except NotAuthorized as error:
            raise Unauthorized(_refused(credentials)) from error
        self._enter(line, applicant, admitted)
        return Visit(self, applicant, admitted, credentials.mechanism)

    def _enter(self, line: Line, applicant: Applicant, admitted: Admitted) -> None:
        """Count a connection as an instance of the channel it has come in by."""
        place = Place(applicant.queue_manager, applicant.channel, applicant.address)
        # The operator's token is for no channel; a connection that is gone is no instance, and its
        # request is carried out.
        if not applicant.channel or line.has_entered(place) or line.is_lost:
            return
        try:
            self._instances.enter(place, admitted)
        except MQError as error:
            _LOG.warning("AMQ9489E: %s; refused: %s", error.detail, line.peer)
            raise
        leave = partial(self._instances.leave, place)
        connected_ms = self.managers[place.queue_manager].now_ms()
        line.enter(place, Entered(admitted.user, connected_ms, leave))


class Visit(NamedTuple):
    """The requests of a user that was admitted."""

    service: Service
    applicant: Applicant
    admitted: Admitted
    mechanism: Mechanism

    @contextmanager
    def connection(self) -> Iterator[LocalConnection]:
        """Have a connection to the queue manager for a block, which may wait for the disk."""
        made = self._connect()
        try:
            yield made
        finally:
            made.close(commit=False)

    @contextmanager
    def operating_connection(self) -> Iterator[LocalConnection]:
        """Have a connection for a block that may do everything, in the name of the user.

        It is for a user whose role was checked.
        """
        operating = self._replace(admitted=replace(self.admitted, is_operator=True))
        with operating.connection() as made:
            yield made

    def conversation(self, request: Request) -> Connection:
        """Return a conversation for the loop, to be used by verbs that do not wait.

        It stays open for later requests of the client's connection. A request uses it within
        ``with line_of(request)``.
        """
        key = Key(self.applicant.queue_manager, self.applicant.channel, self.admitted)
        return line_of(request).conversation(
            key, lambda: instrumented(self._connect(), for_others=True)
        )

    def _connect(self) -> LocalConnection:
        return connection_of(self.service.managers, self.applicant, self.admitted)


def _refused(credentials: Credentials) -> str:
    if credentials.mechanism is Mechanism.CERTIFICATE:
        return "the certificate is refused; the log of the server says why"
    if not credentials.password:
        return "user and password are missing"
    return "user or password are refused; the log of the server says why"
