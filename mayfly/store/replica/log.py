"""The log of a queue manager in PostgreSQL: an image of its database, and all commits since.

Three tables in the schema ``mayfly``:

* ``replica``: one row for each queue manager: the instance id of its database, the epoch of its
  owner, the number of the last row of the log;
* ``replica_log``: a row for each append: its number, the epoch of the owner that wrote it, the
  number of pages of the database after it, and the images of the pages that changed;
* ``replica_page``: one image of each page; a merge moves older rows of the log there.

An owner takes the next epoch when it opens the queue manager. Each append changes the row in
``replica`` under the condition that epoch and last number are as the owner knows them; the same
statement inserts the row of the log. The append of an earlier owner changes no row, and is refused
(:class:`Fenced`). PostgreSQL locks the row, so an append and the next owner's taking come one after
the other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from mayfly.mqi.errors import StoreError
from mayfly.runtime import Runtime
from mayfly.store.replica.pages import packed, unpacked

#: PostgreSQL 15 is the first that is tested.
_LEAST_VERSION: Final = 150_000
#: How long an append waits for a database that does not answer, and between two tries.
PATIENCE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.1
#: A database that is cut off is given up after so long.
_CONNECTING: Final = {
    "connect_timeout": 5,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5_000,
    "application_name": "mayfly",
}
#: Any number: two that set up the schema at the same time come one after the other.
_SETUP_LOCK: Final = 5_124_877
_SCHEMA: Final = (
    "CREATE SCHEMA IF NOT EXISTS mayfly",
    """CREATE TABLE IF NOT EXISTS mayfly.replica (
        manager text PRIMARY KEY, instance text UNIQUE NOT NULL, epoch bigint NOT NULL,
        owner text NOT NULL, last bigint NOT NULL) WITH (fillfactor = 10)""",
    """CREATE TABLE IF NOT EXISTS mayfly.replica_log (
        instance text, number bigint, epoch bigint NOT NULL, page_count bigint NOT NULL,
        pages bytea NOT NULL, PRIMARY KEY (instance, number))""",
    """CREATE TABLE IF NOT EXISTS mayfly.replica_page (
        instance text, page bigint, number bigint NOT NULL, image bytea NOT NULL,
        PRIMARY KEY (instance, page))""",
    # The bytes are compressed already.
    "ALTER TABLE mayfly.replica_log ALTER pages SET STORAGE EXTERNAL",
    "ALTER TABLE mayfly.replica_page ALTER image SET STORAGE EXTERNAL",
    """CREATE INDEX IF NOT EXISTS replica_page_by_number
        ON mayfly.replica_page (instance, number)""",
)
_APPEND: Final = """
    WITH owned AS (
        UPDATE mayfly.replica SET last = %(number)s
        WHERE instance = %(instance)s AND epoch = %(epoch)s AND last = %(number)s - 1
        RETURNING instance)
    INSERT INTO mayfly.replica_log
    SELECT instance, %(number)s, %(epoch)s, %(page_count)s, %(pages)b FROM owned
    RETURNING number"""
_TAKE: Final = """
    UPDATE mayfly.replica SET epoch = epoch + 1, owner = %s WHERE manager = %s AND instance = %s
    RETURNING epoch, last"""
_IMAGE: Final = (
    "COPY mayfly.replica_page (instance, page, number, image) FROM STDIN (FORMAT BINARY)"
)
_MERGE: Final = """
    INSERT INTO mayfly.replica_page VALUES (%s, %s, %s, %s)
    ON CONFLICT (instance, page) DO UPDATE SET number = excluded.number, image = excluded.image"""
_LOG = logging.getLogger("mayfly.store")


class ReplicaError(StoreError):
    """The log in PostgreSQL cannot be used as it is."""


class Fenced(ReplicaError):
    """Another owner has taken the queue manager: nothing that was appended is in the log."""


class LogUnreachable(ReplicaError):
    """PostgreSQL did not answer for so long: it is unknown whether the append is in the log."""


class Position(NamedTuple):
    """A place in the log: the number of a row, and the epoch of the owner that wrote it.

    Number 0 is the place before everything.
    """

    number: int
    epoch: int


class Registered(NamedTuple):
    """What the log says about a queue manager: the instance id of its database, and its end."""

    instance: str
    end: Position


class Entry(NamedTuple):
    """A row of the log: what one append has written, and the pages of the database after it."""

    position: Position
    page_count: int
    pages: bytes


class PostgresLog:
    """A connection to the log of one queue manager, made anew when it is lost.

    For one thread at a time. psycopg is imported here, at the first use.
    """

    def __init__(self, url: str, manager_name: str, runtime: Runtime) -> None:
        """Connect, and create the tables if the database lacks them.

        ``url`` is that of a database (``postgresql://user@host/name``) or a connection string of
        libpq, ``runtime`` waits. Raises ReplicaError for a version before 15, with
        ``synchronous_commit`` off, for a database that refuses, and without psycopg;
        LogUnreachable.
        """
        try:
            import psycopg
        except ModuleNotFoundError:
            text = "a replica needs psycopg: pip install 'mayfly-mq[replica]'"
            raise ReplicaError(text, manager_name) from None
        self._psycopg, self.manager_name, self._url = psycopg, manager_name, url
        self._pause = runtime.event()
        self._connection: Any = None
        self._name = f"the log of {manager_name}"
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    def _set_up(self) -> None:
        """Create the tables if the database lacks them."""
        with self._errors():
            connection = self._connected()
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SETUP_LOCK,))
                [found] = connection.execute(
                    "SELECT to_regclass('mayfly.replica_page_by_number') IS NOT NULL"
                ).fetchone()
                for statement in () if found else _SCHEMA:
                    connection.execute(statement)

    def close(self) -> None:
        """Close the connection; a later call connects again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def registered(self) -> Registered | None:
        """Return what the log knows of the queue manager, None for nothing; raises ReplicaError."""
        with self._errors():
            row = (
                self._connected()
                .execute(
                    "SELECT r.instance, r.last, l.epoch FROM mayfly.replica r "
                    "JOIN mayfly.replica_log l ON l.instance = r.instance AND l.number = r.last "
                    "WHERE manager = %s",
                    (self.manager_name,),
                )
                .fetchone()
            )
        return None if row is None else Registered(row[0], Position(row[1], row[2]))

    def register(
        self, instance: str, owner: str, images: Iterable[tuple[int, bytes]], page_count: int
    ) -> Position:
        """Begin the log with an image of the whole database; return its end, of epoch 1.

        ``images`` are all pages with their numbers. All of it is one transaction. Raises
        ReplicaError, also when another owner was first.
        """
        position = Position(1, 1)
        with self._errors():
            connection = self._connected()
            with connection.transaction():
                connection.execute(
                    "INSERT INTO mayfly.replica VALUES (%s, %s, %s, %s, %s)",
                    (self.manager_name, instance, position.epoch, owner, position.number),
                )
                with connection.cursor() as cursor, cursor.copy(_IMAGE) as copying:
                    copying.set_types(["text", "int8", "int8", "bytea"])
                    for number, page in images:
                        image = packed({number: page})
                        copying.write_row((instance, number, position.number, image))
                connection.execute(
                    "INSERT INTO mayfly.replica_log VALUES (%s, %s, %s, %s, %s)",
                    (instance, position.number, position.epoch, page_count, b""),
                )
        return position

    def take(self, instance: str, owner: str) -> Position:
        """Become the owner; return the end of the log, with the epoch of this owner.

        From then on the owner before can append nothing. ``owner`` is shown to that one. Raises
        ReplicaError, also when the log has another instance of the queue manager.
        """
        with self._errors():
            row = self._connected().execute(_TAKE, (owner, self.manager_name, instance)).fetchone()
        if row is None:
            raise ReplicaError(f"{self._name} has no instance {instance}", self.manager_name)
        epoch, last = row
        return Position(last, epoch)

    def append(self, instance: str, entry: Entry) -> None:
        """Append an entry behind the one before, and return when PostgreSQL has it.

        A database that goes away is waited for. It is asked whether the entry is there before the
        append is tried again. Raises Fenced when another owner has taken the queue manager;
        LogUnreachable when the database stays away, which leaves it unknown whether the entry is
        there; ReplicaError when it refuses.
        """
        is_unsure, gone = False, "no reason"
        for _ in range(round(PATIENCE_SECONDS / _PAUSE_SECONDS)):
            try:
                with self._errors():
                    if is_unsure and self._has(instance, entry.position):
                        return
                    is_unsure = True
                    if self._append_once(instance, entry) or self._has(instance, entry.position):
                        return
                    raise self._refusal(instance, entry.position)
            except LogUnreachable as error:
                if gone != error.message:
                    _LOG.warning("%s, commits wait", error.message)
                gone = error.message
                self._pause.wait(_PAUSE_SECONDS)
        raise LogUnreachable(f"{gone}, for {PATIENCE_SECONDS:.0f} seconds", self.manager_name)

    def gone(self, folder: Path) -> ReplicaError:
        """Return the error for a folder with rows of the log, of which the database has none."""
        text = f"{self._name} is not in this database, and {folder} has rows of it"
        return ReplicaError(text, folder)

    @contextmanager
    def snapshot(self) -> Iterator[LogSnapshot]:
        """Return a context with the log as it is at one moment.

        Raises ReplicaError, also when the log knows nothing of the queue manager.
        """
        with self._errors():
            connection = self._connected()
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                registered = self.registered()
                if registered is None:
                    raise ReplicaError(f"{self._name} is not in this database", self.manager_name)
                yield LogSnapshot(connection, self._name, registered)

    def merge(self, most_rows: int) -> int:
        """Move the oldest rows of the log into the image of the database; return how many.

        At most ``most_rows`` are moved, in one transaction, and never the last one, by which a lost
        answer is found. Raises ReplicaError.
        """
        with self._errors():
            connection = self._connected()
            with connection.transaction():
                rows = connection.execute(
                    "SELECT r.instance, l.number, l.pages FROM mayfly.replica r "
                    "JOIN mayfly.replica_log l ON l.instance = r.instance AND l.number < r.last "
                    "WHERE manager = %s ORDER BY l.number LIMIT %s FOR UPDATE OF l",
                    (self.manager_name, most_rows),
                    binary=True,
                ).fetchall()
                images: dict[int, tuple[int, bytes]] = {}
                for _instance, number, pages in rows:
                    for page, image in unpacked(pages, f"row {number} of {self._name}"):
                        images[page] = (number, image)
                if rows:
                    instance, last, _pages = rows[-1]
                    with connection.cursor() as cursor:
                        cursor.executemany(
                            _MERGE,
                            [
                                (instance, page, number, packed({page: image}))
                                for page, (number, image) in sorted(images.items())
                            ],
                        )
                    connection.execute(
                        "DELETE FROM mayfly.replica_log WHERE instance = %s AND number <= %s",
                        (instance, last),
                    )
        return len(rows)

    def _connected(self) -> Any:
        """Return the connection, made if needed; raises psycopg.Error, ReplicaError."""
        if self._connection is None:
            connection = self._psycopg.connect(self._url, autocommit=True, **_CONNECTING)
            try:
                self._check(connection)
            except BaseException:
                connection.close()
                raise
            connection.prepare_threshold = 0
            self._connection = connection
        return self._connection

    def _check(self, connection: Any) -> None:
        """Raise ReplicaError for a database that is too old, or acknowledges before it syncs."""
        version = connection.info.server_version
        if version < _LEAST_VERSION:
            text = f"PostgreSQL {version // 10_000} is too old, 15 is wanted"
            raise ReplicaError(f"{self._name}: {text}", self.manager_name)
        for name in ("synchronous_commit", "fsync"):
            [value] = connection.execute(f"SHOW {name}").fetchone()
            if value == "off":
                text = f"{name} is off: what is acknowledged could be lost"
                raise ReplicaError(f"{self._name}: {text}", self.manager_name)

    def _append_once(self, instance: str, entry: Entry) -> bool:
        """Try an append once; return False if it was refused."""
        values = {
            "instance": instance,
            "number": entry.position.number,
            "epoch": entry.position.epoch,
            "page_count": entry.page_count,
            "pages": entry.pages,
        }
        return self._connected().execute(_APPEND, values).fetchone() is not None

    def _has(self, instance: str, position: Position) -> bool:
        """Return True if the log has the row of this number, and this owner has written it."""
        row = (
            self._connected()
            .execute(
                "SELECT 1 FROM mayfly.replica_log "
                "WHERE instance = %s AND number = %s AND epoch = %s",
                (instance, *position),
            )
            .fetchone()
        )
        return row is not None

    def _refusal(self, instance: str, position: Position) -> ReplicaError:
        """Return the error for an append that has changed nothing."""
        row = (
            self._connected()
            .execute(
                "SELECT epoch, owner, last FROM mayfly.replica WHERE instance = %s", (instance,)
            )
            .fetchone()
        )
        if row is None:
            return ReplicaError(f"{self._name} is gone from its database", self.manager_name)
        epoch, owner, last = row
        if epoch != position.epoch:
            text = f"is owned by {owner} since epoch {epoch}; epoch {position.epoch} is over"
            return Fenced(f"{self.manager_name} {text}", self.manager_name)
        text = f"ends at {last}, and {position.number - 1} was acknowledged"
        return ReplicaError(
            f"{self._name} {text}: its database has lost commits", self.manager_name
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise errors of psycopg as LogUnreachable, or ReplicaError when the database refuses."""
        try:
            yield
        except (self._psycopg.OperationalError, self._psycopg.InterfaceError) as error:
            self.close()
            raise LogUnreachable(self._text(error), self.manager_name) from error
        except self._psycopg.Error as error:
            raise ReplicaError(self._text(error), self.manager_name) from error

    def _text(self, error: Exception) -> str:
        """Return the name of the log and the first line of an error of psycopg."""
        return f"{self._name}: {(str(error).splitlines() or [type(error).__name__])[0]}"


class LogSnapshot:
    """The log of a queue manager as it is at one moment; read it inside of its block alone."""

    def __init__(self, connection: Any, name: str, registered: Registered) -> None:
        """Read through ``connection``, in its transaction; ``name`` is for errors."""
        self._connection, self._name = connection, name
        self.instance, self.end = registered

    def check_holds(self, position: Position) -> None:
        """Raise ReplicaError unless the log goes on from a position that a folder has.

        A database that was restored, or a standby that was promoted and lagged, does not.
        """
        row = self._connection.execute(
            "SELECT epoch FROM mayfly.replica_log WHERE instance = %s AND number = %s",
            (self.instance, position.number),
        ).fetchone()
        if position.number > self.end.number or (row is not None and row[0] != position.epoch):
            raise ReplicaError(
                f"{self._name} ends at {self.end.number} of epoch {self.end.epoch}, before "
                f"{position.number} of epoch {position.epoch}, which the folder has: its database "
                "has lost commits",
                self.instance,
            )

    def page_count(self) -> int:
        """Return the number of pages of the database."""
        [count] = self._connection.execute(
            "SELECT page_count FROM mayfly.replica_log WHERE instance = %s AND number = %s",
            (self.instance, self.end.number),
        ).fetchone()
        return int(count)

    def pages_since(self, number: int, also: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """Yield (page number, image) of pages that were written after row ``number`` of the log.

        Pages named by ``also`` are yielded even if they were written earlier. The last image of a
        page is the last one that is yielded. Pages of the image come first, ordered by number.
        Raises StoreDamaged.
        """
        wanted = sorted(also)
        with self._connection.cursor(name="images", binary=True) as cursor:
            cursor.execute(
                "SELECT page, image FROM mayfly.replica_page "
                "WHERE instance = %s AND (number > %s OR page = ANY(%s)) ORDER BY page",
                (self.instance, number, wanted),
            )
            for page, image in cursor:
                yield from unpacked(image, f"page {page} of {self._name}")
        known = frozenset(wanted)
        with self._connection.cursor(name="rows", binary=True) as cursor:
            cursor.itersize = 100
            cursor.execute(
                "SELECT number, pages FROM mayfly.replica_log "
                "WHERE instance = %s AND (number > %s OR %s) ORDER BY number",
                (self.instance, number, bool(wanted)),
            )
            for at, pages in cursor:
                for page, image in unpacked(pages, f"row {at} of {self._name}"):
                    if at > number or page in known:
                        yield page, image
