"""The entrance of AMQP clients: protocol header, SASL, admission, and the answer to the open.

SASL has the mechanisms PLAIN, EXTERNAL and ANONYMOUS (RFC 4616, 4422, 4505). This build of proton
has no server side of PLAIN; so the three performatives are handled here, and proton's codec encodes
them.

At a place where the queue manager is not, the answer says where it is. Any mechanism of SASL is
accepted there, because nothing is done for the client but that its connection is closed with the
error ``amqp:connection:redirect`` (2.8.16 of AMQP 1.0).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from proton import Condition, Connection, Data, symbol

from mayfly.admin.security.admission import Admitted, Applicant
from mayfly.lifetime.window import DELAY_COMMAND_LEVEL
from mayfly.mqi.errors import MQError
from mayfly.servers.amqp.codec import (
    FORCED,
    FRAMING_ERROR,
    INVALID_FIELD,
    AmqpError,
    Described,
    Scalar,
    Value,
    decoded_value,
    encoded_value,
    plain,
    symbols,
)
from mayfly.servers.amqp.conversations import ClientConversations
from mayfly.servers.amqp.frames import ESTABLISHMENT_FAILED, close_with, refusing_open
from mayfly.servers.amqp.service import AmqpService
from mayfly.servers.clients import Peer
from mayfly.servers.managers import ManagerTable

_LOG = logging.getLogger("mayfly.amqp")
_AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
#: The most bytes that a client may send before it is admitted.
_EARLY_BYTES = 64 * 1024
#: First bytes of other protocols.
_OTHERS: Final = (
    (b"AMQP\x02", "TLS within AMQP, which is not spoken here: connect with TLS"),
    (b"AMQP\x00\x00", "AMQP 0-9-1"),
    (b"\x16\x03", "TLS where none is configured"),
    (b"GET ", "HTTP"),
    (b"POST ", "HTTP"),
    (b"TSH", "a client of IBM MQ"),
)
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
PLAIN, EXTERNAL, ANONYMOUS = "PLAIN", "EXTERNAL", "ANONYMOUS"
_OFFERED: Final = (PLAIN, EXTERNAL, ANONYMOUS)
_MECHANISMS, _INIT, _OUTCOME = 0x40, 0x41, 0x44
_OK, _REFUSED = 0, 1
_FRAME_TYPE, _HEADER_BYTES = 1, 8
#: The longest sasl-init frame in bytes; it contains user and password.
_MAX_BYTES: Final = 4096
#: Capabilities of the JMS mapping of AMQP that a client may ask for.
CAPABILITIES: Final = ("ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS")
_DELAYED: Final = "DELAYED_DELIVERY"
_PROPERTIES: Final = {
    "product": "Mayfly",
    "queue-prefix": "queue://",
    "topic-prefix": "topic://",
}
_SOLE = "sole-connection-for-container"
#: From these two symbols a JMS client derives its exception for a client id in use.
_CONTAINER_ID: Final = {symbol("invalid-field"): symbol("container-id")}


class Handshake:
    """The handshake of one client, from its first bytes until it is admitted or refused."""

    def __init__(
        self,
        service: AmqpService,
        wire: asyncio.Transport,
        authenticate: Callable[[Applicant, Admitted], None],
        close: Callable[[str], None],
    ) -> None:
        """Prepare to read a protocol header.

        ``wire`` is the socket of the client. ``authenticate`` is called with an admitted client; it
        begins AMQP, whose first bytes may be in the buffer already. ``close`` ends the connection;
        its argument is the reason for the log.
        """
        self._service, self._wire, self._authenticate, self._close = (
            service,
            wire,
            authenticate,
            close,
        )
        self._partner = Peer.of(wire)
        self._has_sasl = self._is_asking = False
        #: The queue manager that the client means; the error that redirects the client.
        self._manager = ""
        self._redirect: AmqpError | None = None
        #: Whether a redirected client was sent the open of the server, and the redirect.
        self._has_opened = self._is_told = False
        self._asking: asyncio.Task[None] | None = None

    def feed(self, buffer: bytearray) -> None:
        """Process the bytes of the handshake, and remove them from ``buffer``; AMQP bytes are left.

        A client that sends more than 64 KiB before it is admitted is closed.
        """
        if self._redirect is not None:
            self._feed_redirected(buffer)
        elif self._is_asking:
            if len(buffer) > _EARLY_BYTES:
                self._close("a client that sends before it is let in")
        elif self._has_sasl:
            self._feed_answer(buffer)
        elif len(buffer) >= _HEADER_BYTES:
            self._feed_header(buffer)

    def leave(self) -> None:
        """Cancel a running admission, because the connection has ended."""
        if self._asking is not None:
            self._asking.cancel()

    def _feed_header(self, buffer: bytearray) -> None:
        """Answer the protocol header of 8 bytes: offer SASL mechanisms, ask admission, or close.

        A client with SASL gets the list of mechanisms. For one without SASL, admission is asked as
        ANONYMOUS, if that is offered. All others get the SASL header, and are closed with the
        reason in the log.
        """
        mechanisms = self._offered()
        header = bytes(buffer[:_HEADER_BYTES])
        if header == SASL_HEADER:
            del buffer[:_HEADER_BYTES]
            self._has_sasl = True
            self._wire.write(sasl_mechanisms(mechanisms))
            self._feed_answer(buffer)
        elif header == _AMQP_HEADER and self._is_redirected(""):
            self._feed_redirected(buffer)
        elif header == _AMQP_HEADER and ANONYMOUS in mechanisms:
            self._admit(SaslCredentials(ANONYMOUS, "", "", ""))
        else:
            # The header tells the client which protocol is expected.
            self._wire.write(SASL_HEADER)
            text = (what for start, what in _OTHERS if header.startswith(start))
            no_sasl = "AMQP without SASL, which is needed here"
            self._close(
                no_sasl if header == _AMQP_HEADER else f"no AMQP 1.0: {next(text, repr(header))}"
            )

    def _offered(self) -> list[str]:
        """Return the SASL mechanisms to offer this client.

        EXTERNAL is only for a client with a certificate: other clients would prefer it to their
        password.
        """
        has_certificate = bool(self._partner.certificate_subject)
        return [name for name in _OFFERED if has_certificate or name != EXTERNAL]

    def _feed_answer(self, buffer: bytearray) -> None:
        """Read the client's sasl-init and ask admission; does nothing while it is incomplete.

        A malformed frame closes the connection; a mechanism that was not offered is refused.
        """
        try:
            found = read_sasl_init(bytes(buffer))
        except AmqpError as error:
            self._close(error.description)
            return
        if found is None:
            return
        credentials, used = found
        del buffer[:used]
        if self._is_redirected(credentials.hostname):
            # The client learns where to go, and nothing else: no password is needed.
            self._wire.write(sasl_outcome(is_admitted=True))
            self._feed_redirected(buffer)
            return
        if credentials.mechanism not in self._offered():
            self._refuse(f"mechanism {credentials.mechanism!r} is not offered")
            return
        self._admit(credentials)

    def _is_redirected(self, hostname: str) -> bool:
        """Return True if the queue manager that a client means is not open here.

        The client is redirected from then on.
        """
        self._manager = self._service.manager_named(hostname)
        self._redirect = self._service.redirect(self._manager)
        return self._redirect is not None

    def _feed_redirected(self, buffer: bytearray) -> None:
        """Open AMQP with a client, and close it with the redirect when it has opened as well.

        Some clients send their open before they read that of the server. The client then hangs up;
        what it sends meanwhile is ignored.
        """
        assert self._redirect is not None
        if not self._has_opened and len(buffer) >= _HEADER_BYTES:
            del buffer[:_HEADER_BYTES]
            self._wire.write(refusing_open(self._manager))
            self._has_opened = True
        if self._is_told:
            buffer.clear()
        elif self._has_opened and len(buffer) >= _HEADER_BYTES:
            size = int.from_bytes(buffer[:4], "big")
            if size > _EARLY_BYTES:
                self._close(f"a frame has {size} bytes, at most {_EARLY_BYTES}")
            elif len(buffer) >= size:
                self._is_told = True
                self._wire.write(close_with(self._redirect))
                if self._wire.can_write_eof():
                    self._wire.write_eof()

    def _admit(self, credentials: SaslCredentials) -> None:
        """Start a task that asks admission about the client."""
        self._is_asking, partner = True, self._partner
        applicant = Applicant(
            queue_manager=self._service.manager_named(credentials.hostname),
            address=partner.address,
            channel=self._service.channel,
            user=credentials.user,
            password=credentials.password,
            has_tls=partner.has_tls,
            certificate_subject=partner.certificate_subject,
            certificate_issuer=partner.certificate_issuer,
            application="AMQP",
        )
        self._asking = self._service.loop.create_task(self._ask(applicant))

    async def _ask(self, applicant: Applicant) -> None:
        """Wait for admission's answer, then begin with AMQP or refuse the client.

        ``applicant`` is the program that asks to connect. Raises nothing.
        """
        service = self._service
        try:
            # The answer to a wrong password is late. No thread waits for it, because other clients
            # need the threads.
            admitted = await asyncio.wrap_future(service.admission.submit(applicant))
        except MQError as error:
            self._refuse(str(error))
            return
        except Exception as error:  # noqa: BLE001 - a mistake must not let the client wait
            _LOG.exception("admission has failed")
            self._refuse(type(error).__name__)
            return
        self._asking = None
        if self._wire.is_closing():
            return
        if self._has_sasl:
            self._wire.write(sasl_outcome(is_admitted=True))
        self._authenticate(applicant, admitted)

    def _refuse(self, why: str) -> None:
        """Send a failed SASL outcome if SASL is used, and close the connection with a reason."""
        if self._has_sasl:
            self._wire.write(sasl_outcome(is_admitted=False))
        self._close(why)


class SaslCredentials(NamedTuple):
    """The sasl-init of a client: mechanism, user, password and host name, each "" if absent."""

    mechanism: str
    user: str
    password: str
    hostname: str


def sasl_mechanisms(names: Sequence[str]) -> bytes:
    """Return the SASL protocol header and the frame that offers these mechanisms, encoded."""
    return SASL_HEADER + _frame(_MECHANISMS, [symbols(names)])


def sasl_outcome(*, is_admitted: bool) -> bytes:
    """Return the encoded SASL outcome frame: ok if ``is_admitted``, otherwise auth failure."""
    return _frame(_OUTCOME, [Scalar(Data.UBYTE, _OK if is_admitted else _REFUSED)])


def read_sasl_init(raw: bytes) -> tuple[SaslCredentials, int] | None:
    """Return the sasl-init of a client and its length in bytes; None until it is complete.

    Raises AmqpError amqp:connection:framing-error for another frame or a malformed one.
    """
    if len(raw) < _HEADER_BYTES:
        return None
    size, offset, kind = int.from_bytes(raw[:4], "big"), raw[4] * 4, raw[5]
    if kind != _FRAME_TYPE or not _HEADER_BYTES <= offset <= size <= _MAX_BYTES:
        raise AmqpError(FRAMING_ERROR, f"a frame of type {kind} and {size} bytes is no SASL answer")
    if len(raw) < size:
        return None
    value = decoded_value(raw[offset:size])
    code = plain(value.descriptor) if isinstance(value, Described) else None
    if code not in (_INIT, "amqp:sasl-init:list"):
        raise AmqpError(FRAMING_ERROR, "the first SASL frame is no sasl-init")
    return _credentials(plain(value)), size


def _credentials(fields: object) -> SaslCredentials:
    """Return the credentials in the decoded fields of a sasl-init.

    User and password are "" unless the mechanism is PLAIN. Raises AmqpError framing-error for wrong
    fields.
    """
    given = [*fields, None, None, None] if isinstance(fields, list) else [None] * 3
    mechanism, response, hostname = given[:3]
    if not isinstance(mechanism, str) or not isinstance(hostname, (str, type(None))):
        raise AmqpError(FRAMING_ERROR, "sasl-init names no mechanism")
    user = password = ""
    if mechanism == PLAIN:
        user, password = _plain(response)
    return SaslCredentials(mechanism, user, password, hostname or "")


def _plain(response: object) -> tuple[str, str]:
    r"""Return user and password of a PLAIN response; ``b'\0anna\0pw'`` -> ``('anna', 'pw')``.

    Raises AmqpError amqp:connection:framing-error for another form.
    """
    parts = response.split(b"\0") if isinstance(response, bytes) else []
    try:
        _identity, user, password = (part.decode() for part in parts)
    except ValueError:
        raise AmqpError(FRAMING_ERROR, "the response to PLAIN is malformed") from None
    return user, password


def _frame(code: int, fields: list[Value]) -> bytes:
    """Return an encoded SASL frame with a performative's code and fields."""
    body = encoded_value(Described(Scalar(Data.ULONG, code), fields))
    size = _HEADER_BYTES + len(body)
    return size.to_bytes(4, "big") + bytes((2, _FRAME_TYPE, 0, 0)) + body


def open_connection(
    connection: Connection,
    queue_manager: str,
    refused: Condition | None = None,
    command_level: int = DELAY_COMMAND_LEVEL,
) -> None:
    """Send the open of a queue manager's connection, and close it with ``refused`` unless None.

    ``command_level`` is that of the queue manager. One without delivery delay does not offer
    DELAYED_DELIVERY: a JMS client then refuses delays itself.
    """
    connection.container = queue_manager
    knows_delay = command_level >= DELAY_COMMAND_LEVEL
    offered = [name for name in CAPABILITIES if knows_delay or name != _DELAYED]
    connection.offered_capabilities = offered
    connection.properties = {
        **_PROPERTIES,
        **({} if refused is None else {ESTABLISHMENT_FAILED: True}),
    }
    connection.open()
    if refused is not None:
        connection.condition = refused
        connection.close()


def claim_container(connection: Connection, conversations: ClientConversations) -> Condition | None:
    """Reserve the container id, if the client asks to be its only user; return None.

    Returns the condition amqp:invalid-field if another client has reserved the id.
    """
    desired = connection.remote_desired_capabilities
    if _SOLE not in {str(name) for name in (desired or ())}:
        return None
    try:
        conversations.claim(connection.remote_container or "")
    except MQError as error:
        return Condition(INVALID_FIELD, str(error), _CONTAINER_ID)
    return None


_REDIRECT: Final = "amqp:connection:redirect"
_LISTENER: Final = "amqp"


def redirect_of(managers: ManagerTable, name: str) -> AmqpError | None:
    """Return the error for clients of a queue manager that is not open here; None for an open one.

    Without a known address of its owner the condition is amqp:connection:forced.
    """
    absence = managers.absence(name, _LISTENER)
    if absence is None:
        return None
    owner = managers.owner_of(name)
    place = None if owner is None else owner.address(_LISTENER)
    if place is None:
        return AmqpError(FORCED, absence.detail)
    info = {"hostname": place.host, "network-host": place.host, "port": place.port}
    return AmqpError(_REDIRECT, absence.detail, {symbol(key): info[key] for key in info})
