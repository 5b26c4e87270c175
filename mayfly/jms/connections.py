"""Connections of the classic JMS API: they start delivery, and have temporary destinations."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn, Self

from mayfly import __version__
from mayfly.client.connection import Connection as QueueConnection
from mayfly.client.connection.reconnection import Attempts
from mayfly.jms import constants as k
from mayfly.jms.callbacks import ExceptionReports
from mayfly.jms.constants import AUTO_ACKNOWLEDGE
from mayfly.jms.destinations import Destination, TemporaryQueue, TemporaryTopic
from mayfly.jms.errors import (
    IllegalStateException,
    InvalidClientIDException,
    JMSException,
    classic,
    refuse,
)
from mayfly.jms.sessions import Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, ObjectError
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
