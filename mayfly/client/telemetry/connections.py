"""A connection that records its verbs; programs get it once telemetry is switched on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, TypeVar

from msgspec.structs import replace
from opentelemetry.trace import SpanContext

from mayfly.client.connection import Connection, OnDone, UnderWay
from mayfly.client.connection.interface import OnRefused
from mayfly.client.telemetry import conventions as names
from mayfly.client.telemetry.carrying import Content, shown, span_context, with_context
from mayfly.client.telemetry.recording import Recorder, Running, Target, destination_of
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, NoMessage
from mayfly.properties.folders import Property, parts_of
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts.wire import descriptor_of, packed_descriptor
from mayfly.verbs.messages import Delivery, GetResult, Message, PutResult, Settlement
from mayfly.verbs.requests import Opened, Request
from mayfly.verbs.rows import properties_of

_R = TypeVar("_R")
_BROWSES = c.MQGMO_BROWSE_FIRST | c.MQGMO_BROWSE_NEXT | c.MQGMO_BROWSE_MSG_UNDER_CURSOR
_IN_UNIT = c.MQGMO_SYNCPOINT | c.MQGMO_SYNCPOINT_IF_PERSISTENT
#: A message that its context has made too long goes without.
TOO_BIG = frozenset({rc.MQRC_MSG_TOO_BIG_FOR_Q, rc.MQRC_MSG_TOO_BIG_FOR_Q_MGR})
_WORDS = {
    Settlement.TAKEN: "take",
    Settlement.RETURNED: "return",
    Settlement.BACKED_OUT: "backout",
    Settlement.DEAD_LETTERED: "dead-letter",
    Settlement.SET_ASIDE: "set-aside",
}
_DYNAMIC = frozenset({c.MQQDT_TEMPORARY_DYNAMIC, c.MQQDT_PERMANENT_DYNAMIC})


class Observed:
    """The open objects, the unit of work and the recorder that the verbs of a connection share."""

    def __init__(self, recorder: Recorder, manager: str, *, shows_contexts: bool) -> None:
        """Begin with nothing open.

        With ``shows_contexts`` a program finds the context of a message among its properties.
        """
        self.recorder, self.manager = recorder, manager
        self._shows_contexts = shows_contexts
        self._targets: dict[int, Target] = {}
        self._topics: set[int] = set()
        #: So many messages the unit of work has got.
        self.unit_count = 0
        #: The message that was got last, and its creation context: that of a listener at work.
        self.last: tuple[Message, SpanContext | None] | None = None
        #: Where deliveries came from that are not settled, and the contexts of their messages.
        self.held: dict[int, tuple[str, SpanContext | None]] = {}

    def opened(self, found: Opened, name: str) -> None:
        """Note an object that was opened by a name."""
        is_topic = found.kind == c.MQOT_TOPIC
        destination = found.topic if is_topic else found.made or name or found.queue
        is_temporary = found.definition_type in _DYNAMIC
        self._targets[found.handle] = Target(destination, self.manager, is_temporary)
        if is_topic:
            self._topics.add(found.handle)

    def closed(self, handle: int) -> None:
        """Note that an object is not open any more."""
        self._targets.pop(handle, None)
        self._topics.discard(handle)

    def target(self, handle: int) -> Target:
        """Return what a handle is open for; one of a subscription has no name."""
        return self._targets.get(handle) or Target("", self.manager)

    def begin_put(self, handle: int) -> Running:
        """Begin a put or a publication."""
        operation = names.PUBLISH if handle in self._topics else names.PUT
        return self.recorder.begin(operation, self.target(handle))

    def begin_get(self, handle: int, options: int) -> Running:
        """Begin a get or a browse."""
        operation = names.BROWSE if options & _BROWSES else names.GET
        return self.recorder.begin(operation, self.target(handle))

    def end_get(self, running: Running, result: GetResult, options: int) -> GetResult:
        """End a get that has found a message; return its result as the program sees it."""
        result, creation = shown(result, as_it_is=self._shows_contexts)
        running.got(result.message, creation, result.data_length)
        self._note_got(running.target, result, creation, options)
        running.end()
        return result

    def one_of_many(self, running: Running, message: Message, options: int) -> Message:
        """Note one of the messages that a get has found; return it as the program sees it."""
        result = GetResult(message, rc.MQRC_NONE, len(message.body))
        result, creation = shown(result, as_it_is=self._shows_contexts)
        if creation is not None:
            running.span.add_link(creation)
        self._note_got(running.target, result, creation, options)
        return result.message

    def end_delivery(self, running: Running, delivery: Delivery, options: int) -> Delivery:
        """End a get that has found a message, which the connection may hold."""
        delivery, creation = self.shown(delivery)
        running.got(delivery.result.message, creation, delivery.result.data_length)
        self.note_delivery(delivery, creation, options)
        running.end()
        return delivery

    def shown(self, delivery: Delivery) -> tuple[Delivery, SpanContext | None]:
        """Return a delivery as its program sees it, and the creation context of its message."""
        result, creation = shown(delivery.result, as_it_is=self._shows_contexts)
        return delivery._replace(result=result), creation

    def note_delivery(self, delivery: Delivery, creation: SpanContext | None, options: int) -> None:
        """Note a message that was delivered."""
        if delivery.number:
            self.held[delivery.number] = destination_of(delivery.result.message), creation
        self._note_got(self.target(delivery.handle), delivery.result, creation, options)

    def begin_end_of_unit(self, operation: names.Operation) -> Running | None:
        """Begin to end a unit of work; None where no message was got in it."""
        count, self.unit_count = self.unit_count, 0
        if not count:
            return None
        running = self.recorder.begin(operation, Target("", self.manager))
        running.say({names.BATCH_COUNT: count})
        return running

    def begin_settling(self, request: ask.Settle) -> Running:
        """Begin to settle deliveries: one span, with a link for each of them."""
        numbers = request.deliveries
        known = [found for number in numbers if (found := self.held.pop(number, None))]
        queues = {queue for queue, _creation in known}
        target = Target(queues.pop() if len(queues) == 1 else "", self.manager)
        running = self.recorder.begin(names.settling(_WORDS[request.settlement]), target)
        for _queue, creation in known:
            if creation is not None:
                running.span.add_link(creation)
        if len(numbers) > 1:
            running.say({names.BATCH_COUNT: len(numbers)})
        return running

    def _note_got(
        self, target: Target, result: GetResult, creation: SpanContext | None, options: int
    ) -> None:
        """Note a message that was got; one that is only looked at, or stays, is not."""
        if options & _BROWSES or result.stays:
            return
        if options & _IN_UNIT:
            self.unit_count += 1
        self.last = result.message, creation
        self.recorder.consume(names.GET, target)


class _Put:
    """A put under way, and the forms in which its message is tried."""

    def __init__(self, running: Running, request: ask.Put | ask.Put1) -> None:
        """Take the request of the program."""
        self._running, self._given = running, request
        self._body_bytes = len(request.message.body)
        message = request.message
        content = Content(descriptor_of(request.descriptor), message.body)
        properties = properties_of(message.properties)
        own, carrying = span_context(_properties_of(content, properties)), None
        if own is not None:
            running.span.add_link(own)
        else:
            carrying = with_context(content, running.context)
        #: The request with a message that carries its context, or as it is.
        self.request: Request[Any] = request
        if carrying is not None:
            packed = packed_descriptor(carrying.descriptor)
            message = replace(message, body=carrying.body)
            self.request = replace(request, descriptor=packed, message=message)

    def may_try_again(self, error: MQError) -> bool:
        """Return True when the message, which was refused, may yet go without its context."""
        if self.request is not self._given and error.reason in TOO_BIG:
            self.request = self._given
            return True
        return False

    def end(self, result: Any) -> None:
        """End it: the message was put."""
        self._running.put(result, self._body_bytes)


class TracedConnection(Connection):
    """A connection whose requests are recorded, those that matter to a message."""

    def __init__(self, made: Connection, observed: Observed) -> None:
        """Take the connection that does the work."""
        self._made, self.observed = made, observed
        self.number, self.runtime = made.number, made.runtime

    def __getattr__(self, name: str) -> Any:
        """Return what this connection has beside its interface."""
        return getattr(self._made, name)

    @property
    def name(self) -> str:  # type: ignore[override]  # it may change with a new connection
        """The name of the queue manager."""
        return self._made.name

    def call(self, request: Request[_R]) -> _R:
        """Make a request."""
        traces = _CALLS.get(type(request))
        answer: _R = (
            self._made.call(request)
            if traces is None
            else traces(self._made, self.observed, request)
        )
        return answer

    def begin(
        self,
        request: Request[_R],
        on_done: OnDone[_R],
        on_event: OnRefused | None = None,
    ) -> UnderWay:
        """Begin a request; its span ends when the callback is called."""
        traces = _BEGINS.get(type(request))
        if traces is None:
            return self._made.begin(request, on_done, on_event)
        return traces(self._made, self.observed, request, on_done, on_event)

    def notify(self, on_done: OnDone[_R], outcome: _R | MQError) -> None:
        """Tell an outcome that is known."""
        self._made.notify(on_done, outcome)

    def together(self) -> AbstractContextManager[object]:
        """Let puts travel together."""
        return self._made.together()

    def close(self, *, commit: bool = True) -> None:
        """MQDISC."""
        self._made.close(commit=commit)

    def has_open(self, handle: int) -> bool:
        """Return True if the object of a handle is open on this connection."""
        return self._made.has_open(handle)

    def end_dropped(self, end: Callable[[], None]) -> None:
        """Run ``end`` of an object that its program has dropped."""
        self._made.end_dropped(end)

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it."""
        return self._made.is_open

    @property
    def is_broken(self) -> bool:
        """Whether the queue manager is gone."""
        return self._made.is_broken

    @property
    def socket(self) -> int | None:
        """The number of its socket."""
        return self._made.socket


# Requests that are called


def _open(made: Connection, observed: Observed, request: ask.Open) -> Opened:
    opened = made.call(request)
    observed.opened(opened, request.name)
    return opened


def _close_object(made: Connection, observed: Observed, request: ask.CloseObject) -> int:
    reason = made.call(request)
    observed.closed(request.handle)
    return reason


def _put(made: Connection, observed: Observed, request: ask.Put) -> PutResult | None:
    put: PutResult | None = _traced_put(made, observed.begin_put(request.handle), request)
    return put


def _put1(made: Connection, observed: Observed, request: ask.Put1) -> PutResult:
    target = Target(request.topic or request.name, observed.manager)
    operation = names.PUBLISH if request.kind == c.MQOT_TOPIC else names.PUT
    running = observed.recorder.begin(operation, target)
    put: PutResult = _traced_put(made, running, request)
    return put


def _traced_put(made: Connection, running: Running, request: ask.Put | ask.Put1) -> Any:
    put = _Put(running, request)
    while True:
        try:
            result = made.call(put.request)
        except MQError as error:
            if not put.may_try_again(error):
                running.fail(error)
                raise
        else:
            put.end(result)
            return result


def _get(made: Connection, observed: Observed, request: ask.Get) -> GetResult:
    running = observed.begin_get(request.handle, request.options)
    with _failing(running):
        result = made.call(request)
    return observed.end_get(running, result, request.options)


def _get_held(made: Connection, observed: Observed, request: ask.GetAny) -> Delivery:
    running = observed.begin_get(request.handles[0], request.options)
    with _failing(running):
        delivery = made.call(request)
    return observed.end_delivery(running, delivery, request.options)


def _take_held(made: Connection, observed: Observed, request: ask.TakeHeld) -> list[Delivery]:
    """Get the messages that are there: one span, with a link for each of them."""
    options = request.options
    running = observed.begin_get(request.handle, options)
    with _failing(running):
        found = made.call(request)
    if not found:
        return found
    if len(found) == 1 and request.max_messages == 1:
        return [observed.end_delivery(running, found[0], options)]
    seen = []
    for delivery, creation in map(observed.shown, found):
        if creation is not None:
            running.span.add_link(creation)
        observed.note_delivery(delivery, creation, options)
        seen.append(delivery)
    running.say({names.BATCH_COUNT: len(seen)})
    running.end()
    return seen


def _get_many(made: Connection, observed: Observed, request: ask.GetMany) -> list[Message]:
    """Get the messages that are there: one span, with a link for each of them."""
    running = observed.begin_get(request.handle, request.options)
    with _failing(running):
        found = made.call(request)
    if not found:
        return found
    seen = [observed.one_of_many(running, message, request.options) for message in found]
    running.say({names.BATCH_COUNT: len(seen)})
    running.end()
    return seen


def _commit(made: Connection, observed: Observed, request: ask.Commit) -> None:
    _end_unit(names.COMMIT, made, observed, request)


def _backout(made: Connection, observed: Observed, request: ask.Backout) -> None:
    _end_unit(names.BACKOUT, made, observed, request)


def _end_unit(
    operation: names.Operation, made: Connection, observed: Observed, request: Request[None]
) -> None:
    """End a unit of work; a span says so when messages were got in it."""
    running = observed.begin_end_of_unit(operation)
    if running is None:
        made.call(request)
        return
    with _failing(running):
        made.call(request)
    running.end()


def _settle(made: Connection, observed: Observed, request: ask.Settle) -> None:
    running = observed.begin_settling(request)
    with _failing(running):
        made.call(request)
    running.end()


@contextmanager
def _failing(running: Running) -> Iterator[None]:
    """Let a span tell of an error.

    That of a get that finds nothing never ends: a program that polls would be recorded for its
    polling.
    """
    try:
        yield
    except NoMessage:
        raise
    except BaseException as error:
        running.fail(error)
        raise


# Requests that are begun


def _begin_put(
    made: Connection,
    observed: Observed,
    request: ask.Put,
    on_done: OnDone[Any],
    _on_event: OnRefused | None,
) -> UnderWay:
    running = observed.begin_put(request.handle)
    put = _Put(running, request)

    def on_outcome(outcome: Any) -> None:
        if not isinstance(outcome, MQError):
            put.end(outcome)
        elif put.may_try_again(outcome):
            made.begin(put.request, on_outcome)
            return
        else:
            running.fail(outcome)
        on_done(outcome)

    return made.begin(put.request, on_outcome)


def _begin_get(
    made: Connection,
    observed: Observed,
    request: ask.Get,
    on_done: OnDone[GetResult],
    _on_event: OnRefused | None,
) -> UnderWay:
    running = observed.begin_get(request.handle, request.options)
    on_outcome = _reporting(
        running, lambda found: observed.end_get(running, found, request.options), on_done
    )
    return made.begin(request, on_outcome)


def _begin_get_any(
    made: Connection,
    observed: Observed,
    request: ask.GetAny,
    on_done: OnDone[Delivery],
    on_event: OnRefused | None,
) -> UnderWay:
    """Begin a get of a message that is held.

    One of several queues is for a listener, whose own span tells of the message: it is only counted
    here.
    """
    options = request.options
    if not request.tells_refusals and len(request.handles) == 1:
        running = observed.begin_get(request.handles[0], options)
        seen = _reporting(
            running, lambda found: observed.end_delivery(running, found, options), on_done
        )
        return made.begin(request, seen, on_event)

    def on_outcome(outcome: Delivery | MQError) -> None:
        if isinstance(outcome, MQError):
            on_done(outcome)
            return
        delivery, creation = observed.shown(outcome)
        observed.note_delivery(delivery, creation, options)
        on_done(delivery)

    return made.begin(request, on_outcome, on_event)


def _begin_commit(
    made: Connection,
    observed: Observed,
    request: ask.Commit,
    on_done: OnDone[None],
    _on_event: OnRefused | None,
) -> UnderWay:
    running = observed.begin_end_of_unit(names.COMMIT)
    if running is None:
        return made.begin(request, on_done)
    return made.begin(request, _reporting(running, lambda _none: running.end(), on_done))


def _begin_settle(
    made: Connection,
    observed: Observed,
    request: ask.Settle,
    on_done: OnDone[None],
    _on_event: OnRefused | None,
) -> UnderWay:
    running = observed.begin_settling(request)
    return made.begin(request, _reporting(running, lambda _none: running.end(), on_done))


def _reporting(
    running: Running, end: Callable[[Any], Any], on_done: Callable[[Any], object]
) -> Callable[[Any], None]:
    """Return the callback that ends a span before the program's own is called.

    A get that finds nothing has no span, as in :func:`_failing`.
    """

    def on_outcome(outcome: Any) -> None:
        if not isinstance(outcome, MQError):
            seen = end(outcome)
            outcome = outcome if seen is None else seen
        elif not isinstance(outcome, NoMessage):
            running.fail(outcome)
        on_done(outcome)

    return on_outcome


def _properties_of(content: Content, properties: Sequence[Property]) -> list[Property]:
    try:
        return [*parts_of(*content).properties, *properties]
    except MQError:
        return list(properties)


_CALLS: Final[dict[type[Request[Any]], Callable[[Connection, Observed, Any], Any]]] = {
    ask.Open: _open,
    ask.CloseObject: _close_object,
    ask.Put: _put,
    ask.Put1: _put1,
    ask.Get: _get,
    ask.GetAny: _get_held,
    ask.TakeHeld: _take_held,
    ask.GetMany: _get_many,
    ask.Commit: _commit,
    ask.Backout: _backout,
    ask.Settle: _settle,
}
_BEGINS: Final[
    dict[
        type[Request[Any]],
        Callable[[Connection, Observed, Any, OnDone[Any], OnRefused | None], UnderWay],
    ]
] = {
    ask.Put: _begin_put,
    ask.Get: _begin_get,
    ask.GetAny: _begin_get_any,
    ask.Commit: _begin_commit,
    ask.Settle: _begin_settle,
}
