"""The scenarios that ``mayfly.jms`` and the JMS clients of Java share: interop/scenarios.json.

``interop/README.md`` says what a step means. Here each step is a method of :class:`Play` with the
step's first key as its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest

from mayfly import QueueManager, jms
from mayfly.testing import VirtualClock
from tests.jms.scenario_listener import Listener

Step = dict[str, Any]
FILE = Path(__file__).parents[2] / "interop" / "scenarios.json"
CONTENT: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
SCENARIOS: dict[str, list[Step]] = {one["name"]: one["steps"] for one in CONTENT["scenarios"]}
USER = "app"
#: In texts of the file this stands for a number that no other run has.
_PLACE = "$"
_numbers = count(1)

Session = jms.Session | jms.JMSContext
Consumer = jms.MessageConsumer | jms.JMSConsumer


class Api(Protocol):
    """The classic or the simplified API of JMS, as far as a step meets its differences."""

    def open(
        self, factory: jms.ConnectionFactory, mode: int, client_id: str | None
    ) -> tuple[Session, Callable[[], None]]:
        """Return a session that receives, and what closes it and its connection."""

    def send(self, session: Session, to: jms.Destination, message: jms.Message, step: Step) -> None:
        """Send a message with the terms of a step."""

    def error(self, name: str) -> type[Exception]:
        """D10: return the exception that stands for one of the classic API."""


class Classic:
    """Connection, Session, MessageProducer."""

    def open(
        self, factory: jms.ConnectionFactory, mode: int, client_id: str | None
    ) -> tuple[Session, Callable[[], None]]:
        """Open a connection, started, with one session."""
        connection = factory.create_connection()
        if client_id:
            connection.set_client_id(client_id)
        connection.start()
        return connection.create_session(mode), connection.close

    def send(self, session: Session, to: jms.Destination, message: jms.Message, step: Step) -> None:
        """Send by a producer of that destination."""
        assert isinstance(session, jms.Session)
        producer = session.create_producer(to)
        try:
            _set_terms(producer, step)
            producer.send(message)
        finally:
            producer.close()

    def error(self, name: str) -> type[Exception]:
        """Return the exception of that name."""
        kind: type[Exception] = getattr(jms, name)
        return kind


class Simplified:
    """JMSContext, JMSProducer, JMSConsumer."""

    def open(
        self, factory: jms.ConnectionFactory, mode: int, client_id: str | None
    ) -> tuple[Session, Callable[[], None]]:
        """Open a context."""
        context = factory.create_context(mode)
        if client_id:
            context.set_client_id(client_id)
        return context, context.close

    def send(self, session: Session, to: jms.Destination, message: jms.Message, step: Step) -> None:
        """Send by a producer of any destination."""
        assert isinstance(session, jms.JMSContext)
        producer = session.create_producer()
        _set_terms(producer, step)
        producer.send(to, message)

    def error(self, name: str) -> type[Exception]:
        """Return the unchecked exception of the same meaning."""
        kind: type[Exception] = getattr(jms, name.replace("Exception", "RuntimeException"))
        return kind


APIS: dict[str, Api] = {"classic": Classic(), "simplified": Simplified()}


def _set_terms(producer: jms.MessageProducer | jms.JMSProducer, step: Step) -> None:
    """Set persistence, delay and life, the life second unless the step says otherwise (D7)."""
    if step.get("ttl_first"):
        producer.set_time_to_live(step["ttl_ms"])
    if step.get("non_persistent"):
        producer.set_delivery_mode(jms.NON_PERSISTENT)
    if "delay_ms" in step:
        producer.set_delivery_delay(step["delay_ms"])
    if "ttl_ms" in step:
        producer.set_time_to_live(step["ttl_ms"])


class Play:
    """One run of a scenario through one API of ``mayfly.jms``."""

    def __init__(
        self,
        manager: QueueManager,
        clock: VirtualClock,
        factory: jms.ConnectionFactory,
        api: Api,
    ) -> None:
        """Run against a queue manager, by connections of a factory."""
        self._manager, self._clock, self._factory, self._api = manager, clock, factory, api
        self._prefix = f"N{next(_numbers)}"
        self._sessions: dict[str, Session] = {}
        self._closes: dict[str, Callable[[], None]] = {}
        self._consumers: dict[str, Consumer] = {}
        self._sent: dict[str, jms.Message] = {}
        self._kept: dict[str, str] = {}
        self._listeners: dict[str, Listener] = {}

    def run(self, steps: list[Step]) -> None:
        """Carry the steps out, one after the other."""
        with ExitStack() as stack:
            stack.callback(self._close)
            for command in CONTENT["before"]:
                self.mqsc({"mqsc": self._placed(command)})
            self.open({"open": "main"})
            for step in steps:
                verb = next(iter(step))
                getattr(self, verb)(self._placed(step))

    # Steps.

    def mqsc(self, step: Step) -> None:
        """Run a command, which must succeed."""
        result = self._manager.mqsc(step["mqsc"])
        assert result.ok, result.text

    def advance_ms(self, step: Step) -> None:
        """Let time pass."""
        self._clock.advance(step["advance_ms"])

    def open(self, step: Step) -> None:
        """Open a session on a connection of its own."""
        mode = jms.SESSION_TRANSACTED if step.get("transacted") else jms.AUTO_ACKNOWLEDGE
        session, close = self._api.open(self._factory, mode, step.get("client_id"))
        self._sessions[step["open"]], self._closes[step["open"]] = session, close

    def send(self, step: Step) -> None:
        """Send a text message."""
        session = self._session(step)
        message = session.create_text_message(step["send"])
        for name, value in step.get("properties", {}).items():
            message.set_property(name, value)
        if "correlation_id" in step:
            message.set_jms_correlation_id(step["correlation_id"])
        if "type" in step:
            message.set_jms_type(step["type"])
        with self._expected(step):
            self._api.send(session, self._destination(session, step["to"]), message, step)
        self._sent[step.get("as", "")] = message

    def consume(self, step: Step) -> None:
        """Make a consumer."""
        session = self._session(step)
        selector = step.get("selector")
        if selector is not None:
            selector = selector.format(**self._kept)
        with self._expected(step):
            destination = self._destination(session, step["from"])
            if "durable" in step:
                assert isinstance(destination, jms.Topic)
                consumer: Consumer = session.create_durable_consumer(destination, step["durable"])
            elif "shared" in step:
                assert isinstance(destination, jms.Topic)
                consumer = session.create_shared_consumer(destination, step["shared"])
            else:
                consumer = session.create_consumer(destination, selector)
            self._consumers[step["consume"]] = consumer

    def end(self, step: Step) -> None:
        """Close a consumer."""
        self._consumers[step["end"]].close()

    def receive(self, step: Step) -> None:
        """Receive what is there."""
        message = self._consumers[step["receive"]].receive_no_wait()
        self._compare(message, step["gives"])

    def browse(self, step: Step) -> None:
        """Look at all messages of a queue."""
        session = self._sessions["main"]
        queue = self._destination(session, step["browse"])
        assert isinstance(queue, jms.Queue)
        browser = session.create_browser(queue)
        found = list(browser)
        browser.close()
        if "count" in step:
            assert len(found) == step["count"]
        else:
            assert [getattr(message, "text", message) for message in found] == step["gives"]
        if "correlation_of_first" in step:
            self._kept[step["correlation_of_first"]] = str(found[0].jms_correlation_id)

    def commit(self, step: Step) -> None:
        """Commit."""
        with self._expected(step):
            self._sessions[step["commit"]].commit()

    def rollback(self, step: Step) -> None:
        """Roll back."""
        self._sessions[step["rollback"]].rollback()

    def unsubscribe(self, step: Step) -> None:
        """End a durable subscription."""
        self._session(step).unsubscribe(step["unsubscribe"])

    def listen(self, step: Step) -> None:
        """Start a listener port."""
        listener = Listener(
            self._manager, self._clock, step["from"], step["sessions"], step.get("selector")
        )
        self._listeners[step["listen"]] = listener

    def receiving(self, step: Step) -> None:
        """Wait until so many sessions wait for a message."""
        self._listeners[step["receiving"]].wait_until_receiving(step["sessions"])

    def idle(self, step: Step) -> None:
        """Wait until so many receives have found nothing."""
        self._listeners[step["idle"]].wait_until_idle(step["receives"])

    def handled(self, step: Step) -> None:
        """Take the next call of the listener."""
        listener = self._listeners[step["handled"]]
        self._compare(
            None if step["gives"] is None else listener.next_call(),
            step["gives"],
        )
        if step["gives"] is None:
            assert not listener.has_calls

    def let_go(self, step: Step) -> None:
        """Let the calls end that are held."""
        self._listeners[step["let_go"]].let_go()

    def unlisten(self, step: Step) -> None:
        """Stop a listener; calls at work end first."""
        self._listeners[step["unlisten"]].stop()

    # Used by several steps.

    def _session(self, step: Step) -> Session:
        return self._sessions[step.get("in", "main")]

    def _destination(self, session: Session, name: str) -> jms.Destination:
        kind, colon, topic = name.partition(":")
        if colon and kind == "topic":
            return session.create_topic(topic)
        return session.create_queue(name)

    @contextmanager
    def _expected(self, step: Step) -> Iterator[None]:
        """Expect exactly the error of a step, if it has one."""
        refusal = step.get("refused")
        if refusal is None:
            yield
            return
        kind = self._api.error(refusal["type"])
        with pytest.raises(kind) as caught:
            yield
        assert (type(caught.value), getattr(caught.value, "reason", 0)) == (
            kind,
            refusal["reason"],
        )

    def _compare(self, message: jms.Message | None, expected: Step | None) -> None:
        """Compare all that is expected of a message, None for no message."""
        if expected is None or message is None:
            assert (expected, message) == (None, None)
            return
        for name, value in expected.items():
            assert self._aspect(message, name, value) == (name, value)

    def _aspect(self, message: jms.Message, name: str, expected: Any) -> tuple[str, object]:
        """Return a fact about a message as the file writes it."""
        found: object
        match name:
            case "text":
                found = message.get_body(str)
            case "delay_ms":
                found = message.jms_delivery_time - message.jms_timestamp
            case "life_ms":
                found = message.jms_expiration and message.jms_expiration - message.jms_timestamp
            case "delivery_count":
                found = message.get_int_property("JMSXDeliveryCount")
            case "redelivered":
                found = message.jms_redelivered
            case "correlation_id":
                found = message.jms_correlation_id
            case "type":
                found = message.jms_type
            case "properties":
                found = {one: message.get_property(one) for one in expected}
            case "id_of":
                same = message.jms_message_id == self._sent[expected].jms_message_id
                found = expected if same else message.jms_message_id
            case _:
                pytest.fail(f"interop/scenarios.json: nothing is known of {name}")
        return name, found

    def _placed(self, value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(_PLACE, self._prefix)
        if isinstance(value, dict):
            return {name: self._placed(part) for name, part in value.items()}
        return [self._placed(part) for part in value] if isinstance(value, list) else value

    def _close(self) -> None:
        for listener in self._listeners.values():
            listener.let_go()
            listener.stop()
        for close in self._closes.values():
            close()
