"""A queue manager in virtual time with the queues of the listener tests."""

from __future__ import annotations

import pytest

from mayfly import QueueManager
from tests.listener.scene import DEFINITIONS


@pytest.fixture
def manager(queue_manager: QueueManager) -> QueueManager:
    """``QM1`` with its queues; its books must balance at the end."""
    assert queue_manager.mqsc(DEFINITIONS).ok
    return queue_manager
