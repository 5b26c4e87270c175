"""Fixtures of the engine tests: queue managers under a virtual clock, batches of three."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from mayfly import QueueManager
from mayfly.engine.delay import delay_processor, staging_queries
from mayfly.engine.delay.delay_processor import due_alike
from mayfly.lifetime.times import SECOND_MS
from mayfly.store.keys import staging_key
from mayfly.testing import VirtualClock
from tests.spec.scene import local

#: Finds up to so many messages alike: their keys and their longest data, None where they are not.
FindAlike: TypeAlias = Callable[[QueueManager, int], tuple[Sequence[int], int] | None]


@pytest.fixture
def find_alike() -> FindAlike:
    """Return what finds messages alike among those that are due within a second."""

    def find(qm: QueueManager, limit: int) -> tuple[Sequence[int], int] | None:
        core, staging = qm.engine, qm.engine.registry.staging()
        assert staging is not None
        with core.engine_lock:
            now_ms = core.now_ms() + SECOND_MS
            alike = due_alike(core, staging, staging_key(now_ms + 1, 0), now_ms, limit)
        return None if alike is None else (alike.keys, alike.largest_bytes)

    return find


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_processor, "BATCH", 3)
    monkeypatch.setattr(staging_queries, "STEP", 3)


@pytest.fixture(params=[False, True], ids=["memory", "disk"])
def on_clock(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueueManager]:
    """Return a queue manager with Q1 under a virtual clock, in memory and on disk."""
    with QueueManager("QM1", tmp_path if request.param else None, VirtualClock()) as qm:
        local(qm, MAXDEPTH=100_000)
        yield qm
        found = qm.verify()
        assert found.ok, found.problems
