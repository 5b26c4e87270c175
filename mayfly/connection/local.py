"""A connection to a queue manager of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from mayfly.connection.dropped import end_dropped
from mayfly.connection.interface import DECIDED, Connection, OnDone, OnRefused, UnderWay
from mayfly.connection.local_verbs import BEGUN, CALLS, HERE, Program, begin_puts
from mayfly.connection.virtual_time import virtual_time_of
from mayfly.engine import GetRequest, Handle, Match, PutRequest, Session
from mayfly.engine.face.programs import ANY, Completion, TopicHandle, with_properties
from mayfly.lifetime.window import check_life_ms, life_ms_of_expiry
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.properties.folders import Property
from mayfly.queue_manager import QueueManager
from mayfly.verbs.messages import GetResult, PutResult
from mayfly.verbs.requests import Put, Request, verb_name

_R = TypeVar("_R")


class Holdings(NamedTuple):
    """How many handles of a connection are open, and deliveries not settled."""

    handle_count: int
    delivery_count: int


class LocalConnection(Connection):
    """One conversation over a session."""

    def __init__(self, session: Session, manager: QueueManager) -> None:
        """Take a session of a queue manager, which ends with it."""
        core = session.core
        self.name, self.number, self.runtime = core.name, session.number, core.runtime
        self.now_ms = core.now_ms  # type: ignore[method-assign]  # no request for the time
        #: The virtual time under which it waits, None where time goes by itself.
        self.virtual_time = virtual_time_of(manager.engine)
        self._session, self._core = session, core
        self._program = Program(session, manager)

    def call(self, request: Request[_R]) -> _R:
        """Carry a request out."""
        carries = CALLS.get(type(request))
        if carries is None:
            raise _unknown(request)
        answer: _R = carries(self._program, request)
        return answer

    def begin(
        self,
        request: Request[_R],
        on_done: OnDone[_R],
        on_event: OnRefused | None = None,
    ) -> UnderWay:
        """Begin a request."""
        begins = BEGUN.get(type(request))
        try:
            if begins is None:
                raise _unknown(request)
            return begins(self._program, request, on_done, on_event)
        except MQError as error:
            self.tell(on_done, error)
            return DECIDED

    def begin_here(
        self,
        request: Request[Any],
        on_done: OnDone[Any],
        on_event: OnRefused | None = None,
    ) -> tuple[Any] | UnderWay:
        """Begin a request in a loop: an answer that is decided at once is returned, in a tuple.

        Raises MQError for what is wrong with it.
        """
        return HERE[type(request)](self._program, request, on_done, on_event)

    def begin_puts(
        self,
        puts: Iterable[Put | MQError],
        on_done: Callable[[list[PutResult | MQError | None]], object],
    ) -> list[PutResult | MQError | None] | UnderWay:
        """Begin several puts, each by itself; an error in the place of one is its outcome."""
        return begin_puts(self._program, puts, on_done)

    # A request for each put and get of this process would cost its pair 2.4 µs of 25, and gain
    # nothing: these two do without.

    def put(
        self,
        handle: int,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        *,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        expiry_tenths: int = c.MQEI_UNLIMITED,
        time_to_live_ms: int | None = None,
        delay_ms: int = 0,
        properties: Sequence[Property] = (),
        context: int = c.MQHO_NONE,
    ) -> PutResult | None:
        """MQPUT, as ``put_with`` does, without a request."""
        target = self._program.objects.handles.get(handle)
        if not isinstance(target, (Handle, TopicHandle)):
            raise self._program.objects.no(rc.MQRC_NOT_OPEN_FOR_OUTPUT, handle)
        if time_to_live_ms is not None:
            check_life_ms(time_to_live_ms)
        if expiry_tenths != c.MQEI_UNLIMITED:
            refuses_zero = self._core.settings.is_zero_refused
            time_to_live_ms = life_ms_of_expiry(expiry_tenths, refuse_zero=refuses_zero)
        if properties:
            descriptor, body = with_properties(self._core, descriptor, body, properties)
        request = PutRequest(descriptor, msg_id, correl_id, time_to_live_ms, delay_ms)
        if options & c.MQPMO_ASYNC_RESPONSE and isinstance(target, Handle):
            return target.put_async(body, request, options, context)
        return target.put(body, request, options, context)

    def get(
        self,
        handle: int,
        options: int = c.MQGMO_NONE,
        *,
        wait_ms: int = 0,
        max_length: int | None = None,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        group_id: bytes = b"",
        sequence_number: int | None = None,
        offset: int | None = None,
        token: bytes | None = None,
        in_handle: bool = False,
        with_extension: bool = False,
    ) -> GetResult:
        """MQGET, as the function for ``Get`` does, without a request."""
        source = self._program.objects.handles.get(handle)
        if not isinstance(source, Handle):
            raise self._program.objects.no(rc.MQRC_NOT_OPEN_FOR_INPUT, handle)
        match = ANY
        if group_id or sequence_number is not None or offset is not None:
            ids = msg_id or None, correl_id or None, group_id or None
            match = Match(*ids, sequence_number, offset, token=token)
        elif msg_id or correl_id or token is not None:
            match = Match(msg_id or None, correl_id or None, token=token)
        view = source.view(options, has_handle=in_handle)
        request = GetRequest(match, wait_ms, max_length, False, False, view, with_extension)
        return source.get(request, options)

    def tell(self, on_done: OnDone[_R], outcome: _R | MQError) -> None:
        """Tell an outcome that is known."""
        self._core.background.end_with(Completion(), lambda _none: on_done(outcome))

    def close(self, *, commit: bool = True) -> None:
        """MQDISC."""
        self._program.close(commit=commit)

    def has_open(self, handle: int) -> bool:
        """Return True if the object of a handle is open on this connection."""
        return self._program.objects.is_open(handle)

    def end_dropped(self, end: Callable[[], None]) -> None:
        """Run ``end`` of an object that its program has dropped, now or at the next verb."""
        end_dropped(end, self._core.left_behind.objects.append)

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it."""
        return self._session.is_open

    @property
    def is_broken(self) -> bool:
        """Whether the queue manager is gone."""
        return self._core.is_stopped

    @property
    def holdings(self) -> Holdings:
        """How much it holds."""
        return Holdings(len(self._program.objects.handles), len(self._session.deliveries))


def _unknown(request: Request[Any]) -> MQError:
    said = f"verb: {verb_name(type(request))} is not known here"
    return mq_error(rc.MQRC_FUNCTION_NOT_SUPPORTED, said)
