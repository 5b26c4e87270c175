"""Callbacks: calls of message, completion and exception listeners, on threads of the library.

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
        """Begin open and without an exception listener."""
        self.listener: Callable[[JMSException], object] | None = None
        self._changed = runtime.condition()
        self._is_reporting = False
        self._is_open = True
        self._has_reported_end = False

    def report(self, error: JMSException) -> None:
        """Log an error, and pass it to the exception listener if one is set."""
        _LOG.error("%s", error, exc_info=error.__cause__)
        self._report(error)

    def report_change(self, change: MQError) -> None:
        """Pass a reconnect attempt, a reconnect or a final loss to the exception listener, if set.

        The reason code of ``change`` names the event, such as MQRC_RECONNECTING. Unlike
        :meth:`report` this logs nothing: the connection has logged the event.
        """
        self._report(jms_error(change))

    def _report(self, error: JMSException) -> None:
        """Call the exception listener with an error; an exception of the listener is logged.

        Does nothing if :meth:`_begin` returns None.
        """
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
        """Report no error any more; reports that wait for their turn are dropped."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()

    def _begin(self, error: JMSException) -> Callable[[JMSException], object] | None:
        """Wait until no other report is running, and return the exception listener.

        Returns None without a listener, after :meth:`close`, and for a second report of the end of
        the queue manager.
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
    """A thread of a session that calls listeners; ``what`` is their kind in error texts."""

    what = ""

    def __init__(self, runtime: Runtime) -> None:
        """Begin without a thread; the first listener or call starts it."""
        self._runtime = runtime
        #: Guards the state of the thread. No verb of the queue manager is called with it held.
        self._changed = runtime.condition()
        self._thread: Thread | None = None
        self._is_calling = self._is_ending = False

    @property
    def is_calling_here(self) -> bool:
        """True if the current thread is inside a listener that this object has called."""
        return self._is_calling and self._is_own_thread()

    def check_not_called_back(self, call: str) -> None:
        """Raise IllegalStateException if the current thread is inside a listener of this object.

        ``call`` is the method name for the text: that method would wait for the listener for ever.
        """
        if self.is_calling_here:
            raise IllegalStateException(f"{call}() inside of a {self.what} listener")

    def _new_thread(self, run: Callable[[], None], name: str) -> Thread | None:
        """Make the thread of this object, named ``name``, which runs ``run``, and return it.

        Returns None if there is a thread already. The caller holds the lock, releases it, and then
        starts the thread.
        """
        if self._thread is not None:
            return None
        self._thread = self._runtime.thread(run, name)
        return self._thread

    def _is_own_thread(self) -> bool:
        """Return True if the current thread is the one that calls the listeners."""
        return self._thread is not None and self._thread.ident == self._runtime.thread_id()

    def _failure_in(self, call: Callable[[], object]) -> JMSException | None:
        """Call a listener; return its exception as a JMSException, None if it raised none."""
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

    Must not close, commit or roll back its session. An exception that it raises goes to the
    exception listener of the connection.
    """

    def on_completion(self, message: Message) -> None:
        """Handle a message that was sent; its JMS headers are set."""

    def on_exception(self, message: Message, error: JMSException | JMSRuntimeException) -> None:
        """Handle a message that was not sent.

        ``error`` is a JMSException for a send of the classic API, a JMSRuntimeException for one of
        the simplified API.
        """


def check_completion_listener(listener: CompletionListener | None) -> CompletionListener | None:
    """Return ``listener`` unchanged if it is a CompletionListener or None.

    Raises JMSException for any other value.
    """
    if listener is not None and not isinstance(listener, CompletionListener):
        raise JMSException(f"{listener!r} has no on_completion() and on_exception()")
    return listener


class Completions(CallingThread):
    """Calls the completion listeners of a session, in the order of the sends.

    ``send`` itself puts the message, so its time to live begins at that moment. Only the outcome is
    reported later, on a separate thread of the session.
    """

    what = "completion"

    def __init__(self, reports: ExceptionReports, runtime: Runtime) -> None:
        """Begin without calls; ``reports`` gets the exceptions of completion listeners."""
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
        """Call ``put`` now, and let the session's thread call ``listener`` with the outcome later.

        An error of ``put`` goes to the listener, as a JMSRuntimeException if ``is_simplified``.
        Raises MessageFormatException if ``message`` is no Message, JMSException if ``listener`` is
        no CompletionListener.
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
        """Wait until the listeners were called with the outcomes of all sends so far."""
        if self._thread is None:
            return
        reached = self._runtime.event()
        self._add(reached.set)
        reached.wait()

    def end(self) -> None:
        """Wait until the listeners were called for all sends, and end the thread.

        Does not wait if called on that thread.
        """
        with self._changed:
            self._is_ending = True
            thread = self._thread
            self._changed.notify_all()
        # The exception listener gets a listener's error on this thread. The exception
        # listener may close the session, and no thread can wait for its own end.
        if thread is not None and not self._is_own_thread():
            thread.join()

    def _add(self, call: Callable[[], None]) -> None:
        """Append a call to the queue of the thread; starts the thread if none is running."""
        with self._changed:
            self._calls.append(call)
            new = self._new_thread(self._run, "mayfly-jms-completions")
            if new is not None:
                self._is_ending = False
            self._changed.notify_all()
        if new is not None:
            new.start()

    def _run(self) -> None:
        """Make the queued calls in order until :meth:`end`; report exceptions of listeners."""
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
