"""The listeners that a host runs, all of one shape: a protocol comes in by being one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mayfly.queue_manager import QueueManager
from mayfly.servers.exposure import ListenAddress
from mayfly.servers.settings import TlsFiles

if TYPE_CHECKING:
    from mayfly.servers.flight import FlightServer


class Listener(Protocol):
    """Takes connections over one protocol for the queue managers of a host."""

    #: Its name in settings and in the ready line: ``mq``, ``flight``.
    name: str

    def start(self) -> str:
        """Begin to listen; return the address for clients. Raises OSError, naming the address."""

    def reload(self) -> None:
        """Read the files of TLS again, for connections that come from now on.

        Raises OSError or ValueError for a file that cannot be used; the listener goes on as before.
        """

    def drain(self, timeout_ms: int) -> None:
        """Take no new connection; return when those there have ended, or after a time."""

    def stop(self) -> None:
        """End all connections."""


class FlightListener:
    """Arrow Flight: pipelines, the ledger. pyarrow is imported when the listener starts."""

    name = "flight"

    def __init__(
        self,
        managers: Sequence[QueueManager],
        folders: Mapping[str, Path],
        address: ListenAddress,
        *,
        token: str,
        tls: TlsFiles,
    ) -> None:
        """Take what the server is made of; sockets in ``folders`` are for commands."""
        self._managers, self._folders, self._address = managers, folders, address
        self._token, self._tls = token, tls
        self._server: FlightServer | None = None

    def start(self) -> str:
        """Begin to listen."""
        from mayfly.servers.flight import FlightServer

        certificate = None
        if self._tls.certificate is not None and self._tls.key is not None:
            certificate = self._tls.certificate.read_bytes(), self._tls.key.read_bytes()
        roots = self._tls.client_roots
        self._server = FlightServer(
            self._managers,
            self._address.host,
            self._address.port,
            token=self._token,
            tls_certificate=certificate,
            client_roots=None if roots is None else roots.read_bytes(),
            without_client_certificates=self._tls.without_client_certificates,
            folders=self._folders,
        )
        self._server.start()
        return self._server.url

    def reload(self) -> None:
        """Keep the certificate: gRPC has read it for as long as the process runs."""

    def drain(self, timeout_ms: int) -> None:
        """Refuse new calls and end those under way."""
        self.stop()

    def stop(self) -> None:
        """End all calls; gives silent clients 5 seconds."""
        if self._server is not None:
            self._server.stop()

    @property
    def is_held(self) -> bool:
        """Whether a silent client has outlasted the stop, so that threads of gRPC still wait."""
        return self._server is not None and self._server.is_held
