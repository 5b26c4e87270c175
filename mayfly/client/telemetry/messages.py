"""Messages that were got with the context of a trace, as their programs see them."""

from __future__ import annotations

from opentelemetry.trace import SpanContext

from mayfly.client.telemetry.carrying import Content, context_of, span_context
from mayfly.mqi.descriptor import Descriptor
from mayfly.verbs.messages import GetResult, Message, row_of


class TracedMessage(Message):
    """A message that had no properties but a creation context, and is shown without any.

    So a program sees the body that its sender has put, whether telemetry is switched on or not.
    Verbs that move the message on still find all of it.
    """

    __slots__ = ("_descriptor", "creation")

    def __init__(self, message: Message, shown: Content, creation: SpanContext) -> None:
        """Show a message with another content."""
        super().__init__(message.queue, row_of(message), message.seen_ms, shown.body)
        self._descriptor, self.creation = shown.descriptor, creation

    @property
    def descriptor(self) -> Descriptor:
        """The descriptor, which says what the body is."""
        return self._descriptor

    def cut_to(self, length_bytes: int) -> TracedMessage:
        """Return the same message with only the first bytes of its body."""
        shown = Content(self._descriptor, self.body[:length_bytes])
        return TracedMessage(self, shown, self.creation)


def creation_of(message: Message) -> SpanContext | None:
    """Return the creation context of a message that was got, None for one without."""
    if isinstance(message, TracedMessage):
        return message.creation
    return context_of(message)[0]


def shown(result: GetResult, *, as_it_is: bool) -> tuple[GetResult, SpanContext | None]:
    """Return the result of a get as its program sees it, and the creation context.

    It is as it was when the message has properties of its own, when they go into a message handle,
    and when the body was cut; with ``as_it_is`` in all cases.
    """
    if result.handed is not None:
        return result, span_context(result.handed.properties)
    creation, content = context_of(result.message)
    if creation is None or content is None or as_it_is:
        return result, creation
    if result.data_length != len(result.message.body):
        return result, creation
    message = TracedMessage(result.message, content, creation)
    length = len(content.body)
    return GetResult(message, result.warning, length, result.handed, result.failure), creation
