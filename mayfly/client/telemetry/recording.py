"""The recording of spans and metrics, with the names of OpenTelemetry's messaging conventions.

The conventions are in development: a later version may change names. Only this module has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Final, NamedTuple

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode

import mayfly
from mayfly.engine.api.operating import Expired
from mayfly.mqi.errors import MQError
from mayfly.mqi.reasons import reason_name
from mayfly.verbs.messages import Message, PutResult

#: The version of the conventions that spans and metrics follow.
VERSION: Final = "1.44.0"
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/{VERSION}"

#: The conventions have no value for Mayfly.
SYSTEM: Final = "mayfly"

MESSAGING_SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION_NAME: Final = "messaging.destination.name"
DESTINATION_TEMPORARY: Final = "messaging.destination.temporary"
MESSAGE_ID: Final = "messaging.message.id"
CONVERSATION_ID: Final = "messaging.message.conversation_id"
BODY_SIZE: Final = "messaging.message.body.size"
BATCH_COUNT: Final = "messaging.batch.message_count"
ERROR_TYPE: Final = "error.type"

#: Ours, where the conventions have nothing: facts of a lifetime, in ms.
QUEUE_MANAGER: Final = "mayfly.queue_manager"
TIME_TO_LIVE: Final = "mayfly.message.time_to_live_ms"
DELAY: Final = "mayfly.message.delay_ms"
WAITED: Final = "mayfly.message.waited_ms"
REMAINING: Final = "mayfly.message.remaining_ms"
BACKOUT_COUNT: Final = "mayfly.message.backout_count"
LATENESS: Final = "mayfly.message.lateness_ms"
#: A word of the ledger.
DETECTED_BY: Final = "mayfly.message.detected_by"

SENT_MESSAGES: Final = "messaging.client.sent.messages"
CONSUMED_MESSAGES: Final = "messaging.client.consumed.messages"
OPERATION_DURATION: Final = "messaging.client.operation.duration"
PROCESS_DURATION: Final = "messaging.process.duration"
#: The bounds that the conventions advise for durations, in seconds.
DURATION_BOUNDS_S: Final = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
)


class SpanOperation(NamedTuple):
    """A kind of span: its name is MQ's word, its type and kind are those of the conventions."""

    name: str
    type: str
    kind: SpanKind


PUT: Final = SpanOperation("put", "send", SpanKind.PRODUCER)
PUBLISH: Final = SpanOperation("publish", "send", SpanKind.PRODUCER)
GET: Final = SpanOperation("get", "receive", SpanKind.CLIENT)
BROWSE: Final = SpanOperation("browse", "receive", SpanKind.CLIENT)
PROCESS: Final = SpanOperation("process", "process", SpanKind.CONSUMER)
COMMIT: Final = SpanOperation("commit", "settle", SpanKind.CLIENT)
BACKOUT: Final = SpanOperation("backout", "settle", SpanKind.CLIENT)
#: The queue manager's own: the conventions have no type for it.
EXPIRE: Final = SpanOperation("expire", "", SpanKind.INTERNAL)


def settling(name: str) -> SpanOperation:
    """Return the operation that settles deliveries, named after the kind of settlement."""
    return SpanOperation(name, "settle", SpanKind.CLIENT)


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
        self._tracer = trace.get_tracer("mayfly", version, tracer_provider, SCHEMA_URL)
        meter = metrics.get_meter("mayfly", version, meter_provider, SCHEMA_URL)
        self.sent = meter.create_counter(
            SENT_MESSAGES,
            unit="{message}",
            description="Number of messages producer attempted to send to the broker.",
        )
        self.consumed = meter.create_counter(
            CONSUMED_MESSAGES,
            unit="{message}",
            description="Number of messages that were delivered to the application.",
        )
        bounds = DURATION_BOUNDS_S
        self.operation_duration = meter.create_histogram(
            OPERATION_DURATION,
            unit="s",
            description="Duration of messaging operation initiated by a producer or consumer "
            "client.",
            explicit_bucket_boundaries_advisory=bounds,
        )
        self.process_duration = meter.create_histogram(
            PROCESS_DURATION,
            unit="s",
            description="Duration of processing operation.",
            explicit_bucket_boundaries_advisory=bounds,
        )

    def begin(
        self, operation: SpanOperation, target: Target, parent: Context | None = None
    ) -> RunningOperation:
        """Begin and return an operation; its span is a child of ``parent`` or the current span."""
        attributes = _attributes_of(operation, target)
        name = operation.name
        if target.name:
            attributes[DESTINATION_NAME] = target.name
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
        attributes = _attributes_of(EXPIRE, Target(queue, manager))
        attributes[DESTINATION_NAME] = queue
        if detected_by:
            attributes[DETECTED_BY] = detected_by
        attributes[LATENESS] = message.seen_ms - message.expire_at_ms
        attributes[TIME_TO_LIVE] = message.expire_at_ms - message.put_ms
        attributes |= _identity(message.msg_id, message.correl_id)
        self._tracer.start_span(
            f"{EXPIRE.name} {queue}",
            parent,
            EXPIRE.kind,
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
        running = self.begin(PROCESS, target, parent)
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
        self.consumed.add(1, _labels(GET, target))


class RunningOperation:
    """A running operation of a program, such as a put: its span and its metrics."""

    __slots__ = ("_began_s", "_operation", "_recorder", "span", "target")

    def __init__(
        self, recorder: Recorder, operation: SpanOperation, target: Target, span: Span
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
            attributes[BODY_SIZE] = body_bytes
            if deliver_at_ms > put_ms:
                attributes[DELAY] = deliver_at_ms - put_ms
            if expire_at_ms is not None:
                attributes[TIME_TO_LIVE] = expire_at_ms - put_ms
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
            attributes[BODY_SIZE] = body_bytes
            attributes[WAITED] = max(message.seen_ms - message.deliver_at_ms, 0)
            if message.remaining_ms is not None:
                attributes[REMAINING] = message.remaining_ms
            if message.backout_count:
                attributes[BACKOUT_COUNT] = message.backout_count
            self.span.set_attributes(attributes)

    def fail(self, error: BaseException) -> None:
        """End the operation with an error.

        An MQError is recorded by the name of its reason code.
        """
        is_mq = isinstance(error, MQError)
        kind = reason_name(error.reason) if isinstance(error, MQError) else type(error).__name__
        self.span.set_attribute(ERROR_TYPE, kind)
        self.span.set_status(Status(StatusCode.ERROR, str(error) if is_mq else None))
        if self._operation.type == "send":
            self._recorder.sent.add(1, _labels(self._operation, self.target) | {ERROR_TYPE: kind})
        self.end(kind)

    def end(self, error_type: str = "") -> None:
        """End the operation: record its duration in the metrics, then end the span.

        ``error_type`` is the name of the error in the metrics; empty means success.
        """
        labels = _labels(self._operation, self.target)
        if error_type:
            labels[ERROR_TYPE] = error_type
        took_s = perf_counter() - self._began_s
        if self._operation.type == "process":
            self._recorder.process_duration.record(took_s, labels)
        else:
            self._recorder.operation_duration.record(took_s, labels)
        self.span.end()


def destination_of(message: Message) -> str:
    """Return the topic that a message was published to, else its queue."""
    return message.topic or message.queue


def _attributes_of(operation: SpanOperation, target: Target) -> dict[str, str | int]:
    """Return the span attributes, by name, that every operation on a target has."""
    attributes: dict[str, str | int] = {
        MESSAGING_SYSTEM: SYSTEM,
        OPERATION_NAME: operation.name,
        QUEUE_MANAGER: target.manager,
    }
    if operation.type:
        attributes[OPERATION_TYPE] = operation.type
    if target.is_temporary:
        attributes[DESTINATION_TEMPORARY] = True
    return attributes


def _labels(operation: SpanOperation, target: Target) -> dict[str, str | int]:
    """Return the attributes for metrics, by name; names of dynamic queues are left out.

    These are too many for metrics.
    """
    labels = _attributes_of(operation, target)
    if target.name and not target.is_temporary:
        labels[DESTINATION_NAME] = target.name
    return labels


def _identity(msg_id: bytes, correl_id: bytes) -> dict[str, str | int]:
    """Return the span attributes, by name, for a MsgId and for a CorrelId other than zeros."""
    attributes: dict[str, str | int] = {MESSAGE_ID: msg_id.hex()}
    if correl_id and correl_id != _ZERO_ID:
        attributes[CONVERSATION_ID] = correl_id.hex()
    return attributes
