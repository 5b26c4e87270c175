"""Links of AMQP 1.0: what they name, credit and drain, outcomes, and the end of links."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from proton import Delivery, Endpoint, Link, Message, symbol
from proton.utils import BlockingConnection

from mayfly import QueueManager
from mayfly.servers.amqp.connection import AmqpServer
from mayfly.testing import VirtualClock
from tests.facts import wait_until
from tests.servers.amqp.client import SECONDS, Client
from tests.servers.amqp.conftest import BUDGET_BYTES, OneUser

New = Callable[..., Client]


def live(qm: QueueManager, queue: str = "Q1") -> int:
    return qm.counts(queue).live


def test_a_message_goes_and_comes(qm: QueueManager, client: New) -> None:
    one = client()
    sent = one.send(one.sender("Q1"), Message(body="hello", subject="greeting"))
    assert sent.remote_state == Delivery.ACCEPTED
    assert live(qm) == 1
    message, delivery = one.receive(one.receiver("Q1", credit=1))
    assert (message.body, message.subject) == ("hello", "greeting")
    assert qm.counts("Q1").locked == 1
    one.settle(delivery, Delivery.ACCEPTED)
    assert (live(qm), qm.counts("Q1").locked) == (0, 0)


@pytest.mark.parametrize("address", ["queue://Q1", "queue:///Q1", "queue:Q1", "/queue/Q1"])
def test_prefixes_name_a_queue(qm: QueueManager, client: New, address: str) -> None:
    one = client()
    one.send(one.sender(address), Message(body="x"))
    assert live(qm) == 1


def test_an_unknown_queue_is_not_found(client: New) -> None:
    one = client()
    error = one.error_of(one.sender("NO.SUCH", capabilities=("queue",)))
    assert error.name == "amqp:not-found"
    assert error.description.startswith("MQRC_UNKNOWN_OBJECT_NAME (2085)")


def test_a_queue_in_lower_case_tells_which_was_meant(client: New) -> None:
    one = client()
    for link in (one.sender("q1"), one.receiver("q1")):
        error = one.error_of(link)
        assert error.name == "amqp:not-found"
        assert error.description.endswith("is Q1 meant?")


def test_a_name_of_no_queue_is_a_topic(client: New) -> None:
    one = client()
    subscriber = one.receiver("prices/tea", credit=1)
    one.send(one.sender("prices/tea"), Message(body="4.20"))
    message, _delivery = one.receive(subscriber)
    assert (message.body, message.address) == ("4.20", "topic://prices/tea")


def test_credit_is_what_comes(qm: QueueManager, client: New) -> None:
    one = client()
    sender = one.sender("Q1")
    for n in range(5):
        one.send(sender, Message(body=str(n)))
    receiver = one.receiver("Q1", credit=2)
    assert [one.receive(receiver)[0].body for _ in range(2)] == ["0", "1"]
    one.settle_down()
    assert (qm.counts("Q1").locked, live(qm)) == (2, 3)


def test_drain_ends_when_nothing_is_left(qm: QueueManager, client: New) -> None:
    one = client()
    one.send(one.sender("Q1"), Message(body="x"))
    receiver = one.receiver("Q1")
    assert one.drained(receiver, 10) == 1
    one.receive(receiver)
    # A getter that waits is ended by a drain as well, and no message is lost to it.
    receiver.flow(1)
    one.settle_down()
    assert one.drained(receiver, 0) == 0
    one.send(one.sender("Q1"), Message(body="later"))
    one.settle_down()
    assert (live(qm), qm.counts("Q1").locked) == (1, 1)


@pytest.mark.parametrize("outcome", [Delivery.ACCEPTED, Delivery.REJECTED])
def test_a_drain_behind_a_settled_outcome_is_answered(client: New, outcome: int) -> None:
    """Qpid JMS settles and drains at once; proton answers none while a settled one is kept."""
    one = client()
    sender, receiver = one.sender("Q1"), one.receiver("Q1")
    for _round in range(20):
        one.send(sender, Message(body="x", durable=True))
        receiver.flow(10)
        _message, delivery = one.receive(receiver)
        delivery.update(outcome)
        delivery.settle()
        one.push()
        assert one.drained(receiver, 0) == 0


@pytest.mark.parametrize(
    ("state", "fields", "backouts"),
    [
        (Delivery.RELEASED, {}, 0),
        (Delivery.MODIFIED, {"failed": False}, 0),
        (Delivery.MODIFIED, {"failed": True}, 1),
    ],
)
def test_a_message_given_back_is_counted_when_its_delivery_failed(
    client: New, state: int, fields: dict[str, object], backouts: int
) -> None:
    one = client()
    one.send(one.sender("Q1"), Message(body="x"))
    receiver = one.receiver("Q1", credit=2)
    first, delivery = one.receive(receiver)
    assert (first.delivery_count, first.first_acquirer) == (0, True)
    one.settle(delivery, state, **fields)
    again, _delivery = one.receive(receiver)
    assert (again.delivery_count, again.first_acquirer) == (backouts, backouts == 0)


def test_D32_a_delivery_that_failed_comes_again_after_BODELAY_and_a_released_one_at_once(
    qm: QueueManager, client: New, clock: VirtualClock
) -> None:
    assert qm.mqsc("ALTER QLOCAL(Q1) BODELAY(5)").ok
    one = client()
    one.send(one.sender("Q1"), Message(body="x"))
    receiver = one.receiver("Q1", credit=3)
    one.settle(one.receive(receiver)[1], Delivery.RELEASED)
    one.settle(one.receive(receiver)[1], Delivery.MODIFIED, failed=True)
    wait_until(lambda: qm.counts("Q1").staged == 1)
    clock.advance(4_999)
    assert qm.counts("Q1").staged == 1
    clock.advance(1)
    assert one.receive(receiver)[0].delivery_count == 1


def test_undeliverable_here_is_for_another_link(qm: QueueManager, client: New) -> None:
    one = client()
    one.send(one.sender("Q1"), Message(body="x"))
    receiver = one.receiver("Q1", credit=5)
    _message, delivery = one.receive(receiver)
    one.settle(delivery, Delivery.MODIFIED, failed=True, undeliverable=True)
    with pytest.raises(TimeoutError):
        one.receive(receiver, 0.6)
    message, _delivery = one.receive(one.receiver("Q1", credit=1))
    assert message.body == "x"


def test_an_unwanted_message_does_not_keep_those_behind_it(qm: QueueManager, client: New) -> None:
    one = client()
    sender = one.sender("Q1")
    one.send(sender, Message(body="unwanted"))
    receiver = one.receiver("Q1", credit=5)
    _message, delivery = one.receive(receiver)
    one.settle(delivery, Delivery.MODIFIED, undeliverable=True)
    for body in ("1", "2"):
        one.send(sender, Message(body=body))
    assert [one.receive(receiver)[0].body for _ in range(2)] == ["1", "2"]
    message, _delivery = one.receive(one.receiver("Q1", credit=1))
    assert (message.body, message.delivery_count) == ("unwanted", 0)


def test_an_anonymous_link_sends_to_more_addresses_than_MAXHANDS(client: New) -> None:
    one = client()
    sender = one.sender(None)
    for n in range(300):
        sent = one.send(sender, Message(address=f"topic://t/{n}", body="x"))
        assert sent.remote_state == Delivery.ACCEPTED


def test_a_target_that_leads_elsewhere_is_opened_again(qm: QueueManager, client: New) -> None:
    assert qm.mqsc("DEFINE QALIAS(A) TARGET(Q1)").ok
    one = client()
    sender = one.sender("A")
    one.send(sender, Message(body="1"))
    assert qm.mqsc("ALTER QALIAS(A) TARGET(BACK)").ok
    states = [one.send(sender, Message(body="2")).remote_state for _ in range(2)]
    assert states[-1] == Delivery.ACCEPTED
    assert live(qm, "BACK") >= 1


@pytest.mark.parametrize("is_browser", [True, False])
@pytest.mark.parametrize("propctl", ["COMPAT", "NONE"])
def test_fields_that_an_mqmd_has_no_place_for_arrive_whatever_propctl_says(
    qm: QueueManager, client: New, propctl: str, is_browser: bool
) -> None:
    assert qm.mqsc(f"ALTER QLOCAL(Q1) PROPCTL({propctl})").ok
    one = client()
    sent = Message(body="x", id="mine", content_type="text/x", annotations={symbol("x-opt-a"): 1})
    one.send(one.sender("Q1"), sent)
    got = one.receive(one.receiver("Q1", credit=1, copies=is_browser))[0]
    assert (got.id, str(got.content_type)) == ("mine", "text/x")
    assert (got.annotations or {})["x-opt-a"] == 1


def test_annotations_of_modified_are_combined_with_those_of_the_message(
    client: New, qm: QueueManager
) -> None:
    one = client()
    sent = Message(body="x", annotations={symbol("x-opt-a"): "sent", symbol("x-opt-b"): "sent"})
    one.send(one.sender("Q1"), sent)
    receiver = one.receiver("Q1", credit=10)
    for given in ({"x-opt-b": "first", "x-opt-c": 1}, {"x-opt-c": 2, "x-opt-jms-dest": 9}):
        _message, delivery = one.receive(receiver)
        delivery.local.annotations = {symbol(name): value for name, value in given.items()}
        one.settle(delivery, Delivery.MODIFIED)
    message, delivery = one.receive(receiver)
    found = message.annotations or {}
    names = ("x-opt-a", "x-opt-b", "x-opt-c", "x-opt-jms-dest")
    assert [found[name] for name in names] == ["sent", "first", 2, 0]
    one.settle(delivery, Delivery.ACCEPTED)
    assert live(qm) == 0


def test_a_rejected_message_is_dead_lettered_with_its_life(
    qm: QueueManager, clock: VirtualClock, client: New
) -> None:
    one = client()
    one.send(one.sender("Q1"), Message(body="x", ttl=60))
    clock.advance(10_000)
    _message, delivery = one.receive(one.receiver("Q1", credit=1))
    one.settle(delivery, Delivery.REJECTED)
    assert (live(qm), live(qm, "DEAD")) == (0, 1)
    with qm.session() as session:
        letter = session.get("DEAD")
    assert letter is not None
    assert letter.remaining_ms == 50_000
    assert letter.body.startswith(b"DLH ")


@pytest.mark.parametrize("body", ["text", b"data", {"a": 1}])
def test_Q1_a_client_gets_a_dead_letter_as_it_was_sent_with_the_reason_as_annotations(
    qm: QueueManager, clock: VirtualClock, client: New, body: object
) -> None:
    one = client()
    sent = Message(body=body, properties={"colour": "red"}, durable=True, ttl=60)
    one.send(one.sender("Q1"), sent)
    _message, delivery = one.receive(one.receiver("Q1", credit=1))
    clock.advance(10_000)
    one.settle(delivery, Delivery.REJECTED)
    letter, _delivery = one.receive(one.receiver("DEAD", credit=1))
    assert (letter.body, letter.properties, letter.ttl) == (body, {"colour": "red"}, 50)
    annotations = letter.annotations or {}
    assert annotations["x-opt-mayfly-reason"] == "MQRC_BACKOUT_THRESHOLD_REACHED"
    assert annotations["x-opt-mayfly-original-queue"] == "Q1"
    assert annotations["x-opt-mayfly-dead-lettered-at"] == clock.now_ms()
    assert live(qm, "DEAD") == 0


def test_BOTHRESH_moves_a_message_to_BOQNAME(qm: QueueManager, client: New) -> None:
    one = client()
    one.send(one.sender("RETRIED"), Message(body="poison"))
    receiver = one.receiver("RETRIED", credit=10)
    for _ in range(2):
        _message, delivery = one.receive(receiver)
        one.settle(delivery, Delivery.MODIFIED, failed=True)
    # The client is told nothing of it.
    for _ in range(2_000_000):
        if live(qm, "BACK") == 1:
            break
    assert (live(qm, "RETRIED"), live(qm, "BACK")) == (0, 1)


def test_a_link_closed_in_order_gives_back_uncounted(qm: QueueManager, client: New) -> None:
    one = client()
    one.send(one.sender("Q1"), Message(body="x"))
    receiver = one.receiver("Q1", credit=1)
    one.receive(receiver)
    one.end(receiver)
    message, _delivery = one.receive(one.receiver("Q1", credit=1))
    assert message.delivery_count == 0


def test_a_client_without_a_certificate_is_not_offered_EXTERNAL(port: int) -> None:
    """Qpid Proton would prefer it to the password that it has."""
    with socket.create_connection(("127.0.0.1", port), SECONDS) as one:
        one.sendall(b"AMQP\x03\x01\x00\x00")
        offered = b""
        while not offered.endswith(b"ANONYMOUS"):
            offered += one.recv(1_000)
    assert b"PLAIN" in offered
    assert b"EXTERNAL" not in offered
    BlockingConnection(f"amqp://127.0.0.1:{port}", user="app", password="secret").close()


def test_the_end_of_a_session_ends_its_links_in_order(qm: QueueManager, client: New) -> None:
    one = client(container="one")
    one.send(one.sender("Q1"), Message(body="x"))
    one.receive(one.receiver("Q1", credit=1))
    one.receiver("topic://prices/tea", name="tea", durable=True)
    one.session.close()
    one.until(lambda: one.session.state & Endpoint.REMOTE_CLOSED)
    assert qm.counts("Q1").locked == 0
    # The connection that goes on has neither message nor subscription any more.
    two = client(container="one")
    message, _delivery = two.receive(two.receiver("Q1", credit=1))
    assert message.delivery_count == 0
    two.send(two.sender("topic://prices/tea"), Message(body="4.20"))
    tea = two.receiver("topic://prices/tea", name="tea", durable=True, credit=1)
    assert two.receive(tea)[0].body == "4.20"


def test_G8_a_connection_that_breaks_gives_back_counted(qm: QueueManager, client: New) -> None:
    one, two = client(), client(container="other")
    one.send(one.sender("Q1"), Message(body="x"))
    one.receive(one.receiver("Q1", credit=1))
    one.cut()
    message, _delivery = two.receive(two.receiver("Q1", credit=1))
    assert message.delivery_count == 1


def test_a_link_that_copies_browses(qm: QueueManager, client: New) -> None:
    one = client()
    sender = one.sender("Q1")
    for n in range(3):
        one.send(sender, Message(body=str(n)))
    browser = one.receiver("Q1", copies=True)
    assert one.drained(browser, 10) == 3
    assert [one.receive(browser)[0].body for _ in range(3)] == ["0", "1", "2"]
    assert (live(qm), qm.counts("Q1").locked) == (3, 0)


def test_a_selector_selects(qm: QueueManager, client: New) -> None:
    one = client()
    sender = one.sender("Q1")
    for colour in ("red", "blue"):
        one.send(sender, Message(body=colour, properties={"colour": colour}))
    message, _delivery = one.receive(one.receiver("Q1", credit=1, selector="colour = 'blue'"))
    assert message.body == "blue"


def test_a_wrong_selector_is_an_invalid_field(client: New) -> None:
    one = client()
    error = one.error_of(one.receiver("Q1", selector="colour ="))
    assert error.name == "amqp:invalid-field"


def test_no_local_leaves_out_what_the_client_has_sent(client: New) -> None:
    one, two = client(), client(container="other")
    receiver = one.receiver("topic://t", credit=5, no_local=True)
    one.send(one.sender("topic://t"), Message(body="mine"))
    two.send(two.sender("topic://t"), Message(body="theirs"))
    assert one.receive(receiver)[0].body == "theirs"


def test_an_anonymous_link_sends_to_each_message_s_address(qm: QueueManager, client: New) -> None:
    one = client()
    sender = one.sender(None)
    assert one.send(sender, Message(address="Q1", body="x")).remote_state == Delivery.ACCEPTED
    refused = one.send(sender, Message(address="queue://NO.SUCH", body="x"))
    assert refused.remote_state == Delivery.REJECTED
    assert refused.remote.condition is not None
    assert refused.remote.condition.name == "amqp:not-found"
    nowhere = one.send(sender, Message(body="x"))
    assert nowhere.remote.condition is not None
    assert nowhere.remote.condition.name == "amqp:invalid-field"
    assert live(qm) == 1


def test_a_dynamic_node_is_a_temporary_queue(qm: QueueManager, client: New) -> None:
    one = client()
    receiver = one.receiver(None, dynamic=True, credit=1)
    name = receiver.remote_source.address or ""
    assert name.startswith("AMQP.")
    # Durable means nothing on a queue that ends with its connection.
    one.send(one.sender(name), Message(body="reply", durable=True))
    assert one.receive(receiver)[0].body == "reply"
    one.close()
    two = client(container="other")
    error = two.error_of(two.receiver(name, capabilities=("queue",)))
    assert error.name == "amqp:not-found"


@pytest.mark.parametrize("direction", ["sender", "receiver"])
@pytest.mark.parametrize(
    ("policy", "stays"),
    [(None, False), (0x2B, False), (0x2C, True), (0x2D, True), (0x2E, True)],
)
def test_a_dynamic_queue_ends_with_its_link_unless_its_lifetime_policy_is_another(
    qm: QueueManager, client: New, direction: str, policy: int | None, stays: bool
) -> None:
    """A program that makes a temporary queue for each request leaves none behind."""
    one, other = client(), client(container="other")
    link = one.dynamic(direction, policy)
    terminus = link.remote_target if direction == "sender" else link.remote_source
    name = terminus.address or ""
    other.send(other.sender(name, capabilities=("queue",)), Message(body="left"))
    one.end(link)
    assert bool(qm.mqsc(f"DISPLAY QLOCAL('{name}')").ok) is stays
    one.close()
    wait_until(lambda: not qm.mqsc(f"DISPLAY QLOCAL('{name}')").ok)


def test_a_settled_message_that_is_refused_ends_its_link(client: New) -> None:
    one = client()
    sender = one.sender("SMALL", is_settled=True)
    one.send(sender, Message(body="1"))
    one.begin(sender, Message(body="2"))
    error = one.error_of(sender)
    assert error.name == "amqp:resource-limit-exceeded"


def test_a_full_queue_rejects(client: New) -> None:
    one = client()
    sender = one.sender("SMALL")
    assert one.send(sender, Message(body="1")).remote_state == Delivery.ACCEPTED
    refused = one.send(sender, Message(body="2"))
    assert refused.remote.condition is not None
    assert refused.remote.condition.name == "amqp:resource-limit-exceeded"
    assert (refused.remote.condition.description or "").startswith("MQRC_Q_FULL (2053)")


def test_a_receiver_that_settles_first_takes_each_message(qm: QueueManager, client: New) -> None:
    one = client()
    one.send(one.sender("Q1"), Message(body="x"))
    receiver = one.receiver("Q1", credit=1, is_settled=True)
    _message, delivery = one.receive(receiver)
    assert delivery.settled
    one.settle_down()
    assert (live(qm), qm.counts("Q1").locked) == (0, 0)


def test_a_large_message_comes_in_many_frames(qm: QueueManager, client: New) -> None:
    one = client()
    body = bytes(range(256)) * 3_000
    sender = one.sender("Q1")
    assert sender.remote_max_message_size == 1_000_000
    assert one.send(sender, Message(body=body, inferred=True)).remote_state == Delivery.ACCEPTED
    message, _delivery = one.receive(one.receiver("Q1", credit=1))
    assert bytes(message.body) == body


def test_a_message_that_is_too_long_is_rejected_and_the_link_goes_on(
    qm: QueueManager, client: New
) -> None:
    one = client()
    sender = one.sender("Q1")
    refused = one.send(sender, Message(body=bytes(1_000_001), inferred=True))
    assert refused.remote.condition is not None
    assert refused.remote.condition.name == "amqp:link:message-size-exceeded"
    assert one.send(sender, Message(body="x")).remote_state == Delivery.ACCEPTED
    assert live(qm) == 1


def test_a_malformed_message_is_rejected(client: New) -> None:
    one = client()
    refused = one.send(one.sender("Q1"), b"\x00Sp\xc0\xff")
    assert refused.remote.condition is not None
    assert refused.remote.condition.name == "amqp:decode-error"


def test_a_client_that_has_closed_its_connection_may_come_again_at_once(
    qm: QueueManager, client: New
) -> None:
    """Its subscriptions, its conversations and the id of its container are free by the answer."""
    for _ in range(5):
        one = client(container="c1", desired=("sole-connection-for-container",))
        receiver = one.receiver("topic://news", name="sub1", durable=True, credit=5)
        one.send(one.sender("topic://news"), Message(body="x", durable=True))
        message, _delivery = one.receive(receiver)
        assert message.body == "x"
        assert "CONN(0" in qm.mqsc("DISPLAY CONN(*)").text
        one.close()
        assert "CONN(0" not in qm.mqsc("DISPLAY CONN(*)").text


def test_a_durable_subscription_goes_on_by_its_link_name(client: New) -> None:
    one = client()
    receiver = one.receiver("topic://news", name="sub1", durable=True)
    one.end(receiver, detach=True)
    one.send(one.sender("topic://news"), Message(body="while away"))
    one.close()
    two = client()
    again = two.receiver("topic://news", name="sub1", durable=True, credit=1)
    assert two.receive(again)[0].body == "while away"
    two.end(again, detach=True)
    # A link without a source finds it by name; closing that ends it.
    found = two.receiver(None, name="sub1")
    assert found.remote_source.address == "topic://news"
    two.end(found)
    error = two.error_of(two.receiver(None, name="sub1"))
    assert error.name == "amqp:not-found"


def test_shared_subscribers_share(client: New) -> None:
    one, two = client(container="a"), client(container="b")
    shared = ("topic", "shared", "global")
    first = one.receiver("news", name="s|global", capabilities=shared, credit=1)
    second = two.receiver("news", name="s|global2", capabilities=shared, credit=1)
    sender = one.sender("topic://news")
    for body in ("1", "2"):
        one.send(sender, Message(body=body))
    assert {one.receive(first)[0].body, two.receive(second)[0].body} == {"1", "2"}


def test_a_wrong_password_is_refused(port: int) -> None:
    with pytest.raises(ConnectionResetError):
        Client(port, password="wrong")


def test_a_client_without_a_user_comes_in_where_admission_says_so(
    port: int, admission: OneUser
) -> None:
    Client(port, user="", password="", mechanism="ANONYMOUS").close()
    assert [(one.user, one.password) for one in admission.applicants] == [("", "")]


def test_a_host_name_may_be_that_of_a_queue_manager(client: New) -> None:
    one = client(hostname="qm1")
    assert one.connection.remote_container == "QM1"
    offered = [str(name) for name in one.connection.remote_offered_capabilities]
    assert offered == ["ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS"]


def test_a_container_that_wants_to_be_alone_is_alone(client: New) -> None:
    desired = ("sole-connection-for-container",)
    client(container="only", desired=desired)
    other = client(container="only", desired=desired)
    other.until(lambda: other.connection.remote_condition)
    condition = other.connection.remote_condition
    assert condition is not None
    assert condition.name == "amqp:invalid-field"


@pytest.mark.parametrize(
    ("first", "what"),
    [
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"TSH \0\0\0\xf4", "a client of IBM MQ"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS where none is configured"),
        (b"AMQP\x00\x00\x09\x01", "AMQP 0-9-1"),
    ],
)
def test_other_protocols_are_named_in_the_log(
    port: int, caplog: pytest.LogCaptureFixture, first: bytes, what: str
) -> None:
    caplog.set_level("INFO", "mayfly.amqp")
    with socket.create_connection(("127.0.0.1", port), 10) as raw:
        raw.sendall(first)
        while raw.recv(1024):
            pass
    assert any(what in record.getMessage() for record in caplog.records)


def test_the_end_of_the_server_is_told(server: AmqpServer, client: New) -> None:
    one = client()
    one.receiver("Q1", credit=1)
    server.close()
    one.until(lambda: one.connection.remote_condition)
    condition = one.connection.remote_condition
    assert condition is not None
    assert condition.name == "amqp:connection:forced"


#: Messages of 900 kB, and room for two of the longest, of 1 MB.
LONG = bytes(Message(body=b"a" * 900_000).encode())


def begun(server: AmqpServer, one: Client, count: int) -> tuple[Link, Delivery]:
    """Send a long message but for its last byte, the one of this number that has come in part."""
    link = one.sender("Q1")
    delivery = link.delivery("slow")
    link.stream(LONG[:-1])
    one.push()
    budget = server.service.budget
    wait_until(lambda: budget.left_bytes <= BUDGET_BYTES - count * 1_000_000)
    return link, delivery


def ended(one: Client, link: Link, delivery: Delivery) -> int:
    """Send the last byte; return the outcome."""
    link.stream(LONG[-1:])
    link.advance()
    one.until(lambda: delivery.settled)
    outcome: int = delivery.remote_state
    return outcome


def test_a_message_that_comes_in_part_waits_for_room_and_is_put_then(
    qm: QueueManager, server: AmqpServer, client: New
) -> None:
    """Its connection is not read from while others have all the memory for messages."""
    budget = server.service.budget
    slow = [client(), client()]
    parts = [begun(server, one, count) for count, one in enumerate(slow, 1)]
    other = client()
    sender = other.sender("Q1")
    late = other.begin(sender, LONG)
    wait_until(lambda: budget.is_waited_for)
    assert not late.remote_state
    for one, part in zip(slow, parts, strict=True):
        assert ended(one, *part) == Delivery.ACCEPTED
    other.until(lambda: late.settled)
    assert late.remote_state == Delivery.ACCEPTED
    assert live(qm) == 3
    wait_until(lambda: budget.left_bytes == BUDGET_BYTES)


def test_a_message_that_waits_too_long_for_room_is_refused_with_MQRC_RESOURCE_PROBLEM(
    qm: QueueManager, server: AmqpServer, client: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client would take a longer silence for the end of the connection."""
    monkeypatch.setattr("mayfly.servers.amqp.connection.WAIT_SECONDS", 0.05)
    slow = [client(), client()]
    parts = [begun(server, one, count) for count, one in enumerate(slow, 1)]
    other = client()
    sender = other.sender("Q1")
    refused = other.send(sender, LONG)
    assert refused.remote_state == Delivery.REJECTED
    condition = refused.remote.condition
    assert condition.name == "amqp:resource-limit-exceeded"
    assert condition.description.startswith("MQRC_RESOURCE_PROBLEM (2102)")
    for one, part in zip(slow, parts, strict=True):
        assert ended(one, *part) == Delivery.ACCEPTED
    assert other.send(sender, LONG).remote_state == Delivery.ACCEPTED
    assert live(qm) == 3
    wait_until(lambda: server.service.budget.left_bytes == BUDGET_BYTES)


def test_a_connection_that_has_room_for_one_message_never_waits_for_another(
    qm: QueueManager, server: AmqpServer, client: New
) -> None:
    """Two such connections would wait for each other."""
    one, other = client(), client()
    parts = [begun(server, one, 1), begun(server, other, 2)]
    for who in (one, other):
        refused = who.send(who.sender("Q1"), LONG)
        assert refused.remote_state == Delivery.REJECTED
        assert refused.remote.condition.name == "amqp:resource-limit-exceeded"
    for who, part in zip((one, other), parts, strict=True):
        assert ended(who, *part) == Delivery.ACCEPTED
    assert live(qm) == 2


def test_a_slow_client_keeps_no_room_that_others_wait_for(
    qm: QueueManager, server: AmqpServer, client: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayfly.servers.budget.REQUEST_SECONDS", 0.05)
    monkeypatch.setattr("mayfly.servers.budget.BYTES_A_SECOND", 100_000_000)
    slow = [client(), client()]
    for count, one in enumerate(slow, 1):
        begun(server, one, count)
    other = client()
    assert other.send(other.sender("Q1"), LONG).remote_state == Delivery.ACCEPTED
    wait_until(lambda: len(server.open_connections) < 3)
    assert live(qm) == 1


def test_a_connection_that_is_cut_gives_its_room_back(
    qm: QueueManager, server: AmqpServer, client: New
) -> None:
    one, other, late = client(), client(), client()
    begun(server, one, 1)
    begun(server, other, 2)
    delivery = late.begin(late.sender("Q1"), LONG)
    wait_until(lambda: server.service.budget.is_waited_for)
    one.cut()
    late.until(lambda: delivery.settled)
    assert delivery.remote_state == Delivery.ACCEPTED
    other.cut()
    wait_until(lambda: server.service.budget.left_bytes == BUDGET_BYTES)
    assert live(qm) == 1
