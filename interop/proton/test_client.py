"""Qpid Proton's blocking and event APIs; the first word of a test is a row in docs/AMQP.md."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from proton import ConnectionException, Delivery, Message, symbol
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, Copy, DurableSubscription, Selector
from proton.utils import BlockingConnection, BlockingReceiver, LinkDetached, SendException

URL, USER = os.environ["AMQP_URL"], os.environ["AMQP_USER"]
PASSWORD = os.environ["AMQP_PASSWORD"]
#: Patience: nothing takes so long, and a busy machine must not fail a test.
SECONDS = 60
Connect = Callable[..., BlockingConnection]
_NUMBERS = count(1)


# Each connection makes the client's settings of TLS anew, which takes 90 ms: most tests share one.
@pytest.fixture(scope="module")
def connect() -> Iterator[Connect]:
    """Make connections; those that are still open at the end of the test are closed."""
    made: list[BlockingConnection] = []

    def new(container: str = "", password: str = PASSWORD) -> BlockingConnection:
        own = Container()
        own.container_id = container or own.container_id
        made.append(
            BlockingConnection(
                URL, SECONDS, own, user=USER, password=password, reconnect=False, heartbeat=None
            )
        )
        return made[-1]

    yield new
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def connection(connect: Connect) -> BlockingConnection:
    return connect()


def operate(line: str) -> None:
    """Send the operator's channel an MQSC command, or time that is to pass."""
    host, _, port = os.environ["MAYFLY_CONTROL"].partition(":")
    with socket.create_connection((host, int(port)), SECONDS) as channel:
        channel.sendall(f"{line}\n".encode())
        with channel.makefile() as answer:
            assert answer.readline() == "ok\n"


def queue_for(name: str) -> str:
    """Define a queue that no other test has."""
    queue = f"DEV.PROTON.{name}.{next(_NUMBERS)}"
    operate(f"mqsc DEFINE QLOCAL('{queue}')")
    return queue


def send(connection: BlockingConnection, address: str, message: Message) -> Delivery:
    """Send a message; raises SendException when it is refused."""
    sender = connection.create_sender(address)
    try:
        return sender.send(message)
    finally:
        sender.close()


def receiver_of(
    connection: BlockingConnection, address: str | None, **more: Any
) -> BlockingReceiver:
    """Attach a receiver without credit."""
    return connection.create_receiver(address, credit=0, **more)


def expect(receiver: BlockingReceiver, body: object) -> Message:
    """Take the next message."""
    receiver.link.drain_mode = False
    receiver.flow(1)
    message = receiver.receive()
    assert message.body == body
    return message


def expect_none(receiver: BlockingReceiver) -> None:
    """Let the server say that there is no message."""
    link = receiver.link
    link.drain(1)
    receiver.connection.wait(lambda: not link.draining())
    assert not receiver.fetcher.has_message


def test_delay_a_delayed_message_comes_at_its_time(connection: BlockingConnection) -> None:
    queue = queue_for("DELAY")
    delay = {symbol("x-opt-delivery-delay"): 5_000}
    send(connection, queue, Message(body="later", annotations=delay))
    receiver = receiver_of(connection, queue)
    operate("advance 4999")
    expect_none(receiver)
    operate("advance 1")
    message = expect(receiver, "later")
    at_ms = message.annotations[symbol("x-opt-delivery-time")]
    assert at_ms - round(message.creation_time * 1000) == 5_000
    receiver.accept()


@pytest.mark.parametrize(("life_seconds", "delay_ms"), [(0, -1), (1, 2_000)])
def test_refusal_of_a_delay_below_0_and_of_a_life_shorter_than_it(
    connection: BlockingConnection, life_seconds: int, delay_ms: int
) -> None:
    annotations = {symbol("x-opt-delivery-delay"): delay_ms}
    wrong = Message(body="x", ttl=life_seconds, annotations=annotations)
    with pytest.raises(SendException) as refused:
        send(connection, queue_for("REFUSAL"), wrong)
    assert refused.value.state == Delivery.REJECTED


def test_life_the_rest_of_it_arrives(connection: BlockingConnection) -> None:
    queue = queue_for("LIFE")
    send(connection, queue, Message(body="x", ttl=60, durable=True))
    operate("advance 20000")
    receiver = receiver_of(connection, queue)
    assert expect(receiver, "x").ttl == 40
    receiver.accept()


def test_expiry_an_expired_message_does_not_come(connection: BlockingConnection) -> None:
    queue = queue_for("EXPIRY")
    send(connection, queue, Message(body="x", ttl=1))
    operate("advance 1000")
    expect_none(receiver_of(connection, queue))


def test_properties_and_headers_arrive(connection: BlockingConnection) -> None:
    queue = queue_for("PROPERTIES")
    properties = {"count": 5, "colour": "red", "sunny": True, "half": 1.5}
    sent = Message(
        body="x",
        durable=True,
        priority=7,
        id="mine",
        correlation_id="c-1",
        subject="kind",
        properties=properties,
    )
    send(connection, queue, sent)
    receiver = receiver_of(connection, queue)
    got = expect(receiver, "x")
    headers = got.durable, got.priority, got.id, got.correlation_id, got.subject
    assert headers == (True, 7, "mine", "c-1", "kind")
    assert got.properties == properties
    receiver.accept()


@pytest.mark.parametrize("body", ["text", 5, True, [1, "two"], {"one": 1}, b"\x00\x01\xff"])
def test_bodies_arrive(connection: BlockingConnection, body: object) -> None:
    queue = queue_for("BODIES")
    send(connection, queue, Message(body=body, inferred=isinstance(body, bytes)))
    receiver = receiver_of(connection, queue)
    expect(receiver, body)
    receiver.accept()


def test_drain_tells_of_an_empty_queue(connection: BlockingConnection) -> None:
    queue = queue_for("DRAIN")
    receiver = receiver_of(connection, queue)
    for _ in range(3):
        expect_none(receiver)
        send(connection, queue, Message(body="x"))
        expect(receiver, "x")
        receiver.accept()


def test_outcomes_released_modified_and_rejected(connection: BlockingConnection) -> None:
    queue, dead = queue_for("OUTCOMES"), queue_for("DEAD")
    operate(f"mqsc ALTER QMGR DEADQ('{dead}')")
    send(connection, queue, Message(body="x"))
    receiver = receiver_of(connection, queue)
    expect(receiver, "x")
    receiver.release(delivered=False)
    assert expect(receiver, "x").delivery_count == 0
    receiver.release(delivered=True)
    expect(receiver, "x")
    failed = receiver.fetcher.unsettled.popleft()
    failed.local.failed = True
    failed.update(Delivery.MODIFIED)
    failed.settle()
    assert expect(receiver, "x").delivery_count == 1
    receiver.reject()
    expect_none(receiver)
    letters = receiver_of(connection, dead)
    letters.flow(1)
    assert letters.receive() is not None
    letters.accept()


class Transactions(MessagingHandler, TransactionHandler):  # type: ignore[misc]  # proton's have no types
    """Sends one message that is committed and one that is not."""

    def __init__(self, queue: str) -> None:
        super().__init__()
        self.queue = queue
        self.done: list[str] = []

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = event.container.connect(
            URL, user=USER, password=PASSWORD, reconnect=False, allowed_mechs="PLAIN"
        )
        self.sender = event.container.create_sender(self.connection, self.queue)
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event: Any) -> None:
        body = "never" if self.done else "kept"
        event.transaction.send(self.sender, Message(body=body))
        (event.transaction.abort if self.done else event.transaction.commit)()

    def on_transaction_committed(self, _event: Any) -> None:
        self.done.append("committed")
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_aborted(self, _event: Any) -> None:
        self.done.append("aborted")
        self.connection.close()


def test_transactions_commit_and_abort(connection: BlockingConnection) -> None:
    queue = queue_for("TRANSACTIONS")
    handler = Transactions(queue)
    Container(handler).run()
    assert handler.done == ["committed", "aborted"]
    receiver = receiver_of(connection, queue)
    expect(receiver, "kept")
    receiver.accept()
    expect_none(receiver)


def test_selector_lets_only_what_it_takes_come(connection: BlockingConnection) -> None:
    queue = queue_for("SELECTOR")
    for colour in ("red", "blue"):
        send(connection, queue, Message(body=colour, properties={"colour": colour}))
    receiver = receiver_of(connection, queue, options=Selector("colour = 'blue'"))
    expect(receiver, "blue")
    receiver.accept()
    expect_none(receiver)


def test_browser_leaves_messages_where_they_are(connection: BlockingConnection) -> None:
    queue = queue_for("BROWSER")
    send(connection, queue, Message(body="x"))
    for _ in range(2):
        browser = receiver_of(connection, queue, options=Copy())
        expect(browser, "x")
        expect_none(browser)
        browser.close()
    receiver = receiver_of(connection, queue)
    expect(receiver, "x")
    receiver.accept()


def test_durable_subscription_goes_on_while_its_client_is_away(connect: Connect) -> None:
    topic, one = "topic://dev/proton/durable", connect("proton-durable")
    first = receiver_of(one, topic, name="durable", options=DurableSubscription())
    first.detach()
    send(one, topic, Message(body="while away"))
    again = receiver_of(one, topic, name="durable", options=DurableSubscription())
    expect(again, "while away")
    again.accept()
    again.close()


def test_shared_subscription_gives_each_message_to_one(connect: Connect) -> None:
    topic, one = "topic://dev/proton/shared", connect("proton-shared")

    class Shared:
        def apply(self, link: Any) -> None:
            link.source.capabilities.put_object(symbol("shared"))

        def test(self, _link: Any) -> bool:
            return True

    first = receiver_of(one, topic, name="shared|1", options=Shared())
    second = receiver_of(one, topic, name="shared|2", options=Shared())
    send(one, topic, Message(body="x"))
    expect(first, "x")
    first.accept()
    expect_none(second)


def test_temporary_queue_takes_the_answer(connection: BlockingConnection) -> None:
    queue = queue_for("TEMPORARY")
    replies = receiver_of(connection, None, dynamic=True)
    address = replies.link.remote_source.address
    send(connection, queue, Message(body="request", reply_to=address))
    receiver = receiver_of(connection, queue)
    request = expect(receiver, "request")
    send(connection, request.reply_to, Message(body="answer"))
    receiver.accept()
    expect(replies, "answer")
    replies.accept()


def test_large_message_comes_in_frames(connection: BlockingConnection) -> None:
    queue, body = queue_for("LARGE"), "mayfly" * (1 << 18)
    send(connection, queue, Message(body=body))
    receiver = receiver_of(connection, queue)
    expect(receiver, body)
    receiver.accept()


def test_errors_have_their_own_conditions(connection: BlockingConnection, connect: Connect) -> None:
    with pytest.raises(LinkDetached) as unknown:
        receiver_of(connection, "queue://DEV.NO.SUCH.QUEUE")
    assert unknown.value.condition == "amqp:not-found"
    with pytest.raises(ConnectionException):
        connect(password="wrong")
