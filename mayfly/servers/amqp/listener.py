"""The AMQP 1.0 listener of a server process; proton is imported only when it starts."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mayfly.channel import clients_known
from mayfly.queue_manager import QueueManager
from mayfly.servers.budget import Budget
from mayfly.servers.clients import Admits, connection_of
from mayfly.servers.listeners import Listener, listened, reload_tls, tls_context
from mayfly.servers.settings import ListenAddress, TlsFiles

if TYPE_CHECKING:
    from mayfly.servers.amqp.server import AmqpServer


class AmqpListener(Listener):
    """Listens for AMQP 1.0 over TCP or TLS; proton ends connections that are silent for too long.

    From start to stop its clients are registered for administration of the queue managers.
    """

    name = "amqp"

    def __init__(
        self,
        managers: Sequence[QueueManager],
        admission: Admits,
        address: ListenAddress,
        *,
        channel: str,
        tls: TlsFiles,
        budget: Budget | None = None,
    ) -> None:
        """Take the settings of the server; the rules of ``channel`` apply to its clients.

        ``budget`` limits the memory for messages and may be shared with other listeners.
        """
        self._budget = budget
        self._managers = {manager.name: manager for manager in managers}
        self._admission, self._address = admission, address
        self._channel, self._tls = channel, tls
        self._context: ssl.SSLContext | None = None
        self._server: AmqpServer | None = None
        self._known = contextlib.ExitStack()

    def start(self) -> str:
        """Start to listen; return the address.

        Raises OSError for an address in use, for unusable TLS files, and when python-qpid-proton is
        not installed.
        """
        try:
            from mayfly.servers.amqp.server import AmqpServer
        except ModuleNotFoundError as error:
            text = "--amqp needs python-qpid-proton, which a C compiler builds: mayfly-mq[amqp]"
            raise OSError(text) from error
        self._context = tls_context(self._tls)
        self._server = AmqpServer(
            list(self._managers),
            self._admission,
            lambda _name, admitted, applicant: connection_of(self._managers, applicant, admitted),
            channel=self._channel,
            runtime=next(iter(self._managers.values())).engine.runtime,
            budget=self._budget,
        )
        try:
            address = listened(self._server.listen_tcp, self._address, self._context)
        except OSError:
            self._server.close()
            self._server = None
            raise
        for manager in self._managers.values():
            self._known.enter_context(clients_known(manager.engine, self._server))
        return address

    def reload(self) -> None:
        """Load certificate, key and client authorities again, for new connections.

        Raises OSError if a file cannot be used; the old files then stay in use. Does nothing
        without TLS.
        """
        reload_tls(self._context, self._tls)

    def drain(self, timeout_ms: int) -> None:
        """Accept no new connection; return when all clients have left, or after ``timeout_ms``.

        Does nothing before :meth:`start`.
        """
        if self._server is not None:
            self._server.drain(timeout_ms)

    def stop(self) -> None:
        """End all connections with amqp:connection:forced."""
        self._known.close()
        if self._server is not None:
            self._server.close()
