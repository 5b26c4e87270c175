"""Names and values of one version of OpenTelemetry's messaging conventions.

The conventions are in development: a later version may change names. Only this module has them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from opentelemetry.trace import SpanKind

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
