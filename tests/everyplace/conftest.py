"""One clock, and two queue managers that stand by it and are connected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly.everyplace import EveryplaceQueueManager, Link
from mayfly.testing import VirtualClock
from tests.everyplace.scene import START_MS, Remembering, quick_folder, reopened


@pytest.fixture
def clock() -> VirtualClock:
    """A clock that stands still."""
    return VirtualClock(START_MS)


@pytest.fixture(params=["memory", "folder"])
def home(request: pytest.FixtureRequest) -> Iterator[Path | None]:
    """The parent of the folders of both, None in memory: both behave alike."""
    if request.param == "memory":
        yield None
        return
    with quick_folder() as folder:
        yield folder


@pytest.fixture
def a(clock: VirtualClock, home: Path | None) -> Iterator[EveryplaceQueueManager]:
    """The queue manager where things begin."""
    yield from opened("A", clock, home)


@pytest.fixture
def b(clock: VirtualClock, home: Path | None) -> Iterator[EveryplaceQueueManager]:
    """Another one."""
    yield from opened("B", clock, home)


def opened(name: str, clock: VirtualClock, home: Path | None) -> Iterator[EveryplaceQueueManager]:
    """Give a queue manager; at the end its folder, opened again, must show the same state."""
    with EveryplaceQueueManager(name, clock, home and home / name) as manager:
        yield manager
        if home and manager.is_open:
            reopened(manager, home / name).close()


@pytest.fixture
def link(a: EveryplaceQueueManager, b: EveryplaceQueueManager) -> Link:
    """The link between the two."""
    return a.connect(b)


@pytest.fixture
def rule() -> Remembering:
    """A rule that remembers what expired."""
    return Remembering()
