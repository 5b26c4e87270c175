"""What a client has sent before it ends is carried out, also where its end comes in the same read.

An end is a detach or close of the link, the end of the session, the close of the connection, or
that of its socket alone.
"""

from __future__ import annotations

import fcntl
import struct
import termios
from collections.abc import Callable
from random import Random

import pytest
from proton import Delivery, Described, Endpoint, Link, Message, ulong

from mayfly import QueueManager
from mayfly.servers.amqp.connection import AmqpServer
from mayfly.servers.amqp.service import AmqpLimits
from tests.facts import wait_until
from tests.servers.amqp.client import TRANSACTIONAL_STATE, Client
from tests.spec.scene import lives

New = Callable[..., Client]

ENDS = ("detach", "close", "end", "connection", "socket")


def end_behind(one: Client, link: Link, how: str) -> None:
    """Send all that waits in one write, and an end right behind; return when it is answered."""
    if how == "socket":
        one.push()
        wait_until(lambda: not unacknowledged_bytes(one))
        one.cut()
        return
    ending = {"end": one.session, "connection": one.connection}.get(how, link)
    if how == "detach":
        link.detach()
        one.settle_down()
    else:
        ending.close()
        one.until(lambda: ending.state & Endpoint.REMOTE_CLOSED)


def unacknowledged_bytes(one: Client) -> int:
    """Return how many sent bytes the machine of the server has not taken yet."""
    (count,) = struct.unpack("i", fcntl.ioctl(one.socket, termios.TIOCOUTQ, bytes(4)))
    return int(count)


def ended(qm: QueueManager) -> list[tuple[str, int]]:
    """Return how lives on Q1 have ended, with their backout counts."""
    return [(life.outcome, life.backout_count) for life in lives(qm, "Q1")]


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("durable", [False, True])
def test_AMQP_2_7_5_settled_transfers_read_with_the_end_are_put(
    qm: QueueManager, client: New, how: str, durable: bool
) -> None:
    one = client()
    link = one.sender("Q1", is_settled=True)
    for n in range(10):
        delivery = link.delivery(str(n))
        link.stream(bytes(Message(body=str(n), durable=durable).encode()))
        link.advance()
        delivery.settle()
    end_behind(one, link, how)
    if how == "socket":
        wait_until(lambda: qm.counts("Q1").live == 10)
    # A close of the connection is answered when its messages are there.
    assert how != "connection" or qm.counts("Q1").live == 10
    wait_until(lambda: qm.counts("Q1").live == 10)


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("settled", [False, True])
def test_AMQP_3_4_2_accepted_read_with_the_end_takes_the_message(
    qm: QueueManager, client: New, how: str, durable: bool, settled: bool
) -> None:
    one = client()
    sender = one.sender("Q1")
    for n in range(10):
        one.send(sender, Message(body=str(n), durable=durable))
    receiver = one.receiver("Q1", credit=10)
    taken = [one.receive(receiver)[1] for _ in range(10)]
    for delivery in taken:
        delivery.update(Delivery.ACCEPTED)
        if settled:
            delivery.settle()
    end_behind(one, receiver, how)
    wait_until(lambda: len(ended(qm)) == 10)
    assert ended(qm) == [("got", 0)] * 10


def test_AMQP_2_7_5_whole_transfers_before_the_close_of_a_socket_that_reads_nothing_are_put(
    server: AmqpServer, qm: QueueManager, client: New
) -> None:
    # Each is answered, and the answers are refused by the machine of the client: its socket is gone
    # while most of what it has sent is still to be read.
    server.service = server.service._replace(limits=AmqpLimits(credit=200))
    one = client()
    link = one.sender("Q1")
    for n in range(60):
        link.delivery(str(n))
        link.stream(bytes(Message(body=bytes(40_000)).encode()))
        link.advance()
    end_behind(one, link, "socket")
    wait_until(lambda: qm.counts("Q1").live == 60)


@pytest.mark.parametrize("how", ["connection", "socket"])
@pytest.mark.parametrize("fail", [False, True])
def test_AMQP_4_3_discharge_read_with_the_end_decides_posts_and_outcomes(
    qm: QueueManager, client: New, how: str, fail: bool
) -> None:
    one = client()
    coordinator, sender = one.coordinator(), one.sender("SMALL")
    one.send(one.sender("Q1"), Message(body="taken", durable=True))
    one.send(one.sender("Q1"), Message(body="rejected", durable=True))
    receiver = one.receiver("Q1", credit=2)
    taken, rejected = one.receive(receiver)[1], one.receive(receiver)[1]
    name = one.declare(coordinator)
    one.send(sender, Message(body="posted", durable=True), name)
    one.take_within(taken, name)
    rejected.local.data = [name, Described(ulong(0x25), [None])]
    rejected.update(TRANSACTIONAL_STATE)
    rejected.settle()
    one.begin(coordinator, Message(body=Described(ulong(0x32), [name, fail])), push=False)
    end_behind(one, coordinator, how)
    after = (2, 0, 0) if fail else (0, 1, 1)
    wait_until(lambda: tuple(qm.counts(q).live for q in ("Q1", "SMALL", "DEAD")) == after)
    if fail:
        with qm.session() as session:
            assert [message.backout_count for message in session.browse("Q1")] == [1, 1]


@pytest.mark.parametrize("rounds", [5, pytest.param(300, marks=pytest.mark.soak)])
def test_AMQP_2_7_9_clients_that_close_right_behind_lose_and_double_nothing(
    server: AmqpServer, qm: QueueManager, client: New, rounds: int
) -> None:
    server.service = server.service._replace(limits=AmqpLimits(credit=50))
    random = Random(rounds)
    for done in range(rounds):
        sending = client()
        link = sending.sender("Q1", is_settled=True)
        for n in range(20):
            message = Message(
                body=bytes(random.choice((10, 30_000))), durable=random.random() < 0.5
            )
            link.delivery(str(n))
            link.stream(bytes(message.encode()))
            link.advance()
        end_behind(sending, link, random.choice(ENDS))
        wait_until(lambda: qm.counts("Q1").live == 20)
        taking = client()
        receiver = taking.receiver("Q1", credit=20)
        for _ in range(20):
            delivery = taking.receive(receiver)[1]
            delivery.update(Delivery.ACCEPTED)
            if random.random() < 0.5:
                delivery.settle()
        end_behind(taking, receiver, random.choice(ENDS))
        wait_until(lambda all_count=20 * (done + 1): len(ended(qm)) == all_count)  # type: ignore[misc]  # bound as it is
        wait_until(lambda: qm.counts("Q1").live == qm.counts("Q1").locked == 0)
        sending.cut()
        taking.cut()
    assert set(ended(qm)) == {("got", 0)}
