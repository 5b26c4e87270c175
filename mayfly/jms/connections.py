"""The connection factory of JMS, connections of the classic API, contexts of the simplified."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Concatenate, NoReturn, ParamSpec, Self

from mayfly import __version__
from mayfly.client.connection import Connection as QueueConnection
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
from mayfly.client.connection.routes import ConnectOptions, Sharing
from mayfly.jms import constants as k
from mayfly.jms.callbacks import ExceptionReports
from mayfly.jms.constants import AUTO_ACKNOWLEDGE
from mayfly.jms.consumers import JMSBrowser, JMSConsumer, MessageConsumer
from mayfly.jms.destinations import Destination, Queue, TemporaryQueue, TemporaryTopic
from mayfly.jms.errors import (
    IllegalStateException,
    InvalidClientIDException,
    JMSException,
    classic,
    refuse,
    simplified,
    simplified_method,
)
from mayfly.jms.producers import JMSProducer
from mayfly.jms.sessions import Session
from mayfly.lifetime.moments import timeout_ms
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, ObjectError, mq_error
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Runtime
from mayfly.verbs import requests as ask
from mayfly.verbs.requests import Opened


class ConnectionMetaData:
    """The versions of JMS and of the provider, Mayfly.

    The major and minor version are the numbers before and after the point.
    """

    jms_version = "2.0"
    jms_major_version = 2
    jms_minor_version = 0
    jms_provider_name = "Mayfly"
    provider_version = __version__
    provider_major_version, provider_minor_version = map(int, __version__.split(".")[:2])
    #: The properties whose names begin with JMSX that messages have, or may be given.
    jmsx_property_names = (
        k.JMSX_GROUPID,
        k.JMSX_GROUPSEQ,
        k.JMSX_DELIVERY_COUNT,
        k.JMSX_USERID,
        k.JMSX_APPID,
    )


_MODEL_QUEUE = "SYSTEM.DEFAULT.MODEL.QUEUE"
_OWNER_BYTES = 6


class Connection:
    """A JMS connection of one user, initially stopped; thread-safe. Errors are JMSException."""

    def __init__(
        self,
        connect: Callable[[Attempts], QueueConnection],
        client_id: str | None = None,
        lifetime_ms: int = 0,
        *,
        runtime: Runtime,
        connects_late: bool = False,
    ) -> None:
        """Connect by calling ``connect``, as each session will; the factory creates connections.

        Transactions may last ``lifetime_ms``, 0 for unlimited; a later commit fails and rolls back.
        With ``connects_late`` the connection itself connects only when ``mq`` is needed; sessions
        alone do not need it. Raises the errors of ``connect``, such as MQRC_CONNECTION_BROKEN, and
        InvalidClientIDException for a wrong ``client_id`` or one in use.
        """
        self.lifetime_ms = lifetime_ms
        self._connect = connect
        self._client_id: str | None = None
        self._is_begun = False
        #: Ends the attempts of all conversations to connect again.
        self._ends = Runtime().event()
        self._lock = runtime.reentrant_lock("jms connection")
        #: One owner for the connection and its sessions, so that its sessions may use its temporary
        #: queues and topics. It is random, as the numbers of conversations are used again.
        self._owner = int.from_bytes(runtime.random_bytes(_OWNER_BYTES), "big")
        self.reports = ExceptionReports(runtime)
        self._mq = None if connects_late else self._connected()
        #: Notified when the connection is started or closed.
        self._changed = runtime.condition()
        #: The number of threads in :meth:`wait_for_start`.
        self.waiting_count = 0
        self._sessions: list[Session] = []
        self._temporary: dict[str, Opened] = {}
        self._temporary_topics: set[str] = set()
        self.is_open = True
        self.is_started = False
        if client_id is not None:
            try:
                self.set_client_id(client_id)
            except JMSException:
                self.close()
                raise

    @property
    def mq(self) -> QueueConnection:
        """The queue manager connection of this JMS connection; the first use may connect.

        It has the client id and the temporary destinations, which end when it closes.
        """
        with self._lock:
            if self._mq is None:
                self._mq = self._connected()
            return self._mq

    def _connected(self) -> QueueConnection:
        """Connect to the queue manager, and return the queue manager connection.

        It gets the owner id that all sessions of this connection share: ``no_local`` excludes what
        any of them publishes.
        """
        made = self._connect(Attempts(self.reports.report_change, self._ends))
        made.call(ask.BelongTo(self._owner))
        return made

    @property
    def is_broken(self) -> bool:
        """True if the queue manager connection is broken, of this connection or of any session."""
        return any(each.is_broken for each in self._conversations())

    @property
    def sockets(self) -> set[int]:
        """The numbers of the sockets that the connection and its sessions use now.

        Empty if the queue manager is in this process.
        """
        numbers = {each.socket for each in self._conversations()}
        return {number for number in numbers if number}

    def _conversations(self) -> list[QueueConnection]:
        """Return the queue manager connections of this connection, if any, and of its sessions."""
        own = [] if self._mq is None else [self._mq]
        return own + [session.mq for session in self.sessions()]

    @property
    def client_id(self) -> str | None:
        """The client identifier or None; unshared durable subscriptions need one."""
        return self._client_id

    def set_client_id(self, client_id: str) -> None:
        """Set the client identifier, before any other use of the connection.

        Raises InvalidClientIDException for a blank or other wrong value, or one that another
        connection has. Raises IllegalStateException if the connection is closed, in use or already
        has one.
        """
        with self._lock:
            self._check_open()
            _check_client_id(client_id)
            if self._client_id is not None or self._is_begun:
                raise IllegalStateException("the client id cannot be changed any more")
            self._claim(client_id)
            self._client_id = client_id
            for session in self._sessions:
                session.mq.call(ask.BelongTo(client_id))

    def begin(self) -> None:
        """Record that the connection is in use: its client id can no longer be set."""
        self._is_begun = True

    def get_metadata(self) -> ConnectionMetaData:
        """Return the versions of JMS and of Mayfly, and the names of JMSX properties."""
        return ConnectionMetaData()

    @property
    def exception_listener(self) -> Callable[[JMSException], object] | None:
        """The function that is called with errors which no call can raise, or None."""
        return self.reports.listener

    def set_exception_listener(self, listener: Callable[[JMSException], object] | None) -> None:
        """Set the function that is called with errors on threads of the library; None removes it.

        These are errors of message listeners and completion listeners, a lost or new connection,
        and the end of the queue manager. The function gets one error at a time, on the thread that
        detected it. Errors are logged as well. Raises JMSException if ``listener`` cannot be
        called, IllegalStateException for a closed connection.
        """
        self._check_open()
        if listener is not None and not callable(listener):
            raise JMSException(f"exception listener {listener!r} cannot be called")
        self.reports.listener = listener

    @classic
    def create_session(self, session_mode: int = AUTO_ACKNOWLEDGE) -> Session:
        """Return a new session: AUTO_, CLIENT_ or DUPS_OK_ACKNOWLEDGE, or SESSION_TRANSACTED.

        Raises JMSException with MQRC_OPTIONS_ERROR for another mode, IllegalStateException for a
        closed connection.
        """
        self.begin()
        return self.open_session(session_mode)

    @classic
    def open_session(self, session_mode: int) -> Session:
        """Return a new session for a JMSContext: the client id may still be set afterwards.

        Raises JMSException with MQRC_OPTIONS_ERROR for a wrong mode, IllegalStateException for a
        closed connection.
        """
        with self._lock:
            self._check_open()
            session = Session(self, session_mode)
            self._sessions.append(session)
        return session

    def create_connection_consumer(self, destination: Destination) -> NoReturn:
        """Raise JMSException with MQRC_FUNCTION_NOT_SUPPORTED.

        Mayfly has no server session pools, which a connection consumer needs.
        """
        refuse(rc.MQRC_FUNCTION_NOT_SUPPORTED, f"{destination}: use a message listener")

    def start(self) -> None:
        """Start the delivery of messages to consumers and listeners.

        Raises IllegalStateException for a closed connection.
        """
        self._check_open()
        self.begin()
        self.is_started = True
        self.wake()
        for session in self.sessions():
            session.listening.resume()

    def stop(self) -> None:
        """Stop the delivery of messages: a receive waits, and returns None at the end of its time.

        Waits for running message listeners. Raises IllegalStateException inside a listener, and for
        a closed connection.
        """
        self._check_open()
        self.begin()
        sessions = self.sessions()
        for session in sessions:
            session.listening.check_not_called_back("stop")
        # A listener's message is taken after a look at this, or is waited for below.
        self.is_started = False
        for session in sessions:
            session.interrupt()
        for session in sessions:
            session.listening.wait_until_settled()

    def close(self) -> None:
        """Close the connection with all sessions, which roll back; temporary queues are deleted.

        Any thread may call. A second call does nothing. Waits for running message listeners. Raises
        IllegalStateException inside a listener.
        """
        for session in self.sessions():
            session.check_not_called_back("close")
        with self._lock:
            if not self.is_open:
                return
            self.is_open = False
        self.reports.close()
        self._ends.set()
        for session in self.sessions():
            session.close()
        self.wake()
        try:
            if self._mq is not None:
                self._mq.close(commit=False)
        finally:
            self._temporary.clear()

    def connect(self) -> QueueConnection:
        """Return a new queue manager connection for a session, with the user of this connection.

        Its owner id is the client id if there is one, else that of this connection: ``no_local``
        excludes what is published under this id.
        """
        mq = self._connect(Attempts(self._reconnect_first, self._ends))
        mq.call(ask.BelongTo(self._owner if self._client_id is None else self._client_id))
        return mq

    def _reconnect_first(self, change: MQError) -> None:
        """Reconnect this connection before a session reconnects: temporary queues must exist first.

        Errors are ignored.
        """
        own = self._mq
        if change.reason == rc.MQRC_RECONNECTING and own is not None:
            with suppress(MQError):
                own.now_ms()

    def sessions(self) -> list[Session]:
        """Return the open sessions, as a new list."""
        with self._lock:
            return list(self._sessions)

    def forget(self, session: Session) -> None:
        """Remove a closed session from the connection; does nothing for an unknown one."""
        with self._lock:
            if session in self._sessions:
                self._sessions.remove(session)

    def create_temporary_queue(self) -> TemporaryQueue:
        """Create and return a temporary queue, from SYSTEM.DEFAULT.MODEL.QUEUE.

        Raises MQError with the reason codes of MQOPEN, IllegalStateException for a closed
        connection.
        """
        with self._lock:
            self._check_open()
            self.begin()
            opened = self.mq.call(ask.Open(_MODEL_QUEUE, c.MQOO_INQUIRE))
            self._temporary[opened.made] = opened
        return TemporaryQueue(opened.made, _delete=self._delete_temporary)

    def create_temporary_topic(self) -> TemporaryTopic:
        """Create and return a topic to which only this connection can subscribe.

        Raises IllegalStateException for a closed connection.
        """
        with self._lock:
            self._check_open()
            self.begin()
            name = self.mq.call(ask.MakeTemporaryTopic())
            self._temporary_topics.add(name)
        return TemporaryTopic(name, _delete=self._delete_temporary_topic)

    def has_temporary_queue(self, name: str) -> bool:
        """Return True if the connection has made the temporary queue and not deleted it."""
        return name in self._temporary

    def has_temporary_topic(self, name: str) -> bool:
        """Return True if the connection has made the temporary topic and not deleted it."""
        return name in self._temporary_topics

    def wait_for_start(self, until_ms: int | None, is_open: Callable[[], bool]) -> bool:
        """Wait until the connection is started, and return True; at once if it is started already.

        Returns False at ``until_ms``, the queue manager's time (None is no limit), or when
        ``is_open()`` is False after :meth:`wake`. Raises MQRC_CONNECTION_BROKEN, or
        MQRC_Q_MGR_STOPPING at the end of the queue manager.
        """
        if self.is_started:
            return True
        ends: list[MQError | None] = []

        def end(error: MQError | None) -> None:
            ends.append(error)
            self.wake()

        limit = self.mq.begin(ask.WaitUntil(until_ms), end)
        with self._changed:
            self.waiting_count += 1
            while not (ends or self._has_started()) and is_open():
                self._changed.wait()
            self.waiting_count -= 1
        limit.cancel()
        if not self._has_started() and is_open() and ends and ends[0] is not None:
            raise ends[0]
        return self._has_started() and is_open()

    def _has_started(self) -> bool:
        """Return ``is_started``, read again: another thread may have changed it."""
        return self.is_started

    def wake(self) -> None:
        """Make threads in :meth:`wait_for_start` check again whether to go on waiting."""
        with self._changed:
            self._changed.notify_all()

    @classic
    def _claim(self, client_id: str) -> None:
        """Reserve a client id at the queue manager for this connection.

        Raises InvalidClientIDException if another connection has it, JMSException for other errors.
        """
        try:
            self.mq.call(ask.ClaimClientId(client_id))
        except ObjectError as error:
            if error.reason != rc.MQRC_OBJECT_IN_USE:
                raise
            raise InvalidClientIDException(
                f"client id {client_id!r} is in use by another connection to {self.mq.name}"
            ) from error

    @classic
    def _delete_temporary(self, name: str) -> None:
        """Delete a temporary queue of the connection, with its messages.

        Raises JMSException with MQRC_OBJECT_IN_USE while it is open for input,
        InvalidDestinationException if the connection has no temporary queue of this name.
        """
        with self._lock:
            opened = self._temporary.get(name)
            if opened is None:
                refuse(rc.MQRC_UNKNOWN_OBJECT_NAME, f"{name} is no temporary queue of this one")
            [input_count] = self.mq.call(
                ask.Inquire(opened.handle, [c.MQIA_OPEN_INPUT_COUNT])
            ).values
            if input_count:
                refuse(rc.MQRC_OBJECT_IN_USE, f"{name} is open for input")
            del self._temporary[name]
            self.mq.call(ask.CloseObject(opened.handle, c.MQCO_DELETE_PURGE))

    @classic
    def _delete_temporary_topic(self, name: str) -> None:
        """Delete a temporary topic of the connection.

        Raises JMSException with MQRC_OBJECT_IN_USE while it has a consumer,
        InvalidDestinationException if the connection has no temporary topic of this name.
        """
        with self._lock:
            self.mq.call(ask.DeleteTemporaryTopic(name))
            self._temporary_topics.discard(name)

    def _check_open(self) -> None:
        """Raise IllegalStateException if the connection is closed."""
        if not self.is_open:
            refuse(rc.MQRC_HCONN_ERROR, "the connection is closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _check_client_id(client_id: object) -> None:
    """Raise InvalidClientIDException unless the client id is a str that is not blank."""
    if not isinstance(client_id, str) or not client_id.strip():
        raise InvalidClientIDException(f"client id {client_id!r} is empty or no text")


# Contexts, the simplified JMS API: a context is a connection and a session in one


P = ParamSpec("P")


class SharedConnection:
    """The connection of several contexts; it closes with the last of them."""

    def __init__(self, connection: Connection) -> None:
        """Take an open connection, which has no context yet."""
        self.connection = connection
        self._lock = connection.mq.runtime.lock("shared connection")
        self._count = 0

    def join(self) -> None:
        """Count one more context of the connection."""
        with self._lock:
            self._count += 1

    def leave(self) -> None:
        """Count one context less; close the connection after the last one."""
        with self._lock:
            self._count -= 1
            is_last = not self._count
        if is_last:
            self.connection.close()


def _session(context: JMSContext) -> Session:
    """Return the classic session behind a context."""
    return context._session


def _connection(context: JMSContext) -> Connection:
    """Return the classic connection behind a context."""
    return context._connection


def _consumer_method(
    create: Callable[Concatenate[Session, P], MessageConsumer],
) -> Callable[Concatenate[JMSContext, P], JMSConsumer]:
    """Return a JMSContext method that creates a consumer as ``create`` does.

    It starts the connection if ``auto_start`` is True. Errors are raised as JMSRuntimeException.
    """

    @simplified
    @functools.wraps(create)
    def method(self: JMSContext, /, *args: P.args, **kwargs: P.kwargs) -> JMSConsumer:
        consumer = create(self._session, *args, **kwargs)
        self._start_if_automatic()
        return JMSConsumer(consumer)

    return method


class JMSContext:
    """A connection with one session; one thread at a time uses it, and any thread may close it.

    The first consumer starts it automatically. Methods of the session and connection raise the
    JMSRuntimeException that corresponds to the JMSException. Errors of messages are JMSException
    until the context, its producers or its consumers pass them on.
    """

    create_message = simplified_method(Session.create_message, _session)
    create_text_message = simplified_method(Session.create_text_message, _session)
    create_bytes_message = simplified_method(Session.create_bytes_message, _session)
    create_map_message = simplified_method(Session.create_map_message, _session)
    create_stream_message = simplified_method(Session.create_stream_message, _session)
    create_object_message = simplified_method(Session.create_object_message, _session)
    create_queue = simplified_method(Session.create_queue, _session)
    create_temporary_queue = simplified_method(Session.create_temporary_queue, _session)
    create_topic = simplified_method(Session.create_topic, _session)
    create_temporary_topic = simplified_method(Session.create_temporary_topic, _session)
    unsubscribe = simplified_method(Session.unsubscribe, _session)
    commit = simplified_method(Session.commit, _session)
    rollback = simplified_method(Session.rollback, _session)
    recover = simplified_method(Session.recover, _session)
    acknowledge = simplified_method(Session.acknowledge, _session)
    #: They are those of all contexts of the connection.
    set_client_id = simplified_method(Connection.set_client_id, _connection)
    get_metadata = simplified_method(Connection.get_metadata, _connection)
    set_exception_listener = simplified_method(Connection.set_exception_listener, _connection)
    start = simplified_method(Connection.start, _connection)
    stop = simplified_method(Connection.stop, _connection)

    @simplified
    def __init__(self, shared: SharedConnection, session_mode: int) -> None:
        """Open a session on a shared connection; the factory and other contexts create contexts.

        Raises JMSRuntimeException with MQRC_OPTIONS_ERROR for a wrong mode,
        IllegalStateRuntimeException for a closed connection.
        """
        self._shared = shared
        self._connection = shared.connection
        self._session = shared.connection.open_session(session_mode)
        self._auto_start = True
        self._lock = self._connection.mq.runtime.lock("jms context")
        self._is_open = True
        shared.join()

    @property
    def session_mode(self) -> int:
        """AUTO_, CLIENT_ or DUPS_OK_ACKNOWLEDGE, or SESSION_TRANSACTED."""
        return self._session.acknowledge_mode

    @property
    def transacted(self) -> bool:
        """True if sends and receives belong to a unit of work."""
        return self._session.transacted

    @property
    def client_id(self) -> str | None:
        """The client identifier or None; unshared durable subscriptions need one."""
        return self._connection.client_id

    @property
    def exception_listener(self) -> Callable[[JMSException], object] | None:
        """The function that is called with errors which no call can raise, or None."""
        return self._connection.exception_listener

    @property
    def auto_start(self) -> bool:
        """True if the first consumer or browser starts the connection."""
        return self._auto_start

    def set_auto_start(self, value: bool) -> None:
        """Choose whether the first consumer or browser starts the connection."""
        self._auto_start = value

    @simplified
    def create_context(self, session_mode: int = AUTO_ACKNOWLEDGE) -> JMSContext:
        """Return another context on the same connection.

        ``session_mode`` is AUTO_, CLIENT_ or DUPS_OK_ACKNOWLEDGE, or SESSION_TRANSACTED. The close
        of the last context also closes the connection. Raises JMSRuntimeException with
        MQRC_OPTIONS_ERROR for another mode, IllegalStateRuntimeException for a closed context.
        """
        self._session.check_open()
        self._connection.begin()
        return JMSContext(self._shared, session_mode)

    @simplified
    def create_producer(self) -> JMSProducer:
        """Return a producer, which can send to any destination.

        Raises IllegalStateRuntimeException for a closed context.
        """
        self._session.check_open()
        self._connection.begin()
        return JMSProducer(self._session)

    create_consumer = _consumer_method(Session.create_consumer)
    create_durable_consumer = _consumer_method(Session.create_durable_consumer)
    create_shared_consumer = _consumer_method(Session.create_shared_consumer)
    create_shared_durable_consumer = _consumer_method(Session.create_shared_durable_consumer)

    @simplified
    def create_browser(self, queue: Queue, selector: str | None = None) -> JMSBrowser:
        """Return a browser of a queue, or of its messages that match a selector.

        Raises InvalidDestinationRuntimeException, InvalidSelectorRuntimeException.
        """
        browser = self._session.create_browser(queue, selector)
        self._start_if_automatic()
        return JMSBrowser(browser)

    def _start_if_automatic(self) -> None:
        """Start the connection if ``auto_start`` is True."""
        if self._auto_start:
            self._connection.start()

    @simplified
    def close(self) -> None:
        """Close the context and roll back; a receive on another thread returns None.

        The close of the last context also closes the connection. A second call does nothing. Waits
        for running listeners. Raises IllegalStateRuntimeException inside a listener.
        """
        self._session.check_not_called_back("close")
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
        try:
            self._session.close()
        finally:
            self._shared.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


# The connection factory of JMS, which makes connections and contexts


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
