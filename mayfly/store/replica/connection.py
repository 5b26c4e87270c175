"""A connection to PostgreSQL with a time limit for each answer.

A database that is stopped but keeps its connections answers nothing, and nothing of the network
ends the wait: its machine still acknowledges what is sent. psycopg is imported here, so this module
is imported at the first use.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Self, TypeVar

import psycopg

from mayfly.runtime import elapsed_ms

#: A database that is cut off is given up after so long. libpq takes no shorter time to connect.
_CONNECTING = {
    "connect_timeout": 2,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5_000,
    "application_name": "mayfly",
}
_T = TypeVar("_T")


class BoundedConnection(psycopg.Connection[Any]):  # type: ignore[misc]  # see pyproject.toml
    """A connection whose every question fails with OperationalError when no answer comes in time.

    It is closed then, since the answer may come later.
    """

    #: How long an answer is waited for, in ms.
    patience_ms = 10_000

    @classmethod
    def opened(cls, url: str) -> Self:
        """Return a connection to a database, each statement of which is a transaction.

        Takes two seconds at most. Raises psycopg.Error.
        """
        connection: Self = cls.connect(url, autocommit=True, **_CONNECTING)
        connection.prepare_threshold = 0
        return connection

    def wait(self, gen: Generator[Any, Any, _T], *limits: Any, **named_limits: Any) -> _T:
        """Wait for the answer that a generator of psycopg reads, and return its result."""
        result: _T = super().wait(self._bounded(gen), *limits, **named_limits)
        return result

    def _bounded(self, gen: Generator[Any, Any, _T]) -> Generator[Any, Any, _T]:
        """Hand a generator on; psycopg calls it ten times a second while nothing comes."""
        end_ms = elapsed_ms() + self.patience_ms
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and elapsed_ms() >= end_ms:
                    # At once, so that a transaction around it does not ask to be rolled back.
                    self.close()
                    text = f"the database has not answered for {self.patience_ms / 1000:g} seconds"
                    raise psycopg.OperationalError(text)
                wanted = gen.send(ready)
        except StopIteration as end:
            result: _T = end.value
            return result
