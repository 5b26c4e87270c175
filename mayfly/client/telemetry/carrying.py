"""The context of a trace in the properties of a message: W3C's traceparent and tracestate.

Both are plain names in the ``usr`` folder, as OpenTelemetry's own instrumentation of JMS and AMQP
writes them, so that programs of other languages continue the trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.properties import FORMAT, Typed
from mayfly.properties.folders import Parts, Property, joined, parts_of, without_properties
from mayfly.verbs.messages import Message

_PROPAGATOR = TraceContextTextMapPropagator()
NAMES = frozenset({"traceparent", "tracestate"})
_IN_PARTS = c.MQMF_SEGMENT | c.MQMF_LAST_SEGMENT | c.MQMF_SEGMENTATION_ALLOWED
#: Data of programs. In front of other structures of MQ a header would change their meaning.
_CARRIERS = frozenset({"", "MQSTR", FORMAT})


class Content(NamedTuple):
    """The part of a message that its program gives, or sees."""

    descriptor: Descriptor
    body: bytes


def with_context(content: Content, context: Context) -> Content | None:
    """Return a message with the context of a span among its properties.

    None when it has to go without: it has a context of its own, which is not changed, or an MQRFH2
    that cannot be read; it is a segment, or what it holds is a structure of MQ that no MQRFH2 goes
    in front of.
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
    """Return the creation context of a message, and its content as it was without that.

    The content is None for a message that has other properties as well, or none at all.
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
    """Return the context that properties hold, None for none that is valid."""
    texts = _texts_of(properties)
    if not texts:
        return None
    return context_of_headers(texts)


def context_of_headers(texts: dict[str, str]) -> SpanContext | None:
    """Return the context that traceparent and tracestate say, None when they say none."""
    found = get_current_span(_PROPAGATOR.extract(texts, Context())).get_span_context()
    return found if found.is_valid else None


def _properties(context: Context) -> list[Property]:
    texts: dict[str, str] = {}
    _PROPAGATOR.inject(texts, context)
    return [Property(name, Typed("string", text)) for name, text in texts.items()]


def _texts_of(properties: Iterable[Property]) -> dict[str, str]:
    return {found.name: str(found.typed.value) for found in properties if found.name in NAMES}


def _is_alone(parts: Parts) -> bool:
    return not parts.others and all(found.name in NAMES for found in parts.properties)
