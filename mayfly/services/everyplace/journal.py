"""The journal of a durable queue manager: a verb is one transaction of the database in its folder.

Verbs work in memory and note their changes. When the outermost verb ends, with an answer or a
refusal, all changed records are written in their present state, and synced. Calls of a rule or
listener to its own queue manager belong to the verb that called it. Only a transmission divides a
verb: its data are written before it leaves. So no number is given twice, and nothing is confirmed
that could be lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Never

import apsw

from mayfly.mqi.reasons import MQRC_CONNECTION_BROKEN, MQRC_STORAGE_MEDIUM_FULL
from mayfly.runtime import Runtime
from mayfly.services.everyplace.errors import EveryplaceError
from mayfly.services.everyplace.tables import DATABASE_FILE, Statement, open_tables
from mayfly.store.folder_lock import FolderLock

#: Returns what makes the tables say of a thing what memory says of it now.
Saving = Callable[[], Iterable[Statement]]


class Ended(EveryplaceError):
    """The queue manager was closed, or could not write: its folder has to be opened again."""


class Closed:
    """Stands where a queue manager that is closed had its journal: lets no verb begin."""

    def __enter__(self) -> Never:
        raise Ended(MQRC_CONNECTION_BROKEN, "the queue manager is closed")

    def __exit__(self, *_: object) -> None:
        """Never reached, for nothing begins."""


class Journal:
    """The folder of a queue manager, and what the verb under way has changed; a context of verbs.

    Leaving the outermost verb writes. A verb that ends by any other error than EveryplaceError may
    have stopped half way: nothing of it is written, and the queue manager has ended.
    """

    def __init__(self, folder: Path, manager: str, runtime: Runtime) -> None:
        """Open the folder of a queue manager, made when missing; raises StoreError."""
        self.folder = folder
        self._lock = FolderLock(folder)
        try:
            self._lock.make_private(DATABASE_FILE)
            self.connection = open_tables(folder, manager, runtime)
        except BaseException:
            self._lock.release()
            raise
        self._changed: dict[object, Saving] = {}
        self._depth = 0
        self._must_not_leave = False
        self._has_ended: Ended | None = None
        self._pid = os.getpid()
        self._last_id = 0

    @property
    def is_open(self) -> bool:
        """Whether verbs may begin; False in a forked child, whose parent has the folder."""
        return self._has_ended is None and os.getpid() == self._pid

    def __enter__(self) -> None:
        """Begin a verb, or another one inside it."""
        if not self.is_open:
            raise self._has_ended or Ended(MQRC_CONNECTION_BROKEN, "the folder is the parent's")
        self._depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End a verb; the outermost one writes."""
        self._depth -= 1
        if isinstance(error, EveryplaceError | None):
            if not self._depth:
                self._write()
        elif self._changed:
            self._end(Ended(MQRC_CONNECTION_BROKEN, f"a verb was broken off by {error!r}"))

    def note(self, thing: object, saving: Saving, *, before_sending: bool = False) -> None:
        """Have something written that is changed by this verb.

        ``before_sending``: the next transmission must not leave before.
        """
        self._changed[thing] = saving
        self._must_not_leave |= before_sending

    @contextmanager
    def sending(self) -> Iterator[None]:
        """A transmission is under way: verbs that it leads to here are no part of this one."""
        if self._must_not_leave:
            self._write()
        depth, self._depth = self._depth, 0
        try:
            yield
        finally:
            self._depth = depth

    def take_back(self, row_id: int) -> None:
        """Know the number of a row that is there."""
        self._last_id = max(self._last_id, row_id)

    def new_id(self) -> int:
        """Return the next number for a row of a message."""
        self._last_id += 1
        return self._last_id

    def close(self) -> None:
        """Free the folder; changes not written are those of a verb that was broken off."""
        if os.getpid() == self._pid:
            self.connection.close(force=True)
            self._lock.release()

    def _write(self) -> None:
        if self._has_ended is not None:
            raise self._has_ended
        if not self._changed:
            return
        execute = self.connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            for saving in self._changed.values():
                for sql, bindings in saving():
                    execute(sql, bindings)
            execute("COMMIT")
        except apsw.FullError as error:
            full = Ended(MQRC_STORAGE_MEDIUM_FULL, f"the disk is full: {error}")
            self._end(full)
            raise full from error
        except apsw.Error as error:
            unknown = Ended(MQRC_CONNECTION_BROKEN, f"nobody knows what is written: {error}")
            self._end(unknown)
            raise unknown from error
        except BaseException as error:
            self._end(Ended(MQRC_CONNECTION_BROKEN, f"writing was broken off by {error!r}"))
            raise
        self._changed.clear()
        self._must_not_leave = False

    def _end(self, why: Ended) -> None:
        # Closing undoes what is not committed; the folder is free for who opens it again.
        self._has_ended = self._has_ended or why
        self._changed.clear()
        self.close()
