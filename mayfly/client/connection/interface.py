"""A connection: the requests of a program, wherever its queue manager is (docs/CONNECTION.md).

A verb is a value, a request (``mayfly.verbs.requests``): :meth:`Connection.call` returns its
answer, :meth:`Connection.begin` tells it. Errors are MQError: class, reason code and detail.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
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
    """Run an end, or leave it where a verb is under way, whose locks it might need."""
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
    """A verb that was begun and ends with a callback."""

    def cancel(self) -> bool:
        """End the verb without effect, and return True: the callback is never called.

        Returns False when the verb is decided, or cannot be taken back: the callback was called or
        will be called.
        """


class GetMore(TypedDict, total=False):
    """Fields of ``requests.Get`` that a get may leave out."""

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
    """Raise MQRC_OPTIONS_ERROR for a get that is called although it has to be begun.

    It is of several queues, or its message would not be held.
    """
    if len(request.handles) != 1:
        said = f"{len(request.handles)} handles: a get of several queues is begun"
        raise mq_error(rc.MQRC_OPTIONS_ERROR, said)
    check_held(request.options, c.MQGMO_SYNCPOINT | c.MQGMO_BROWSE_FIRST)


def check_held(options: int, wrong: int) -> None:
    """Raise MQRC_OPTIONS_ERROR for options of a get whose message is to be held."""
    if options & wrong:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"GMO.Options {options:#x} of what is held")


class Decided:
    """A verb that is decided, or cannot be taken back any more."""

    def stands(self) -> bool:
        """Return False."""
        return False

    def cancel(self) -> bool:
        """Return False: the callback tells how it ends."""
        return False


DECIDED = Decided()


class Connection(ABC):
    """One conversation of one user with a queue manager, with one unit of work.

    One thread at a time uses it. Any thread may close it or one of its objects: the waits that this
    ends raise MQRC_HCONN_ERROR and MQRC_HOBJ_ERROR.
    """

    name: str
    #: The number of the conversation on the queue manager.
    number: int
    runtime: Runtime

    @abstractmethod
    def call(self, request: ask.Request[_R]) -> _R:
        """Make a request and return its answer; raises MQError."""

    @abstractmethod
    def begin(
        self,
        request: ask.Request[_R],
        on_done: OnDone[_R],
        on_event: OnRefused | None = None,
    ) -> UnderWay:
        """Make a request that ends with ``on_done``, called once and outside of all locks.

        Callbacks of a queue manager come one at a time, in the order in which the outcomes were
        decided. A callback may come before this has returned. It may make requests and must not
        block. Errors are outcomes as well: nothing is raised. ``on_event`` is called for what a
        request meets while it goes on (``requests.GetAny``).
        """

    @abstractmethod
    def tell(self, on_done: OnDone[_R], outcome: _R | MQError) -> None:
        """Call ``on_done`` with an outcome that is known, as :meth:`begin` does."""

    def together(self) -> AbstractContextManager[object]:
        """Let puts that are begun within a block travel together, which costs less.

        All are on their way when the block ends. Each has its own outcome, as without the block.
        """
        return nullcontext()

    @abstractmethod
    def close(self, *, commit: bool = True) -> None:
        """MQDISC: commits the unit of work, or backs it out; closes all objects.

        Deliveries that are not settled go back, counted. A second close does nothing.
        """

    @abstractmethod
    def has_open(self, handle: int) -> bool:
        """Return True if the object of a handle is open on this connection."""

    @abstractmethod
    def end_dropped(self, end: Callable[[], None]) -> None:
        """Run ``end``, which ends an object that its program has dropped.

        Python may collect an object at any moment, also within a verb. ``end`` might need a lock
        that this verb holds; it then runs with the next verb.
        """

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether nobody has closed it."""

    @property
    @abstractmethod
    def is_broken(self) -> bool:
        """Whether the queue manager is gone."""

    @property
    def socket(self) -> int | None:
        """The number of its socket, which others may share, 0 when it is gone.

        None for a connection in this process, which has none.
        """
        return None

    def now_ms(self) -> int:
        """Return the queue manager's time, as ``requests.Now``."""
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
        """MQPUT, as ``requests.Put``."""
        return self.call(ask.Put.of(handle, body, descriptor, options, context=context, **more))

    def get(self, handle: int, options: int = c.MQGMO_NONE, **more: Unpack[GetMore]) -> GetResult:
        """MQGET, as ``requests.Get``."""
        return self.call(ask.Get(handle, options, **more))
