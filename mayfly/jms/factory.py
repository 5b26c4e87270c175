"""The connection factory of JMS, which makes connections and contexts."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from mayfly.client.connection import Connection as QueueConnection
from mayfly.client.connection.choose import ConnectOptions, Sharing
from mayfly.client.connection.connectors import Connector, LocalConnector, NamedConnector
from mayfly.client.connection.endpoint import (
    DEFAULT_CHANNEL,
    DEFAULT_PORT,
    Address,
    Endpoint,
    Reconnect,
    Tls,
    addresses_of,
    endpoint_of_url,
)
from mayfly.client.connection.reconnection import Attempts
from mayfly.jms.connections import Connection
from mayfly.jms.constants import AUTO_ACKNOWLEDGE
from mayfly.jms.contexts import JMSContext, SharedConnection
from mayfly.jms.errors import classic, simplified
from mayfly.lifetime.time_limits import timeout_ms
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Runtime


class ConnectionFactory:
    """Makes connections and contexts to one queue manager, in this process or over a network."""

    def __init__(
        self,
        manager: QueueManager | None = None,
        *,
        queue_manager: str = "",
        host: str | None = None,
        port: int = DEFAULT_PORT,
        channel: str = DEFAULT_CHANNEL,
        connection_name_list: str | None = None,
        ccdt_url: str | None = None,
        tls: Tls | Path | bool | None = None,
        user: str | None = None,
        password: str | None = None,
        application_name: str = "jms",
        client_id: str | None = None,
        reconnect: Reconnect | None = None,
        total_tran_lifetime_timeout_s: int = 0,
    ) -> None:
        """Take a queue manager object of this process, or the location of a queue manager.

        ``host`` and ``port`` name a server, ``channel`` its channel. ``connection_name_list``
        (``host(1414),host(1415)``) names several servers, tried in order. ``ccdt_url`` names a
        channel table. Without any of these, ``queue_manager`` is found as IBM MQ does: by MQSERVER,
        MQCCDTURL, or on this machine (docs/CLIENTS.md). ``tls`` True uses the machine's trust
        store, a path is a PEM file of trusted certificates. ``user`` and ``password`` apply to
        connections made without them. ``application_name`` becomes PutApplName.

        Only one connection with a ``client_id`` can be open at a time. ``reconnect`` YES reconnects
        after a loss, QUEUE_MANAGER to the same queue manager only; None is as the channel says.

        ``total_tran_lifetime_timeout_s`` limits transactions of transacted sessions, in seconds
        from the call of their first send or receive. After that moment a commit fails and rolls
        back. 0 is unlimited. Raises ValueError, TypeError, and JMSException with
        MQRC_HOST_NOT_AVAILABLE for a wrong connection name.
        """
        endpoint = _endpoint(host, port, connection_name_list, channel, tls)
        if endpoint is not None and ccdt_url:
            raise ValueError("ccdt_url beside host or connection_name_list: one of them")
        if tls and endpoint is None:
            raise ValueError("tls is for host or connection_name_list; a table says it itself")
        self._connector = _connector(manager, queue_manager, endpoint, ccdt_url or "", reconnect)
        self._user, self._password, self._application_name = user, password, application_name
        self._client_id = client_id
        self._lifetime_ms = timeout_ms(
            "total_tran_lifetime_timeout_s", total_tran_lifetime_timeout_s
        )

    @classmethod
    @classic
    def from_uri(
        cls,
        uri: str,
        *,
        tls: Tls | Path | bool | None = None,
        user: str | None = None,
        password: str | None = None,
        application_name: str = "jms",
        client_id: str | None = None,
        reconnect: Reconnect | None = None,
        total_tran_lifetime_timeout_s: int = 0,
    ) -> Self:
        """Return a factory for ``mq://host:1414/QM1?channel=DEV.APP.SVRCONN``.

        ``mqs://`` is with TLS. The other arguments are those of ``ConnectionFactory()``. Raises
        JMSException with MQRC_CLIENT_CONN_ERROR for a wrong URL.
        """
        endpoint = endpoint_of_url(uri, _tls(tls))
        return cls(
            queue_manager=endpoint.queue_manager,
            connection_name_list=",".join(map(str, endpoint.addresses)),
            channel=endpoint.channel,
            tls=endpoint.tls,
            user=user,
            password=password,
            application_name=application_name,
            client_id=client_id,
            reconnect=reconnect,
            total_tran_lifetime_timeout_s=total_tran_lifetime_timeout_s,
        )

    @property
    def runtime(self) -> Runtime:
        """The source of threads and locks, for programs that build on the factory's connections."""
        return self._connector.runtime

    @property
    def has_ended(self) -> bool:
        """True if the factory was made for a QueueManager object that is closed now."""
        return self._connector.has_ended

    @classic
    def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> Connection:
        """Return a stopped connection of a user; None is the user of the factory.

        Within this process the password is not checked. Raises JMSException with the reason code of
        MQCONN: MQRC_Q_MGR_NOT_AVAILABLE, MQRC_HOST_NOT_AVAILABLE, MQRC_Q_MGR_NAME_ERROR,
        MQRC_CONNECTION_BROKEN, or MQRC_JSSE_ERROR when TLS fails. Raises JMSSecurityException with
        MQRC_NOT_AUTHORIZED, and InvalidClientIDException when another connection has the client id
        of the factory.
        """
        user = self._user if user_name is None else user_name
        secret = self._password if user_name is None and password is None else password
        return self._connection(self._connector, user, secret)

    @classic
    def create_connection_of(self, max_sessions: int) -> Connection:
        """Return a stopped connection that shares its socket with no other connection.

        Over a network up to ``max_sessions`` of its sessions share a socket, if the channel allows
        as many; 1 gives each session a socket. It connects with its first session, which then
        raises the errors of :meth:`create_connection`; with a client id it connects at once.
        """
        apart = self._connector.apart(Sharing(object(), max_sessions))
        return self._connection(apart, self._user, self._password, connects_late=True)

    def _connection(
        self,
        connector: Connector,
        user: str | None,
        secret: str | None,
        *,
        connects_late: bool = False,
    ) -> Connection:
        """Return a new connection, which connects to the queue manager by ``connector``.

        ``user`` and ``secret`` (the password) are those of the connection. With ``connects_late``
        it connects only when a session needs it. A TLS failure of MQCONN is raised with
        MQRC_JSSE_ERROR.
        """

        def connect(attempts: Attempts) -> QueueConnection:
            program = self._application_name
            try:
                return connector(user, secret, program=program, attempts=attempts)
            except MQError as error:
                if error.reason != rc.MQRC_SSL_INITIALIZATION_ERROR:
                    raise
                # The classes for JMS of IBM MQ say it so.
                raise mq_error(rc.MQRC_JSSE_ERROR, error.detail) from error

        return Connection(
            connect,
            self._client_id,
            self._lifetime_ms,
            runtime=self.runtime,
            connects_late=connects_late,
        )

    @simplified
    def create_context(
        self,
        session_mode: int = AUTO_ACKNOWLEDGE,
        *,
        user_name: str | None = None,
        password: str | None = None,
    ) -> JMSContext:
        """Return a context on a new connection of a user, which starts automatically.

        ``session_mode`` is AUTO_, CLIENT_ or DUPS_OK_ACKNOWLEDGE, or SESSION_TRANSACTED.
        ``user_name`` None is the user of the factory. Raises the runtime counterparts of the errors
        of :meth:`create_connection`, such as JMSSecurityRuntimeException.
        """
        connection = self.create_connection(user_name, password)
        try:
            return JMSContext(SharedConnection(connection), session_mode)
        except BaseException:
            connection.close()
            raise


def _connector(
    manager: QueueManager | None,
    name: str,
    endpoint: Endpoint | None,
    table_url: str,
    reconnect: Reconnect | None,
) -> Connector:
    """Return the connector (which opens connections) for the arguments of a factory.

    Raises ValueError for a queue manager object together with a host, table or name, TypeError
    without any of these.
    """
    if endpoint is None and not table_url and not name:
        return LocalConnector(manager)
    if manager is not None:
        raise ValueError("a queue manager object is in this process: it has no host and name")
    wanted = ConnectOptions(endpoint, table_url=table_url, reconnect=reconnect, may_reconnect=True)
    return NamedConnector(name, wanted)


@classic
def _endpoint(
    host: str | None, port: int, names: str | None, channel: str, tls: Tls | Path | bool | None
) -> Endpoint | None:
    """Return the endpoint for a host or a connection name list, None without either.

    Raises ValueError for both, JMSException with MQRC_HOST_NOT_AVAILABLE for a wrong name list.
    """
    if host is None and names is None:
        return None
    if host is not None and names is not None:
        raise ValueError("connection_name_list beside host: one of them")
    addresses = (Address(host, port),) if host is not None else addresses_of(names or "")
    return Endpoint(addresses, channel, tls=_tls(tls))


def _tls(wanted: Tls | Path | bool | None) -> Tls | None:
    """Return the TLS settings for the ``tls`` argument: a Path, True, or a Tls; None for no TLS."""
    if isinstance(wanted, Path):
        return Tls(authorities=wanted)
    if isinstance(wanted, bool):
        return Tls() if wanted else None
    return wanted
