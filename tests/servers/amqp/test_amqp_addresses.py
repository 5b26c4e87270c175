"""Addresses, capabilities and filters in all the ways that clients write them; other fields."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from proton import Delivery, Described, Message, symbol, ulong

from mayfly import QueueManager
from tests.servers.amqp.client import Client

New = Callable[..., Client]


@pytest.mark.parametrize(
    "address", ["topic://t/a", "topic:///t/a", "topic:t/a", "/topic/t/a", "/topics/t/a"]
)
def test_prefixes_name_a_topic_for_both_directions(client: New, address: str) -> None:
    one = client()
    plain = one.receiver("topic://t/a", credit=1)
    written = one.receiver(address, credit=1)
    one.send(one.sender(address), Message(body="x"))
    assert [one.receive(link)[0].body for link in (plain, written)] == ["x", "x"]


@pytest.mark.parametrize("address", ["/queues/Q1", "queue://QM1/Q1"])
def test_more_prefixes_and_a_queue_manager_name_a_queue_for_both_directions(
    qm: QueueManager, client: New, address: str
) -> None:
    one = client()
    sent = one.send(one.sender(address), Message(body="x"))
    assert sent.remote_state == Delivery.ACCEPTED
    assert qm.counts("Q1").live == 1
    assert one.receive(one.receiver(address, credit=1))[0].body == "x"


def test_a_capability_tells_a_topic_from_a_queue_of_the_same_name(
    qm: QueueManager, client: New
) -> None:
    one = client()
    topic = one.receiver("Q1", credit=2, capabilities=("topic",))
    for capability, body in (("topic", "published"), ("queue", "put")):
        one.send(one.sender("Q1", capabilities=(capability,)), Message(body=body))
    one.send(one.sender("Q1"), Message(body="put as well"))
    assert one.receive(topic)[0].body == "published"
    queue = one.receiver("Q1", credit=2, capabilities=("queue",))
    assert [one.receive(queue)[0].body for _ in range(2)] == ["put", "put as well"]
    one.settle_down()
    assert topic.current is None


def test_a_prefix_wins_over_a_capability(qm: QueueManager, client: New) -> None:
    one = client()
    one.send(one.sender("queue://Q1", capabilities=("topic",)), Message(body="x"))
    assert qm.counts("Q1").live == 1


def test_a_dynamic_node_with_the_capability_is_a_temporary_topic(client: New) -> None:
    one = client()
    first = one.receiver(None, dynamic=True, credit=1, capabilities=("temporary-topic",))
    address = first.remote_source.address or ""
    second = one.receiver(address, credit=1, capabilities=("temporary-topic",))
    sender = one.sender(address, capabilities=("temporary-topic",))
    one.send(sender, Message(body="x"))
    assert [one.receive(link)[0].body for link in (first, second)] == ["x", "x"]


def test_a_temporary_queue_is_reached_by_its_capability(client: New) -> None:
    one, other = client(), client(container="other")
    replies = one.receiver(None, dynamic=True, credit=1, capabilities=("temporary-queue",))
    address = replies.remote_source.address or ""
    other.send(other.sender(address, capabilities=("temporary-queue",)), Message(body="x"))
    assert one.receive(replies)[0].body == "x"


@pytest.mark.parametrize(
    ("name", "descriptor"),
    [
        ("jms-selector", symbol("apache.org:selector-filter:string")),
        ("selector", symbol("selector")),
        ("mine", ulong(0x0000468C00000004)),
        ("jms-selector", None),
    ],
)
def test_a_selector_is_known_by_each_name_that_clients_give_it(
    client: New, name: str, descriptor: object
) -> None:
    one = client()
    sender = one.sender("Q1")
    for colour in ("red", "blue"):
        one.send(sender, Message(body=colour, properties={"colour": colour}))
    text = "colour = 'blue'"
    link = one.session.receiver("selecting")
    link.source.address = "Q1"
    given = text if descriptor is None else Described(descriptor, text)
    link.source.filter.put_object({symbol(name): given})
    link.open()
    link.flow(1)
    assert one.receive(link)[0].body == "blue"


def test_shared_without_global_is_shared_by_the_links_of_one_container(client: New) -> None:
    one, other = client(container="a"), client(container="b")
    shared = ("topic", "shared")
    links = [one.receiver("t", name=name, capabilities=shared, credit=5) for name in ("s|1", "s|2")]
    others = other.receiver("t", name="s|1", capabilities=shared, credit=5)
    sender = one.sender("topic://t")
    for body in ("1", "2"):
        one.send(sender, Message(body=body))
    assert [other.receive(others)[0].body for _ in range(2)] == ["1", "2"]
    one.until(lambda: sum(link.queued for link in links) == 2)


def test_a_durable_terminus_that_expires_with_its_session_is_no_durable_subscription(
    client: New,
) -> None:
    """Its expiry-policy alone says so, neither a capability nor its durability."""
    one = client()
    link = one.receiver("topic://t", name="sub", capabilities=("durable",))
    one.end(link, detach=True)
    one.send(one.sender("topic://t"), Message(body="while away"))
    again = one.receiver("topic://t", name="sub", capabilities=("durable",))
    assert one.drained(again, 1) == 0


def test_a_host_name_that_is_no_queue_manager_is_the_first(client: New) -> None:
    assert client(hostname="mq.example.com").connection.remote_container == "QM1"


def test_a_priority_above_9_is_9(client: New) -> None:
    one = client()
    sent = one.send(one.sender("Q1"), Message(body="x", priority=200))
    assert sent.remote_state == Delivery.ACCEPTED
    assert one.receive(one.receiver("Q1", credit=1))[0].priority == 9


def test_no_frame_is_longer_than_the_client_allows(client: New) -> None:
    one = client(max_frame_bytes=512)
    body = "mayfly" * 1_000
    one.send(one.sender("Q1"), Message(body=body))
    came = bytearray()
    push = one.transport.push

    def noted(data: bytes) -> object:
        came.extend(data)
        return push(data)

    one.transport.push = noted
    link = one.receiver("Q1", credit=1)
    assert one.receive(link)[0].body == body
    one.settle_down()
    sizes, place = [], 0
    while place < len(came):
        sizes.append(int.from_bytes(came[place : place + 4], "big"))
        place += sizes[-1]
    assert place == len(came)
    assert len(sizes) > len(body) // 512
    assert max(sizes) <= 512
