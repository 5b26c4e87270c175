"""The carrying of a trace context in message properties: W3C's traceparent and tracestate.

Both are properties in the ``usr`` folder. OpenTelemetry's instrumentation of JMS and AMQP writes
the same ones, so that programs in other languages continue the trace.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, NamedTuple

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.properties import FORMAT, Typed
from mayfly.verbs.messages import GetResult, Message, row_of
from mayfly.verbs.properties.folders import Parts, Property, joined, parts_of, without_properties

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
