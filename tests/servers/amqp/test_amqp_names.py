"""Names that a client may know and another has given: subscriptions, client ids, dynamic nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from proton import Link, Message

from mayfly import QueueManager
from mayfly.connection import connect
from mayfly.servers.amqp.server import AmqpServer
from mayfly.servers.amqp.service import Limits
from tests.servers.amqp.client import Client
from tests.servers.amqp.conftest import OneUser

#: Who may use which topic, and which queues.
AUTHORITIES = """
DEFINE TOPIC(SEC) TOPICSTR('sec')
DEFINE TOPIC(OWN) TOPICSTR('own')
DEFINE TOPIC(BOTH) TOPICSTR('both')
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice','bob','carl') AUTHADD(CONNECT)
SET AUTHREC PROFILE(SEC) OBJTYPE(TOPIC) PRINCIPAL('alice') AUTHADD(PUB,SUB,RESUME)
SET AUTHREC PROFILE(SEC) OBJTYPE(TOPIC) PRINCIPAL('carl') AUTHADD(RESUME)
SET AUTHREC PROFILE(OWN) OBJTYPE(TOPIC) PRINCIPAL('bob') AUTHADD(PUB,SUB,RESUME)
SET AUTHREC PROFILE(SYSTEM.DEFAULT.MODEL.QUEUE) OBJTYPE(QUEUE) +
 PRINCIPAL('alice','bob') AUTHADD(DSP,GET,PUT,INQ)
"""


@pytest.fixture
def of_users(qm: QueueManager, admission: OneUser) -> Iterator[Callable[..., Client]]:
    """Clients of a server that knows alice and bob as users of limited authority."""
    assert qm.mqsc(AUTHORITIES).ok
    served = AmqpServer(
        ["QM1"],
        admission,
        lambda name, admitted, _applicant: connect(name, user=admitted.user, program="AMQP"),
        limits=Limits(credit=10, idle_timeout_ms=0),
    )
    port, made = served.listen_tcp("127.0.0.1", 0), []

    def new(user: str, **options: object) -> Client:
        made.append(Client(port, user=user, **options))  # type: ignore[arg-type]  # its options
        return made[-1]

    yield new
    for one in made:
        one.cut()
    served.close()


def refusal(client: Client, link: Link) -> str:
    """Return the condition of a link that the server refuses."""
    return str(client.error_of(link).name)


def subscribed(client: Client, topic: str | None, *, shared: bool = False) -> Link:
    capabilities = ("topic", "shared", "global") if shared else ("topic",)
    name = "orders|global" if shared else "orders"
    return client.receiver(topic, name=name, durable=True, capabilities=capabilities)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("topic", ["own", "sec"])
def test_2_8_15_unauthorized_access_for_a_durable_subscription_of_another_user(
    of_users: Callable[..., Client], topic: str, shared: bool
) -> None:
    """Container and link names are known; the subscription stays, with its messages."""
    alice = of_users("alice", container="app")
    alice.end(subscribed(alice, "sec", shared=shared), detach=True)
    alice.send(alice.sender("topic://sec"), Message(body="secret"))
    bob = of_users("bob", container="app")
    link = subscribed(bob, topic, shared=shared)
    assert refusal(bob, link) == "amqp:unauthorized-access"
    link = subscribed(alice, "sec", shared=shared)
    link.flow(1)
    assert alice.receive(link)[0].body == "secret"


@pytest.mark.parametrize("shared", [False, True])
def test_2_8_15_unauthorized_access_for_another_user_who_looks_a_subscription_up(
    of_users: Callable[..., Client], shared: bool
) -> None:
    alice, bob = of_users("alice", container="app"), of_users("bob", container="app")
    alice.end(subscribed(alice, "sec", shared=shared), detach=True)
    assert refusal(bob, subscribed(bob, None, shared=shared)) == "amqp:unauthorized-access"
    alice.end(subscribed(alice, None, shared=shared))


def test_2_8_15_unauthorized_access_is_told_by_the_detach_that_removes_nothing(
    of_users: Callable[..., Client],
) -> None:
    """Who may resume a subscription looks it up, and cannot end it."""
    alice, carl = of_users("alice", container="app"), of_users("carl", container="app")
    alice.end(subscribed(alice, "sec"), detach=True)
    link = subscribed(carl, None)
    assert link.remote_source.address == "topic://sec"
    carl.end(link)
    assert link.remote_condition.name == "amqp:unauthorized-access"
    link = subscribed(alice, None)
    alice.end(link)
    assert link.remote_condition is None
