"""Asynchronous sends: another thread tells a completion listener what became of each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mayfly.jms.errors import (
    IllegalStateException,
    JMSException,
    JMSRuntimeException,
    MessageFormatException,
    jms_error,
)
from mayfly.jms.messages import Message
from mayfly.mqi.errors import MQError

if TYPE_CHECKING:
    from mayfly.jms.exception_reports import ExceptionReports


@runtime_checkable
class CompletionListener(Protocol):
    """Hears of each asynchronous send; no method may close, commit or roll back its session."""

    def on_completion(self, message: Message) -> None:
        """The message was sent; its headers are filled in."""

    def on_exception(self, message: Message, error: JMSException | JMSRuntimeException) -> None:
        """The message was not sent; the error is of the API that it was sent by (D10)."""


def check_completion_listener(listener: CompletionListener | None) -> CompletionListener | None:
    """Return a completion listener, or None; raises JMSException for anything else."""
    if listener is not None and not isinstance(listener, CompletionListener):
        raise JMSException(f"{listener!r} has no on_completion() and on_exception()")
    return listener


def _as_it_is(error: JMSException) -> JMSException:
    return error


class Completions:
    """Tells the completion listeners of a session, in the order of the sends.

    A message is put when its send is called: in process there is no network to wait for, and its
    life begins at that moment. What is asynchronous is the outcome.
    """

    def __init__(self, reports: ExceptionReports) -> None:
        """Begin without a thread."""
        self._reports = reports
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._thread: threading.Thread | None = None
        self._is_calling = False

    @property
    def is_calling_here(self) -> bool:
        """Whether the present thread is inside of a completion listener."""
        return self._is_calling and threading.current_thread() is self._thread

    def send(
        self,
        put: Callable[[], None],
        message: object,
        listener: CompletionListener,
        error_of: Callable[[JMSException], JMSException | JMSRuntimeException] = _as_it_is,
    ) -> None:
        """Put, and have the listener told; ``error_of`` makes an error one of the caller's API.

        Raises MessageFormatException for what is no message.
        """
        check_completion_listener(listener)
        if not isinstance(message, Message):
            raise MessageFormatException(f"{message!r} is no message")
        try:
            put()
        except JMSException as error:
            call = partial(listener.on_exception, message, error_of(error))
        except MQError as error:
            translated = jms_error(error)
            translated.__cause__ = error
            call = partial(listener.on_exception, message, error_of(translated))
        else:
            call = partial(listener.on_completion, message)
        self._started_pool().submit(self._call, call)

    def check_not_called_back(self, call: str) -> None:
        """Raise IllegalStateException inside of a listener, which the call would wait for."""
        if self.is_calling_here:
            raise IllegalStateException(f"{call}() inside of a completion listener")

    def wait_until_told(self) -> None:
        """Wait until the listeners have been told of all sends up to now."""
        if self._pool is not None:
            self._pool.submit(lambda: None).result()

    def end(self) -> None:
        """Wait likewise, and end the thread."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            # What a listener has raised may make an exception listener close the session.
            pool.shutdown(wait=threading.current_thread() is not self._thread)

    def _started_pool(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, "mayfly-jms-completions", self._note_thread)
            return self._pool

    def _note_thread(self) -> None:
        self._thread = threading.current_thread()

    def _call(self, call: Callable[[], None]) -> None:
        self._is_calling = True
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - the application's; nobody else would hear
            failure = JMSException(f"the completion listener raised {error!r}")
            failure.__cause__ = error
            self._is_calling = False
            self._reports.report(failure)
        finally:
            self._is_calling = False
