"""What a client cannot take of a server: memory for links, idle connections, wrong frames."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from itertools import count

import cproton
import pytest
from proton import Delivery, Described, Message, Sender, ulong

from mayfly import QueueManager
from mayfly.servers.amqp.connection import AmqpServer
from tests.facts import wait_until
from tests.servers.amqp.client import Client

New = Callable[..., Client]


def in_loop(server: AmqpServer, look: Callable[[], int]) -> int:
    """Ask something of a server's connections, in its loop."""

    async def ask() -> int:
        return look()

    return asyncio.run_coroutine_threadsafe(ask(), server.loop).result()


def link_count(server: AmqpServer) -> int:
    """Return how many links proton keeps for the one connection there is."""
    (peer,) = server.open_connections
    assert peer._connection is not None
    link = cproton.pn_link_head(peer._connection._impl, 0)
    for number in count():
        if not link:
            return number
        link = cproton.pn_link_next(link, 0)
    raise AssertionError


@pytest.mark.parametrize("is_detached", [False, True], ids=["closed", "detached"])
def test_links_that_have_ended_leave_nothing(
    server: AmqpServer, client: New, is_detached: bool
) -> None:
    one = client()
    kept = one.sender("Q1")
    for _ in range(20):
        for link in (one.sender("Q1"), one.receiver("Q1", credit=1), one.coordinator()):
            one.end(link, detach=is_detached)
            link.free()
    one.settle_down()
    assert in_loop(server, lambda: link_count(server)) == 1
    assert one.send(kept, Message(body="x")).remote_state == Delivery.ACCEPTED


def test_a_link_that_has_ended_leaves_nothing_of_proton_to_a_look_for_circles(client: New) -> None:
    """Any thread may take that look, and would free it while the loop's uses its connection."""
    one = client()
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            one.send(one.sender("Q1"), Message(body="x"))
            receiver = one.receiver("Q1", credit=1)
            _message, delivery = one.receive(receiver)
            one.settle(delivery, Delivery.ACCEPTED)
            one.end(receiver)
        # The ends at which the server sends; the client has given its own another address.
        ends = [o for o in gc.get_objects() if isinstance(o, Sender) and o.source.address == "Q1"]
        assert ends == []
    finally:
        gc.enable()


def test_a_link_that_ends_beside_what_is_under_way_harms_nobody(
    qm: QueueManager, client: New
) -> None:
    one = client()
    for _ in range(10):
        sender = one.sender("Q1")
        for n in range(5):
            one.begin(sender, Message(body=str(n), durable=True))
        sender.close()
        receiver = one.receiver("Q1", credit=2)
        _message, delivery = one.receive(receiver)
        delivery.update(Delivery.ACCEPTED)
        receiver.close()
        coordinator = one.coordinator()
        name = one.declare(coordinator)
        one.begin(coordinator, Message(body=Described(ulong(0x32), [name, False])))
        coordinator.close()
        one.settle_down()
    wait_until(lambda: (qm.counts("Q1").live, qm.counts("Q1").locked) == (40, 0))
