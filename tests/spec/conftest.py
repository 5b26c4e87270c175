"""Fixtures of the spec tests: a session, and every manager and persistence a rule must hold for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine.session import Session
from mayfly.testing import VirtualClock
from tests.spec.scene import DEAD, REPLIES, alter_manager, local


@pytest.fixture
def session(queue_manager: QueueManager) -> Iterator[Session]:
    """A session whose puts and gets are each final at once."""
    with queue_manager.session("anna") as opened:
        yield opened


@pytest.fixture
def unit(queue_manager: QueueManager) -> Iterator[Session]:
    """A transacted session; what is left open at the end is backed out."""
    opened = queue_manager.session("anna", transacted=True)
    yield opened
    opened.close(commit=False)


@pytest.fixture(params=[False, True], ids=["volatile", "persistent"])
def persistent(request: pytest.FixtureRequest) -> bool:
    """Whether the messages of the test survive a restart."""
    return bool(request.param)


@pytest.fixture(params=["memory", "folder"])
def any_manager(
    request: pytest.FixtureRequest, clock: VirtualClock, tmp_path: Path
) -> Iterator[QueueManager]:
    """A queue manager in memory and one in a folder, proved to balance at the end."""
    folder = tmp_path / "QM1" if request.param == "folder" else None
    manager = QueueManager("QM1", folder, clock=clock)
    yield manager
    found = manager.verify()
    manager.close()
    assert found.ok, found.problems


@pytest.fixture
def manager(queue_manager: QueueManager) -> QueueManager:
    """The queue manager with a queue, a reply queue and a dead-letter queue."""
    local(queue_manager)
    local(queue_manager, REPLIES)
    alter_manager(queue_manager, DEADQ=DEAD)
    return queue_manager
