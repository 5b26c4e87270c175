"""The pytest plugin: fixtures with a queue manager in memory under a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from mayfly.queue_manager import QueueManager
from mayfly.runtime.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from mayfly.testing.served import ServedQueueManager


def pytest_addoption(parser: pytest.Parser) -> None:
    """Define the option ``--mayfly-as`` and the ini settings ``mayfly_as`` and ``mayfly_mqsc``.

    They name the packages that Mayfly replaces in tests (``mayfly.testing.stand_in``).
    """
    meaning = "let `import pymqi`, or ibmmq, of the tests and their programs mean Mayfly's package"
    group = parser.getgroup("mayfly")
    group.addoption("--mayfly-as", action="append", default=[], metavar="PACKAGE", help=meaning)
    parser.addini("mayfly_as", f"{meaning}; a list", type="args", default=[])
    scripts = "files of MQSC that each queue manager runs which a program names under mayfly_as"
    parser.addini("mayfly_mqsc", scripts, type="paths", default=[])


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Put Mayfly in place of the packages of ``mayfly_as`` before a conftest imports them."""
    packages = [*early_config.getini("mayfly_as"), *early_config.known_args_namespace.mayfly_as]
    if packages:
        # Every pytest on this machine loads the plugin; the packages take a while to import.
        from mayfly.testing.stand_in import put_in_place

        put_in_place(early_config, packages, early_config.getini("mayfly_mqsc"))


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> VirtualClock:
    """Return a new virtual clock that moves only by ``clock.advance(ms)``.

    With ``mayfly_as`` time also passes by itself, while all threads that use the clock wait.
    """
    return VirtualClock(autojump=request.config.pluginmanager.has_plugin("mayfly-as"))


@pytest.fixture
def queue_manager(clock: VirtualClock) -> Iterator[QueueManager]:
    """Yield an empty in-memory queue manager ``QM1`` under ``clock``, closed after the test.

    The test fails if ``verify`` then finds wrong message counts.
    """
    manager = QueueManager("QM1", clock=clock)
    yield manager
    report = manager.verify()
    manager.close()
    assert report.ok, report.problems


@pytest.fixture
def served_queue_manager(queue_manager: QueueManager) -> Iterator[ServedQueueManager]:
    """Yield the fixture ``queue_manager``, served on a port of 127.0.0.1 for client programs.

    It needs the extra ``serve``, and is a ``mayfly.testing.served.ServedQueueManager``. The server
    stops after the test.
    """
    # Every pytest on this machine loads the plugin; a server takes half a second to import.
    from mayfly.testing.served import served

    with served(queue_manager) as it:
        yield it
