"""move_poison: a transacted client passes over messages that were backed out BOTHRESH times."""

from __future__ import annotations

import pytest

import mayfly
from mayfly import MQError, QueueManager
from mayfly.client import Client
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.client.conftest import MakeClient

DEAD = "SYSTEM.DEAD.LETTER.QUEUE"


@pytest.fixture
def client(make_client: MakeClient, queue_manager: QueueManager) -> Client:
    """A client that moves poison messages of Q1 to FAILED, at the second backout."""
    assert queue_manager.mqsc(
        "DEFINE QLOCAL(FAILED)\nALTER QLOCAL(Q1) BOTHRESH(2) BOQNAME(FAILED)"
    ).ok
    return make_client(transacted=True, move_poison=True)


def poisoned(client: Client, *bodies: bytes) -> None:
    """Put messages, back each out twice, and a good one behind them."""
    for body in bodies:
        client.put("Q1", body, persistent=True, time_to_live_ms=60_000)
    client.commit()
    for _ in range(2):
        for _ in bodies:
            assert client.get("Q1") is not None
        client.backout()
    client.put("Q1", b"good")
    client.commit()


def test_Q2_a_poison_message_goes_to_BOQNAME_with_its_life_in_the_unit_of_work(
    client: Client, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    poisoned(client, b"bad")
    clock.advance(20_000)
    message = client.get("Q1")
    assert message is not None
    assert message.body == b"good"
    client.backout()
    assert (queue_manager.curdepth("Q1"), queue_manager.curdepth("FAILED")) == (2, 0)
    assert client.get("Q1") is not None
    client.commit()
    assert queue_manager.curdepth("Q1") == 0
    (moved,) = client.browse("FAILED")
    assert (moved.body, moved.remaining_ms, moved.backout_count) == (b"bad", 40_000, 0)


def test_a_list_has_no_poison_message_and_is_empty_only_when_the_queue_is(
    client: Client, queue_manager: QueueManager
) -> None:
    poisoned(client, b"1", b"2", b"3")
    assert [message.body for message in client.get_many("Q1", 2)] == [b"good"]
    assert client.get_many("Q1", 2) == []
    client.commit()
    assert queue_manager.curdepth("FAILED") == 3


def test_Q1_without_a_BOQNAME_it_is_a_dead_letter(
    client: Client, queue_manager: QueueManager
) -> None:
    assert queue_manager.mqsc(f"ALTER QMGR DEADQ({DEAD})\nALTER QLOCAL(Q1) BOQNAME(' ')").ok
    poisoned(client, b"bad")
    assert client.get("Q1") is not None
    client.commit()
    (letter,) = client.browse(DEAD)
    assert letter.body.endswith(b"bad")


def test_what_no_queue_takes_can_only_be_backed_out(
    client: Client, queue_manager: QueueManager
) -> None:
    assert queue_manager.mqsc("ALTER QMGR DEADQ(' ')\nALTER QLOCAL(Q1) BOQNAME(' ')").ok
    poisoned(client, b"bad")
    with pytest.raises(MQError) as caught:
        client.get("Q1")
    assert caught.value.reason == rc.MQRC_BACKOUT_THRESHOLD_REACHED
    with pytest.raises(MQError) as caught:
        client.commit()
    assert caught.value.reason == rc.MQRC_BACKOUT_THRESHOLD_REACHED
    client.backout()
    client.commit()
    with pytest.raises(MQError):
        client.get("Q1")
    with pytest.raises(MQError):
        client.close()
    assert queue_manager.counts("Q1").live == 2


def test_G10_without_move_poison_the_program_gets_it(
    client: Client, make_client: MakeClient, queue_manager: QueueManager
) -> None:
    poisoned(client, b"bad")
    message = make_client(transacted=True).get("Q1")
    assert message is not None
    assert (message.body, message.backout_count) == (b"bad", 2)


def test_a_client_that_is_not_transacted_refuses_move_poison() -> None:
    with pytest.raises(ValueError, match="move_poison is for transacted clients"):
        mayfly.connect("QM1", move_poison=True)
    with pytest.raises(ValueError, match="move_poison is for transacted clients"):
        mayfly.aio.connect("QM1", move_poison=True)
