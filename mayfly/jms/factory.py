"""The connection factory: where a program begins."""

from __future__ import annotations

from functools import partial

from mayfly.connection.connectors import LocalConnector
from mayfly.jms.connections import Connection
from mayfly.jms.constants import AUTO_ACKNOWLEDGE
from mayfly.jms.contexts import JMSContext, Shared
from mayfly.jms.errors import classic, simplified
from mayfly.lifetime.transactions import timeout_ms
from mayfly.queue_manager import QueueManager

_PROGRAM = "jms"


class ConnectionFactory:
    """Makes connections and contexts to one queue manager of this process."""

    def __init__(
        self,
        manager: QueueManager,
        *,
        client_id: str | None = None,
        total_tran_lifetime_timeout_s: int = 0,
    ) -> None:
        """Take the queue manager, and the client id that all its connections have.

        Only one of them can be open at a time then. ``total_tran_lifetime_timeout_s`` is how long a
        unit of work of their transacted sessions may last, from the call of its first send or
        receive on; from that moment its commit is refused and rolls back. 0 is for ever. Raises
        ValueError, TypeError.
        """
        self._connector = LocalConnector(manager)
        self._client_id = client_id
        self._lifetime_ms = timeout_ms(
            "total_tran_lifetime_timeout_s", total_tran_lifetime_timeout_s
        )

    @classic
    def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> Connection:
        """Return a stopped connection of a user, None for the one who opened the queue manager.

        In process a user is taken at its word: the password is not looked at. Raises JMSException
        with MQRC_CONNECTION_BROKEN when the queue manager has ended, InvalidClientIDException when
        another connection has the client id of the factory.
        """
        connect = partial(self._connector, user_name, password, program=_PROGRAM)
        return Connection(connect, self._client_id, self._lifetime_ms)

    @simplified
    def create_context(
        self,
        session_mode: int = AUTO_ACKNOWLEDGE,
        *,
        user_name: str | None = None,
        password: str | None = None,
    ) -> JMSContext:
        """Return a context on a new connection of a user, which starts by itself."""
        connection = self.create_connection(user_name, password)
        try:
            return JMSContext(Shared(connection), session_mode)
        except BaseException:
            connection.close()
            raise
