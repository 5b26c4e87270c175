"""A connection for reads beside commits: of the ledger, of claims, and by those who watch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import apsw

from mayfly.mqi.errors import mq_error
from mayfly.mqi.reasons import MQRC_CONNECTION_BROKEN
from mayfly.store.damage import rows_of


class Reader:
    """A connection that its first read opens, for one read at a time; on disk no commit waits."""

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        guard: AbstractContextManager[object],
        on_damage: Callable[[], None],
    ) -> None:
        """Read through what ``connect`` returns, inside ``guard``.

        ``on_damage`` is called before StoreDamaged is raised.
        """
        self._connect, self._guard, self._on_damage = connect, guard, on_damage
        self._connection: apsw.Connection | None = None
        self._is_stopped = False

    def rows(
        self,
        sql: str,
        bindings: tuple[Any, ...] = (),
        read: Callable[[apsw.Cursor], list[tuple[Any, ...]]] | None = None,
    ) -> list[tuple[Any, ...]]:
        """Return all rows of a statement as they stand on the disk, or those that ``read`` takes.

        Raises MQRC_CONNECTION_BROKEN once stopped, StoreDamaged. On disk call it without the lock
        of the queue manager.
        """
        with self._guard:
            self.check_open()
            if self._connection is None:
                self._connection = self._connect()
            return rows_of(self._connection, sql, bindings, self._on_damage, read)

    def check_open(self) -> None:
        """Raise MQRC_CONNECTION_BROKEN once stopped."""
        if self._is_stopped:
            raise mq_error(MQRC_CONNECTION_BROKEN, "the store is closed")

    def stop(self) -> None:
        """Wait for the read under way, and close; later reads get MQRC_CONNECTION_BROKEN."""
        with self._guard:
            self._is_stopped = True
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def stop_in_child(self) -> None:
        """Stop without waiting: in a forked child nobody is left who would free the guard."""
        self._is_stopped = True
        self._guard = nullcontext()
