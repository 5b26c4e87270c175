"""What every test stands on: no setting of the machine it runs on, the same examples each time."""

import faulthandler
import gc
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from argon2 import PasswordHasher
from hypothesis import settings
from typer.main import get_command

from mayfly import QueueManager
from mayfly.admin.security import users
from mayfly.build import is_compiled
from mayfly.client.connection import Connection, LocalConnection
from tests import spark_start
from tests.over import SESSION, SOCKET, WAYS, NewSession, Servers, is_in_sample
from tests.workers import OneSparkWorker, file_of, shares_spark

# A busy machine is not a failing rule; what is slow is seen in bench. What make test says depends
# on the program alone: it always takes the same examples, of each state machine a sixteenth
# (tests/examples.py) and of each property a seventh. make soak takes all of those, and make
# search takes others.
settings.register_profile("mayfly", deadline=None, derandomize=True, max_examples=15)
settings.register_profile("soak", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, print_blob=True)
settings.load_profile("mayfly")

# Hundreds of processes that tests start import the same modules; each would compile them anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


#: Marks of tests that cannot run over a socket, and of those that may fail there.
NOT_OVER_SOCKET = ("in_process", "differs_over_socket")

_PRODUCT_HASHER = users._hasher

#: Connects a user, None for who opened it, to a queue manager.
Connect = Callable[[QueueManager, str | None], Connection]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a sample of the tests of rules over a socket as well."""
    if (
        "over" in metafunc.fixturenames
        and metafunc.config.getoption("over") == SESSION
        and is_in_sample(metafunc.function.__name__)
        and not any(map(metafunc.definition.get_closest_marker, NOT_OVER_SOCKET))
    ):
        metafunc.parametrize("over", [SESSION, SOCKET], indirect=True)


@pytest.fixture
def over(request: pytest.FixtureRequest) -> str:
    """The way in which the test reaches its queue managers, of ``WAYS``."""
    way: str = getattr(request, "param", request.config.getoption("over"))
    return way


@pytest.fixture
def connect(over: str) -> Iterator[Connect]:
    """Connect in the way of the command line; the sample over a socket as well.

    Tests that connect by a name, as pymqi's, need nothing of it: their way is ``connect`` of
    ``mayfly.client.connection``.
    """
    servers = Servers()

    def connect_locally(manager: QueueManager, user: str | None) -> Connection:
        return LocalConnection(manager.session(user), manager)

    yield servers.connect if over == SOCKET else connect_locally
    servers.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the way in which tests of rules reach a queue manager."""
    parser.addoption("--over", choices=WAYS, default=SESSION, help="see tests/over.py")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs the source as it is where it was compiled."""
    if is_compiled() and item.get_closest_marker("interpreted") is not None:
        pytest.skip("compiled: constants, classes and frames are not those of the source")


@pytest.fixture
def new_session(over: str) -> Iterator[NewSession]:
    """Open sessions in that way; those that are left over are backed out."""
    sessions = NewSession(over)
    yield sessions
    sessions.close()


@pytest.fixture(autouse=True, scope="session")
def _alike_on_every_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what is this machine's out of the tests, and what only a product needs.

    One fixture, since each that all tests take costs each of them a tenth of a millisecond.
    """
    with pytest.MonkeyPatch.context() as patch:
        _forget_this_machine(patch, tmp_path_factory.mktemp("mayfly-home"))
        # Each client of a served queue manager has a password, which then takes microseconds to
        # hash. Processes that tests start have the product's costs.
        hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
        patch.setattr(users, "_hasher", lambda: hasher)
        # The command line is made once for all commands that run in this process.
        patch.setattr("typer.testing._get_command", cache(get_command))
        yield


def _forget_this_machine(patch: pytest.MonkeyPatch, home: Path) -> None:
    """Keep the user's queue managers and settings, proxies and terminal out of the tests."""
    patch.setenv("MAYFLY_HOME", str(home))
    ours = ("MAYFLY_TOKEN", "MAYFLY_TLS_ROOTS", "AMQ_ENFORCE_MAX_EXPIRY_ERROR")
    # A proxy would be asked for the servers of 127.0.0.1; a narrow terminal breaks lines.
    proxies = [name for name in os.environ if name.lower().endswith("_proxy")]
    for name in (*ours, *proxies, "COLUMNS", "LINES"):
        patch.delenv(name, raising=False)


@pytest.fixture
def costly_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords as the product does."""
    monkeypatch.setattr(users, "_hasher", _PRODUCT_HASHER)


#: A file system in memory, where a sync costs nothing, and how much room it must have.
_MEMORY, _ROOM_BYTES = Path("/dev/shm"), 2 * 2**30


def pytest_configure(config: pytest.Config) -> None:
    """Put the folders of the tests into memory where the machine has room for them.

    A kill leaves there what it leaves on a disk: what a process has written is the kernel's. Tests
    of the disk itself bring one (tests/store/small_disk.py, tests/store/cuts.py). ``make soak``
    sets the variable, and so runs on the disk.
    """
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ROOM_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))
    os.environ.update(spark_start.environment())


#: After so many seconds the tests of one file are taken to hang.
_HANGS_AFTER_SECONDS = 600


class Watch:
    """Shows where each thread stands when the tests of a file hang.

    pytest's own setting is for a test: it starts a thread for each and waits for that thread's end,
    a hundredth of a second on a busy machine.
    """

    def __init__(self, stderr: int) -> None:
        """Write to a file descriptor."""
        self._stderr, self._file = stderr, ""

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin anew with the first test of each file."""
        if file_of(item.nodeid) != self._file:
            self._file = file_of(item.nodeid)
            faulthandler.dump_traceback_later(_HANGS_AFTER_SECONDS, file=self._stderr)

    def pytest_sessionfinish(self) -> None:
        """Look no more."""
        faulthandler.cancel_dump_traceback_later()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Watch for tests that hang; let ``caplog`` show lines of text whatever ran on the same worker.

    PySpark's loggers give JSON to each handler that is added to them, and pytest adds its own.
    """
    session.config.pluginmanager.register(Watch(session.config.stash[fault_handler_stderr_fd_key]))
    plugin = session.config.pluginmanager.get_plugin("logging-plugin")
    assert plugin is not None
    for handler in (plugin.caplog_handler, plugin.report_handler):
        handler.setFormatter = lambda _formatter: None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let Python look for garbage neither while it collects thousands of tests nor among them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module")
def no_child() -> None:
    """End the Java that tests of Spark have left: a child of the process may end any wait."""
    spark_start.end_java()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Keep the tests that share the Spark session on one worker (--dist loadfile)."""
    return OneSparkWorker(config, log) if config.option.dist == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let several workers begin with what takes longest; leave out what another way cannot run.

    Files that share the Spark session come first, then those with a test that starts a Java of its
    own, then the others by their number of slow tests: a long file that is begun at the end would
    leave the other workers nothing to do. Of those with the session the ones that run a command
    come last: it stops the session.
    """
    if config.getoption("over") != SESSION:
        items[:] = [item for item in items if _runs_over_any_way(item)]
    if config.getoption("over") == SOCKET:
        for item in items:
            if item.get_closest_marker("differs_over_socket"):
                item.add_marker(pytest.mark.xfail(reason="see tests/over.py", strict=False))
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and not shares_spark(file_of(item.nodeid)):
            raise pytest.UsageError(f"{item.nodeid}: spark is not annotated as SparkSession")
    if hasattr(config, "workerinput"):
        java = {file_of(item.nodeid) for item in items if item.get_closest_marker("spark")}
        slow = Counter(file_of(item.nodeid) for item in items if item.get_closest_marker("slow"))

        def place(item: pytest.Item) -> tuple[int, int]:
            file = file_of(item.nodeid)
            rank = 0 if shares_spark(file) else 1 if file in java else 2
            if rank == 0:
                return rank, "mayfly" in getattr(item, "fixturenames", ())
            return rank, -slow[file] if rank == 2 else 0

        items.sort(key=place)


def _runs_over_any_way(item: pytest.Item) -> bool:
    takes = getattr(item, "fixturenames", ())
    return "over" in takes and item.get_closest_marker("in_process") is None
