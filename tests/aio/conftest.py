"""An asynchronous client over each kind of connection, made within a test's own event loop."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly import QueueManager
from mayfly.aio import AsyncClient
from tests.client.ways import connect
from tests.conftest import Connect

__all__ = ["connect"]

MakeClient = Callable[..., AsyncClient]


@pytest.fixture
def make_client(connect: Connect, queue_manager: QueueManager) -> MakeClient:
    """Connect to ``QM1``, which has the queue ``Q1``; call it in the event loop."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok

    def make(user: str | None = None, **options: bool) -> AsyncClient:
        return AsyncClient(connect(queue_manager, user), **options)

    return make
