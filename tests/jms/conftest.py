"""A queue manager in virtual time with queues, and both APIs of JMS on it.

A sample of the tests runs a second time, over a socket (tests/over.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager, jms
from tests.jms.scene import DEFINITIONS
from tests.over import names_over


@pytest.fixture(autouse=True)
def _over(over: str) -> Iterator[None]:
    """How a factory reaches its queue manager."""
    with names_over(over):
        yield


@pytest.fixture
def manager(queue_manager: QueueManager) -> QueueManager:
    """``QM1`` with the queues of the tests; its books must balance at the end."""
    assert queue_manager.mqsc(DEFINITIONS).ok
    return queue_manager


@pytest.fixture
def factory(manager: QueueManager) -> jms.ConnectionFactory:
    """The factory of ``QM1``."""
    return jms.ConnectionFactory(manager)


@pytest.fixture
def context(factory: jms.ConnectionFactory) -> Iterator[jms.JMSContext]:
    """A context that acknowledges by itself."""
    with factory.create_context() as opened:
        yield opened


@pytest.fixture
def transacted(factory: jms.ConnectionFactory) -> Iterator[jms.JMSContext]:
    """A transacted context."""
    with factory.create_context(jms.SESSION_TRANSACTED) as opened:
        yield opened


@pytest.fixture
def connection(factory: jms.ConnectionFactory) -> Iterator[jms.Connection]:
    """A started connection of the classic API."""
    with factory.create_connection() as opened:
        opened.start()
        yield opened


@pytest.fixture
def session(connection: jms.Connection) -> jms.Session:
    """A session that acknowledges by itself."""
    return connection.create_session(jms.AUTO_ACKNOWLEDGE)


@pytest.fixture
def q1(context: jms.JMSContext) -> jms.Queue:
    """``Q1``."""
    return context.create_queue("Q1")
