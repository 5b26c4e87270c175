"""A commit that fails in the midst has no outcome for a client: nobody knows what became of it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from proton import Described, Endpoint, Link, Message, ulong

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.servers.amqp.client import Client
from tests.store.scene import Disk, failing_disk

New = Callable[..., Client]


@pytest.fixture
def disk() -> Iterator[Disk]:
    with failing_disk() as disk:
        yield disk


@pytest.fixture
def qm(tmp_path: Path, clock: VirtualClock, disk: Disk) -> Iterator[QueueManager]:
    manager = QueueManager("QM1", tmp_path, clock)
    assert manager.mqsc("DEFINE QLOCAL(Q1) DEFPSIST(YES)").ok
    yield manager
    disk.failing = ""
    manager.close()


def check_closed(one: Client, link: Link) -> None:
    """The server closes a link, and says why."""
    one.until(lambda: link.state & Endpoint.REMOTE_CLOSED)
    assert link.remote_condition is not None
    assert link.remote_condition.name == "amqp:connection:forced"
    assert link.remote_condition.description.startswith("MQRC_CONNECTION_BROKEN (2009): commit")


def test_a_message_whose_commit_fails_has_no_outcome_and_its_link_is_closed(
    client: New, disk: Disk
) -> None:
    one = client()
    sender = one.sender("Q1")
    disk.failing = "sync .db-wal"
    delivery = one.begin(sender, Message(body="unknown", durable=True))
    check_closed(one, sender)
    assert not delivery.settled
    assert not delivery.remote_state


def test_a_discharge_whose_commit_fails_has_no_outcome_and_its_link_is_closed(
    client: New, disk: Disk
) -> None:
    one = client()
    sender, coordinator = one.sender("Q1"), one.coordinator()
    name = one.declare(coordinator)
    one.send(sender, Message(body="unknown", durable=True), name)
    disk.failing = "sync .db-wal"
    discharge = Message(body=Described(ulong(0x32), [name, False]))
    delivery = one.begin(coordinator, discharge)
    check_closed(one, coordinator)
    assert not delivery.settled
    assert not delivery.remote_state
