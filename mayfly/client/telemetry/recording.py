"""The recording of spans and metrics for what programs do with messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode

import mayfly
from mayfly.client.telemetry import conventions as names
from mayfly.engine.api.operating import Expired
from mayfly.mqi.errors import MQError
from mayfly.mqi.reasons import reason_name
from mayfly.verbs.messages import Message, PutResult

_ZERO_ID = bytes(24)
_NS_PER_MS = 1_000_000


class Target(NamedTuple):
    """The queue or topic of an operation, "" for none or several."""

    name: str
    manager: str
    #: A dynamic queue: its name is one of very many.
    is_temporary: bool = False


class Recorder:
    """Creates spans and metrics with OpenTelemetry providers."""

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        """Take the providers; None means the process-wide ones, even if they are set later."""
        version = mayfly.__version__
        self._tracer = trace.get_tracer("mayfly", version, tracer_provider, names.SCHEMA_URL)
        meter = metrics.get_meter("mayfly", version, meter_provider, names.SCHEMA_URL)
        self.sent = meter.create_counter(
            names.SENT_MESSAGES,
            unit="{message}",
            description="Number of messages producer attempted to send to the broker.",
        )
        self.consumed = meter.create_counter(
            names.CONSUMED_MESSAGES,
            unit="{message}",
            description="Number of messages that were delivered to the application.",
        )
        bounds = names.DURATION_BOUNDS_S
        self.operation_duration = meter.create_histogram(
            names.OPERATION_DURATION,
            unit="s",
            description="Duration of messaging operation initiated by a producer or consumer "
            "client.",
            explicit_bucket_boundaries_advisory=bounds,
        )
        self.process_duration = meter.create_histogram(
            names.PROCESS_DURATION,
            unit="s",
            description="Duration of processing operation.",
            explicit_bucket_boundaries_advisory=bounds,
        )

    def begin(
        self, operation: names.SpanOperation, target: Target, parent: Context | None = None
    ) -> RunningOperation:
        """Begin and return an operation; its span is a child of ``parent`` or the current span."""
        attributes = _attributes_of(operation, target)
        name = operation.name
        if target.name:
            attributes[names.DESTINATION_NAME] = target.name
            name = name if target.is_temporary else f"{name} {target.name}"
        span = self._tracer.start_span(name, parent, operation.kind, attributes)
        return RunningOperation(self, operation, target, span)

    def expired(self, expired: Expired, manager: str, creation: SpanContext) -> None:
        """Record a span from the deadline of a message until its expiry was detected.

        The span belongs to the trace in which the message was put, so the sender's sampling
        applies. Its times are those of the queue manager.
        """
        queue, message, detected_by = expired
        assert message.expire_at_ms is not None
        parent = trace.set_span_in_context(trace.NonRecordingSpan(creation), Context())
        attributes = _attributes_of(names.EXPIRE, Target(queue, manager))
        attributes[names.DESTINATION_NAME] = queue
        if detected_by:
            attributes[names.DETECTED_BY] = detected_by
        attributes[names.LATENESS] = message.seen_ms - message.expire_at_ms
        attributes[names.TIME_TO_LIVE] = message.expire_at_ms - message.put_ms
        attributes |= _identity(message.msg_id, message.correl_id)
        self._tracer.start_span(
            f"{names.EXPIRE.name} {queue}",
            parent,
            names.EXPIRE.kind,
            attributes,
            links=[Link(creation)],
            start_time=message.expire_at_ms * _NS_PER_MS,
        ).end(message.seen_ms * _NS_PER_MS)

    @contextmanager
    def processing(
        self, message: Message | None, creation: SpanContext | None, manager: str
    ) -> Iterator[Span]:
        """Record a span for the processing of a message within a ``with`` block; yield the span.

        The span is a child of the current span, else of ``creation``, the context of the span that
        put the message. It has a link to that context in both cases. An exception is recorded and
        raised.
        """
        target = Target("" if message is None else destination_of(message), manager)
        parent = None
        if creation is not None and not trace.get_current_span().get_span_context().is_valid:
            parent = trace.set_span_in_context(trace.NonRecordingSpan(creation))
        running = self.begin(names.PROCESS, target, parent)
        span = running.span
        if message is not None:
            span.set_attributes(_identity(message.msg_id, message.correl_id))
        if creation is not None:
            span.add_link(creation)
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            try:
                yield span
            except BaseException as error:
                span.record_exception(error)
                running.fail(error)
                raise
        running.end()

    def consume(self, target: Target) -> None:
        """Count in the metrics a message that was delivered to the program."""
        self.consumed.add(1, _labels(names.GET, target))


class RunningOperation:
    """A running operation of a program, such as a put: its span and its metrics."""

    __slots__ = ("_began_s", "_operation", "_recorder", "span", "target")

    def __init__(
        self, recorder: Recorder, operation: names.SpanOperation, target: Target, span: Span
    ) -> None:
        """Take a started span, and start to measure the duration."""
        self._recorder, self._operation, self.target = recorder, operation, target
        self.span = span
        self._began_s = perf_counter()

    @property
    def context(self) -> Context:
        """A context with only this span, for children and for messages."""
        return trace.set_span_in_context(self.span, Context())

    def put(self, result: PutResult | None, body_bytes: int) -> None:
        """End the operation: a message was put, or refused without an error (``result`` None).

        ``body_bytes`` is the length of the message body, for the span.
        """
        if self.span.is_recording() and result is not None:
            put_ms, deliver_at_ms, expire_at_ms, _capped_by = result.window
            attributes = _identity(result.msg_id, result.correl_id)
            attributes[names.BODY_SIZE] = body_bytes
            if deliver_at_ms > put_ms:
                attributes[names.DELAY] = deliver_at_ms - put_ms
            if expire_at_ms is not None:
                attributes[names.TIME_TO_LIVE] = expire_at_ms - put_ms
            self.span.set_attributes(attributes)
        self._recorder.sent.add(1, _labels(self._operation, self.target))
        self.end()

    def got(self, message: Message, creation: SpanContext | None, body_bytes: int) -> None:
        """Record in the span, which stays open, one message that was got or browsed.

        ``creation`` is the context of the span in which it was put; None adds no link.
        ``body_bytes`` is the length of the message body.
        """
        if creation is not None:
            self.span.add_link(creation)
        if self.span.is_recording():
            attributes = _identity(message.msg_id, message.correl_id)
            attributes[names.BODY_SIZE] = body_bytes
            attributes[names.WAITED] = max(message.seen_ms - message.deliver_at_ms, 0)
            if message.remaining_ms is not None:
                attributes[names.REMAINING] = message.remaining_ms
            if message.backout_count:
                attributes[names.BACKOUT_COUNT] = message.backout_count
            self.span.set_attributes(attributes)

    def fail(self, error: BaseException) -> None:
        """End the operation with an error.

        An MQError is recorded by the name of its reason code.
        """
        is_mq = isinstance(error, MQError)
        kind = reason_name(error.reason) if isinstance(error, MQError) else type(error).__name__
        self.span.set_attribute(names.ERROR_TYPE, kind)
        self.span.set_status(Status(StatusCode.ERROR, str(error) if is_mq else None))
        if self._operation.type == "send":
            self._recorder.sent.add(
                1, _labels(self._operation, self.target) | {names.ERROR_TYPE: kind}
            )
        self.end(kind)

    def end(self, error_type: str = "") -> None:
        """End the operation: record its duration in the metrics, then end the span.

        ``error_type`` is the name of the error in the metrics; empty means success.
        """
        labels = _labels(self._operation, self.target)
        if error_type:
            labels[names.ERROR_TYPE] = error_type
        took_s = perf_counter() - self._began_s
        if self._operation.type == "process":
            self._recorder.process_duration.record(took_s, labels)
        else:
            self._recorder.operation_duration.record(took_s, labels)
        self.span.end()


def destination_of(message: Message) -> str:
    """Return the topic that a message was published to, else its queue."""
    return message.topic or message.queue


def _attributes_of(operation: names.SpanOperation, target: Target) -> dict[str, str | int]:
    """Return the span attributes, by name, that every operation on a target has."""
    attributes: dict[str, str | int] = {
        names.MESSAGING_SYSTEM: names.SYSTEM,
        names.OPERATION_NAME: operation.name,
        names.QUEUE_MANAGER: target.manager,
    }
    if operation.type:
        attributes[names.OPERATION_TYPE] = operation.type
    if target.is_temporary:
        attributes[names.DESTINATION_TEMPORARY] = True
    return attributes


def _labels(operation: names.SpanOperation, target: Target) -> dict[str, str | int]:
    """Return the attributes for metrics, by name; names of dynamic queues are left out.

    These are too many for metrics.
    """
    labels = _attributes_of(operation, target)
    if target.name and not target.is_temporary:
        labels[names.DESTINATION_NAME] = target.name
    return labels


def _identity(msg_id: bytes, correl_id: bytes) -> dict[str, str | int]:
    """Return the span attributes, by name, for a MsgId and for a CorrelId other than zeros."""
    attributes: dict[str, str | int] = {names.MESSAGE_ID: msg_id.hex()}
    if correl_id and correl_id != _ZERO_ID:
        attributes[names.CONVERSATION_ID] = correl_id.hex()
    return attributes
