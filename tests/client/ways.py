"""The fixture ``connect`` of clients: connections of this process, and over a socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Connection, LocalConnection
from mayfly.client.connection.remote import connect as connect_remote
from tests.conftest import Connect
from tests.connection.serving import Served, serving

#: May do everything, as who has opened the queue manager.
OPERATOR = "operator"


@pytest.fixture(params=["local", "tcp"])
def connect(request: pytest.FixtureRequest, queue_manager: QueueManager) -> Iterator[Connect]:
    """Connect a user, None for one who may do everything."""
    with ExitStack() as stack:
        served: list[Served] = []

        def connect_to(manager: QueueManager, user: str | None) -> Connection:
            if request.param == "local":
                return LocalConnection(manager.session(user), manager)
            if not served:
                served.append(stack.enter_context(serving(manager)))
            return connect_remote(served[0].endpoint(), user or OPERATOR, "", application="tests")

        yield connect_to
