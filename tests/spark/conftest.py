"""One Spark session for all tests, and a served ledger for those that read one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mayfly import QueueManager
from mayfly.servers.flight import FlightServer
from mayfly.spark import create_session
from tests.bulk.books import TOKEN, KeptBooks, kept_books
from tests.bulk.lives import queue_manager


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with the fast settings; its cold start is paid once."""
    conf = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    session = create_session("local[2]", "mayfly tests", conf, fast=True)
    yield session
    session.stop()


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
