"""Messages that nobody takes: backed out too often or rejected, with no queue for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
from proton import Delivery, Link, Message

from mayfly import QueueManager
from mayfly.client.connection import connect
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.servers.amqp.connection import AmqpServer
from mayfly.servers.amqp.receiving import Postponed
from mayfly.testing import VirtualClock
from tests.facts import wait_until
from tests.servers.amqp.client import Client
from tests.servers.amqp.conftest import OneUser
from tests.spec.scene import lives

New = Callable[..., Client]
NOWHERE = "ALTER QMGR DEADQ(' ')\nALTER QLOCAL(RETRIED) BOQNAME(NONE)"


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, "mayfly.amqp")
    return lambda: [each.getMessage() for each in caplog.records if each.name == "mayfly.amqp"]


def poisoned(one: Client, bodies: list[str]) -> Link:
    """Put messages on RETRIED, and give each back as often as it allows."""
    sender = one.sender("RETRIED")
    for body in bodies:
        one.send(sender, Message(body=body, durable=True))
    receiver = one.receiver("RETRIED", credit=100)
    for _ in range(2 * len(bodies)):
        one.settle(one.receive(receiver)[1], Delivery.MODIFIED, failed=True)
    return receiver


def accept_behind(one: Client, receiver: Link, count: int) -> None:
    """Send messages one by one, each of which the link looks for behind those in front."""
    sender = one.sender("RETRIED")
    for n in range(count):
        one.send(sender, Message(body=f"good {n}"))
        message, delivery = one.receive(receiver)
        assert message.body == f"good {n}"
        one.settle(delivery, Delivery.ACCEPTED)


def test_a_poison_message_that_no_queue_takes_is_tried_after_pauses_that_grow(
    qm: QueueManager, client: New, clock: VirtualClock, warnings: Callable[[], list[str]]
) -> None:
    assert qm.mqsc(NOWHERE).ok
    one = client()
    receiver = poisoned(one, ["poison", "other"])
    accept_behind(one, receiver, 3)
    wait_until(lambda: qm.curdepth("RETRIED") == 2)
    (told,) = warnings()
    assert "of RETRIED go nowhere" in told
    assert qm.mqsc("ALTER QLOCAL(RETRIED) BOQNAME(BACK)").ok
    clock.advance(999)
    accept_behind(one, receiver, 3)
    assert qm.curdepth("BACK") == 0
    clock.advance(1)
    wait_until(lambda: qm.counts("BACK").live == 2)
    # An attempt that fails is no backout.
    ended = [life.backout_count for life in lives(qm, "RETRIED") if life.backout_count]
    assert ended == [2, 2]
    assert qm.counts("RETRIED").live == qm.counts("RETRIED").locked == 0


def test_the_pause_doubles_up_to_a_minute_and_the_log_tells_once_a_minute(
    clock: VirtualClock, warnings: Callable[[], list[str]]
) -> None:
    told = list[Callable[[], object]]()
    postponed = Postponed("Q1", told.append, clock.now_ms)
    full = mq_error(rc.MQRC_Q_FULL, "no room")
    for seconds in (1, 2, 4, 8, 16, 32, 60, 60):
        postponed.note(b"1", full)
        for call in told:
            call()
        told.clear()
        clock.advance(seconds * 1_000 - 1)
        assert postponed.has(b"1")
        clock.advance(1)
        assert not postponed.has(b"1")
    assert [line.split(": ")[0] for line in warnings()] == [
        "1 messages of Q1 go nowhere, 1 tries since this was told",
        "1 messages of Q1 go nowhere, 6 tries since this was told",
        "1 messages of Q1 go nowhere, 1 tries since this was told",
    ]
    postponed.note(b"1", full)
    postponed.forget(b"1")
    assert not postponed.has(b"1")


def test_AMQP_3_4_3_rejected_that_no_queue_takes_comes_again_after_a_pause(
    qm: QueueManager, client: New, clock: VirtualClock, warnings: Callable[[], list[str]]
) -> None:
    assert qm.mqsc(NOWHERE).ok
    one = client()
    one.send(one.sender("Q1"), Message(body="bad"))
    receiver = one.receiver("Q1", credit=10)
    one.settle(one.receive(receiver)[1], Delivery.REJECTED)
    one.send(one.sender("Q1"), Message(body="good"))
    message, delivery = one.receive(receiver)
    assert message.body == "good"
    one.settle(delivery, Delivery.ACCEPTED)
    wait_until(lambda: qm.curdepth("Q1") == 1)
    clock.advance(1_000)
    message, delivery = one.receive(receiver)
    assert (message.body, message.delivery_count) == ("bad", 1)
    assert len(warnings()) == 1


@pytest.fixture
def limited(qm: QueueManager, admission: OneUser) -> Iterator[Client]:
    """A client of app, who may get from and put to RETRIED, and nothing else."""
    assert qm.mqsc(
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT)\n"
        "SET AUTHREC PROFILE(RETRIED) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(GET,PUT,INQ)"
    ).ok
    served = AmqpServer(
        ["QM1"],
        admission,
        lambda name, admitted, _applicant: connect(name, user=admitted.user, program="AMQP"),
    )
    one = Client(served.listen_tcp("127.0.0.1", 0))
    yield one
    one.cut()
    served.close()


@pytest.mark.parametrize(("boqname", "queue"), [("BACK", "BACK"), ("NONE", "DEAD")])
def test_a_poison_message_is_moved_by_the_authority_of_the_queue_manager(
    qm: QueueManager, limited: Client, boqname: str, queue: str
) -> None:
    assert qm.mqsc(f"ALTER QLOCAL(RETRIED) BOQNAME({boqname})").ok
    poisoned(limited, ["poison"])
    wait_until(lambda: qm.curdepth(queue) == 1)
    assert qm.curdepth("RETRIED") == 0


def test_AMQP_3_4_3_rejected_is_dead_lettered_by_the_authority_of_the_queue_manager(
    qm: QueueManager, limited: Client
) -> None:
    limited.send(limited.sender("RETRIED"), Message(body="bad"))
    receiver = limited.receiver("RETRIED", credit=10)
    limited.settle(limited.receive(receiver)[1], Delivery.REJECTED)
    wait_until(lambda: qm.curdepth("DEAD") == 1)
    assert qm.curdepth("RETRIED") == 0
