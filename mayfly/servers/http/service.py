"""The service that HTTP requests share: queue managers, authentication, logins by cookie."""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from functools import partial
from hashlib import blake2b, shake_256
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from threading import Lock
from types import MappingProxyType
from typing import Final, NamedTuple

from starlette.requests import Request

from mayfly.admin.security.applicant import Admitted, Applicant
from mayfly.client.connection import Connection, LocalConnection
from mayfly.client.connection.interface import instrumented
from mayfly.engine import Engine, Session
from mayfly.engine.api.operating import KeptMessages, Receipts
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, NotAuthorized, mq_error
from mayfly.queue_manager import QueueManager
from mayfly.runtime import SystemClock
from mayfly.servers.clients import (
    Admits,
    ChannelClient,
    ChannelInstances,
    connection_of,
    manager_of,
)
from mayfly.servers.figure_history import FigureHistory
from mayfly.servers.http.connection import (
    APPLICATION,
    ChannelAdmission,
    ConversationKey,
    GetWaits,
    HttpConnection,
    VerbFutures,
    http_connection_of,
)
from mayfly.servers.http.experiments import Experiments
from mayfly.servers.http.feed import Feeds
from mayfly.servers.http.problems import HttpError, Unauthorized
from mayfly.servers.managers import ManagerTable, OwnerPlace
from mayfly.servers.status import ServerStatus, ServingState
from mayfly.store.replica.standing import STANDBY

#: Other sites cannot make a browser send it, so a request with it was meant. Any value will do.
CSRF_HEADER: Final = "ibm-mq-rest-csrf-token"
SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_LOG = logging.getLogger("mayfly.http")
#: Its name in settings, and in the addresses of an owner.
_LISTENER: Final = "http"


class Service:
    """The queue managers that HTTP serves, and the state that all requests share.

    A request that names no queue manager goes to the first one.
    """

    def __init__(
        self,
        managers: Mapping[str, QueueManager] | ManagerTable,
        admission: Admits,
        server_status: ServerStatus,
        *,
        channel: str,
        admin_channel: str,
        histories: Mapping[str, FigureHistory],
        fleet: Mapping[str, str] = MappingProxyType({}),
        identify: Callable[[Applicant], Future[Admitted]] | None = None,
    ) -> None:
        """Serve ``managers``, by name; ``admission`` checks the users of requests.

        The rules of ``channel`` apply to programs, those of ``admin_channel`` to administrators.
        ``histories`` has the figures over time of each queue manager, by name. ``fleet`` has the
        origins of the servers that the console shows together; their pages may read here.
        ``identify`` checks passwords of a queue manager that is in standby; None if none can be.
        """
        shared = managers if isinstance(managers, ManagerTable) else managers.values()
        self.managers, self.server_status = ManagerTable.of(shared), server_status
        self.histories, self.fleet = histories, fleet
        #: Their rules are for programs, and for administrators.
        self.channel, self.admin_channel = channel, admin_channel
        self.logins = Logins(SystemClock().now_ms)
        self.outcomes, self.message_waits = VerbFutures(), GetWaits()
        self.feeds, self.experiments = Feeds(), Experiments()
        #: Changes of messages that can still be undone.
        self.undos = Undos(SystemClock().now_ms)
        self._instances = ChannelInstances()
        self._admission, self._identify = admission, identify

    async def admit(
        self, request: Request, channel: str | None = None, manager: str | None = None
    ) -> AuthenticatedUser:
        """Authenticate the sender of a request by the rules of a channel; return the user.

        Without ``channel`` it is the channel for administrators, without ``manager`` the first
        open queue manager. The result is cached on the connection for 5 seconds. Raises
        Unauthorized for wrong or missing credentials, and HttpError: 403 for a cookie without the
        header CSRF_HEADER, 503 for a queue manager that another server owns. Raises
        MQRC_Q_MGR_QUIESCING while the server shuts down, and another MQError if the channel
        refuses.
        """
        self._check_serving()
        channel = self.admin_channel if channel is None else channel
        manager = self.managers.first if manager is None else manager
        self.check_open(manager)
        cache = http_connection_of(request).cache
        # A header is not read again; a cookie is: its login may have ended.
        header = request.headers.get("authorization", "")
        key = manager, channel, header or self.credentials(request)
        known = cache.get(key)
        if isinstance(known, AuthenticatedUser):
            return known
        authenticated = await self.authenticate(
            request, self.credentials(request), channel, manager
        )
        cache.remember(key, authenticated)
        return authenticated

    async def identify(self, request: Request) -> None:
        """Check the credentials of a request while no queue manager is open here.

        They are the operator's token, a certificate that TLS has accepted, or the password of a
        user of the first queue manager, whose authorities are not known. Raises Unauthorized for
        others.
        """
        self._check_serving()
        credentials = self.credentials(request)
        if credentials.mechanism is Mechanism.CERTIFICATE:
            return
        if self._identify is None or credentials.mechanism is Mechanism.NONE:
            raise Unauthorized(_refusal_text(credentials))
        applicant = _applicant(request, credentials, self.admin_channel, self.managers.first)
        try:
            await asyncio.wrap_future(self._identify(applicant))
        except NotAuthorized as error:
            raise Unauthorized(_refusal_text(credentials)) from error

    def _check_serving(self) -> None:
        """Raise MQRC_Q_MGR_QUIESCING while the server shuts down."""
        if self.server_status.state is ServingState.DRAINING:
            raise mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server ends")

    def check_open(self, manager: str) -> None:
        """Raise HttpError (503) with the owner's place for a queue manager that is not open here.

        Its role is None before it is known, and after an error. An unknown name raises nothing.
        """
        absence = self.managers.absence(manager, _LISTENER)
        if absence is not None:
            followed = self.managers.owner_of(manager)
            owner = followed or OwnerPlace()
            address = owner.address(_LISTENER)
            raise HttpError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                absence.detail,
                headers={"Retry-After": "1"},
                queue_manager=manager,
                role=None if followed is None else STANDBY,
                owner=owner.name or None,
                address=None if address is None else str(address),
            )

    def credentials(self, request: Request) -> Credentials:
        """Return the credentials of a request: from its header, cookie or client certificate.

        Without any the mechanism is NONE. Raises Unauthorized for a malformed header and for a
        login that has ended. Raises HttpError (403) for a cookie without CSRF_HEADER, which
        another site may have sent.
        """
        given = request.headers.get("authorization", "")
        if given:
            return credentials_of_header(given)
        token = cookie_of(request, self.logins.cookie)
        if token:
            if request.method not in SAFE_METHODS and CSRF_HEADER not in request.headers:
                text = f"the header {CSRF_HEADER} is missing"
                raise HttpError(HTTPStatus.FORBIDDEN, text)
            found = self.logins.find(token)
            if found is None:
                raise Unauthorized("the login has ended: log in again", is_login=True)
            return found
        if http_connection_of(request).peer.certificate_subject:
            return Credentials(Mechanism.CERTIFICATE)
        return Credentials()

    async def authenticate(
        self, request: Request, credentials: Credentials, channel: str, manager: str
    ) -> AuthenticatedUser:
        """Check credentials by the rules of a channel; return the user.

        The connection then counts as an instance of the channel. A wrong password is answered after
        FAILDLAY. Raises Unauthorized for wrong credentials, MQRC_NOT_AUTHORIZED with the rule that
        is against a user whose password is right, MQRC_CHANNEL_NOT_AVAILABLE above MAXINST or
        MAXINSTC, and other MQErrors if the channel refuses.
        """
        line = http_connection_of(request)
        applicant = _applicant(request, credentials, channel, manager)
        try:
            # The answer to a wrong password comes late. A thread that waited for it would be lost
            # to other clients.
            admitted = await asyncio.wrap_future(self._admission.submit(applicant))
        except NotAuthorized as error:
            if error.detail:
                # The credentials are right, and a rule is against the user.
                raise
            raise Unauthorized(_refusal_text(credentials)) from error
        self._add_instance(line, applicant, admitted)
        return AuthenticatedUser(self, applicant, admitted, credentials.mechanism)

    def _add_instance(self, line: HttpConnection, applicant: Applicant, admitted: Admitted) -> None:
        """Count a connection as an instance of the channel, unless it is counted already.

        ``line`` is the HTTP connection of the client, ``applicant`` the user who asks, and
        ``admitted`` has the limits of the channel. Raises MQRC_CHANNEL_NOT_AVAILABLE above MAXINST
        or MAXINSTC.
        """
        place = ChannelClient(applicant.queue_manager, applicant.channel, applicant.address)
        # The operator's token is for no channel; a connection that is gone is no instance, and its
        # request is carried out.
        if not applicant.channel or line.is_admitted(place) or line.is_lost:
            return
        try:
            self._instances.enter(place, admitted)
        except MQError as error:
            _LOG.warning("AMQ9489E: %s; refused: %s", error.detail, line.peer)
            raise
        leave = partial(self._instances.leave, place)
        manager = manager_of(self.managers, applicant, _LISTENER)
        connected_ms = manager.now_ms()
        line.add_admission(place, ChannelAdmission(admitted.user, connected_ms, leave))


class AuthenticatedUser(NamedTuple):
    """A user who was authenticated for a request, and the channel rules that apply."""

    service: Service
    applicant: Applicant
    admitted: Admitted
    mechanism: Mechanism

    @contextmanager
    def connection(self) -> Iterator[LocalConnection]:
        """Open a connection to the queue manager, with the user's authority, for a ``with`` block.

        It is closed at the end without a commit. The block must run in a thread, because calls may
        wait.
        """
        made = self._connect()
        try:
            yield made
        finally:
            made.close(commit=False)

    @contextmanager
    def operating_connection(self) -> Iterator[LocalConnection]:
        """Open a connection with all authority for a ``with`` block; audits still name the user.

        Call it only after the role of the user was checked. The block must run in a thread.
        """
        operating = self._replace(admitted=replace(self.admitted, is_operator=True))
        with operating.connection() as made:
            yield made

    def conversation(self, request: Request) -> Connection:
        """Return an MQ conversation for calls that do not block, to be used in the event loop.

        It stays open for later requests of the same client connection. Use it within ``with
        http_connection_of(request)``, which keeps it open.
        """
        key = ConversationKey(self.applicant.queue_manager, self.applicant.channel, self.admitted)
        return http_connection_of(request).conversation(
            key, lambda: instrumented(self._connect(), for_others=True)
        )

    def _connect(self) -> LocalConnection:
        """Open and return a connection to the queue manager with the user's authority."""
        return connection_of(self.service.managers, self.applicant, self.admitted, _LISTENER)


def _applicant(request: Request, credentials: Credentials, channel: str, manager: str) -> Applicant:
    """Return the sender of a request as admission checks it, at a channel of a queue manager."""
    peer = http_connection_of(request).peer
    return Applicant(
        queue_manager=manager,
        address=peer.address,
        # The operator's token is for no channel.
        channel="" if credentials.mechanism is Mechanism.TOKEN else channel,
        user=credentials.user,
        password=credentials.password,
        has_tls=peer.has_tls,
        certificate_subject=peer.certificate_subject,
        certificate_issuer=peer.certificate_issuer,
        application=APPLICATION,
        must_prove_user=True,
    )


def _refusal_text(credentials: Credentials) -> str:
    """Return the error text for the client when credentials are missing or refused."""
    if credentials.mechanism is Mechanism.CERTIFICATE:
        return "the certificate is refused; the log of the server says why"
    if not credentials.password:
        return "user and password are missing"
    return "user or password are refused; the log of the server says why"


class Mechanism(Enum):
    """The kinds of credentials, with the names of IBM's login resource."""

    NONE = "none"
    BASIC = "basic"
    FORM = "form"
    TOKEN = "token"
    CERTIFICATE = "clientCertificate"


class Credentials(NamedTuple):
    """A user name and password, and how they were sent.

    With ``Mechanism.TOKEN`` the password is the operator's token; with NONE and CERTIFICATE both
    are empty.
    """

    mechanism: Mechanism = Mechanism.NONE
    user: str = ""
    password: str = ""


def credentials_of_header(given: str) -> Credentials:
    """Return the credentials of an Authorization header, Basic or Bearer.

    Raises Unauthorized for another scheme or malformed Basic credentials.
    """
    scheme, _, text = given.partition(" ")
    if scheme.lower() == "basic":
        return _basic(text.strip())
    if scheme.lower() == "bearer":
        return Credentials(Mechanism.TOKEN, "", text.strip())
    raise Unauthorized(f"{scheme!r} is neither Basic nor Bearer")


def cookie_of(request: Request, name: str) -> str:
    """Return the value of a cookie; empty if the request does not have it."""
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _basic(given: str) -> Credentials:
    """Return user and password of Basic credentials (RFC 7617, base64 of UTF-8).

    Raises Unauthorized for another form.
    """
    try:
        text = base64.b64decode(given, validate=True).decode()
    # Other errors of base64 and of UTF-8 are of this class.
    except ValueError:
        raise Unauthorized("these Basic credentials are no base64 of UTF-8") from None
    user, colon, password = text.partition(":")
    if not colon:
        raise Unauthorized("Basic credentials are USER:PASSWORD, and these have no colon")
    return Credentials(Mechanism.BASIC, user, password)


#: As with IBM MQ.
LIFE_SECONDS: Final = 7_200
_TOKEN_BYTES: Final = 32
#: Logins of one user. A user who logs in for each request, and never logs out, ends its own alone.
MAX_OF_A_USER: Final = 100


class _Login(NamedTuple):
    """A login: the user, the encrypted password, and its end in ms since 1970."""

    user: str
    encrypted: bytes
    until_ms: int


class Logins:
    """The logins of one server; belongs to its event loop.

    A password is kept only XORed with a stream made of the token, and the token only as a digest.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """Start without logins; ``now_ms`` returns the time in ms since 1970."""
        self._now_ms = now_ms
        #: Cookies know no port: two servers of a machine must not take each other's away.
        self.cookie = f"LtpaToken2_{secrets.token_hex(4)}"
        self._found: dict[bytes, _Login] = {}
        #: The digests of the logins of each user, the oldest first.
        self._of_users: dict[str, dict[bytes, None]] = {}

    def begin(self, user: str, password: str) -> str:
        """Start a login of two hours; return its token, the value of the cookie.

        The password must have been checked. If the user has 100 logins, the oldest one ends.
        """
        of_user = self._of_users.get(user, {})
        while of_user:
            oldest = next(iter(of_user))
            is_over = self._now_ms() >= self._found[oldest].until_ms
            if not is_over and len(of_user) < MAX_OF_A_USER:
                break
            self._forget(oldest)
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        until_ms = self._now_ms() + LIFE_SECONDS * SECOND_MS
        encrypted = _xor(password.encode(), token)
        digest = _digest(token)
        self._found[digest] = _Login(user, encrypted, until_ms)
        self._of_users.setdefault(user, {})[digest] = None
        return token

    def find(self, token: str) -> Credentials | None:
        """Return the user and password of a login; None if its token is unknown or has expired."""
        digest = _digest(token)
        found = self._found.get(digest)
        if found is None:
            return None
        if self._now_ms() >= found.until_ms:
            self._forget(digest)
            return None
        password = _xor(found.encrypted, token).decode()
        return Credentials(Mechanism.FORM, found.user, password)

    def end(self, token: str) -> None:
        """End a login; an unknown token is ignored."""
        self._forget(_digest(token))

    def _forget(self, digest: bytes) -> None:
        """Remove a login by the digest of its token; an unknown one is ignored."""
        found = self._found.pop(digest, None)
        if found is not None:
            of_user = self._of_users[found.user]
            del of_user[digest]
            if not of_user:
                del self._of_users[found.user]


def _digest(token: str) -> bytes:
    """Return the digest under which a login is stored; the token itself is not stored."""
    return blake2b(token.encode(), digest_size=32).digest()


def _xor(text: bytes, token: str) -> bytes:
    """Return a text XORed with a stream made of a token; a second call restores the text."""
    stream = shake_256(token.encode()).digest(len(text))
    return bytes(a ^ b for a, b in zip(text, stream, strict=True))


# Changes of messages that can still be undone, kept in memory for a while


#: How long a change can be undone, and how many changes of a server are kept, the latest.
LIFE_MS = 10 * 60_000
MAX_UNDOS = 1_000
#: The data of cancelled messages that are kept together.
MAX_BYTES = 4 * KeptMessages.MAX_BYTES


class Undo(NamedTuple):
    """A change that can be undone: at which queue manager, by whom it was made, and its undo.

    ``run`` takes the engine and a session of the user who undoes. ``data_bytes`` is the length of
    the data that is kept for it.
    """

    manager: str
    user: str
    run: Callable[[Engine, Session], Receipts]
    until_ms: int
    data_bytes: int


class Undos:
    """The changes of a server that can be undone; any thread may use it."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """Begin without changes; ``now_ms`` returns the time in ms since 1970."""
        self._now_ms, self._lock = now_ms, Lock()
        self._found: OrderedDict[str, Undo] = OrderedDict()
        #: The length of all data that is kept.
        self._kept_bytes = 0

    def add(
        self,
        manager: str,
        user: str,
        run: Callable[[Engine, Session], Receipts],
        data_bytes: int = 0,
    ) -> str:
        """Keep a change for ten minutes; return the id of its undo.

        The oldest ones are dropped above 1,000 changes or 64 MiB of data.
        """
        number = secrets.token_hex(8)
        until_ms = self._now_ms() + LIFE_MS
        with self._lock:
            self._found[number] = Undo(manager, user, run, until_ms, data_bytes)
            self._kept_bytes += data_bytes
            while len(self._found) > MAX_UNDOS or self._kept_bytes > MAX_BYTES:
                _number, dropped = self._found.popitem(last=False)
                self._kept_bytes -= dropped.data_bytes
        return number

    def take(self, number: str, manager: str, user: str) -> Undo | None:
        """Return a change and forget it; None if it is not known, over, or another user's."""
        with self._lock:
            found = self._found.get(number)
            if found is None or (found.manager, found.user) != (manager, user):
                return None
            del self._found[number]
            self._kept_bytes -= found.data_bytes
        return found if self._now_ms() < found.until_ms else None
