"""A drain and STOP CHANNEL: a client ends what it has begun, gets nothing more, and is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from proton import Delivery, Endpoint, Message

from mayfly import QueueManager
from mayfly.channel import clients_known
from mayfly.client.connection import connect
from mayfly.servers.amqp.connection import AmqpServer
from tests.facts import PATIENCE_SECONDS, wait_until
from tests.servers.amqp.client import Client
from tests.servers.amqp.conftest import OneUser

New = Callable[..., Client]
CHANNEL = "AMQP.CLIENTS"
FORCED = "amqp:connection:forced"


@contextmanager
def draining(server: AmqpServer) -> Iterator[threading.Thread]:
    """Drain the server for a block, at whose end all clients have gone."""
    drain = threading.Thread(target=server.drain, args=(PATIENCE_SECONDS * 1_000,))
    drain.start()
    yield drain
    drain.join(PATIENCE_SECONDS)
    assert not drain.is_alive()
    assert not server.connections()


def ending(one: Client) -> tuple[str, str]:
    """Wait until the server has closed a connection; return why."""
    one.until(lambda: one.connection.state & Endpoint.REMOTE_CLOSED)
    condition = one.connection.remote_condition
    one.cut()
    assert condition is not None
    return condition.name, str(condition.description)


def test_a_client_that_waits_is_told_at_once(server: AmqpServer, client: New) -> None:
    one, other = client(), client()
    one.receiver("Q1", credit=5)
    other.sender("Q1")
    with draining(server):
        assert ending(one) == (FORCED, "the server ends")
        assert ending(other) == (FORCED, "the server ends")


@pytest.mark.parametrize("outcome", [Delivery.ACCEPTED, Delivery.RELEASED])
def test_a_message_that_a_client_holds_is_settled_and_no_other_follows(
    server: AmqpServer, qm: QueueManager, client: New, outcome: int
) -> None:
    one, idle = client(), client()
    for body in ("1", "2"):
        one.send(one.sender("Q1"), Message(body=body, durable=True))
    receiver = one.receiver("Q1", credit=1)
    _message, delivery = one.receive(receiver)
    with draining(server) as drain:
        assert ending(idle)[0] == FORCED
        receiver.flow(5)
        one.settle_down()
        assert (receiver.queued, drain.is_alive()) == (0, True)
        delivery.update(outcome)
        delivery.settle()
        one.push()
        assert ending(one)[0] == FORCED
    assert qm.counts("Q1").live == (1 if outcome == Delivery.ACCEPTED else 2)
    with qm.session() as session:
        assert all(message.backout_count == 0 for message in session.browse("Q1"))


@pytest.mark.parametrize("fail", [False, True])
def test_a_transaction_is_discharged_while_the_server_drains(
    server: AmqpServer, qm: QueueManager, client: New, fail: bool
) -> None:
    one, idle = client(), client()
    coordinator, sender = one.coordinator(), one.sender("Q1")
    name = one.declare(coordinator)
    one.send(sender, Message(body="x"), name)
    with draining(server) as drain:
        assert ending(idle)[0] == FORCED
        one.send(sender, Message(body="y"), name)
        assert drain.is_alive()
        # The outcome comes before the end: the client is not in doubt.
        assert one.discharge(coordinator, name, fail=fail).remote_state == Delivery.ACCEPTED
        assert ending(one)[0] == FORCED
    assert qm.counts("Q1").live == (0 if fail else 2)


@pytest.mark.parametrize(("how", "is_held"), [("MODE(QUIESCE)", True), ("MODE(FORCE)", False)])
def test_STOP_CHANNEL_says_how_clients_end(
    qm: QueueManager, admission: OneUser, how: str, is_held: bool
) -> None:
    assert qm.mqsc(f"DEFINE CHANNEL({CHANNEL}) CHLTYPE(SVRCONN)").ok
    server = AmqpServer(
        ["QM1"],
        admission,
        lambda name, _admitted, _applicant: connect(name, program="AMQP"),
        channel=CHANNEL,
    )
    port = server.listen_tcp("127.0.0.1", 0)
    one, idle = Client(port), Client(port)
    one.send(one.sender("Q1"), Message(body="x"))
    _message, delivery = one.receive(one.receiver("Q1", credit=1))
    with clients_known(qm.engine, server):
        assert qm.mqsc(f"STOP CHANNEL({CHANNEL}) {how}").ok
        assert ending(idle)[0] == FORCED
        if is_held:
            assert qm.counts("Q1").locked == 1
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()
            one.push()
        assert ending(one)[0] == FORCED
        wait_until(lambda: not server.connections())
    server.close()
    assert qm.counts("Q1").live == (0 if is_held else 1)
