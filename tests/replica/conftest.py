"""One PostgreSQL for the tests of a process that do not kill it; each has a database of its own."""

from collections.abc import Iterator

import pytest

from tests.postgres import Postgres


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def url(server: Postgres, request: pytest.FixtureRequest) -> str:
    name = f"db{abs(hash(request.node.nodeid))}"
    with server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.url.replace("/postgres?", f"/{name}?")
