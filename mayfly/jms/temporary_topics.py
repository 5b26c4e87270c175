"""The temporary topics of a connection: topic strings that nobody else makes."""

from __future__ import annotations

from collections.abc import Callable

from mayfly.client.connection import Connection as QueueConnection
from mayfly.jms.destinations import TemporaryTopic
from mayfly.jms.errors import classic
from mayfly.runtime import Runtime
from mayfly.verbs import requests as ask


class TemporaryTopics:
    """The temporary topics of one connection; threads may share it. They end with ``mq``."""

    def __init__(self, mq: Callable[[], QueueConnection], runtime: Runtime) -> None:
        """Begin without a topic; ``mq`` returns the conversation that makes and deletes them."""
        self._mq = mq
        self._lock = runtime.lock("temporary topics")
        self._names: set[str] = set()

    def create(self) -> TemporaryTopic:
        """Make a temporary topic."""
        with self._lock:
            name = self._mq().call(ask.MakeTemporaryTopic())
            self._names.add(name)
        return TemporaryTopic(name, _delete=self._delete)

    def has(self, name: str) -> bool:
        """Return True if the connection has made a temporary topic of this name, not deleted."""
        return name in self._names

    @classic
    def _delete(self, name: str) -> None:
        with self._lock:
            self._mq().call(ask.DeleteTemporaryTopic(name))
            self._names.discard(name)
