"""Names that a client may know and another has given: subscriptions, client ids, dynamic nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest
from proton import Data, Delivery, Endpoint, Link, Message, byte, symbol, ulong

from mayfly import QueueManager, jms
from mayfly.admin.security.admission import Admitted, Applicant
from mayfly.client.connection import Connection, connect
from mayfly.mqi import constants as c
from mayfly.servers.amqp import codec
from mayfly.servers.amqp.codec import Section
from mayfly.servers.amqp.connection import AmqpServer
from mayfly.servers.amqp.service import AmqpLimits
from mayfly.verbs.properties.selectors.selector import compile_selector
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
        limits=AmqpLimits(credit=10, idle_timeout_ms=0),
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


def test_2_8_15_unauthorized_access_for_a_subscription_that_is_fixed_to_another_user(
    of_users: Callable[..., Client], qm: QueueManager
) -> None:
    """MQSO_FIXED_USERID, whatever authority the other one has on the topic."""
    bob = of_users("bob", container="app")
    with qm.session("alice") as alice:
        alice.subscribe("sec", name="AMQP:app:orders", durable=True, fixed_user=True).close()
    assert qm.mqsc("SET AUTHREC PROFILE(SEC) OBJTYPE(TOPIC) PRINCIPAL('bob') AUTHADD(ALL)").ok
    for topic in ("sec", "own", None):
        link = subscribed(bob, topic)
        assert refusal(bob, link) == "amqp:unauthorized-access"
        assert "MQRC_IDENTITY_MISMATCH (2434)" in link.remote_condition.description
        bob.end(link)


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


# Dynamic nodes

KINDS = ("temporary-queue", "temporary-topic")
New = Callable[..., Client]


def made(client: Client, direction: str, kind: str) -> tuple[Link, str]:
    """Let a link of a client make a node; return the link and the node's address."""
    if direction == "receiver":
        link = client.receiver(None, dynamic=True, capabilities=(kind,))
        return link, link.remote_source.address or ""
    link = client.sender(None, dynamic=True, capabilities=(kind,))
    return link, link.remote_target.address or ""


def ways_to(kind: str, address: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return address and capabilities by which another client names a node."""
    plain = kind.removeprefix("temporary-")
    return [(address, (kind,)), (address, (plain,)), (address, ()), (f"{plain}://{address}", ())]


@pytest.mark.parametrize("direction", ["receiver", "sender"])
@pytest.mark.parametrize("kind", KINDS)
def test_3_5_3_resource_locked_for_a_reader_of_another_connections_dynamic_node(
    client: New, kind: str, direction: str
) -> None:
    """Its own connection alone receives from it, on as many links as it likes."""
    one, other = client(), client(container="other")
    link, address = made(one, direction, kind)
    mine = one.receiver(address, credit=1, capabilities=(kind,))
    for named, capabilities in ways_to(kind, address):
        refused = other.receiver(named, credit=1, capabilities=capabilities)
        assert refusal(other, refused) == "amqp:resource-locked"
    other.send(other.sender(address, capabilities=(kind,)), Message(body="answer"))
    reader = mine if kind == "temporary-topic" or direction == "sender" else link
    if reader is link:
        one.end(mine)
        link.flow(1)
    assert one.receive(reader)[0].body == "answer"


@pytest.mark.parametrize("direction", ["receiver", "sender"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by", ["link", "connection"])
def test_3_5_3_not_found_for_a_dynamic_node_that_is_deleted(
    client: New, kind: str, direction: str, by: str
) -> None:
    """Nobody receives from it or sends to it, whatever name, capability or open link is left."""
    one, other = client(), client(container="other")
    link, address = made(one, direction, kind)
    answering = other.sender(address, capabilities=(kind,))
    relay = other.sender(None)
    assert other.send(relay, Message(address=address, body="1")).remote_state == Delivery.ACCEPTED
    if by == "link":
        one.end(link)
    else:
        one.close()
    for named, capabilities in ways_to(kind, address):
        refused = other.receiver(named, capabilities=capabilities)
        # A reader is told so too where the name was never its own.
        assert refusal(other, refused) == "amqp:not-found"
        assert refusal(other, other.sender(named, capabilities=capabilities)) == "amqp:not-found"
    for sender in (answering, relay):
        outcome = other.send(sender, Message(address=address, body="2"))
        assert outcome.remote_state == Delivery.REJECTED
        assert outcome.remote.condition is not None
        assert outcome.remote.condition.name in ("amqp:not-found", "amqp:resource-deleted")


def test_3_5_3_a_temporary_queue_of_a_jms_program_is_its_connections(
    qm: QueueManager, client: New
) -> None:
    one = client()
    with jms.ConnectionFactory(qm).create_context() as context:
        queue, topic = context.create_temporary_queue(), context.create_temporary_topic()
        consumer = context.create_consumer(topic)
        for name, kind in ((queue.queue_name, "queue"), (topic.topic_name, "topic")):
            refused = one.receiver(name, capabilities=(kind,))
            assert refusal(one, refused) == "amqp:resource-locked"
        one.send(one.sender(f"topic://{topic.topic_name}"), Message(body="answer"))
        assert consumer.receive_body(str, 10_000) == "answer"
        _link, address = made(one, "receiver", "temporary-queue")
        with pytest.raises(jms.InvalidDestinationRuntimeException):
            context.create_consumer(context.create_queue(address))
    refused = one.receiver(queue.queue_name)
    assert refusal(one, refused) == "amqp:not-found"


# Client ids

SOLE = ("sole-connection-for-container",)


def test_2_4_1_invalid_field_container_id_for_a_client_id_that_is_in_use(client: New) -> None:
    """Qpid JMS has InvalidClientIDException for these two symbols, and waits where it is told to.

    The open says that it failed: a client that has not seen that takes the connection as made.
    """
    first = client(container="only", desired=SOLE)
    other = client(container="only", desired=SOLE)
    other.until(lambda: other.connection.remote_condition)
    condition = other.connection.remote_condition
    assert condition is not None
    assert condition.name == "amqp:invalid-field"
    [(field, value)] = condition.info.items()
    assert (field, value) == ("invalid-field", "container-id")
    assert isinstance(field, symbol)
    assert isinstance(value, symbol)
    assert "MQRC_OBJECT_IN_USE" in (condition.description or "")
    failed = other.connection.remote_properties.get(symbol("amqp:connection-establishment-failed"))
    assert failed is True
    first.close()
    again = client(container="only", desired=SOLE)
    assert again.connection.remote_condition is None


def test_2_4_1_an_open_that_is_taken_tells_of_no_failure(client: New) -> None:
    properties = client(container="only", desired=SOLE).connection.remote_properties
    assert {str(name) for name in properties} == {"product", "queue-prefix", "topic-prefix"}


@pytest.mark.parametrize("desired", [(), SOLE])
@pytest.mark.parametrize("durable", [False, True])
def test_3_5_8_no_local_leaves_out_all_that_the_connection_sends(
    client: New, desired: tuple[str, ...], durable: bool
) -> None:
    """Also in a transaction, and through a link that was there before the subscription."""
    one, other = client(container="mine", desired=desired), client(container="other")
    sender, coordinator = one.sender("topic://t"), one.coordinator()
    receiver = one.receiver("topic://t", credit=5, no_local=True, durable=durable)
    one.send(sender, Message(body="mine"))
    name = one.declare(coordinator)
    one.send(sender, Message(body="mine, in a transaction"), name)
    one.discharge(coordinator, name, fail=False)
    other.send(other.sender("topic://t"), Message(body="theirs"))
    assert one.receive(receiver)[0].body == "theirs"


def test_3_5_8_no_local_of_a_durable_subscription_is_of_the_client_id_while_it_is_away(
    client: New,
) -> None:
    one = client(container="mine", desired=SOLE)
    one.end(one.receiver("topic://t", name="s", no_local=True, durable=True), detach=True)
    one.send(one.sender("topic://t"), Message(body="mine"))
    one.close()
    other = client(container="other", desired=SOLE)
    other.send(other.sender("topic://t"), Message(body="theirs"))
    one = client(container="mine", desired=SOLE)
    again = one.receiver("topic://t", name="s", no_local=True, durable=True, credit=5)
    assert one.receive(again)[0].body == "theirs"


# Durable subscriptions


def test_2_6_3_a_shared_durable_subscription_without_a_client_id_ends_by_its_link_name(
    client: New,
) -> None:
    """Session.unsubscribe of JMS attaches without a source, so that the name alone is there."""
    one, other = client(container="a"), client(container="b")
    shared = ("topic", "shared", "global")
    consumer = one.receiver("t", name="s|global", durable=True, capabilities=shared)
    in_use = other.receiver(None, name="s|global")
    other.end(in_use)
    assert in_use.remote_condition.name == "amqp:resource-locked"
    one.end(consumer, detach=True)
    own = other.receiver(None, name="s")
    assert refusal(other, own) == "amqp:not-found"
    found = other.receiver(None, name="s|global")
    assert found.remote_source.address == "topic://t"
    other.end(found)
    assert found.remote_condition is None
    assert refusal(one, one.receiver(None, name="s|global")) == "amqp:not-found"


def test_2_6_3_a_durable_subscription_is_that_of_one_container(client: New) -> None:
    """Colons in the ids of containers and the names of links do not make two names one."""
    one, other = client(container="a"), client(container="a:b")
    one.end(one.receiver("topic://t", name="b:c", durable=True), detach=True)
    unknown = other.receiver(None, name="c")
    assert refusal(other, unknown) == "amqp:not-found"
    other.end(unknown)
    other.end(other.receiver("topic://u", name="c", durable=True), detach=True)
    found = one.receiver(None, name="b:c")
    assert found.remote_source.address == "topic://t"


@pytest.fixture
def on_disk(tmp_path: Path, admission: OneUser) -> Iterator[QueueManager]:
    """A queue manager in a folder, whose settlements take their time."""
    with QueueManager("QM2", tmp_path) as manager:
        yield manager


@pytest.mark.parametrize("outcome", [Delivery.ACCEPTED, Delivery.MODIFIED, Delivery.RELEASED])
def test_2_6_3_a_shared_durable_subscription_that_nobody_has_open_changes_its_selector(
    on_disk: QueueManager, admission: OneUser, outcome: int
) -> None:
    """Messages whose outcome came before the detach keep it from nothing, nor those left over."""
    with closing(AmqpServer(["QM2"], admission, connected, limits=AmqpLimits())) as served:
        one = Client(served.listen_tcp("127.0.0.1", 0), container="a")
        try:
            change_selectors(one, outcome)
        finally:
            one.cut()
    [row] = on_disk.mqsc("DISPLAY SUB(*) SELECTOR").rows
    assert row["SELECTOR"] == "colour = 'c19'"


def connected(name: str, _admitted: Admitted, _applicant: Applicant) -> Connection:
    return connect(name, program="AMQP")


def change_selectors(one: Client, outcome: int) -> None:
    """Join a subscription with one selector after the other, each time with a message in hand."""
    shared = ("topic", "shared")
    sender = one.sender("topic://t")
    for round_ in range(20):
        link = one.receiver(
            "t",
            name="s",
            durable=True,
            capabilities=shared,
            credit=10,
            selector=f"colour = 'c{round_}'",
        )
        assert not link.state & Endpoint.REMOTE_CLOSED, link.remote_condition
        for _ in range(3):
            one.send(sender, Message(body="x", durable=True, properties={"colour": f"c{round_}"}))
        first, delivery = one.receive(link)
        assert first.body == "x"
        delivery.local.failed = outcome == Delivery.MODIFIED
        delivery.update(outcome)
        delivery.settle()
        link.detach()
        # The server reads the next attach together with this detach.
        one.cork()


# Message ids

IDS = {
    "ID:3f7a-1:1:1-1": "ID:3f7a-1:1:1-1",
    "plain": "ID:AMQP_NO_PREFIX:plain",
    ulong(5): "ID:AMQP_ULONG:5",
    UUID(int=7): f"ID:AMQP_UUID:{UUID(int=7)}",
    b"\x01\xab": "ID:AMQP_BINARY:01AB",
}


@pytest.mark.parametrize("given", IDS, ids=IDS.values())
@pytest.mark.parametrize("topic", [False, True])
def test_3_5_8_a_selector_finds_the_JMSMessageID_that_the_sender_has_given(
    client: New, given: object, topic: bool
) -> None:
    """As clients of JMS over AMQP write ids that MQ has no room for."""
    one = client()
    shown = IDS[given]
    address = "topic://t" if topic else "Q1"
    selected = [f"JMSMessageID = '{shown}'", f"JMSMessageID IN ('ID:x', '{shown}', 'ID:00')"]
    selected += [f"'{shown}' = JMSMessageID", f"JMSMessageID LIKE '{shown[:-1]}_'"]
    others = f"JMSMessageID <> '{shown}' AND JMSMessageID NOT IN ('{shown}', 'ID:01')"
    others += f" AND JMSMessageID NOT LIKE '{shown}'"
    made = [one.receiver(address, selector=text, copies=not topic) for text in (*selected, others)]
    sender = one.sender(address)
    for id_ in (given, "ID:another", None):
        one.send(sender, Message(id=id_, body=repr(id_)))
    for link in made[:-1]:
        link.flow(5)
        assert one.receive(link)[0].body == repr(given)
    made[-1].flow(5)
    assert {one.receive(made[-1])[0].body for _ in range(2)} == {"'ID:another'", "None"}
    one.settle_down()
    assert all(link.current is None for link in made)


def test_3_5_8_a_selector_finds_the_JMSMessageID_of_MQ_by_its_index(
    client: New, qm: QueueManager
) -> None:
    """Of a message that has no other, as it is shown to clients of AMQP."""
    one = client()
    with qm.session() as session:
        ids = [session.put("Q1", body) for body in (b"1", b"2")]
    text = f"JMSMessageID = 'ID:{ids[1].hex().upper()}'"
    assert compile_selector(text).msg_id == ids[1]
    message, _delivery = one.receive(one.receiver("Q1", credit=1, selector=text))
    assert (message.id, bytes(message.body)) == (f"ID:{ids[1].hex()}", b"2")


def test_3_2_4_a_report_has_a_message_id_of_its_own(client: New, qm: QueueManager) -> None:
    """Not that of the message which it is about, whose header it carries."""
    one = client()
    assert qm.mqsc("DEFINE QLOCAL(REPORTS)").ok
    annotations = {symbol("x-opt-mq-report"): c.MQRO_COA_WITH_FULL_DATA}
    original = Message(id="ID:mine", body="x", reply_to="REPORTS", annotations=annotations)
    one.send(one.sender("Q1"), original)
    assert one.receive(one.receiver("REPORTS", credit=1))[0].id != "ID:mine"
    chosen = one.receiver("REPORTS", credit=1, selector="JMSMessageID = 'ID:mine'")
    assert one.drained(chosen, 1) == 0


# Reply addresses, and the first acquirer

REPLY = symbol("x-opt-jms-reply-to")


def kind_of_reply(message: Message) -> int:
    return int(message.annotations[REPLY])


@pytest.mark.parametrize(
    ("given", "kind", "shown", "shown_kind"),
    [
        ("a/b", 1, "a/b", 1),
        ("topic://a/b", 1, "topic://a/b", 1),
        ("topic://a/b", None, "topic://a/b", 1),
        ("R1", 0, "R1", 0),
        ("R1", None, "R1", 0),
        ("queue://QM2/R1", None, "queue://QM2/R1", 0),
    ],
)
def test_3_2_4_a_reply_to_comes_as_the_sender_has_said_it_with_its_kind(
    client: New, given: str, kind: int | None, shown: str, shown_kind: int
) -> None:
    """The JMS mapping: the name as a client attaches to it, the kind in x-opt-jms-reply-to."""
    one = client()
    annotations = {} if kind is None else {REPLY: byte(kind)}
    one.send(one.sender("Q1"), Message(body="x", reply_to=given, annotations=annotations))
    message, _delivery = one.receive(one.receiver("Q1", credit=1))
    assert (message.reply_to, kind_of_reply(message)) == (shown, shown_kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("says_kind", [True, False])
def test_3_2_4_a_reply_to_a_dynamic_node_is_told_as_a_temporary_one(
    client: New, kind: str, says_kind: bool
) -> None:
    one, other = client(), client(container="other")
    node, address = made(one, "receiver", kind)
    number = 2 + KINDS.index(kind)
    annotations = {REPLY: byte(number)} if says_kind else {}
    one.send(one.sender("Q1"), Message(body="ask", reply_to=address, annotations=annotations))
    request, _delivery = other.receive(other.receiver("Q1", credit=1))
    assert (request.reply_to, kind_of_reply(request)) == (address, number)
    answering = other.sender(request.reply_to, capabilities=(kind,))
    node.flow(1)
    other.send(answering, Message(body="tell"))
    assert one.receive(node)[0].body == "tell"


def test_3_2_4_a_reply_to_a_topic_of_a_jms_program_comes_as_its_name(
    client: New, qm: QueueManager
) -> None:
    """And a topic of a client of AMQP as a topic of JMS."""
    one = client()
    assert qm.mqsc("DEFINE QLOCAL(Q2)").ok
    with jms.ConnectionFactory(qm).create_context() as context:
        q1 = context.create_queue("Q1")
        context.create_producer().set_jms_reply_to(context.create_topic("a/b")).send(q1, "x")
        receiver = one.receiver("Q1", credit=1)
        message, _delivery = one.receive(receiver)
        assert (message.reply_to, kind_of_reply(message)) == ("a/b", 1)
        annotations = {REPLY: byte(1)}
        one.send(one.sender("Q2"), Message(body="x", reply_to="a/b", annotations=annotations))
        got = context.create_consumer(context.create_queue("Q2")).receive_no_wait()
        assert got is not None
        assert got.jms_reply_to == context.create_topic("a/b")


def test_3_2_1_first_acquirer_false_of_a_sender_stays_false(client: New, qm: QueueManager) -> None:
    """Somebody may have had the message before its sender, which only relays it.

    Absent, it says nothing: the first to get it here is the first.
    """
    one = client()
    sender = one.sender("Q1")
    for header in ([], [True, None, None, False], [None, None, None, True]):
        sections = [Section(codec.HEADER, [None if v is None else of_bool(v) for v in header])]
        sections.append(Section(codec.VALUE, codec.text("x")))
        one.send(sender, codec.encoded(sections))
    receiver = one.receiver("Q1", credit=3)
    assert [one.receive(receiver)[0].first_acquirer for _ in range(3)] == [True, False, True]


def of_bool(value: bool) -> codec.Scalar:
    return codec.Scalar(Data.BOOL, value)
