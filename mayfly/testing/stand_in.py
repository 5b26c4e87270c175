"""Mayfly in place of pymqi or ibmmq: pytest runs unchanged modules (docs/DEVELOPING.md).

The plugin registers this module when ``--mayfly-as`` or ``mayfly_as`` names a package. A program
then connects to queue managers in the memory of the test run, whatever host it names.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from mayfly.admin.security.developer import OBJECTS
from mayfly.client import connection
from mayfly.client.connection import Connection
from mayfly.client.connection.by_name import connect as connect_by_name
from mayfly.client.connection.routes import DEFAULT_OPTIONS, Binding, ConnectOptions
from mayfly.client.connection.waits import open_here
from mayfly.lifetime.times import Clock
from mayfly.pymqi.import_names import names_in_place
from mayfly.queue_manager import QueueManager
from mayfly.runtime import SystemClock
from mayfly.runtime.virtual_clock import VirtualClock

#: The packages whose API Mayfly has under the same name.
PACKAGES: Final = ("pymqi", "ibmmq")
#: The queue manager of a program that names none.
DEFAULT_NAME: Final = "QM1"


class StandIn:
    """The queue managers of one test run, each made when a program first connects to its name."""

    def __init__(self, scripts: Sequence[Path]) -> None:
        """Take the files of MQSC that each new queue manager runs.

        ``clock`` is the time of queue managers that are made from now on. It passes by itself while
        all threads that use it wait.
        """
        self.own_clock = VirtualClock(autojump=True)
        self.clock: Clock = self.own_clock
        self._scripts = scripts
        self._made: list[QueueManager] = []

    def connect(
        self,
        name: str,
        user: str | None = None,
        *,
        password: str | None = None,
        program: str = "mayfly",
        wanted: ConnectOptions = DEFAULT_OPTIONS,
    ) -> Connection:
        """Connect to the queue manager ``name`` of this process; a new one if none is open.

        The parameters are those of ``mayfly.client.connection.connect``. Channel, host, password
        and binding are not looked at. A blank name, and ``*``, is the only open queue manager, else
        QM1. Raises MQRC_Q_MGR_NAME_ERROR for an invalid name, and OSError or UsageError for a
        script of MQSC that cannot be read or fails.
        """
        running = [one for one, manager in open_here().items() if not manager.is_stopped]
        named = name.lstrip("*") or (running[0] if len(running) == 1 else DEFAULT_NAME)
        if named not in running:
            self._made.append(self._new(named))
        return connect_by_name(
            named, user, program=program, wanted=ConnectOptions(binding=Binding.LOCAL)
        )

    @contextmanager
    def queue_managers(self, clock: Clock) -> Iterator[None]:
        """Give the queue managers made in a ``with`` block this clock; close them at its end.

        Raises AssertionError at the end if one of them has wrong message counts.
        """
        before, self.clock = len(self._made), clock
        yield
        self.clock = self.own_clock
        made, self._made[before:] = self._made[before:], []
        problems = [problem for manager in made for problem in manager.verify().problems]
        for manager in made:
            manager.close()
        assert not problems, problems

    def close(self) -> None:
        """Close the queue managers that were made outside of a test."""
        for manager in self._made:
            manager.close()

    def _new(self, name: str) -> QueueManager:
        """Return a new queue manager in memory, with the objects DEV.** and those of the scripts.

        Raises MQRC_Q_MGR_NAME_ERROR, and OSError or UsageError for a script.
        """
        texts = {str(path): path.read_text("utf-8") for path in self._scripts}
        manager = QueueManager(name, clock=self.clock)
        for source, text in {"DEV.**": OBJECTS, **texts}.items():
            ran = manager.mqsc(text)
            if not ran.ok:
                manager.close()
                raise pytest.UsageError(f"mayfly_mqsc {source}: {ran.text}")
        return manager


STAND_IN: Final = pytest.StashKey[StandIn]()


def put_in_place(config: pytest.Config, packages: Sequence[str], scripts: Sequence[Path]) -> None:
    """Let ``import`` of some packages mean Mayfly's until the end of the test run.

    ``scripts`` are files of MQSC that each new queue manager runs. Raises UsageError for a package
    that is not of ``PACKAGES``, that this Mayfly lacks, or that was imported before.
    """
    modules: dict[str, ModuleType] = {}
    for package in packages:
        mine = _imported(package)
        if sys.modules.get(package, mine) is not mine:
            raise pytest.UsageError(f"mayfly_as {package}: another {package} is imported already")
        modules |= names_in_place(mine)
    stand_in, patch = StandIn(scripts), pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    config.add_cleanup(stand_in.close)
    for name, module in modules.items():
        patch.setitem(sys.modules, name, module)
    patch.setattr(connection, "connect", stand_in.connect)
    config.stash[STAND_IN] = stand_in
    config.pluginmanager.register(sys.modules[__name__], "mayfly-as")


def _imported(package: str) -> ModuleType:
    """Return Mayfly's package of the same name; raises UsageError for another, or a missing one."""
    if package not in PACKAGES:
        raise pytest.UsageError(f"mayfly_as {package}: it is one of {', '.join(PACKAGES)}")
    try:
        return importlib.import_module(f"mayfly.{package}")
    except ModuleNotFoundError as error:
        raise pytest.UsageError(f"mayfly_as {package}: this Mayfly has none") from error


def pytest_report_header() -> str:
    """Return a line for the header of a test run: tests use Mayfly in memory, not IBM MQ."""
    return "mayfly: queue managers in memory, whatever host a program names"


@pytest.fixture(autouse=True)
def _queue_managers_of_a_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close the queue managers that the test has named, so that the next one finds empty queues.

    A test, or a fixture of it, that uses the fixture ``clock`` decides what time they have.
    """
    stand_in = request.config.stash[STAND_IN]
    clock: Clock = stand_in.own_clock
    if "clock" in request.fixturenames:
        given = request.getfixturevalue("clock")
        # An unchanged suite may have a fixture of this name that is about something else.
        if isinstance(given, (VirtualClock, SystemClock)):
            clock = given
    with stand_in.queue_managers(clock):
        yield
