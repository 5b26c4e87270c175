"""Reader: a database connection for reads beside commits, of the ledger, claims and statistics."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import apsw

from mayfly.mqi.errors import mq_error
from mayfly.mqi.reasons import MQRC_CONNECTION_BROKEN
from mayfly.store.damage import rows_of


class Reader:
    """A database connection, opened by its first read, for one read at a time.

    On disk reads delay no commit.
    """

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        guard: AbstractContextManager[object],
        on_damage: Callable[[], None],
        begin: Callable[[apsw.Connection], None] | None = None,
    ) -> None:
        """Open the connection later by ``connect``, and hold ``guard`` during each read.

        ``on_damage`` is called before StoreDamaged is raised. ``begin`` begins a read transaction
        in which a read sees nothing that the log of a replica lacks.
        """
        self._begin = begin
        self._connect, self._guard, self._on_damage = connect, guard, on_damage
        self._connection: apsw.Connection | None = None
        self._is_stopped = False

    def rows(
        self,
        sql: str,
        bindings: tuple[Any, ...] = (),
        read: Callable[[apsw.Cursor], list[tuple[Any, ...]]] | None = None,
    ) -> list[tuple[Any, ...]]:
        """Return all rows of an SQL statement, or the rows that ``read`` takes from its cursor.

        ``bindings`` are the values of its parameters. Only committed data is read. On disk, call it
        without the lock of the queue manager. Raises MQRC_CONNECTION_BROKEN once stopped,
        StoreDamaged.
        """
        with self._guard:
            self.check_open()
            if self._connection is None:
                self._connection = self._connect()
            if self._begin is None:
                return rows_of(self._connection, sql, bindings, self._on_damage, read)
            self._begin(self._connection)
            try:
                return rows_of(self._connection, sql, bindings, self._on_damage, read)
            finally:
                self._connection.execute("ROLLBACK")

    def check_open(self) -> None:
        """Raise MQRC_CONNECTION_BROKEN if the reader is stopped."""
        if self._is_stopped:
            raise mq_error(MQRC_CONNECTION_BROKEN, "the store is closed")

    def stop(self) -> None:
        """Wait for the read under way and close; later reads fail with MQRC_CONNECTION_BROKEN."""
        with self._guard:
            self._is_stopped = True
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def stop_in_child(self) -> None:
        """Stop in a forked child, without the guard: its holder may be a thread of the parent."""
        self._is_stopped = True
        self._guard = nullcontext()
