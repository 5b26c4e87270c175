"""Calls to listeners of a program, on threads of the library.

The library logs errors that no call can raise, and passes them to the exception listener. It passes
the outcome of each asynchronous send to the completion listener, in the order of the sends.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol, runtime_checkable

from mayfly.jms.errors import (
    IllegalStateException,
    JMSException,
    JMSRuntimeException,
    MessageFormatException,
    caused_by,
    jms_error,
    runtime_error,
)
from mayfly.jms.messages import Message
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.runtime import Runtime, Thread

_LOG = logging.getLogger("mayfly.jms")
_ENDED = (
    rc.MQRC_CONNECTION_BROKEN,
    rc.MQRC_Q_MGR_STOPPING,
    rc.MQRC_Q_MGR_QUIESCING,
    rc.MQRC_RECONNECT_FAILED,
    rc.MQRC_RECONNECT_QMID_MISMATCH,
    rc.MQRC_RECONNECT_TIMED_OUT,
)


class ExceptionReports:
    """Reports errors of a connection that no call of the program could raise.

    The exception listener gets one error at a time. The end of the queue manager is reported once,
    even if several sessions detect it.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.listener: Callable[[JMSException], object] | None = None
        self._changed = runtime.condition()
        self._is_reporting = False
        self._is_open = True
        self._has_reported_end = False

    def report(self, error: JMSException) -> None:
        """Log an error and pass it to the exception listener."""
        _LOG.error("%s", error, exc_info=error.__cause__)
        self._report(error)

    def report_change(self, change: MQError) -> None:
        """Report that the connection is reconnecting, has reconnected, or is lost for good.

        These events are logged where the connection is made, not here.
        """
        self._report(jms_error(change))

    def _report(self, error: JMSException) -> None:
        """Call the exception listener with an error, unless it need not be reported."""
        listener = self._begin(error)
        if listener is None:
            return
        try:
            listener(error)
        except BaseException:  # noqa: BLE001 - the application's own; only the log shows it
            _LOG.exception("the exception listener failed")
        finally:
            with self._changed:
                self._is_reporting = False
                self._changed.notify_all()

    def close(self) -> None:
        """Stop reporting; the exception listener itself may close its connection."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()

    def _begin(self, error: JMSException) -> Callable[[JMSException], object] | None:
        """Wait for a report under way.

        Return the listener, or None if this error is not to be reported.
        """
        with self._changed:
            while self._is_reporting and self._is_open:
                self._changed.wait()
            is_known = error.reason in _ENDED and self._has_reported_end
            if self.listener is None or not self._is_open or is_known:
                return None
            self._has_reported_end = self._has_reported_end or error.reason in _ENDED
            self._is_reporting = True
            return self.listener


class CallingThread:
    """A thread of a session that calls listeners of one kind, which ``what`` names in errors."""

    what = ""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        #: Guards the state of the thread. No verb of the queue manager is called with it held.
        self._changed = runtime.condition()
        self._thread: Thread | None = None
        self._is_calling = self._is_ending = False

    @property
    def is_calling_here(self) -> bool:
        """True if the current thread is inside a listener."""
        return self._is_calling and self._is_own_thread()

    def check_not_called_back(self, call: str) -> None:
        """Raise IllegalStateException inside a listener, where ``call`` would wait for itself."""
        if self.is_calling_here:
            raise IllegalStateException(f"{call}() inside of a {self.what} listener")

    def _is_own_thread(self) -> bool:
        return self._thread is not None and self._thread.ident == self._runtime.thread_id()

    def _failure_in(self, call: Callable[[], object]) -> JMSException | None:
        """Call a listener; return the exception that it raised as JMSException, else None."""
        self._is_calling = True
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - the application's
            failure = JMSException(f"the {self.what} listener raised {error!r}")
            failure.__cause__ = error
            return failure
        finally:
            self._is_calling = False
        return None


@runtime_checkable
class CompletionListener(Protocol):
    """Gets the outcome of each asynchronous send.

    Must not close, commit or roll back its session.
    """

    def on_completion(self, message: Message) -> None:
        """Called when the message is sent; its headers are set."""

    def on_exception(self, message: Message, error: JMSException | JMSRuntimeException) -> None:
        """Called when the message is not sent, with an error of the API that sent it (D10)."""


def check_completion_listener(listener: CompletionListener | None) -> CompletionListener | None:
    """Return a completion listener or None; raises JMSException for any other value."""
    if listener is not None and not isinstance(listener, CompletionListener):
        raise JMSException(f"{listener!r} has no on_completion() and on_exception()")
    return listener


class Completions(CallingThread):
    """Calls the completion listeners of a session, in the order of the sends.

    ``send`` itself puts the message, so its life begins at that moment. Only the outcome is
    reported later, on a separate thread of the session.
    """

    what = "completion"

    def __init__(self, reports: ExceptionReports, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._reports = reports
        #: Calls of completion listeners that are still to be made, in this order.
        self._calls: deque[Callable[[], None]] = deque()

    def send(
        self,
        put: Callable[[], None],
        message: object,
        listener: CompletionListener,
        *,
        is_simplified: bool,
    ) -> None:
        """Call ``put``, then queue the call of the listener.

        An error of ``put`` goes to the listener. That error is a JMSRuntimeException if
        ``is_simplified``. Raises MessageFormatException for an object that is no message.
        """
        check_completion_listener(listener)
        if not isinstance(message, Message):
            raise MessageFormatException(f"{message!r} is no message")
        call = partial(listener.on_completion, message)
        try:
            put()
        except (JMSException, MQError) as raised:
            error = caused_by(raised) if isinstance(raised, MQError) else raised
            reported = runtime_error(error) if is_simplified else error
            call = partial(listener.on_exception, message, reported)
        self._add(call)

    def wait_until_called(self) -> None:
        """Wait until the listeners have the outcomes of all sends so far."""
        if self._thread is None:
            return
        reached = self._runtime.event()
        self._add(reached.set)
        reached.wait()

    def end(self) -> None:
        """Wait until the listeners have the outcomes of all sends, and end their thread."""
        with self._changed:
            self._is_ending = True
            thread = self._thread
            self._changed.notify_all()
        # The exception listener gets a listener's error on this thread. The exception
        # listener may close the session, and no thread can wait for its own end.
        if thread is not None and not self._is_own_thread():
            thread.join()

    def _add(self, call: Callable[[], None]) -> None:
        """Queue a call for the thread, which is started if needed."""
        with self._changed:
            self._calls.append(call)
            is_new = self._thread is None
            if is_new:
                self._is_ending = False
                self._thread = self._runtime.thread(self._run, "mayfly-jms-completions")
            thread = self._thread
            self._changed.notify_all()
        if is_new and thread is not None:
            thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._calls and not self._is_ending:
                    self._changed.wait()
                if not self._calls:
                    self._thread = None
                    return
                call = self._calls.popleft()
            failure = self._failure_in(call)
            if failure is not None:
                self._reports.report(failure)
