"""Connections of the classic API: what starts and stops, and what temporary queues belong to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn, Self

from mayfly.engine import Handle, Manager, Signal
from mayfly.engine import Session as EngineSession
from mayfly.engine.face.jms import Wait
from mayfly.jms import client_ids
from mayfly.jms.constants import AUTO_ACKNOWLEDGE
from mayfly.jms.destinations import Destination, TemporaryQueue, TemporaryTopic
from mayfly.jms.errors import (
    IllegalStateException,
    JMSException,
    classic,
    refuse,
)
from mayfly.jms.exception_reports import ExceptionReports
from mayfly.jms.metadata import ConnectionMetaData
from mayfly.jms.sessions import Session
from mayfly.jms.temporary_topics import TemporaryTopics
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc

_MODEL_QUEUE = "SYSTEM.DEFAULT.MODEL.QUEUE"
_PROGRAM = "jms"


class Connection:
    """A connection of one user; made stopped. Threads may share it. Errors are JMSException."""

    def __init__(
        self,
        manager: Manager,
        user_name: str | None = None,
        client_id: str | None = None,
        lifetime_ms: int = 0,
    ) -> None:
        """Connect; the factory makes connections.

        Transactions may last ``lifetime_ms``, 0 for ever. Raises MQRC_CONNECTION_BROKEN,
        InvalidClientIDException.
        """
        self.manager = manager
        self.lifetime_ms = lifetime_ms
        self._user_name = user_name
        self._client_id: str | None = None
        #: Whose publications are the connection's own, as long as it has no client id.
        self._identity = object()
        self._is_begun = False
        #: Sent when it is started or closed, for those who wait for that.
        self._signal = Signal(manager)
        self._lock = threading.RLock()
        self._sessions: list[Session] = []
        #: Holds the temporary queues, which go when it closes.
        self._mq: EngineSession = self.connect()
        self._temporary: dict[str, Handle] = {}
        self.topics = TemporaryTopics(manager)
        self.reports = ExceptionReports()
        self.is_open = True
        self.is_started = False
        if client_id is not None:
            try:
                self.set_client_id(client_id)
            except JMSException:
                self.close()
                raise

    @property
    def client_id(self) -> str | None:
        """Who the client is; needed by durable subscriptions."""
        return self._client_id

    def set_client_id(self, client_id: str) -> None:
        """Say who the client is, before anything else is done with the connection.

        Raises InvalidClientIDException for no name and one that another connection has,
        IllegalStateException when it is too late, or the factory has said it already.
        """
        with self._lock:
            self._check_open()
            client_id = client_ids.checked(client_id)
            if self._client_id is not None or self._is_begun:
                raise IllegalStateException("the client id cannot be changed any more")
            client_ids.claim(self, client_id)
            self._client_id = client_id
            for session in self._sessions:
                session.mq.belong_to(client_id)

    def begin(self) -> None:
        """Let the client id stay as it is: the connection is being used."""
        self._is_begun = True

    def get_metadata(self) -> ConnectionMetaData:
        """Return what the connection says about itself."""
        return ConnectionMetaData()

    @property
    def exception_listener(self) -> Callable[[JMSException], object] | None:
        """What is called with the errors that no call can raise."""
        return self.reports.listener

    def set_exception_listener(self, listener: Callable[[JMSException], object] | None) -> None:
        """Have errors of message listeners and of their threads told, and the end of the manager.

        It is called for one error at a time, on the thread that met it; all are logged as well.
        """
        self._check_open()
        if listener is not None and not callable(listener):
            raise JMSException(f"exception listener {listener!r} cannot be called")
        self.reports.listener = listener

    @classic
    def create_session(self, session_mode: int = AUTO_ACKNOWLEDGE) -> Session:
        """Return a session: AUTO_, CLIENT_, DUPS_OK_ACKNOWLEDGE or SESSION_TRANSACTED."""
        self.begin()
        return self.open_session(session_mode)

    @classic
    def open_session(self, session_mode: int) -> Session:
        """Return the session of a context, before which the client id may still be given."""
        with self._lock:
            self._check_open()
            session = Session(self, session_mode)
            self._sessions.append(session)
        return session

    def create_connection_consumer(self, destination: Destination) -> NoReturn:
        """Raise MQRC_FUNCTION_NOT_SUPPORTED: there are no server session pools."""
        refuse(rc.MQRC_FUNCTION_NOT_SUPPORTED, f"{destination}: use a message listener")

    def start(self) -> None:
        """Let messages be received."""
        self._check_open()
        self.begin()
        self.is_started = True
        self.wake()
        for session in self.sessions():
            session.listening.resume()

    def stop(self) -> None:
        """Hold back messages: a receive waits, and returns None when its time is over.

        Message listeners at work are waited for. Raises IllegalStateException inside of one.
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
        """Close with all sessions, which roll back; temporary queues go. May come from any thread.

        A second close does nothing. Message listeners at work are waited for. Raises
        IllegalStateException inside of one.
        """
        for session in self.sessions():
            session.check_not_called_back("close")
        with self._lock:
            if not self.is_open:
                return
            self.is_open = False
        self.reports.close()
        for session in self.sessions():
            session.close()
        self.wake()
        if self._client_id is not None:
            client_ids.release(self, self._client_id)
        try:
            self.topics.clear()
        finally:
            self._mq.close(commit=False)
            self._temporary.clear()

    def connect(self) -> EngineSession:
        """Return a new engine session of the connection's user."""
        session = self.manager.session(self._user_name, program=_PROGRAM)
        session.belong_to(self._identity if self._client_id is None else self._client_id)
        return session

    def sessions(self) -> list[Session]:
        """Return the open sessions."""
        with self._lock:
            return list(self._sessions)

    def forget(self, session: Session) -> None:
        """Forget a session that was closed."""
        with self._lock:
            if session in self._sessions:
                self._sessions.remove(session)

    def create_temporary_queue(self) -> TemporaryQueue:
        """Make a queue after the default model queue; raises the reason codes of MQOPEN."""
        with self._lock:
            self._check_open()
            self.begin()
            handle = self._mq.open(_MODEL_QUEUE, c.MQOO_INQUIRE)
            self._temporary[handle.queue_name] = handle
        return TemporaryQueue(handle.queue_name, _delete=self._delete_temporary)

    def create_temporary_topic(self) -> TemporaryTopic:
        """Make a topic that only the connection subscribes to."""
        with self._lock:
            self._check_open()
            self.begin()
            return self.topics.create()

    def has_temporary_queue(self, name: str) -> bool:
        """Tell whether a temporary queue is this connection's."""
        return name in self._temporary

    def wait_for_start(self, until_ms: int | None, is_open: Callable[[], bool]) -> bool:
        """Wait until the connection is started; False when the time is over, or who waits closed.

        ``until_ms`` is the queue manager's time, None for ever. It returns at once when started.
        """
        if self.is_started:
            return True
        wait = Wait(self.manager)
        is_over = wait.until(
            lambda _is_own_thread: self.is_started or not is_open() or None,
            (self._signal.number,),
            until_ms,
        )
        return is_over is not None and is_open()

    def wake(self) -> None:
        """Let those who wait for the start look again."""
        self._signal.send()

    @classic
    def _delete_temporary(self, name: str) -> None:
        with self._lock:
            handle = self._temporary.get(name)
            if handle is None:
                refuse(rc.MQRC_UNKNOWN_OBJECT_NAME, f"{name} is no temporary queue of this one")
            if handle.queue.input_count:
                refuse(rc.MQRC_OBJECT_IN_USE, f"{name} is open for input")
            del self._temporary[name]
            handle.close(c.MQCO_DELETE_PURGE)

    def _check_open(self) -> None:
        if not self.is_open:
            refuse(rc.MQRC_HCONN_ERROR, "the connection is closed")

    def __enter__(self) -> Self:
        """Return the connection."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()
