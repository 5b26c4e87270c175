"""A queue manager in virtual time with a bridge queue, a reply queue and a dead-letter queue."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from tests.ims_bridge.scene import DEFINITIONS, HeldBridges


@pytest.fixture
def manager(queue_manager: QueueManager) -> QueueManager:
    """``QM1`` with the queues of the tests; its books must balance at the end."""
    assert queue_manager.mqsc(DEFINITIONS).ok
    return queue_manager


@pytest.fixture
def session(manager: QueueManager) -> Iterator[Session]:
    """The session that puts requests and gets replies."""
    with manager.session(program="asker") as opened:
        yield opened


@pytest.fixture
def held() -> Iterator[HeldBridges]:
    """Hears of every time that a bridge is held."""
    logger, handler = logging.getLogger("mayfly.ims_bridge"), HeldBridges()
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
