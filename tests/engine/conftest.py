"""Fixtures of the engine tests: queue managers under a virtual clock, batches of three."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine.delay import delay_processor, schedule_query
from mayfly.testing import VirtualClock
from tests.spec.scene import local


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_processor, "BATCH", 3)
    monkeypatch.setattr(schedule_query, "_STEP", 3)


@pytest.fixture(params=[False, True], ids=["memory", "disk"])
def on_clock(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueueManager]:
    """Return a queue manager with Q1 under a virtual clock, in memory and on disk."""
    with QueueManager("QM1", tmp_path if request.param else None, VirtualClock()) as qm:
        local(qm, MAXDEPTH=100_000)
        yield qm
        found = qm.verify()
        assert found.ok, found.problems
