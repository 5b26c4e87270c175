"""The conversations of clients with servers; SHARECNV conversations share a socket."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from mayfly.client.connection.endpoint import Address, Endpoint
from mayfly.client.connection.interface import OnRefused
from mayfly.client.connection.remote_link import RemoteLink, SentRequest, answer_of
from mayfly.client.connection.waits import VirtualTime
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.runtime import Runtime
from mayfly.verbs.contracts.wire import packed
from mayfly.verbs.requests import (
    Cancel,
    Disconnect,
    Get,
    GetAny,
    NewMessage,
    Now,
    Put,
    Request,
    answer_type,
    reason_of,
    verb_name,
)
from mayfly.verbs.rows import WIRE_FORMS

_R = TypeVar("_R")


class Conversation:
    """One conversation with a server, over a link (socket) that other conversations may share."""

    def __init__(self, link: RemoteLink) -> None:
        """Join a link; the first request must be Connect."""
        self.link = link
        #: The virtual clock of the server, where that is in this process.
        self.virtual_time: VirtualTime | None = None
        self.number = next(link.conversation_numbers)
        link.members.add(self)
        self.is_closed = self.is_dropped = False
        #: The objects that are open: MQOT_* by number.
        self.open_handles: dict[int, int] = {}
        #: Functions that end objects that the program has dropped; the next verb calls them.
        self.dropped: deque[Callable[[], None]] = deque()

    def call(self, request: Request[_R]) -> _R:
        """Send a request, wait for its answer and return it; raises the MQErrors of the link.

        Raises MQRC_HCONN_ERROR when the conversation is closed.
        """
        if self.is_closed or self.dropped:
            self._run_dropped()
        time, kind = self.virtual_time, answer_type(type(request))
        form = WIRE_FORMS.get(kind)
        answer = self.link.call(
            self.number,
            _encoded(request),
            kind if form is None else form.row,
            is_doubtful=request.is_doubtful,
            wait=None if time is None else self._wait_for(time, request),
        )
        found: _R = answer if form is None else form.answer_of(answer)
        return found

    def begin(
        self,
        request: Request[_R],
        on_done: Callable[[_R | MQError], object],
        *,
        on_refused: OnRefused | None = None,
    ) -> int:
        """Send a request and return its number; another thread calls ``on_done`` with its outcome.

        The outcome is the answer or an MQError. ``on_refused`` gets the handle and error of a queue
        that a pending get cannot read. Raises MQError when the request cannot be sent; ``on_done``
        is then not called.
        """
        if self.is_closed or self.dropped:
            self._run_dropped()
        kind = answer_type(type(request))
        form = WIRE_FORMS.get(kind)

        def on_answer(payload: bytes | MQError) -> None:
            answer: _R | MQError
            try:
                answer = answer_of(payload, kind if form is None else form.row)
            except MQError as error:
                answer = error
            else:
                answer = answer if form is None else form.answer_of(answer)
            on_done(answer)

        return self.link.begin(
            self.number,
            _encoded(request),
            on_answer,
            is_doubtful=request.is_doubtful,
            on_refused=on_refused,
        )

    def post(self, request: Request[_R]) -> Callable[[], _R]:
        """Send a request; return a function that waits for its answer, and returns or raises it.

        Raises MQRC_CONNECTION_BROKEN when the request cannot be sent.
        """
        if self.is_closed or self.dropped:
            self._run_dropped()
        kind = answer_type(type(request))
        form = WIRE_FORMS.get(kind)
        sent = self.link.post(self.number, _encoded(request))

        def answer() -> _R:
            self.link.read_until(sent)
            row = answer_of(sent.payload, kind if form is None else form.row)
            found: _R = row if form is None else form.answer_of(row)
            return found

        return answer

    def packed_message(self, message: NewMessage) -> bytes:
        """Return the encoded message of a put, which joins others in one frame.

        Raises MQError for a wrong value, and MQRC_HCONN_ERROR when the conversation is closed.
        """
        if self.is_closed or self.dropped:
            self._run_dropped()
        return _encoded(message)

    def gather(self, made: Callable[[], bytes], slot: SentRequest) -> None:
        """Send a request within about a millisecond; ``made`` returns its bytes when it is sent.

        The answer goes to ``slot``. The caller holds the lock of the sender. Raises MQError when
        the link is closed or broken; see ``RemoteLink.gather``.
        """
        self.link.gather(self.number, made, slot)

    def close(self) -> None:
        """Leave the link without a request to the server; the last conversation closes the link.

        A second call does nothing.
        """
        if not self.is_closed:
            while self.dropped:
                self.dropped.popleft()()
            self.is_closed = True
            self.open_handles.clear()
            self.link.members.discard(self)
            if not self.link.members:
                self.link.close()

    def leave(self) -> None:
        """Disconnect without waiting for the answer; the server backs out the unit of work.

        Raises no MQError, even when the connection is broken.
        """
        with suppress(MQError):
            self.link.post(self.number, _encoded(Disconnect(commit=False)))
        self.close()

    def drop(self) -> None:
        """End the conversation of a garbage-collected connection; the server backs out.

        Collection can happen while a frame is being sent, so nothing is sent here. If other
        conversations share the link, the next verb of one of them sends the disconnect.
        """
        if self.is_closed:
            return
        self.is_dropped = True
        others = [each for each in tuple(self.link.members) if not each.is_dropped]
        if others:
            others[0].dropped.append(self.leave)
        else:
            self.is_closed = True
            self.link.abort()

    def _wait_for(
        self, time: VirtualTime, request: Request[Any]
    ) -> Callable[[int, SentRequest], None] | None:
        """Return a function that waits for a get under a virtual clock, for ``RemoteLink.call``.

        Returns None for a request that does not wait. The function raises RuntimeError when the get
        could never end.
        """
        clock = time.clock
        if clock.autojump:
            clock.note_use()
        if not isinstance(request, (Get, GetAny)) or not request.wait_ms:
            return None

        def wait(number: int, slot: SentRequest) -> None:
            try:
                # Once this is answered, the get is answered or pending.
                self.wait_for_earlier_requests()
                if not slot.is_open:
                    return
                if clock.autojump:
                    clock.wait_until(partial(self._is_over, slot), self.wait_for_earlier_requests)
                else:
                    time.check()
            except RuntimeError:
                if self.call(Cancel(number)):
                    raise
            except MQError:
                # The get may have had its answer before the connection ended.
                if slot.is_open:
                    raise

        return wait

    def wait_for_earlier_requests(self) -> None:
        """Block until the server has run all earlier requests, or has begun those that wait."""
        self.call(Now())

    def _is_over(self, slot: SentRequest) -> bool:
        """Return True when a request has its answer or the link is gone."""
        self.link.check()
        return not slot.is_open

    def _run_dropped(self) -> None:
        """Close the objects that Python has garbage-collected, before a verb.

        Raises MQRC_HCONN_ERROR if the connection is closed.
        """
        if self.is_closed:
            raise mq_error(rc.MQRC_HCONN_ERROR, "the connection is closed")
        while self.dropped:
            self.dropped.popleft()()


def _encoded(request: Request[Any] | NewMessage) -> bytes:
    """Return the encoded request; raises MQError with the reason code of the wrong field."""
    try:
        return packed(request)
    except (ValueError, TypeError) as error:
        kind = Put if isinstance(request, NewMessage) else type(request)
        fields = list(_wrong_fields(request))
        text = f"{verb_name(kind)}.{'.'.join(fields)}: {error}"
        raise mq_error(reason_of(kind, fields[-1]), text) from None


def _wrong_fields(values: msgspec.Struct) -> Iterator[str]:
    """Yield the name of the first field that cannot be encoded.

    If that field is a struct, yield the name of the wrong field within it next.
    """
    for field in values.__struct_fields__:
        value = getattr(values, field)
        try:
            packed(value)
        except (ValueError, TypeError):
            yield field
            if isinstance(value, msgspec.Struct):
                yield from _wrong_fields(value)
            return


class Way(NamedTuple):
    """The key by which conversations share sockets: address, user, password and endpoint.

    The endpoint is without its addresses. Conversations with the same ``group`` share; None is the
    group of all conversations of the process that have no other.
    """

    address: Address
    endpoint: Endpoint
    user: str
    password: str
    group: object = None


class SharedLinks:
    """The links (sockets) of a process that more conversations may join; thread-safe.

    A forked child begins without links: their sockets belong to the parent.
    """

    def __init__(self) -> None:
        """Begin without links."""
        self._start_anew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self) -> None:
        """Forget all links, and the lock: a thread that is not in the child may hold it."""
        self._lock = Runtime().lock("shared links")
        self._links: dict[Way, weakref.WeakSet[RemoteLink]] = {}

    def place(self, way: Way) -> Conversation | None:
        """Begin a conversation on a link that has space and return it; None if no link has space.

        ``way`` has what must be equal to share a link: address, endpoint, user, password and group.
        The link may already be ending: the caller must handle errors of the first request.
        """
        with self._lock:
            for link in self._links.get(way, ()):
                if not link.is_over and len(link.members) < link.max_members:
                    return Conversation(link)
        return None

    def add(self, way: Way, link: RemoteLink) -> None:
        """Let later conversations with an equal ``way`` join a link.

        Forgets links that have ended.
        """
        with self._lock:
            for known, links in list(self._links.items()):
                if all(each.is_over for each in links):
                    del self._links[known]
            self._links.setdefault(way, weakref.WeakSet()).add(link)


#: The links of this process.
SHARED_LINKS = SharedLinks()
