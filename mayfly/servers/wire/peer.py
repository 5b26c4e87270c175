"""The other end of a socket: address, TLS and the certificate that TLS has verified."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from mayfly.mqi.distinguished_names import spelled


@dataclass(frozen=True, slots=True)
class Peer:
    """The client at the other end: its address, and the names in its certificate.

    ``address`` is without the port, and empty for a UNIX socket. Subject and issuer are written as
    in SSLPEER, ``CN=anna,O=Shop,C=DE``, and empty without a certificate.
    """

    address: str
    has_tls: bool
    port: int = 0
    certificate_subject: str = ""
    certificate_issuer: str = ""

    @classmethod
    def of(cls, transport: asyncio.BaseTransport) -> Peer:
        """Return the other end of a transport."""
        name = transport.get_extra_info("peername")
        address, port = (name[0], name[1]) if isinstance(name, tuple) else ("", 0)
        has_tls = transport.get_extra_info("ssl_object") is not None
        certificate: dict[str, Any] = transport.get_extra_info("peercert") or {}
        # A value with a comma is quoted: unquoted it would be read as an attribute more.
        names = [spelled(certificate.get(field, ())) for field in ("subject", "issuer")]
        return cls(address, has_tls, port, *names)

    def __str__(self) -> str:
        """Return it for a log."""
        return f"{self.address}({self.port})" if self.address else "a UNIX socket"
