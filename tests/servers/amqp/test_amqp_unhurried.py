"""Outcomes that a client settles itself wait for the sync of others, and are not lost by that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from proton import Delivery, Link, Message

from mayfly import QueueManager
from mayfly.servers.amqp.connection import AmqpServer
from mayfly.servers.amqp.service import DeferredSettlements
from tests.facts import wait_until
from tests.servers.amqp.client import Client
from tests.servers.amqp.conftest import OBJECTS
from tests.spec.scene import lives

New = Callable[..., Client]


class Patient(DeferredSettlements):
    """Waits for a sync of others however long that takes."""

    def add(self, call: Callable[[], object]) -> None:
        super().add(call)
        assert self._timer is not None
        self._timer.cancel()


@pytest.fixture
def qm(tmp_path: Path) -> Iterator[QueueManager]:
    with QueueManager("QM1", tmp_path / "QM1") as manager:
        assert manager.mqsc(OBJECTS).ok
        yield manager


@pytest.fixture
def patient(server: AmqpServer) -> Patient:
    """Nothing of the server is settled because time has passed."""
    service = server.service
    deferred_settlements = Patient(service.loop)
    server.service = service._replace(deferred_settlements=deferred_settlements)
    return deferred_settlements


def put(one: Client, *bodies: str, durable: bool = True) -> None:
    link = one.sender("Q1")
    for body in bodies:
        one.send(link, Message(body=body, durable=durable))


def accept(one: Client, receiver: Link) -> None:
    """Receive a message; accept and settle it in one write."""
    delivery = one.receive(receiver)[1]
    delivery.update(Delivery.ACCEPTED)
    delivery.settle()
    one.push()


def ended(qm: QueueManager) -> list[tuple[str, int]]:
    """Return how lives on Q1 have ended, with their backout counts."""
    return [(life.outcome, life.backout_count) for life in lives(qm, "Q1")]


def test_they_go_with_the_next_message_that_is_put(
    qm: QueueManager, client: New, patient: Patient
) -> None:
    taker, putter = client(), client()
    link = putter.sender("Q1")
    putter.send(link, Message(body="1", durable=True))
    accept(taker, taker.receiver("Q1", credit=1))
    wait_until(lambda: bool(patient.calls))
    assert (ended(qm), qm.counts("Q1").locked) == ([], 1)
    putter.send(link, Message(body="2", durable=True))
    wait_until(lambda: ended(qm) == [("got", 0)])


@pytest.mark.parametrize("how", ["cut", "closed", "server"])
def test_what_a_client_has_accepted_is_not_given_back_when_it_ends(
    qm: QueueManager, client: New, server: AmqpServer, patient: Patient, how: str
) -> None:
    one = client()
    put(one, "used", "held")
    receiver = one.receiver("Q1", credit=2)
    accept(one, receiver)
    assert one.receive(receiver)[0].body == "held"
    wait_until(lambda: bool(patient.calls))
    if how == "server":
        server.close()
    elif how == "closed":
        one.close()
    else:
        one.cut()
    wait_until(lambda: ended(qm) == [("got", 0)])
    wait_until(lambda: qm.counts("Q1").live == 1)
    with qm.session() as session:
        assert [(m.data, m.backout_count) for m in session.browse("Q1")] == [(b"held", 1)]


def test_what_a_client_has_accepted_is_there_for_nobody_when_it_ends_its_link(
    qm: QueueManager, client: New, patient: Patient
) -> None:
    one = client()
    put(one, "used", "held")
    receiver = one.receiver("Q1", credit=2)
    accept(one, receiver)
    one.receive(receiver)
    one.end(receiver)
    message, _delivery = one.receive(one.receiver("Q1", credit=2))
    # The link that was closed has given it back as it was.
    assert (message.body, message.delivery_count) == ("held", 0)
    wait_until(lambda: ended(qm) == [("got", 0)])


def test_a_message_that_needs_no_disk_is_settled_at_once(
    qm: QueueManager, client: New, patient: Patient
) -> None:
    one = client()
    put(one, "1", durable=False)
    accept(one, one.receiver("Q1", credit=1))
    wait_until(lambda: qm.counts("Q1").locked == 0)
    assert patient.calls == []


def test_a_client_that_may_hold_no_more_gets_the_next_as_it_settles(
    qm: QueueManager, client: New, server: AmqpServer, patient: Patient
) -> None:
    limits = server.service.limits._replace(unsettled=1)
    server.service = server.service._replace(limits=limits)
    one = client()
    put(one, "1", "2", "3")
    receiver = one.receiver("Q1", credit=3)
    for _ in range(3):
        accept(one, receiver)
    one.end(receiver)
    wait_until(lambda: ended(qm) == [("got", 0)] * 3)


def test_what_waits_is_called_once_by_whoever_comes_first() -> None:
    loop, called = asyncio.new_event_loop(), list[int]()
    deferred_settlements = DeferredSettlements(loop)
    for number in range(3):
        deferred_settlements.add(lambda number=number: called.append(number))  # type: ignore[misc]  # bound as it is
    deferred_settlements.make()
    assert called == [0, 1, 2]
    deferred_settlements.make()
    deferred_settlements.add(lambda: called.append(3))
    # Nobody comes: its time is over.
    deferred_settlements.add(loop.stop)
    loop.run_forever()
    loop.close()
    assert called == [0, 1, 2, 3]
