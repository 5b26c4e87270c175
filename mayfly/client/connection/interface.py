"""The interface of all connections to a queue manager, local or remote (docs/CONNECTION.md).

A verb is a value, a request (``mayfly.verbs.requests``). :meth:`Connection.call` returns its
answer, :meth:`Connection.begin` passes its answer to a callback. Errors are MQError: class, reason
code and detail.

Telemetry observes the connections of a process by an instrument, once it is switched on. Verbs have
no hook: an instrument wraps a connection when that is made, and a message listener when that is
set.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Protocol, TypeAlias, TypedDict, TypeVar, Unpack

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.runtime import Runtime
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import GetResult, PutResult

#: Modules in the midst of which nothing is closed, but for those of facades.
_OURS, _FACADES = "mayfly.", ("mayfly.pymqi.", "mayfly.jms.")


def end_dropped(end: Callable[[], None], leave: Callable[[Callable[[], None]], object]) -> None:
    """Run ``end``, or pass it to ``leave`` if a verb of Mayfly is on the call stack.

    ``end`` closes an object that Python has garbage-collected. Collection can happen in the middle
    of a verb, which may hold a lock that ``end`` needs. ``leave`` stores ``end`` for a later call.
    Calls of the facades (pymqi, JMS) on the stack do not count as verbs.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        is_own_call = frame.f_code.co_name == "end_dropped"
        if module.startswith(_OURS) and not module.startswith(_FACADES) and not is_own_call:
            leave(end)
            return
        frame = frame.f_back
    end()


_T = TypeVar("_T")
_R = TypeVar("_R")
#: Is called once with the result of a verb, or with its error; it must not block.
OnDone: TypeAlias = Callable[[_T | MQError], object]
#: Is called with the handle of a queue that cannot be got from, and the error; it must not block.
OnRefused: TypeAlias = Callable[[int, MQError], object]


class UnderWay(Protocol):
    """A running verb, which will end with a callback."""

    def cancel(self) -> bool:
        """Cancel the verb and return True: it has no effect, and its callback will never be called.

        Returns False when the verb has its outcome or cannot be undone: the callback was or will be
        called.
        """


class GetMore(TypedDict, total=False):
    """The fields of ``requests.Get`` that have a default."""

    wait_ms: int
    max_length: int | None
    msg_id: bytes
    correl_id: bytes
    group_id: bytes
    sequence_number: int | None
    offset: int | None
    token: bytes | None
    in_handle: bool
    with_extension: bool


def check_called(request: ask.GetAny) -> None:
    """Raise MQRC_OPTIONS_ERROR for a get that :meth:`Connection.call` cannot run, only ``begin``.

    That is a get from no queue or from several queues, and one with MQGMO_SYNCPOINT or
    MQGMO_BROWSE_FIRST.
    """
    if len(request.handles) != 1:
        text = f"{len(request.handles)} handles: a get of several queues is begun"
        raise mq_error(rc.MQRC_OPTIONS_ERROR, text)
    check_held(request.options, c.MQGMO_SYNCPOINT | c.MQGMO_BROWSE_FIRST)


def check_held(options: int, wrong: int) -> None:
    """Raise MQRC_OPTIONS_ERROR if the MQGMO ``options`` have any of the ``wrong`` bits.

    ``options`` are those of a get whose message is held as a delivery.
    """
    if options & wrong:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"GMO.Options {options:#x} of what is held")


class Decided:
    """A running verb whose outcome is known, or that cannot be undone: :meth:`cancel` fails."""

    def is_pending(self) -> bool:
        """Return False: the outcome is known."""
        return False

    def cancel(self) -> bool:
        """Return False: the callback was or will be called."""
        return False


DECIDED = Decided()


class Connection(ABC):
    """One conversation of one user with a queue manager, with one unit of work.

    One thread at a time uses it. Any thread may close it or one of its objects. Waits that such a
    close ends raise MQRC_HCONN_ERROR or MQRC_HOBJ_ERROR.
    """

    name: str
    #: The number of the conversation on the queue manager.
    number: int
    runtime: Runtime

    @abstractmethod
    def call(self, request: ask.Request[_R]) -> _R:
        """Send a request, wait for its answer and return it; raises the MQErrors of the request."""

    @abstractmethod
    def begin(
        self,
        request: ask.Request[_R],
        on_done: OnDone[_R],
        on_event: OnRefused | None = None,
    ) -> UnderWay:
        """Begin a request and return the running verb; ``on_done`` gets its answer or MQError.

        ``on_done`` is called once, with no lock held. The callbacks of a queue manager come one at
        a time, in the order in which the outcomes were decided. A callback may come before this
        method returns. It may make requests and must not block. This method raises nothing.
        ``on_event`` is called for each queue that a ``requests.GetAny`` cannot get from.
        """

    @abstractmethod
    def notify(self, on_done: OnDone[_R], outcome: _R | MQError) -> None:
        """Call ``on_done`` with an outcome that is already known.

        The call keeps the order of the callbacks of :meth:`begin`.
        """

    def together(self) -> AbstractContextManager[object]:
        """Send the puts that begin within a ``with`` block in common frames, which is faster.

        All are sent when the block ends. Each put still has its own outcome.
        """
        return nullcontext()

    def reconnect_no_more(self) -> None:  # noqa: B027 - few connections reconnect
        """Let verbs that wait for another connection fail with MQRC_HCONN_ERROR; others go on.

        A program that is about to close calls it, or its close may have to wait for them. Nothing
        happens on a connection that does not reconnect.
        """

    @abstractmethod
    def close(self, *, commit: bool = True) -> None:
        """Disconnect (MQDISC): commit or back out the unit of work, and close all objects.

        Unsettled deliveries go back to their queues, and their backout counts rise. A second call
        does nothing.
        """

    @abstractmethod
    def has_open(self, handle: int) -> bool:
        """Return True if an object is open under this handle number."""

    @abstractmethod
    def end_dropped(self, end: Callable[[], None]) -> None:
        """Run ``end``, which closes an object that Python has garbage-collected.

        Collection can happen in the middle of a verb that holds a lock which ``end`` needs. In that
        case ``end`` runs before the next verb.
        """

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """True until the program closes the connection."""

    @property
    @abstractmethod
    def is_broken(self) -> bool:
        """True when the queue manager, or the way to it, is gone."""

    @property
    def socket(self) -> int | None:
        """The number of the socket, which connections may share; 0 when the socket is gone.

        None for a connection within this process.
        """
        return None

    def now_ms(self) -> int:
        """Return the time of the queue manager: ms since 1970, UTC."""
        return self.call(ask.Now())

    # In process these two do without a request: it would cost a pair of them 2.4 µs of 25.

    def put(
        self,
        handle: int,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        *,
        context: int = c.MQHO_NONE,
        **more: Unpack[ask.MessageMore],
    ) -> PutResult | None:
        """Put a message (MQPUT) and return its result.

        The result is None when the queue refuses a message with MQPMO_ASYNC_RESPONSE. ``context``
        is the handle whose saved context is passed on. ``more`` has other fields of the message,
        such as ``delay_ms``. Raises MQError: MQRC_NOT_OPEN_FOR_OUTPUT, MQRC_HOBJ_ERROR,
        MQRC_EXPIRY_ERROR and the other reason codes of MQPUT; nothing is put then, except after
        LostAnswer.
        """
        return self.call(ask.Put.of(handle, body, descriptor, options, context=context, **more))

    def get(self, handle: int, options: int = c.MQGMO_NONE, **more: Unpack[GetMore]) -> GetResult:
        """Get a message (MQGET) and return its result; the fields are those of ``requests.Get``.

        Raises NoMessage (MQRC_NO_MSG_AVAILABLE) when none comes within ``wait_ms``. Other errors
        are MQRC_NOT_OPEN_FOR_INPUT, MQRC_HOBJ_ERROR and the other reason codes of MQGET.
        """
        return self.call(ask.Get(handle, options, **more))


_M = TypeVar("_M")
_A = TypeVar("_A", bound=Callable[..., Awaitable[None]])


class Instrument(Protocol):
    """Observes what the programs of this process do with messages."""

    def connection(self, made: Connection, *, for_others: bool) -> Connection:
        """Return a wrapper for a new connection, or the connection itself.

        ``for_others`` is True for a connection by which a server works for remote programs.
        """

    def listener(self, mq: Connection, call: Callable[[_M], object]) -> Callable[[_M], object]:
        """Return a function that replaces the message listener ``call`` of connection ``mq``."""

    def application(self, application: _A) -> _A:
        """Return an ASGI application that replaces the application of a server."""


_installed: list[Instrument] = []


def install(instrument: Instrument | None) -> None:
    """Let an instrument wrap all connections made from now on; None removes it."""
    _installed[:] = [] if instrument is None else [instrument]


def instrumented(made: Connection, *, for_others: bool = False) -> Connection:
    """Return a new connection wrapped by the installed instrument, unchanged without one.

    ``for_others`` is True for a connection by which a server works for remote programs.
    """
    for instrument in _installed:
        made = instrument.connection(made, for_others=for_others)
    return made


def instrumented_listener(mq: Connection, call: Callable[[_M], object]) -> Callable[[_M], object]:
    """Return ``call``, the message listener of connection ``mq``, wrapped by the instrument.

    It is returned unchanged if no instrument is installed.
    """
    for instrument in _installed:
        call = instrument.listener(mq, call)
    return call


def instrumented_application(application: _A) -> _A:
    """Return an ASGI application wrapped by the installed instrument, unchanged without one."""
    for instrument in _installed:
        application = instrument.application(application)
    return application
