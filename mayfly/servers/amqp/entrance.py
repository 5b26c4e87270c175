"""The way in: a client's first bytes, its SASL exchange, and the answer of admission."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from mayfly.admin.security.admission import Admitted, Applicant
from mayfly.mqi.errors import MQError
from mayfly.servers.amqp import sasl
from mayfly.servers.amqp.errors import AmqpError
from mayfly.servers.amqp.service import Service
from mayfly.servers.clients import Peer as Partner

_LOG = logging.getLogger("mayfly.amqp")
_AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
_HEADER_BYTES = 8
#: A client that is not let in yet may have sent so much.
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


class Arriving(Protocol):
    """The connection of a client on its way in."""

    @property
    def wire(self) -> asyncio.Transport | None:
        """The transport of its bytes, None when it is gone."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def close(self, why: str) -> None:
        """End the connection; ``why`` is for the log."""

    def let_in(self, applicant: Applicant, admitted: Admitted) -> None:
        """Go on with AMQP: its first bytes may have come already and are still to be read."""


class Entrance:
    """Reads the first bytes of a client until it is let in or sent away."""

    def __init__(self, service: Service, arriving: Arriving) -> None:
        """Wait for a protocol header."""
        self._service, self._arriving = service, arriving
        self._has_sasl = self._is_asking = False
        self._asking: asyncio.Task[None] | None = None

    def feed(self, buffer: bytearray) -> None:
        """Take the bytes of the entrance from those that have come; bytes of AMQP are left."""
        if self._is_asking:
            if len(buffer) > _EARLY_BYTES:
                self._arriving.close("a client that sends before it is let in")
        elif self._has_sasl:
            self._feed_answer(buffer)
        elif len(buffer) >= _HEADER_BYTES:
            self._feed_header(buffer)

    def leave(self) -> None:
        """Ask no more: the client is gone."""
        if self._asking is not None:
            self._asking.cancel()

    def _feed_header(self, buffer: bytearray) -> None:
        arriving, mechanisms = self._arriving, self._offered()
        header = bytes(buffer[:_HEADER_BYTES])
        if header == sasl.PROTOCOL_HEADER:
            del buffer[:_HEADER_BYTES]
            self._has_sasl = True
            arriving.write(sasl.mechanisms(mechanisms))
            self._feed_answer(buffer)
        elif header == _AMQP_HEADER and sasl.ANONYMOUS in mechanisms:
            self._admit(sasl.Credentials(sasl.ANONYMOUS, "", "", ""))
        else:
            # The header says what would be spoken here.
            arriving.write(sasl.PROTOCOL_HEADER)
            said = (what for start, what in _OTHERS if header.startswith(start))
            no_sasl = "AMQP without SASL, which is needed here"
            arriving.close(
                no_sasl if header == _AMQP_HEADER else f"no AMQP 1.0: {next(said, repr(header))}"
            )

    def _offered(self) -> list[str]:
        """Return the mechanisms for this client.

        EXTERNAL is for a client with a certificate: others would prefer it to their password.
        """
        wire = self._arriving.wire
        assert wire is not None
        has_certificate = bool(Partner.of(wire).certificate_subject)
        return [
            name for name in self._service.mechanisms if has_certificate or name != sasl.EXTERNAL
        ]

    def _feed_answer(self, buffer: bytearray) -> None:
        try:
            found = sasl.read_init(bytes(buffer))
        except AmqpError as error:
            self._arriving.close(error.description)
            return
        if found is None:
            return
        credentials, used = found
        del buffer[:used]
        if credentials.mechanism not in self._offered():
            self._refuse(f"mechanism {credentials.mechanism!r} is not offered")
            return
        self._admit(credentials)

    def _admit(self, credentials: sasl.Credentials) -> None:
        self._is_asking = True
        applicant = self._applicant(credentials)
        self._asking = self._service.loop.create_task(self._ask(applicant))

    async def _ask(self, applicant: Applicant) -> None:
        service = self._service
        try:
            # The answer to a wrong password comes late. A thread that waited for it would be lost
            # to other clients.
            admitted = await asyncio.wrap_future(service.admission.submit(applicant))
        except MQError as error:
            self._refuse(str(error))
            return
        except Exception as error:  # noqa: BLE001 - a mistake must not let the client wait
            _LOG.exception("admission has failed")
            self._refuse(type(error).__name__)
            return
        self._asking = None
        if self._arriving.wire is None:
            return
        if self._has_sasl:
            self._arriving.write(sasl.outcome(is_admitted=True))
        self._arriving.let_in(applicant, admitted)

    def _refuse(self, why: str) -> None:
        if self._has_sasl:
            self._arriving.write(sasl.outcome(is_admitted=False))
        self._arriving.close(why)

    def _applicant(self, credentials: sasl.Credentials) -> Applicant:
        wire = self._arriving.wire
        assert wire is not None
        partner = Partner.of(wire)
        return Applicant(
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
