"""One Spark session for all tests, and a served ledger for those that read one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from mayfly import QueueManager
from mayfly.servers.flight import FlightServer
from mayfly.spark import create_session
from tests.bulk.books import TOKEN, KeptBooks, kept_books
from tests.bulk.lives import queue_manager
from tests.cli.conftest import home, mayfly, queue

#: The command line in this process.
__all__ = ["home", "mayfly", "queue"]


@pytest.fixture(scope="session")
def start_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], SparkSession]]:
    """Start a local session with the fast settings, or return the one that was started."""
    conf = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    started: list[SparkSession] = []

    def start() -> SparkSession:
        active = SparkContext._active_spark_context
        if active is None or not started or started[-1].sparkContext is not active:
            started.append(create_session("local[2]", "mayfly tests", conf, fast=True))
        return started[-1]

    yield start
    # A command, or the end of its Java (tests/conftest.py, no_child), may have stopped it.
    for session in started[-1:]:
        if session.sparkContext is SparkContext._active_spark_context:
            session.stop()


@pytest.fixture
def spark(start_spark: Callable[[], SparkSession]) -> SparkSession:
    """The session of all tests; its cold start is paid once.

    A command that a test runs in this process takes the session over, and stops it at its end. The
    next test has a new one, in the same Java.
    """
    return start_spark()


@pytest.fixture
def books() -> Iterator[KeptBooks]:
    """A store in memory with an empty ledger."""
    with kept_books() as books:
        yield books


@pytest.fixture
def server(books: KeptBooks) -> Iterator[FlightServer]:
    """A server of that ledger."""
    with FlightServer(books, port=0, token=TOKEN) as server:
        yield server


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    """A file with the server's token."""
    file = tmp_path / "token"
    file.write_text(TOKEN)
    return file


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[QueueManager]:
    """A real, durable queue manager with three queues."""
    with queue_manager(tmp_path / "QM1") as manager:
        yield manager


@pytest.fixture
def manager_server(manager: QueueManager) -> Iterator[FlightServer]:
    """A server of its ledger."""
    with FlightServer(manager, port=0, token=TOKEN) as server:
        yield server
