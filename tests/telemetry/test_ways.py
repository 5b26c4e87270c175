"""Contexts travel over HTTP, AMQP and channels; ``mayfly serve`` is told by its environment."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import Future
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan

import mayfly
from mayfly import QueueManager, telemetry
from mayfly.admin.security.admission import Admitted, Applicant
from mayfly.cli.hosting import telemetry_of
from mayfly.cli.outcomes import CommandFailed
from mayfly.client.connection import LocalConnection
from mayfly.testing import VirtualClock
from tests.channel.scene import CHANNEL, done, receiving, sending
from tests.cli.conftest import COMMAND, environment
from tests.connection.serving import AdmitEverybody
from tests.servers.http.conftest import ADMIN, APP, Web, listening
from tests.servers.http.rest_client import RestClient
from tests.telemetry.conftest import Recorded

_TRACE, _SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
_PASSWORDS = {"MAYFLY_ADMIN_PASSWORD": ADMIN[1], "MAYFLY_APP_PASSWORD": APP[1]}
_PARENT = f"00-{_TRACE}-{_SPAN}-01"


def header_of(span: ReadableSpan) -> str:
    """Return the context of a span as traceparent says it."""
    trace_id, span_id, flags = span.context.trace_id, span.context.span_id, span.context.trace_flags
    return f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}"


def test_requests_by_http_go_on_with_the_trace_of_their_sender(
    qm: QueueManager, recorded: Recorded
) -> None:
    for site in listening(qm, admission=AdmitEverybody()):
        client = RestClient(site.web, user=None)
        path = client.queue("ORDERS")
        assert client.ask("POST", path, b"two teas", traceparent=_PARENT).status == 201
        answer = client.ask("DELETE", path)
        assert client.ask("DELETE", path).status == 204
    put, got, taken = recorded.spans
    assert [put.name, got.name, taken.name] == ["put ORDERS", "get ORDERS", "take ORDERS"]
    assert put.parent is not None
    assert f"{put.parent.span_id:016x}" == _SPAN
    assert f"{put.context.trace_id:032x}" == _TRACE
    assert [link.context.span_id for link in got.links] == [put.context.span_id]
    # The program behind the request continues the trace by the property.
    assert answer.headers["ibm-mq-usr"] == f'traceparent;"{header_of(put)}";string'
    assert answer.content == "two teas"


def test_a_header_that_is_no_context_begins_a_trace_of_its_own(
    qm: QueueManager, recorded: Recorded
) -> None:
    for site in listening(qm, admission=AdmitEverybody()):
        client = RestClient(site.web, user=None)
        for wrong in ("", "00-0-0-01", "x" * 1_000, f"00-{'0' * 32}-{_SPAN}-01", "ä"):
            path = client.queue("ORDERS")
            assert client.ask("POST", path, b"tea", traceparent=wrong).status == 201
    assert [span.parent for span in recorded.spans] == 5 * [None]


def test_a_context_travels_over_a_channel(recorded: Recorded, clock: VirtualClock) -> None:
    with receiving(clock) as two, sending(clock) as one:
        done(one, "DEFINE QREMOTE(THERE) RNAME(IN) RQMNAME(QM2) XMITQ(QM2)")
        one.channels.start(CHANNEL)
        with mayfly.connect("QM1") as here, mayfly.connect("QM2") as there:
            here.put("THERE", b"from afar")
            message = there.get("IN")
        assert message is not None
        assert message.body == b"from afar"
        assert two.curdepth("IN") == 0
    put, got = recorded.spans
    assert (put.name, got.name) == ("put THERE", "get IN")
    assert [link.context.span_id for link in got.links] == [put.context.span_id]
    assert (put.attributes or {})["messaging.message.id"] == (got.attributes or {})[
        "messaging.message.id"
    ]


class _Everybody:
    def submit(self, applicant: Applicant) -> Future[Admitted]:
        answer: Future[Admitted] = Future()
        answer.set_result(Admitted(user=applicant.user, max_message_bytes=1_000_000))
        return answer


def test_a_context_travels_over_amqp_in_application_properties(
    qm: QueueManager, recorded: Recorded
) -> None:
    proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")
    from mayfly.servers.amqp.connection import AmqpServer
    from tests.servers.amqp.client import Client

    server = AmqpServer(
        ["QM1"],
        _Everybody(),
        lambda _name, _admitted, _applicant: LocalConnection(qm.session(), qm),
    )
    try:
        amqp = Client(server.listen_tcp("127.0.0.1", 0))
        with mayfly.connect("QM1") as client:
            client.put("ORDERS", b"two teas", format_name="MQSTR")
            receiver = amqp.receiver("ORDERS")
            receiver.flow(1)
            message, delivery = amqp.receive(receiver)
            amqp.settle(delivery, delivery.ACCEPTED)
            sent = proton.Message(body="one tea", properties={"traceparent": _PARENT})
            amqp.send(amqp.sender("ORDERS"), sent)
            got = client.get("ORDERS", wait_ms=60_000)
        amqp.close()
    finally:
        server.close()
    put, receive = recorded.spans
    assert message.properties["traceparent"] == header_of(put)
    assert message.body == "two teas"
    assert got is not None
    assert [f"{link.context.span_id:016x}" for link in receive.links] == [_SPAN]


@pytest.mark.slow
def test_serve_exports_what_its_environment_asks_for(tmp_path: Path) -> None:
    asked = {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none"}
    command = [*COMMAND, "serve", "QM1", "--dev", "--virtual-clock", "--json"]
    with subprocess.Popen(
        [*command, "--mq", "127.0.0.1:0", "--http", "127.0.0.1:0"],
        env={**environment(tmp_path), **asked, **_PASSWORDS},
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            web = Web(int(json.loads(server.stdout.readline())["http"].rpartition(":")[2]))
            client = RestClient(web, user=APP)
            path = client.queue("DEV.QUEUE.1")
            headers = {"ibm_mq_md_expiry": "1000", "traceparent": _PARENT}
            assert client.ask("POST", path, b"two teas", **headers).status == 201
            assert web.ask("POST", "/mayfly/v1/clock", {"advance_ms": 60_000}).status == 200
        finally:
            server.terminate()
        text, names = server.stdout.read().strip(), []
        decoder = json.JSONDecoder()
        while text:
            span, end = decoder.raw_decode(text)
            names.append((span["name"], span["context"]["trace_id"]))
            text = text[end:].lstrip()
    assert server.returncode == 0
    assert names == [("put DEV.QUEUE.1", f"0x{_TRACE}"), ("expire DEV.QUEUE.1", f"0x{_TRACE}")]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"},
    ],
)
def test_serve_exports_nothing_unasked(qm: QueueManager, asked: dict[str, str]) -> None:
    with telemetry_of([qm], asked), mayfly.connect("QM1") as client:
        client.put("ORDERS", b"x")
        message = client.get("ORDERS")
    assert message is not None
    assert message.properties == {}
    telemetry.uninstrument()


def test_serve_refuses_an_exporter_that_is_not_there(qm: QueueManager) -> None:
    with (
        pytest.raises(CommandFailed, match="OTEL_TRACES_EXPORTER: exporter 'jaeger' is none of"),
        telemetry_of([qm], {"OTEL_TRACES_EXPORTER": "console,jaeger"}),
    ):
        pytest.fail("it has begun")
