"""Spans of puts, gets and settlements by the conventions, and contexts that messages carry."""

from __future__ import annotations

import asyncio
import queue

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

import mayfly
from mayfly import QueueManager, jms, pymqi, telemetry
from mayfly.client.connection import connect
from mayfly.client.telemetry.connections import TracedMessage
from mayfly.listener import ListenerPort
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, NoMessage
from mayfly.testing import VirtualClock
from mayfly.testing.served import served
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Settlement
from tests.facts import wait_until
from tests.telemetry.conftest import Recorded

_OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def _is_linked(span: ReadableSpan, to: ReadableSpan) -> bool:
    return [link.context.span_id for link in span.links] == [to.context.span_id]


def test_a_put_and_a_get_have_the_attributes_of_the_conventions(
    qm: QueueManager, recorded: Recorded, clock: VirtualClock
) -> None:
    with mayfly.connect("QM1") as client:
        msg_id = client.put("ORDERS", b"two teas", time_to_live_ms=60_000, correl_id="0a01")
        clock.advance(1_500)
        message = client.get("ORDERS")
    assert message is not None
    put, got = recorded.spans
    of_both = {
        "messaging.system": "mayfly",
        "messaging.destination.name": "ORDERS",
        "messaging.message.id": msg_id.hex(),
        "messaging.message.conversation_id": "0a01" + 44 * "0",
        "messaging.message.body.size": 8,
        "mayfly.queue_manager": "QM1",
    }
    assert (put.name, put.kind) == ("put ORDERS", SpanKind.PRODUCER)
    assert dict(put.attributes or {}) == of_both | {
        "messaging.operation.name": "put",
        "messaging.operation.type": "send",
        "mayfly.message.time_to_live_ms": 60_000,
    }
    assert (got.name, got.kind) == ("get ORDERS", SpanKind.CLIENT)
    assert dict(got.attributes or {}) == of_both | {
        "messaging.operation.name": "get",
        "messaging.operation.type": "receive",
        "mayfly.message.waited_ms": 1_500,
        "mayfly.message.remaining_ms": 58_500,
    }
    assert _is_linked(got, put)
    assert got.parent is None
    scope = put.instrumentation_scope
    assert scope is not None
    assert (scope.name, scope.schema_url) == ("mayfly", "https://opentelemetry.io/schemas/1.44.0")


def test_a_program_sees_the_body_that_was_put(qm: QueueManager, recorded: Recorded) -> None:
    """Telemetry changes no body: its header is taken off where nothing else stands in it."""
    with mayfly.connect("QM1") as client:
        client.put("ORDERS", b"two teas", format_name="MQSTR")
        message = client.get("ORDERS")
        assert message is not None
        assert (message.body, message.properties) == (b"two teas", {})
        assert message.descriptor.format.strip() == "MQSTR"
        client.put("ORDERS", b"one tea", properties={"colour": "red"})
        message = client.get("ORDERS")
        assert message is not None
        assert message.data == b"one tea"
        assert message.properties.keys() == {"colour", "traceparent"}


def test_pymqi_is_recorded_and_sees_the_body_that_was_put(
    qm: QueueManager, recorded: Recorded
) -> None:
    manager = pymqi.connect("QM1")
    sending, orders = pymqi.Queue(manager, "ORDERS"), pymqi.Queue(manager, "ORDERS")
    put_md, md = pymqi.MD(Format=b"MQSTR   "), pymqi.MD()
    sending.put(b"two teas", put_md)
    assert orders.get(None, md) == b"two teas"
    assert (put_md.Format, md.Format) == (b"MQSTR   ", b"MQSTR   ")
    with pytest.raises(pymqi.MQMIError):
        orders.get()
    sending.close()
    orders.close()
    manager.disconnect()
    put, got = recorded.spans
    assert (put.name, got.name) == ("put ORDERS", "get ORDERS")
    assert _is_linked(got, put)


def test_a_get_that_finds_nothing_has_no_span(qm: QueueManager, recorded: Recorded) -> None:
    connection = connect("QM1")
    handle = connection.call(ask.Open("ORDERS", c.MQOO_INPUT_SHARED)).handle
    for _ in range(3):
        with pytest.raises(NoMessage):
            connection.get(handle)
    connection.close()
    assert recorded.names() == []


def test_a_failure_is_told_by_the_name_of_its_reason(qm: QueueManager, recorded: Recorded) -> None:
    with mayfly.connect("QM1") as client, pytest.raises(MQError):
        client.put("SMALL", bytes(101))
    [span] = recorded.spans
    assert (span.attributes or {})["error.type"] == "MQRC_MSG_TOO_BIG_FOR_Q"
    assert span.status.status_code is StatusCode.ERROR
    [(labels, count)] = recorded.points("messaging.client.sent.messages")
    assert (labels["error.type"], count) == ("MQRC_MSG_TOO_BIG_FOR_Q", 1)


def test_no_put_fails_for_its_context(qm: QueueManager, recorded: Recorded) -> None:
    """The header of 200 bytes does not fit: the message goes without it."""
    with mayfly.connect("QM1") as client:
        client.put("SMALL", bytes(100))
        assert len(client.put_many("SMALL", [bytes(100), bytes(99)])) == 2
        messages = [client.get("SMALL") for _ in range(3)]
    assert [len(m.body) for m in messages if m is not None] == [100, 100, 99]
    assert recorded.names() == 3 * ["put SMALL"] + 3 * ["get SMALL"]
    assert not any(span.links for span in recorded.spans)


def test_the_context_of_a_program_is_not_changed(qm: QueueManager, recorded: Recorded) -> None:
    with mayfly.connect("QM1") as client:
        client.put("ORDERS", b"x", properties={"traceparent": _OTHER})
        client.get("ORDERS")
    put, got = recorded.spans
    assert [f"{link.context.span_id:016x}" for link in put.links] == ["b7ad6b7169203331"]
    assert [f"{link.context.span_id:016x}" for link in got.links] == ["b7ad6b7169203331"]


def test_a_structure_of_mq_goes_as_it_is(qm: QueueManager, recorded: Recorded) -> None:
    """An MQRFH2 in front of a transmission header would break it."""
    connection = connect("QM1")
    handle = connection.call(ask.Open("ORDERS", c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT)).handle
    for given in ("MQXMIT", "MQADMIN", "MQDEAD"):
        connection.put(handle, b"header", Descriptor(format=given))
    connection.put(handle, b"piece", Descriptor(msg_flags=c.MQMF_SEGMENTATION_ALLOWED))
    got = [connection.get(handle).message for _ in range(4)]
    connection.close()
    assert [m.body for m in got] == 3 * [b"header"] + [b"piece"]
    assert not any(isinstance(m, TracedMessage) for m in got)


def test_spans_are_children_of_the_current_one(qm: QueueManager, recorded: Recorded) -> None:
    tracer = recorded.tracers.get_tracer("shop")
    with mayfly.connect("QM1") as client, tracer.start_as_current_span("order") as order:
        client.put("ORDERS", b"x")
        message = client.get("ORDERS")
        assert message is not None
        with telemetry.processing(message, "QM1"):
            here = trace.get_current_span().get_span_context()
    put, got, process, _order = recorded.spans
    parents = [span.parent.span_id for span in (put, got, process) if span.parent]
    assert parents == 3 * [order.get_span_context().span_id]
    assert process.context.span_id == here.span_id
    assert (process.name, process.kind) == ("process ORDERS", SpanKind.CONSUMER)
    assert _is_linked(process, put)


def test_a_context_survives_staging(
    qm: QueueManager, recorded: Recorded, clock: VirtualClock
) -> None:
    with mayfly.connect("QM1") as client:
        client.put("ORDERS", b"later", delay_ms=60_000, persistent=True)
        clock.advance(60_250)
        message = client.get("ORDERS")
    assert message is not None
    assert message.body == b"later"
    put, got = recorded.spans
    assert (put.attributes or {})["mayfly.message.delay_ms"] == 60_000
    assert (got.attributes or {})["mayfly.message.waited_ms"] == 250
    assert _is_linked(got, put)


def test_a_publication_has_the_context_of_its_publisher(
    qm: QueueManager, recorded: Recorded
) -> None:
    with mayfly.connect("QM1") as client:
        heard = client.subscribe("prices/+")
        client.publish("prices/tea", b"2.50")
        message = heard.get()
    assert message is not None
    assert message.body == b"2.50"
    put, got = recorded.spans
    assert (put.name, got.name) == ("publish prices/tea", "get")
    assert _is_linked(got, put)


def test_a_unit_of_work_is_settled_by_its_commit(qm: QueueManager, recorded: Recorded) -> None:
    with mayfly.connect("QM1", transacted=True) as client:
        client.put("ORDERS", b"one")
        client.put("ORDERS", b"two")
        client.commit()
        client.get("ORDERS")
        client.backout()
        client.get("ORDERS")
        client.get("ORDERS")
        client.commit()
    spans = recorded.spans
    assert [span.name for span in spans] == [
        *2 * ["put ORDERS"],
        *["get ORDERS", "backout"],
        *["get ORDERS", "get ORDERS", "commit"],
    ]
    counts = [(s.attributes or {}).get("messaging.batch.message_count") for s in spans]
    assert (counts[3], counts[6]) == (1, 2)
    assert (spans[4].attributes or {})["mayfly.message.backout_count"] == 1


def test_deliveries_are_settled_in_spans_with_links(qm: QueueManager, recorded: Recorded) -> None:
    connection = connect("QM1")
    handle = connection.call(ask.Open("ORDERS", c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT)).handle
    for _ in range(3):
        connection.put(handle, b"x", Descriptor())
    one, two = connection.call(ask.TakeHeld(handle, 0, 2, 1_000))
    three = connection.call(ask.GetAny([handle], wait_ms=0))
    connection.call(ask.Settle([one.number, two.number], Settlement.TAKEN))
    connection.call(ask.Settle([three.number], Settlement.BACKED_OUT))
    with pytest.raises(MQError):
        connection.call(ask.Settle([one.number], Settlement.TAKEN))
    connection.close()
    puts, (taken, held, first, second, wrong) = recorded.spans[:3], recorded.spans[3:]
    assert [len(span.links) for span in (taken, held, first, second)] == [2, 1, 2, 1]
    assert _is_linked(second, puts[2])
    assert (taken.attributes or {})["messaging.batch.message_count"] == 2
    named = [
        (span.name, (span.attributes or {})["messaging.operation.type"]) for span in (first, second)
    ]
    assert named == [("take ORDERS", "settle"), ("backout ORDERS", "settle")]
    assert (wrong.attributes or {})["error.type"] == "MQRC_HMSG_ERROR"


def test_metrics_count_and_time_by_queue_and_operation(
    qm: QueueManager, recorded: Recorded
) -> None:
    with mayfly.connect("QM1") as client:
        client.put_many("ORDERS", [b"x"] * 3)
        client.get("ORDERS")
        list(client.browse("ORDERS"))
        dynamic = connect("QM1").call(ask.Open("SYSTEM.DEFAULT.MODEL.QUEUE", c.MQOO_OUTPUT)).made
    assert dynamic
    [(labels, count)] = recorded.points("messaging.client.sent.messages")
    assert count == 3
    assert labels == {
        "messaging.system": "mayfly",
        "messaging.operation.name": "put",
        "messaging.operation.type": "send",
        "messaging.destination.name": "ORDERS",
        "mayfly.queue_manager": "QM1",
    }
    [(labels, count)] = recorded.points("messaging.client.consumed.messages")
    assert (labels["messaging.operation.name"], count) == ("get", 1)
    found = recorded.points("messaging.client.operation.duration")
    timed = {str(labels["messaging.operation.name"]): count for labels, count in found}
    assert timed == {"put": 3, "get": 1, "browse": 2}


def test_names_of_dynamic_queues_are_no_labels(qm: QueueManager, recorded: Recorded) -> None:
    connection = connect("QM1")
    opened = connection.call(
        ask.Open("SYSTEM.DEFAULT.MODEL.QUEUE", c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT)
    )
    connection.put(opened.handle, b"x", Descriptor())
    connection.close()
    [put] = recorded.spans
    assert put.name == "put"
    assert (put.attributes or {})["messaging.destination.name"] == opened.made
    assert (put.attributes or {})["messaging.destination.temporary"] is True
    [(labels, _count)] = recorded.points("messaging.client.sent.messages")
    assert "messaging.destination.name" not in labels


def test_aio_is_recorded(qm: QueueManager, recorded: Recorded) -> None:
    async def work() -> None:
        async with mayfly.aio.connect("QM1") as client:
            await asyncio.gather(*(client.put("ORDERS", b"tea") for _ in range(2)))
            message = await client.get("ORDERS")
            assert message is not None
            assert message.body == b"tea"

    asyncio.run(work())
    put, _put, got, taken = recorded.spans
    assert [put.name, got.name, taken.name] == ["put ORDERS", "get ORDERS", "take ORDERS"]
    assert _is_linked(got, put)
    assert _is_linked(taken, put)


def test_a_message_listener_works_within_the_trace_of_its_message(
    qm: QueueManager, recorded: Recorded
) -> None:
    heard: queue.Queue[tuple[str | None, int]] = queue.Queue()

    def hear(message: jms.Message) -> None:
        assert isinstance(message, jms.TextMessage)
        here = trace.get_current_span().get_span_context()
        heard.put((message.text, here.span_id))

    with jms.ConnectionFactory(qm).create_context() as context:
        context.create_consumer(jms.Queue("ORDERS")).set_message_listener(hear)
        context.create_producer().send(jms.Queue("ORDERS"), "two teas")
        text, span_id = heard.get(timeout=60)
        wait_until(lambda: "process ORDERS" in recorded.names())
    put, process = recorded.span("put ORDERS"), recorded.span("process ORDERS")
    assert (text, span_id) == ("two teas", process.context.span_id)
    assert process.kind is SpanKind.CONSUMER
    assert process.parent is not None
    assert process.parent.span_id == put.context.span_id
    assert _is_linked(process, put)
    [(_labels, count)] = recorded.points("messaging.client.consumed.messages")
    assert count == 1
    assert len(recorded.points("messaging.process.duration")) == 1


def test_a_listener_port_that_fails_says_so(qm: QueueManager, recorded: Recorded) -> None:
    def fail(_message: jms.Message) -> None:
        raise ValueError("no tea")

    with mayfly.connect("QM1") as client:
        client.put("ORDERS", b"two teas")
    port = ListenerPort(qm, destination="ORDERS", on_message=fail, max_retries=0)
    port.start()
    wait_until(lambda: not port.is_running)
    spans = [span for span in recorded.spans if span.name == "process ORDERS"]
    assert [(span.attributes or {})["error.type"] for span in spans] == ["ValueError"]
    assert spans[0].events[0].name == "exception"
    assert _is_linked(spans[0], recorded.span("put ORDERS"))


def test_a_connection_over_a_network_is_recorded(recorded: Recorded, qm: QueueManager) -> None:
    with (
        served(qm) as server,
        mayfly.connect(server.url, user=server.user, password=server.password) as client,
    ):
        client.put("DEV.QUEUE.1", b"from afar")
        message = client.get("DEV.QUEUE.1")
        assert message is not None
        assert message.body == b"from afar"
    put, got = recorded.spans
    assert (put.name, got.name) == ("put DEV.QUEUE.1", "get DEV.QUEUE.1")
    assert _is_linked(got, put)


def test_nothing_is_recorded_before_and_after(qm: QueueManager, recorded: Recorded) -> None:
    with mayfly.connect("QM1") as client:
        telemetry.uninstrument()
        with mayfly.connect("QM1") as other:
            other.put("ORDERS", b"unseen")
            message = other.get("ORDERS")
            assert message is not None
            with telemetry.processing(message):
                assert not trace.get_current_span().get_span_context().is_valid
        client.put("ORDERS", b"seen")
    assert recorded.names() == ["put ORDERS"]


def test_many_got_by_one_call_are_one_span_with_links(qm: QueueManager, recorded: Recorded) -> None:
    """The program sees them as it does those of single gets: without the context of the trace."""
    with mayfly.connect("QM1") as client:
        for number in range(3):
            client.put("ORDERS", b"%d" % number)
        assert [message.body for message in client.get_many("ORDERS", 9)] == [b"0", b"1", b"2"]
        assert client.get_many("ORDERS", 9) == []
        with pytest.raises(MQError):
            client.get_many("NONE", 9)
    found = recorded.spans[3]
    assert (found.name, len(found.links)) == ("get ORDERS", 3)
    assert (found.attributes or {})["messaging.batch.message_count"] == 3
    assert len(recorded.spans) == 4
