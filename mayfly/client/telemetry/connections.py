"""The connections that record spans and metrics and carry trace contexts, and their switch.

A trace context is carried in message properties, W3C's traceparent and tracestate, in the ``usr``
folder. OpenTelemetry's instrumentation of JMS and AMQP writes the same ones, so that programs in
other languages continue the trace.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, cast

from msgspec.structs import replace
from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import SpanContext, TracerProvider, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mayfly.client.connection import Connection, OnDone, UnderWay
from mayfly.client.connection.interface import OnRefused, install
from mayfly.client.telemetry import recording as names
from mayfly.client.telemetry.recording import Recorder, RunningOperation, Target, destination_of
from mayfly.engine.api.operating import Expired, watch_expiry
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, NoMessage
from mayfly.mqi.properties import FORMAT, Typed
from mayfly.queue_manager import QueueManager
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts.wire import descriptor_of, packed_descriptor
from mayfly.verbs.messages import Delivery, GetResult, Message, PutResult, Settlement, row_of
from mayfly.verbs.properties.folders import Parts, Property, joined, parts_of, without_properties
from mayfly.verbs.requests import Opened, Request
from mayfly.verbs.rows import properties_of

_PROPAGATOR = TraceContextTextMapPropagator()
NAMES = frozenset({"traceparent", "tracestate"})
_IN_PARTS = c.MQMF_SEGMENT | c.MQMF_LAST_SEGMENT | c.MQMF_SEGMENTATION_ALLOWED
#: Data of programs. In front of other structures of MQ a header would change their meaning.
_CARRIERS = frozenset({"", "MQSTR", FORMAT})


class Content(NamedTuple):
    """The descriptor and body of a message, as a program puts or gets them."""

    descriptor: Descriptor
    body: bytes


def with_context(content: Content, context: Context) -> Content | None:
    """Return a message with the context of a span added to its properties, None if impossible.

    Impossible are: a message that already has a context, an MQRFH2 that cannot be parsed, a
    segment, and data in an MQ format before which no MQRFH2 may come.
    """
    descriptor, body = content
    known = descriptor.format.strip()
    if descriptor.msg_flags & _IN_PARTS or (known not in _CARRIERS and known.startswith("MQ")):
        return None
    try:
        if known == FORMAT and _texts_of(parts_of(descriptor, body).properties):
            return None
        return Content(*joined(descriptor, body, _properties(context)))
    except MQError:
        return None


def context_of(message: Message) -> tuple[SpanContext | None, Content | None]:
    """Return the creation context of a message, and its content without the context properties.

    The creation context is the span in which the message was put, None without a valid one. The
    content is None for a message that has other properties as well, or no context.
    """
    descriptor = message.descriptor
    if descriptor.format.strip() != FORMAT:
        return None, None
    try:
        parts = parts_of(descriptor, message.body)
    except MQError:
        return None, None
    found = span_context(parts.properties)
    if found is None or not _is_alone(parts):
        return found, None
    return found, Content(*without_properties(descriptor, parts))


def span_context(properties: Iterable[Property]) -> SpanContext | None:
    """Return the span context in the properties, None when there is no valid one."""
    texts = _texts_of(properties)
    if not texts:
        return None
    return context_of_headers(texts)


def context_of_headers(texts: dict[str, str]) -> SpanContext | None:
    """Return the span context in the headers ``texts``, by name; None without a valid one."""
    found = get_current_span(_PROPAGATOR.extract(texts, Context())).get_span_context()
    return found if found.is_valid else None


def _properties(context: Context) -> list[Property]:
    """Return traceparent and tracestate of a context as message properties."""
    texts: dict[str, str] = {}
    _PROPAGATOR.inject(texts, context)
    return [Property(name, Typed("string", text)) for name, text in texts.items()]


def _texts_of(properties: Iterable[Property]) -> dict[str, str]:
    """Return traceparent and tracestate by name, without those that the properties lack."""
    return {found.name: str(found.typed.value) for found in properties if found.name in NAMES}


def _is_alone(parts: Parts) -> bool:
    """Return True if a message, split into ``parts``, has no properties but the trace context."""
    return not parts.others and all(found.name in NAMES for found in parts.properties)


class TracedMessage(Message):
    """A message whose only properties were its trace context, which this view hides.

    So a program gets the body that the sender put, with telemetry on or off. Verbs that forward the
    message still have the context.
    """

    __slots__ = ("_descriptor", "creation")

    def __init__(self, message: Message, shown: Content, creation: SpanContext) -> None:
        """Wrap ``message``, with the descriptor and body of ``shown``.

        ``creation`` is the context of the span in which the message was put.
        """
        super().__init__(message.queue, row_of(message), message.seen_ms, shown.body)
        self._descriptor, self.creation = shown.descriptor, creation

    @property
    def descriptor(self) -> Descriptor:
        """The descriptor that fits the shown body."""
        return self._descriptor

    def cut_to(self, length_bytes: int) -> TracedMessage:
        """Return the message with only the first ``length_bytes`` of its body."""
        shown = Content(self._descriptor, self.body[:length_bytes])
        return TracedMessage(self, shown, self.creation)


def creation_of(message: Message) -> SpanContext | None:
    """Return the context of the span in which a received message was put, None without one."""
    if isinstance(message, TracedMessage):
        return message.creation
    return context_of(message)[0]


def shown(result: GetResult, *, keeps_context: bool) -> tuple[GetResult, SpanContext | None]:
    """Return the result of a get as its program sees it, and the creation context or None.

    The context is removed from the message that the program sees, except with ``keeps_context``. It
    is not removed either if the message has other properties, if the properties go into a message
    handle, or if the body was truncated.
    """
    if result.content is not None:
        return result, span_context(result.content.properties)
    creation, content = context_of(result.message)
    if creation is None or content is None or keeps_context:
        return result, creation
    if result.data_length != len(result.message.body):
        return result, creation
    message = TracedMessage(result.message, content, creation)
    length = len(content.body)
    return GetResult(message, result.warning, length, result.content, result.failure), creation


class Continuing:
    """ASGI middleware: spans of a request become children of the span that its headers name."""

    def __init__(self, application: Callable[..., Awaitable[None]]) -> None:
        """Wrap an ASGI application."""
        self._application = application

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: object, send: object
    ) -> None:
        """Run the application for one request.

        Its spans become children of the span that the headers of the request name, if any.
        """
        texts = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name.decode("latin-1") in NAMES
        }
        parent = context_of_headers(texts) if texts else None
        if parent is None:
            await self._application(scope, receive, send)
            return
        token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent)))
        try:
            await self._application(scope, receive, send)
        finally:
            context.detach(token)


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
_M = TypeVar("_M")
_A = TypeVar("_A", bound=Callable[..., Awaitable[None]])
#: In the body of a message with a context, as nearly all encodings write it.
_MARK = b"traceparent"
#: The recorder of connections that are made now.
_recorders: list[Recorder] = []


class Observed:
    """The state that telemetry keeps of one connection: open objects, unit of work, deliveries."""

    def __init__(self, recorder: Recorder, manager: str, *, shows_contexts: bool) -> None:
        """Begin with nothing open.

        ``recorder`` records the spans and metrics, ``manager`` is the name of the queue manager.
        With ``shows_contexts`` a program sees the trace context among the properties of a message.
        """
        self.recorder, self.manager = recorder, manager
        self._shows_contexts = shows_contexts
        self._targets: dict[int, Target] = {}
        self._topics: set[int] = set()
        #: How many messages the unit of work has got.
        self.unit_count = 0
        #: The message that was got last, and its creation context: that of a listener at work.
        self.last: tuple[Message, SpanContext | None] | None = None
        #: Where deliveries came from that are not settled, and the contexts of their messages.
        self.held: dict[int, tuple[str, SpanContext | None]] = {}

    def opened(self, found: Opened, name: str) -> None:
        """Record that an object was opened under ``name``, so that later spans can name it."""
        is_topic = found.kind == c.MQOT_TOPIC
        destination = found.topic if is_topic else found.made or name or found.queue
        is_temporary = found.definition_type in _DYNAMIC
        self._targets[found.handle] = Target(destination, self.manager, is_temporary)
        if is_topic:
            self._topics.add(found.handle)

    def closed(self, handle: int) -> None:
        """Record that a handle was closed; an unknown one is ignored."""
        self._targets.pop(handle, None)
        self._topics.discard(handle)

    def target(self, handle: int) -> Target:
        """Return the queue or topic of a handle; its name is empty for a handle not opened by name.

        The queue of a subscription is such a handle.
        """
        return self._targets.get(handle) or Target("", self.manager)

    def begin_put(self, handle: int) -> RunningOperation:
        """Begin the span of a put or publication and return its operation."""
        operation = names.PUBLISH if handle in self._topics else names.PUT
        return self.recorder.begin(operation, self.target(handle))

    def begin_get(self, handle: int, options: int) -> RunningOperation:
        """Begin the span of a get or browse and return its operation."""
        operation = names.BROWSE if options & _BROWSES else names.GET
        return self.recorder.begin(operation, self.target(handle))

    def end_get(self, running: RunningOperation, result: GetResult, options: int) -> GetResult:
        """End the span of a successful get and return the result as the program sees it.

        That is without the trace context, unless contexts are shown. ``options`` are the MQGMO
        options of the get.
        """
        result, creation = shown(result, keeps_context=self._shows_contexts)
        running.got(result.message, creation, result.data_length)
        self._note_got(running.target, result, creation, options)
        running.end()
        return result

    def note_one_of_many(
        self, running: RunningOperation, message: Message, options: int
    ) -> Message:
        """Record one of several messages of the get ``running``; return it as the program sees it.

        That is without the trace context in its properties, unless contexts are shown.
        """
        result = GetResult(message, rc.MQRC_NONE, len(message.body))
        result, creation = shown(result, keeps_context=self._shows_contexts)
        if creation is not None:
            running.span.add_link(creation)
        self._note_got(running.target, result, creation, options)
        return result.message

    def end_delivery(self, running: RunningOperation, delivery: Delivery, options: int) -> Delivery:
        """End the span of a successful get and return the delivery as the program sees it.

        That is without the trace context, unless contexts are shown.
        """
        delivery, creation = self.shown(delivery)
        running.got(delivery.result.message, creation, delivery.result.data_length)
        self.note_delivery(delivery, creation, options)
        running.end()
        return delivery

    def shown(self, delivery: Delivery) -> tuple[Delivery, SpanContext | None]:
        """Return a delivery as its program sees it, and the message's trace context or None."""
        result, creation = shown(delivery.result, keeps_context=self._shows_contexts)
        return delivery._replace(result=result), creation

    def note_delivery(self, delivery: Delivery, creation: SpanContext | None, options: int) -> None:
        """Count a delivered message in the metrics; remember a held one until it is settled.

        ``creation`` is the context of the span in which it was put, or None. ``options`` are the
        MQGMO options of the get.
        """
        if delivery.number:
            self.held[delivery.number] = destination_of(delivery.result.message), creation
        self._note_got(self.target(delivery.handle), delivery.result, creation, options)

    def begin_end_of_unit(self, operation: names.SpanOperation) -> RunningOperation | None:
        """Begin the span of a commit or backout; None when the unit of work has got no message."""
        count, self.unit_count = self.unit_count, 0
        if not count:
            return None
        running = self.recorder.begin(operation, Target("", self.manager))
        running.span.set_attributes({names.BATCH_COUNT: count})
        return running

    def begin_settling(self, request: ask.Settle) -> RunningOperation:
        """Begin the span of a settlement and return it, with a link to the context of each message.

        This object then forgets the deliveries.
        """
        numbers = request.deliveries
        known = [found for number in numbers if (found := self.held.pop(number, None))]
        queues = {queue for queue, _creation in known}
        target = Target(queues.pop() if len(queues) == 1 else "", self.manager)
        running = self.recorder.begin(names.settling(_WORDS[request.settlement]), target)
        for _queue, creation in known:
            if creation is not None:
                running.span.add_link(creation)
        if len(numbers) > 1:
            running.span.set_attributes({names.BATCH_COUNT: len(numbers)})
        return running

    def _note_got(
        self, target: Target, result: GetResult, creation: SpanContext | None, options: int
    ) -> None:
        """Count a message that was got, in the metrics and in the unit of work.

        ``creation`` is the context of the span in which it was put, or None. Browsed messages and
        those that stay on the queue do not count.
        """
        if options & _BROWSES or result.stays:
            return
        if options & _IN_UNIT:
            self.unit_count += 1
        self.last = result.message, creation
        self.recorder.consume(target)


class _TracedPut:
    """A running put: first with the trace context in its message, then without if too big."""

    def __init__(self, running: RunningOperation, request: ask.Put | ask.Put1) -> None:
        """Take the program's request, and add the context of ``running`` to a copy of its message.

        A message that has a trace context, or cannot carry one, is sent unchanged.
        """
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
        #: The request to send: with the trace context in its message, or that of the program.
        self.request: Request[Any] = request
        if carrying is not None:
            packed = packed_descriptor(carrying.descriptor)
            message = replace(message, body=carrying.body)
            self.request = replace(request, descriptor=packed, message=message)

    def may_try_again(self, error: MQError) -> bool:
        """Return True if the put failed because the context made the message too big.

        The attribute ``request`` is then the one without the context. A second call returns False.
        """
        if self.request is not self._given and error.reason in TOO_BIG:
            self.request = self._given
            return True
        return False

    def end(self, result: Any) -> None:
        """End the span: the message was put."""
        self._running.put(result, self._body_bytes)


class TracedConnection(Connection):
    """A connection that records spans and metrics for requests that concern messages."""

    def __init__(self, made: Connection, observed: Observed) -> None:
        """Wrap the connection ``made``, which does the work; ``observed`` records it."""
        self._made, self.observed = made, observed
        self.number, self.runtime = made.number, made.runtime

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped connection that is not part of the interface."""
        return getattr(self._made, name)

    @property
    def name(self) -> str:  # type: ignore[override]  # it may change with a new connection
        """The name of the queue manager."""
        return self._made.name

    def call(self, request: Request[_R]) -> _R:
        """Send a request and return its answer; raises MQError."""
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
        """Begin a request and return the running verb; ``on_done`` gets its answer or MQError.

        The span of the request ends before ``on_done`` is called. ``on_event`` is that of
        :meth:`Connection.begin`.
        """
        traces = _BEGINS.get(type(request))
        if traces is None:
            return self._made.begin(request, on_done, on_event)
        return traces(self._made, self.observed, request, on_done, on_event)

    def notify(self, on_done: OnDone[_R], outcome: _R | MQError) -> None:
        """Call ``on_done`` with an outcome that is already known, after earlier callbacks."""
        self._made.notify(on_done, outcome)

    def together(self) -> AbstractContextManager[object]:
        """Send the puts that begin within a ``with`` block in common frames, at its end."""
        return self._made.together()

    def reconnect_no_more(self) -> None:
        """Let verbs that wait for another connection fail with MQRC_HCONN_ERROR; others go on."""
        self._made.reconnect_no_more()

    def close(self, *, commit: bool = True) -> None:
        """Disconnect (MQDISC): commit or back out the unit of work. A second call does nothing."""
        self._made.close(commit=commit)

    def has_open(self, handle: int) -> bool:
        """Return True if an object is open under this handle number."""
        return self._made.has_open(handle)

    def end_dropped(self, end: Callable[[], None]) -> None:
        """Run ``end``, which closes a garbage-collected object: now, or before the next verb."""
        self._made.end_dropped(end)

    @property
    def is_open(self) -> bool:
        """True until the program closes the connection."""
        return self._made.is_open

    @property
    def is_broken(self) -> bool:
        """True when the queue manager, or the way to it, is gone."""
        return self._made.is_broken

    @property
    def socket(self) -> int | None:
        """The number of the socket; 0 when it is gone, None within this process."""
        return self._made.socket


# Requests that are called
def _open(made: Connection, observed: Observed, request: ask.Open) -> Opened:
    """Open an object by the connection ``made``, and record its name in ``observed``.

    Later spans name the object; the open itself has no span.
    """
    opened = made.call(request)
    observed.opened(opened, request.name)
    return opened


def _close_object(made: Connection, observed: Observed, request: ask.CloseObject) -> int:
    """Close an object by the connection ``made``, and let ``observed`` forget its name.

    Returns the warning of MQCLOSE or 0. A close has no span.
    """
    reason = made.call(request)
    observed.closed(request.handle)
    return reason


def _put(made: Connection, observed: Observed, request: ask.Put) -> PutResult | None:
    """Put a message within a span and return the result; raises the MQError of the put."""
    put: PutResult | None = _traced_put(made, observed.begin_put(request.handle), request)
    return put


def _put1(made: Connection, observed: Observed, request: ask.Put1) -> PutResult:
    """Put one message to a named object (MQPUT1) within a span and return the result."""
    target = Target(request.topic or request.name, observed.manager)
    operation = names.PUBLISH if request.kind == c.MQOT_TOPIC else names.PUT
    running = observed.recorder.begin(operation, target)
    put: PutResult = _traced_put(made, running, request)
    return put


def _traced_put(made: Connection, running: RunningOperation, request: ask.Put | ask.Put1) -> Any:
    """Put a message with the trace context in its properties, and end the span.

    A message that its context makes too big is put again without it. Returns the result of the put.
    """
    put = _TracedPut(running, request)
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
    """Get or browse a message within a span; return the result as the program sees it.

    A get that finds no message raises NoMessage and leaves no span.
    """
    running = observed.begin_get(request.handle, request.options)
    with _failing(running):
        result = made.call(request)
    return observed.end_get(running, result, request.options)


def _get_held(made: Connection, observed: Observed, request: ask.GetAny) -> Delivery:
    """Get a message within a span, held as a delivery; return it as the program sees it."""
    running = observed.begin_get(request.handles[0], request.options)
    with _failing(running):
        delivery = made.call(request)
    return observed.end_delivery(running, delivery, request.options)


def _take_held(made: Connection, observed: Observed, request: ask.TakeHeld) -> list[Delivery]:
    """Get available messages as deliveries, with one span that links to each message's context.

    Without a message the result is [] and no span is recorded.
    """
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
    running.span.set_attributes({names.BATCH_COUNT: len(seen)})
    running.end()
    return seen


def _get_many(made: Connection, observed: Observed, request: ask.GetMany) -> list[Message]:
    """Get available messages with one span, which links to the context of each message.

    Without a message the result is [] and no span is recorded.
    """
    running = observed.begin_get(request.handle, request.options)
    with _failing(running):
        found = made.call(request)
    if not found:
        return found
    seen = [observed.note_one_of_many(running, message, request.options) for message in found]
    running.span.set_attributes({names.BATCH_COUNT: len(seen)})
    running.end()
    return seen


def _end_unit(
    operation: names.SpanOperation, made: Connection, observed: Observed, request: Request[None]
) -> None:
    """Commit or back out; a span is recorded only if the unit of work has got messages."""
    running = observed.begin_end_of_unit(operation)
    if running is None:
        made.call(request)
        return
    with _failing(running):
        made.call(request)
    running.end()


def _settle(made: Connection, observed: Observed, request: ask.Settle) -> None:
    """Settle deliveries within a span, which links to the context of each message."""
    running = observed.begin_settling(request)
    with _failing(running):
        made.call(request)
    running.end()


@contextmanager
def _failing(running: RunningOperation) -> Iterator[None]:
    """Record an exception within the block as the failure of an operation, and end its span.

    The exception goes on. A get that finds no message never ends its span: polling leaves no
    records.
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
    """Begin a put with a span, which ends with the outcome; return the running verb.

    A message that its context makes too big is put again without it.
    """
    running = observed.begin_put(request.handle)
    put = _TracedPut(running, request)

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
    """Begin a get with a span, which ends with the outcome; return the running verb."""
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
    """Begin a get of a message to hold; return the running get. ``on_done`` gets the delivery.

    A get of several queues is that of a message listener, whose processing span records the
    message. Such a get has no span, and its message is only counted.
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
    """Begin a commit and return the running verb; ``on_done`` gets None or an MQError.

    A span is recorded only if the unit of work has got messages.
    """
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
    """Begin to settle deliveries with a span, which ends with the outcome; return the verb.

    ``on_done`` gets None or an MQError.
    """
    running = observed.begin_settling(request)
    return made.begin(request, _reporting(running, lambda _none: running.end(), on_done))


def _reporting(
    running: RunningOperation, end: Callable[[Any], Any], on_done: Callable[[Any], object]
) -> Callable[[Any], None]:
    """Return a callback that ends a span and then calls ``on_done``, the program's callback.

    A get that finds no message never ends its span, as in :func:`_failing`. ``end`` records an
    outcome without an error and returns the outcome as the program sees it.
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
    """Return the properties in the MQRFH2 of a content, followed by ``properties``.

    An MQRFH2 that cannot be read is left out.
    """
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
    ask.Commit: partial(_end_unit, names.COMMIT),
    ask.Backout: partial(_end_unit, names.BACKOUT),
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


class _Instrument:
    """Wraps connections and message listeners so that they record spans and metrics."""

    def __init__(self, recorder: Recorder) -> None:
        """Take the recorder of spans and metrics."""
        self._recorder = recorder

    def connection(self, made: Connection, *, for_others: bool) -> Connection:
        """Return a connection that records the spans and metrics of its verbs.

        With ``for_others`` its programs also see the trace context in the properties of messages.
        """
        observed = Observed(self._recorder, made.name, shows_contexts=for_others)
        traced = TracedConnection(made, observed)
        return cast("Connection", traced)

    def listener(self, mq: Connection, call: Callable[[_M], object]) -> Callable[[_M], object]:
        """Return a function that calls a message listener within a processing span.

        An exception of the listener is recorded and raised. A listener of a connection that was
        made before telemetry was switched on is returned unchanged.
        """
        traced: object = mq
        if not isinstance(traced, TracedConnection):
            # It was made before telemetry was switched on.
            return call
        observed = traced.observed

        def within(message: _M) -> None:
            received, creation = observed.last or (None, None)
            with self._recorder.processing(received, creation, observed.manager):
                call(message)

        return within

    def application(self, application: _A) -> _A:
        """Return an ASGI application that continues the traces of its requests."""
        return cast("_A", Continuing(application))


def instrument(
    *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> None:
    """Record the operations of connections that this process makes from now on.

    This covers pymqi, JMS, ``mayfly.connect``, ``mayfly.aio``, listener ports, and the HTTP
    requests of a server in this process. A provider that is None is the process-wide one, even if
    set later. A second call replaces the first for connections made after it.
    """
    recorder = Recorder(tracer_provider, meter_provider)
    _recorders[:] = [recorder]
    install(_Instrument(recorder))


def uninstrument() -> None:
    """Do not record connections made from now on; those made before are still recorded."""
    _recorders.clear()
    install(None)


def watch(
    manager: QueueManager, *, tracer_provider: TracerProvider | None = None
) -> Callable[[], None]:
    """Record the expiry of messages that carry a trace context; return a function that stops this.

    Each expiry is a span in the trace of the sender, from the deadline until the expiry was
    detected and is durable.
    """
    recorder = Recorder(tracer_provider)

    def detected(expired: Expired) -> None:
        if _MARK in expired.message.body:
            creation, _content = context_of(expired.message)
            if creation is not None:
                recorder.expired(expired, manager.name, creation)

    return watch_expiry(manager.engine, detected)


@contextmanager
def processing(message: Message, manager: str = "") -> Iterator[None]:
    """Record a span for the work with a message within a ``with`` block.

    Nothing is recorded while telemetry is off. An exception within the block is recorded and
    raised. ``manager`` names the queue manager of the message. Message listeners need no such
    block: they have a span already.
    """
    if not _recorders:
        yield
        return
    with _recorders[0].processing(message, creation_of(message), manager):
        yield
