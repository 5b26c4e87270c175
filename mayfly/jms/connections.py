"""Connections of the classic API: what starts and stops, and what temporary queues belong to."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from mayfly.engine.handles import Handle
from mayfly.engine.manager import Manager
from mayfly.engine.session import Session as EngineSession
from mayfly.engine.waiting import Waiter
from mayfly.jms.constants import AUTO_ACKNOWLEDGE
from mayfly.jms.destinations import TemporaryQueue
from mayfly.jms.errors import IllegalStateException, InvalidClientIDException, classic, refuse
from mayfly.jms.sessions import Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import NoMessage

_MODEL_QUEUE = "SYSTEM.DEFAULT.MODEL.QUEUE"
_PROGRAM = "jms"
#: Numbers for the waits of stopped connections, which no queue has.
_numbers = itertools.count(-(2**62))


class Connection:
    """A connection of one user; made stopped. Threads may share it. Errors are JMSException."""

    def __init__(self, manager: Manager, user_name: str | None = None) -> None:
        """Connect; the factory makes connections. Raises MQRC_CONNECTION_BROKEN."""
        self.manager = manager
        self._user_name = user_name
        self._client_id: str | None = None
        self._number = next(_numbers)
        self._lock = threading.RLock()
        self._sessions: list[Session] = []
        #: Holds the temporary queues, which go when it closes.
        self._mq: EngineSession = self.connect()
        self._temporary: dict[str, Handle] = {}
        self.is_open = True
        self.is_started = False

    @property
    def client_id(self) -> str | None:
        """Who the client is; needed by durable subscriptions."""
        return self._client_id

    def set_client_id(self, client_id: str) -> None:
        """Say who the client is, before anything else is done with the connection.

        Raises InvalidClientIDException for no name, IllegalStateException when it is too late.
        """
        self._check_open()
        if not client_id:
            raise InvalidClientIDException("the client id is empty")
        if self._client_id is not None or self._sessions:
            raise IllegalStateException("the client id cannot be changed any more")
        self._client_id = client_id

    @classic
    def create_session(self, session_mode: int = AUTO_ACKNOWLEDGE) -> Session:
        """Return a session: AUTO_, CLIENT_, DUPS_OK_ACKNOWLEDGE or SESSION_TRANSACTED."""
        with self._lock:
            self._check_open()
            session = Session(self, session_mode)
            self._sessions.append(session)
        return session

    def start(self) -> None:
        """Let messages be received."""
        self._check_open()
        self.is_started = True
        self.wake()

    def stop(self) -> None:
        """Hold back messages: a receive waits, and returns None when its time is over."""
        self._check_open()
        self.is_started = False
        for session in self.sessions():
            session.interrupt()

    def close(self) -> None:
        """Close with all sessions, which roll back; temporary queues go. May come from any thread.

        A second close does nothing.
        """
        with self._lock:
            if not self.is_open:
                return
            self.is_open = False
        for session in self.sessions():
            session.close()
        self.wake()
        self._mq.close(commit=False)
        self._temporary.clear()

    def connect(self) -> EngineSession:
        """Return a new engine session of the connection's user."""
        return self.manager.session(self._user_name, program=_PROGRAM)

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
            handle = self._mq.open(_MODEL_QUEUE, c.MQOO_INQUIRE)
            self._temporary[handle.queue_name] = handle
        return TemporaryQueue(handle.queue_name, _delete=self._delete_temporary)

    def has_temporary_queue(self, name: str) -> bool:
        """Tell whether a temporary queue is this connection's."""
        return name in self._temporary

    def wait_for_start(self, until_ms: int | None, is_open: Callable[[], bool]) -> bool:
        """Wait until the connection is started; False when the time is over, or who waits closed.

        ``until_ms`` is the queue manager's time, None for ever. It returns at once when started.
        """
        if self.is_started:
            return True
        core = self.manager
        if until_ms is not None and until_ms <= core.now_ms():
            return False
        with core.latch:
            core.check_running()
            waiter = Waiter(lambda: self.is_started or not is_open() or None, until_ms, self)
            core.waits.add(self._number, waiter)
            # Started, closed or late since: nobody else would look.
            core.waits.offer(self._number)
            core.must_wake = True
        core.run_deferred()
        try:
            waiter.wait()
        except NoMessage:
            return False
        return is_open()

    def wake(self) -> None:
        """Let those who wait for the start look again."""
        with self.manager.latch:
            self.manager.waits.offer(self._number)

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
