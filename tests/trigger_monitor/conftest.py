"""Fixtures of the trigger monitor's tests: a queue that triggers, and a session that puts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from tests.spec.scene import DEAD, alter_manager
from tests.spec.trigger_scene import triggering


@pytest.fixture
def manager(queue_manager: QueueManager) -> QueueManager:
    """A queue manager whose queue Q1 triggers; its process is to ``serve it``."""
    alter_manager(queue_manager, DEADQ=DEAD)
    triggering(queue_manager)
    return queue_manager


@pytest.fixture
def session(manager: QueueManager) -> Iterator[Session]:
    """A session whose puts and gets are each final at once."""
    with manager.session() as opened:
        yield opened
