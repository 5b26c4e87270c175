"""A client of a queue manager in virtual time, over each kind of connection that there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mayfly import QueueManager
from mayfly.client import Client
from tests.client.ways import connect
from tests.conftest import Connect

__all__ = ["connect"]

MakeClient = Callable[..., Client]


@pytest.fixture
def make_client(connect: Connect, queue_manager: QueueManager) -> Iterator[MakeClient]:
    """Connect to ``QM1``, which has the queue ``Q1``; as who opened it unless a user is given."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    made: list[Client] = []

    def make(user: str | None = None, **options: bool) -> Client:
        made.append(Client(connect(queue_manager, user), **options))
        return made[-1]

    yield make
    for client in made:
        client.close(commit=False)


@pytest.fixture
def client(make_client: MakeClient) -> Client:
    """A client that is not transacted."""
    return make_client()
