"""Messages and outcomes that come together: what a client sends in one go has one pass's effect."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from proton import Delivery, Link, Message

from mayfly import QueueManager
from mayfly.engine import PutRequest
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.servers.amqp.connection import AmqpServer
from mayfly.servers.amqp.service import AmqpLimits
from tests.facts import wait_until
from tests.servers.amqp.client import Client

New = Callable[..., Client]


def begun(one: Client, address: str, bodies: list[str], **fields: object) -> list[Delivery]:
    """Send messages in one write, as far as there is credit."""
    link = one.sender(address)
    return [one.begin(link, Message(body=body, **fields)) for body in bodies]


def filled(qm: QueueManager, bodies: list[bytes]) -> None:
    """Put messages on Q1."""
    with qm.session() as session:
        queue = session.open("Q1", c.MQOO_OUTPUT)
        for body in bodies:
            queue.put(body, PutRequest(Descriptor()))


def all_settled(sent: list[Delivery]) -> bool:
    return all(delivery.settled for delivery in sent)


def body_of(one: Client, receiver: Link) -> bytes:
    """Receive a message; its body is in the memory of proton as long as the message is there."""
    message, _delivery = one.receive(receiver)
    return bytes(message.body)


@pytest.mark.parametrize("limit", [1, 3, 10_000])
def test_messages_of_one_pass_keep_their_order_whatever_MAXUMSGS_is(
    qm: QueueManager, client: New, limit: int
) -> None:
    assert qm.mqsc(f"ALTER QMGR MAXUMSGS({limit})").ok
    one = client()
    sent = begun(one, "Q1", [str(n) for n in range(8)], durable=True)
    one.until(lambda: all(delivery.settled for delivery in sent))
    assert [delivery.remote_state for delivery in sent] == [Delivery.ACCEPTED] * 8
    receiver = one.receiver("Q1", credit=8)
    assert [one.receive(receiver)[0].body for _ in range(8)] == [str(n) for n in range(8)]


def test_a_client_that_is_ahead_of_the_disk_waits_and_goes_on(
    server: AmqpServer, qm: QueueManager, client: New
) -> None:
    # Each message is more than may be on its way to the disk.
    server.service = server.service._replace(limits=AmqpLimits(credit=10, put_bytes=1))
    one = client()
    link = one.sender("Q1")
    for _ in range(5):
        sent = [one.begin(link, Message(body=bytes(50_000), durable=True)) for _ in range(5)]
        one.until(partial(all_settled, sent))
    assert qm.counts("Q1").live == 25


def test_a_message_that_is_refused_does_not_keep_those_of_its_pass(
    qm: QueueManager, client: New
) -> None:
    one = client()
    link = one.sender(None)
    sent = [
        one.begin(link, Message(body="x", address=address, durable=True))
        for address in ("Q1", "SMALL", "SMALL", "queue://NO.SUCH", "Q1")
    ]
    one.until(lambda: all(delivery.settled for delivery in sent))
    accepted, rejected = Delivery.ACCEPTED, Delivery.REJECTED
    states = [accepted, accepted, rejected, rejected, accepted]
    assert [delivery.remote_state for delivery in sent] == states
    assert (qm.counts("Q1").live, qm.counts("SMALL").live) == (2, 1)


def test_a_transfer_that_its_client_settles_before_its_outcome_is_put_once(
    qm: QueueManager, client: New
) -> None:
    one = client()
    sent = begun(one, "Q1", [str(n) for n in range(8)], durable=True)
    for delivery in sent:
        delivery.settle()
    one.settle_down()
    wait_until(lambda: qm.counts("Q1").live == 8)
    # The connection goes on.
    one.send(one.sender("Q1"), Message(body="last"))
    assert qm.counts("Q1").live == 9


def test_messages_accepted_in_one_pass_are_taken(qm: QueueManager, client: New) -> None:
    one = client()
    sent = begun(one, "Q1", [str(n) for n in range(8)], durable=True)
    one.until(lambda: all(delivery.settled for delivery in sent))
    receiver = one.receiver("Q1", credit=8)
    got = [one.receive(receiver)[1] for _ in range(8)]
    for delivery in got:
        delivery.update(Delivery.ACCEPTED)
    one.until(lambda: all(delivery.settled for delivery in got))
    assert (qm.counts("Q1").live, qm.counts("Q1").locked) == (0, 0)


def test_an_outcome_that_its_client_settles_before_the_answer_counts_once(
    qm: QueueManager, client: New
) -> None:
    one = client()
    sent = begun(one, "Q1", ["taken", "back"], durable=True)
    one.until(lambda: all(delivery.settled for delivery in sent))
    receiver = one.receiver("Q1", credit=2)
    for state in (Delivery.ACCEPTED, Delivery.RELEASED):
        delivery = one.receive(receiver)[1]
        delivery.update(state)
        one.push()
        delivery.settle()
        one.push()
    wait_until(lambda: qm.counts("Q1").locked == 0)
    one.settle_down()
    message, _delivery = one.receive(one.receiver("Q1", credit=1))
    assert (message.body, qm.counts("Q1").locked) == ("back", 1)


def test_credit_that_is_taken_back_leaves_messages_where_they_are(
    qm: QueueManager, client: New
) -> None:
    one = client()
    receiver = one.receiver("Q1", credit=5)
    one.settle_down()
    assert one.drained(receiver, 0) == 0
    sent = begun(one, "Q1", ["1", "2"])
    one.until(lambda: all(delivery.settled for delivery in sent))
    assert (qm.counts("Q1").live, qm.counts("Q1").locked) == (2, 0)
    receiver.flow(1)
    assert one.receive(receiver)[0].body == "1"
    one.settle_down()
    assert (qm.counts("Q1").live, qm.counts("Q1").locked) == (1, 1)


def test_more_credit_than_a_pass_takes_gets_all_messages_in_order(
    qm: QueueManager, client: New
) -> None:
    bodies = [b"%d" % n for n in range(350)]
    filled(qm, bodies)
    one = client()
    receiver = one.receiver("Q1", credit=1_000_000)
    assert [body_of(one, receiver) for _ in bodies] == bodies


def test_a_client_that_holds_what_a_link_may_hold_gets_the_rest_as_it_settles(
    qm: QueueManager, client: New
) -> None:
    bodies = [b"%d" % n for n in range(2_100)]
    filled(qm, bodies)
    one = client()
    receiver = one.receiver("Q1", credit=1_000_000)
    held = [one.receive(receiver)[1] for _ in range(2_000)]
    one.settle_down()
    assert (receiver.queued, qm.counts("Q1").locked) == (0, 2_000)
    for delivery in held:
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
    assert [body_of(one, receiver) for _ in range(100)] == bodies[2_000:]


def test_a_client_that_reads_slowly_gets_all_messages_without_a_timer(
    qm: QueueManager, client: New
) -> None:
    count, body = 40, bytes(500_000)
    filled(qm, [body] * count)
    one = client()
    # Far more than sockets and the server's own bound hold: the link stalls until bytes leave.
    receiver = one.receiver("Q1", credit=count)
    wait_until(lambda: qm.counts("Q1").locked >= 8)
    assert qm.counts("Q1").locked < count
    assert all(body_of(one, receiver) == body for _ in range(count))


def test_a_link_that_browses_has_one_timer(server: AmqpServer, client: New) -> None:
    one = client()
    receiver = one.receiver("Q1", copies=True)
    for _ in range(20):
        receiver.flow(1)
        one.settle_down()
    loop = server.service.loop
    assert len([timer for timer in loop._scheduled if not timer.cancelled()]) <= 1  # type: ignore[attr-defined]  # asyncio's own list of timers
