"""Fixtures of the spec tests: a session, and every manager and persistence a rule must hold for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.releasing import SparkClock
from tests.spec.scene import DEAD, REPLIES, START_MS, alter_manager, local

#: Tests of delayed messages, whose rules hold whoever releases them.
DELAY_TESTS = frozenset(
    "test_authority_delay test_delay test_delay_input test_delay_lifecycle test_flood test_release"
    " test_schedule test_schedule_bulk test_schedule_changes test_schedule_list"
    " test_schedule_trouble test_staging_puts test_staging_queue test_ttl_rule".split()
)


#: Those of them whose rule is about release itself: any kind of queue manager, and who releases.
RELEASE_TESTS = frozenset(
    "test_delay test_delay_lifecycle test_flood test_release test_ttl_rule".split()
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of delayed messages with each delivery delay processor."""
    if (
        metafunc.module.__name__.rpartition(".")[2] in DELAY_TESTS
        and "clock" in metafunc.fixturenames
    ):
        metafunc.parametrize("clock", ["embedded", "spark"], indirect=True)


#: Pairs of a queue manager and a persistence that ``make soak`` takes. Each of both is in the other
#: pairs: volatile messages in memory, persistent ones in a folder.
SOAK_PAIRS = ({"memory", "persistent"}, {"folder", "volatile"})
_FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what a pipeline would not meet: a queue manager that is only in memory.

    Where the rule is not about release, a folder and a pipeline are tested in a pair.
    """
    here = {item for item in items if item.path.parent == _FOLDER}
    left_out = {item for item in here if _is_left_out(item)}
    items[:] = [item for item in items if item not in left_out]
    for item in here - left_out:
        if _is_for_soak(item):
            item.add_marker(pytest.mark.soak)


def _is_for_soak(item: pytest.Item) -> bool:
    """Return True for what make test has with another queue manager, persistence or processor.

    Where the rule is not about release, a pipeline is tested with a folder and not in memory too.
    """
    kinds = _kinds(item)
    is_about_release = item.path.stem in RELEASE_TESTS
    in_memory_by_spark = "spark" in kinds and "folder" not in kinds
    return _is_any(item, SOAK_PAIRS) or (in_memory_by_spark and not is_about_release)


def _is_left_out(item: pytest.Item) -> bool:
    left_out = [{"memory", "spark"}]
    if item.path.stem in DELAY_TESTS - RELEASE_TESTS:
        left_out.append({"folder", "embedded"})
    return _is_any(item, left_out)


def _is_any(item: pytest.Item, pairs: Iterable[set[str]]) -> bool:
    """Return True for a test whose parameters have both words of one of the pairs."""
    kinds = _kinds(item)
    return any(pair <= kinds for pair in pairs)


def _kinds(item: pytest.Item) -> set[str]:
    """Return the words of a test's parameters."""
    return set(item.name.partition("[")[2].rstrip("]").split("-"))


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> VirtualClock:
    """A clock that stands still; ``spark``: one whose managers leave release to a pipeline."""
    by_spark = getattr(request, "param", "embedded") == "spark"
    return SparkClock(START_MS) if by_spark else VirtualClock(START_MS)


@pytest.fixture
def session(queue_manager: QueueManager, new_session: NewSession) -> Iterator[Session]:
    """A session whose puts and gets are each final at once."""
    with new_session(queue_manager, "anna") as opened:
        yield opened


@pytest.fixture
def unit(queue_manager: QueueManager, new_session: NewSession) -> Iterator[Session]:
    """A transacted session; a unit of work that is open at the end is backed out."""
    opened = new_session(queue_manager, "anna", transacted=True)
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
