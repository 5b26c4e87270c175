"""One PostgreSQL for all tests of a process that do not kill it; each finds it empty."""

from collections.abc import Iterator

import pytest

from tests.postgres import Postgres


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def url(server: Postgres) -> str:
    with server.connect() as connection:
        connection.execute("DROP SCHEMA IF EXISTS mayfly CASCADE")
    return server.url
