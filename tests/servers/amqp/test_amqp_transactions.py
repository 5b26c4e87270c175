"""Transactions of AMQP 1.0: the coordinator, messages and outcomes within, and their end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from proton import Delivery, Described, Message, ulong

from mayfly import QueueManager
from tests.facts import wait_until
from tests.servers.amqp.client import Client

New = Callable[..., Client]
UNKNOWN = "amqp:transaction:unknown-id"


def test_a_message_in_a_transaction_is_there_when_it_is_discharged(
    qm: QueueManager, client: New
) -> None:
    one = client()
    coordinator, sender = one.coordinator(), one.sender("Q1")
    name = one.declare(coordinator)
    one.send(sender, Message(body="x"), name)
    assert (qm.counts("Q1").live, qm.counts("Q1").uncommitted) == (0, 1)
    assert one.discharge(coordinator, name, fail=False).remote_state == Delivery.ACCEPTED
    assert qm.counts("Q1").live == 1


def test_a_failed_transaction_leaves_nothing(qm: QueueManager, client: New) -> None:
    one = client()
    coordinator = one.coordinator()
    name = one.declare(coordinator)
    one.send(one.sender("Q1"), Message(body="x"), name)
    assert one.discharge(coordinator, name, fail=True).remote_state == Delivery.ACCEPTED
    assert (qm.counts("Q1").live, qm.counts("Q1").uncommitted) == (0, 0)


def test_G8_a_message_taken_in_a_failed_transaction_goes_back_counted(
    qm: QueueManager, client: New
) -> None:
    one = client()
    coordinator = one.coordinator()
    one.send(one.sender("Q1"), Message(body="x"))
    receiver = one.receiver("Q1", credit=5)
    _message, delivery = one.receive(receiver)
    name = one.declare(coordinator)
    one.take_within(delivery, name)
    one.discharge(coordinator, name, fail=True)
    again, delivery = one.receive(receiver)
    assert again.delivery_count == 1
    name = one.declare(coordinator)
    one.take_within(delivery, name)
    assert qm.counts("Q1").locked == 1
    one.discharge(coordinator, name, fail=False)
    assert (qm.counts("Q1").locked, qm.counts("Q1").live) == (0, 0)


def test_transactions_side_by_side_know_nothing_of_each_other(
    qm: QueueManager, client: New
) -> None:
    one = client()
    coordinator, sender = one.coordinator(), one.sender("Q1")
    first, second = one.declare(coordinator), one.declare(coordinator)
    one.send(sender, Message(body="first"), first)
    one.send(sender, Message(body="second"), second)
    one.discharge(coordinator, second, fail=False)
    one.discharge(coordinator, first, fail=True)
    with qm.session() as session:
        bodies = [message.body for message in session.browse("Q1")]
    assert bodies == [b"second"]


def test_the_end_of_a_connection_backs_out_its_transactions(qm: QueueManager, client: New) -> None:
    one, two = client(), client(container="other")
    name = one.declare(one.coordinator())
    one.send(one.sender("Q1"), Message(body="x"), name)
    one.cut()
    for _ in range(1_000):
        two.settle_down()
        if not qm.counts("Q1").uncommitted:
            break
    assert (qm.counts("Q1").live, qm.counts("Q1").uncommitted) == (0, 0)


def test_the_end_of_the_coordinator_backs_out_its_transactions(
    qm: QueueManager, client: New
) -> None:
    one = client()
    coordinator, sender = one.coordinator(), one.sender("Q1")
    name = one.declare(coordinator)
    one.send(sender, Message(body="x"), name)
    one.end(coordinator)
    refused = one.send(sender, Message(body="y"), name)
    assert refused.remote.condition is not None
    assert refused.remote.condition.name == UNKNOWN
    assert qm.counts("Q1").live == 0


def test_an_unknown_transaction_is_refused(qm: QueueManager, client: New) -> None:
    one = client()
    coordinator = one.coordinator()
    for refused in (
        one.send(one.sender("Q1"), Message(body="x"), b"none"),
        one.discharge(coordinator, b"none", fail=False),
    ):
        assert refused.remote_state == Delivery.REJECTED
        assert refused.remote.condition is not None
        assert refused.remote.condition.name == UNKNOWN
    assert qm.counts("Q1").live == 0


def test_a_coordinator_takes_nothing_but_its_requests(client: New) -> None:
    one = client()
    refused = one.send(one.coordinator(), Message(body="x"))
    assert refused.remote.condition is not None
    assert refused.remote.condition.name == "amqp:not-implemented"


@pytest.mark.parametrize(
    ("code", "fields", "after_commit", "backouts"),
    [
        (0x26, [], "Q1", 0),
        (0x27, [True], "Q1", 1),
        (0x27, [False], "Q1", 0),
        (0x25, [None], "DEAD", 0),
    ],
    ids=["released", "modified, failed", "modified", "rejected"],
)
@pytest.mark.parametrize("fail", [False, True], ids=["committed", "failed"])
def test_an_outcome_in_a_transaction_takes_effect_when_it_is_discharged(
    qm: QueueManager,
    client: New,
    code: int,
    fields: list[object],
    after_commit: str,
    backouts: int,
    fail: bool,
) -> None:
    one = client()
    one.send(one.sender("Q1"), Message(body="x"))
    coordinator = one.coordinator()
    name = one.declare(coordinator)
    receiver = one.receiver("Q1", credit=1)
    _message, delivery = one.receive(receiver)
    delivery.local.data = [name, Described(ulong(code), fields)]
    delivery.update(0x34)
    delivery.settle()
    one.settle_down()
    assert (qm.counts("Q1").locked, qm.counts("Q1").live, qm.counts("DEAD").live) == (1, 0, 0)
    assert one.discharge(coordinator, name, fail=fail).remote_state == Delivery.ACCEPTED
    queue = "Q1" if fail else after_commit
    wait_until(lambda: (qm.counts("Q1").locked, qm.counts(queue).live) == (0, 1))
    with qm.session() as session:
        (message,) = session.browse(queue)
    assert message.backout_count == (1 if fail else backouts)
