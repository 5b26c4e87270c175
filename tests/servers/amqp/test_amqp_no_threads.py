"""A verb that cannot begin, because no thread can be started, is not waited for and not counted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.client.connection import connect
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.runtime import Runtime
from mayfly.runtime.runtime import Thread
from mayfly.servers.amqp.addresses import DeletedTopics, NodeAddress
from mayfly.servers.amqp.connection import AmqpConnection, AmqpServer
from mayfly.servers.amqp.conversations import ClientConversations, SettlementAtEnd
from mayfly.servers.amqp.incoming import Incoming
from mayfly.servers.amqp.links import BatchedPuts, put_within
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Settlement
from tests.servers.amqp.conftest import OneUser

#: An end waits for running verbs for 30 seconds: earlier, it has waited for none.
SOON_SECONDS = 25
Q1 = NodeAddress("queue", "Q1")
LONG = Incoming(
    "", b"x" * 200_000, Descriptor(persistence=c.MQPER_PERSISTENT), b"", b"", None, 0, []
)


class Exhausted(Runtime):
    """A runtime without threads while ``is_exhausted``."""

    is_exhausted = False

    def thread(self, work: Callable[[], None], name: str) -> Thread:
        if self.is_exhausted:
            raise RuntimeError("can't start new thread")
        return super().thread(work, name)


@pytest.fixture
def runtime() -> Exhausted:
    return Exhausted()


@pytest.fixture
def qm(tmp_path: Path, runtime: Exhausted) -> Iterator[QueueManager]:
    with QueueManager("QM1", tmp_path, clock=VirtualClock(), runtime=runtime) as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)").ok
        yield manager
        runtime.is_exhausted = False


@pytest.fixture
def conversations(qm: QueueManager) -> Iterator[ClientConversations]:
    with ThreadPoolExecutor() as executor:
        yield ClientConversations(lambda: connect("QM1"), executor, DeletedTopics())


def end(conversations: ClientConversations) -> bool:
    """End the conversations; return whether they end at once."""
    has_ended = threading.Event()
    conversations.end(has_ended.set)
    return has_ended.wait(SOON_SECONDS)


def test_the_end_of_a_client_waits_for_no_commit_that_could_not_begin(
    runtime: Exhausted, conversations: ClientConversations
) -> None:
    outcomes = list[object]()
    name = conversations.declare()
    put_within(conversations, conversations.of_transaction(name), Q1, LONG)
    runtime.is_exhausted = True
    with pytest.raises(RuntimeError, match="new thread"):
        conversations.discharge(name, fail=False, on_done=outcomes.append)
    assert (conversations.has_transactions, outcomes) == (True, [])
    assert end(conversations)


def test_the_end_of_a_client_waits_for_no_settlement_that_could_not_begin(
    runtime: Exhausted, conversations: ClientConversations
) -> None:
    main, outcomes = conversations.main, list[object]()
    put_within(conversations, conversations.putting(), Q1, LONG)
    conversations.putting().call(ask.Commit())
    handle = main.call(ask.Open("Q1", c.MQOO_INPUT_SHARED)).handle
    held = main.call(ask.GetAny([handle], c.MQGMO_NO_WAIT))
    name = conversations.declare()
    taken = SettlementAtEnd(held.number, Settlement.TAKEN, 0, outcomes.append)
    conversations.settle_at_end(name, taken)
    runtime.is_exhausted = True
    # Its transaction is empty, so the commit itself needs no thread.
    conversations.discharge(name, fail=False, on_done=outcomes.append)
    assert outcomes == [None]
    assert end(conversations)


def test_bytes_of_puts_whose_commit_cannot_begin_are_not_counted(
    qm: QueueManager, runtime: Exhausted, conversations: ClientConversations
) -> None:
    server = AmqpServer(["QM1"], OneUser(), lambda name, *_: connect(name))
    budget = server.service.budget
    free_bytes = budget.left_bytes
    connection = AmqpConnection(server.service, 1, set())
    puts = BatchedPuts(conversations, connection)
    puts.put(Q1, LONG, lambda _outcome: None)
    runtime.is_exhausted = True
    with pytest.raises(RuntimeError, match="new thread"):
        connection.calls.run_at_end()
    assert budget.left_bytes == free_bytes
    runtime.is_exhausted = False
    assert end(conversations)
    server.close()
