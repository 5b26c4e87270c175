"""The log of a queue manager in PostgreSQL: an image of its database, and all commits since.

Six tables in the schema ``mayfly``:

* ``replica``: one row for each queue manager: the instance id of its database, the epoch of its
  owner, how often a file was changed, and the lease: until when nobody else takes it, by the clock
  of the database;
* ``replica_log``: a row for each append: its number, the epoch of the owner that wrote it, the
  number of pages of the database after it, and the images of the pages that changed. The first row
  of each epoch has no pages;
* ``replica_part``: the images of an append that are too many for one row. They are written before
  the row of the log, which makes them count: those of another epoch than the row's, and those
  without a row, are in no log, and go with the next merge or owner;
* ``replica_page``: one image of each page; a merge moves older rows of the log there;
* ``replica_file``: a row for each file of the folder that the next owner needs (files.py);
* ``replica_standby``: one row for each process that follows and would become the owner.

An owner takes the next epoch when it opens the queue manager, and renews its lease from then on
(lease.py). Nobody takes the queue manager before the lease has ended. The taking adds the first row
of the epoch, which is never removed. Each owner appends the number behind its last row. So the
number that an earlier owner wants is that of the next epoch's first row, and the primary key
refuses it (:class:`Fenced`): also when its append was under way since before. An append needs the
row before it, so the log has no gap in a database that has lost commits.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mayfly.mqi.errors import StoreDamaged, StoreError
from mayfly.runtime import Runtime, elapsed_ms
from mayfly.store.replica.pages import packed, unpacked

#: PostgreSQL 15 is the first that is tested.
_LEAST_VERSION: Final = 150_000
#: How long an answer of the database is waited for unless something else is asked for.
PATIENCE_MS: Final = 10_000
#: The pause between two tries of an append.
_PAUSE_SECONDS: Final = 0.1
#: Any numbers: two that set up the schema at the same time come one after the other, and of two
#: that merge a log the second does nothing. The third is for the one that begins a log.
_SETUP_LOCK, _MERGE_LOCK, _FIRST_LOCK = 5_124_877, 5_124_878, 5_124_879
#: Rows of the log that one query fetches: each may have some megabytes.
_PIECES_AT_ONCE: Final = 10
#: Pages in one transaction of the first copy.
_COPIED_PAGES: Final = 1_000
#: Pages after which a merge ends, with the row that reaches this number.
MERGED_PAGES: Final = 1_000
#: The largest number that a part can have.
_ROW_ITSELF: Final = 2**31 - 1
#: The comment of the table ``replica``; each change of the tables changes it.
_SCHEMA_VERSION: Final = "Mayfly replica 3"
_SCHEMA: Final = (
    "CREATE SCHEMA IF NOT EXISTS mayfly",
    """CREATE TABLE mayfly.replica (
        manager text PRIMARY KEY, instance text UNIQUE NOT NULL, epoch bigint NOT NULL,
        owner text NOT NULL,
        lease_end timestamptz NOT NULL, addresses text NOT NULL, is_wanted boolean NOT NULL,
        files bigint NOT NULL)
        WITH (fillfactor = 10)""",
    f"COMMENT ON TABLE mayfly.replica IS '{_SCHEMA_VERSION}'",
    # A row of a few pages stays in its table, and is not cut into pieces of a second one.
    """CREATE TABLE mayfly.replica_log (
        instance text, number bigint, epoch bigint NOT NULL, page_count bigint NOT NULL,
        pages bytea NOT NULL, PRIMARY KEY (instance, number)) WITH (toast_tuple_target = 8160)""",
    """CREATE TABLE mayfly.replica_part (
        instance text, number bigint, part integer, epoch bigint, pages bytea NOT NULL,
        PRIMARY KEY (instance, number, part, epoch))""",
    """CREATE TABLE mayfly.replica_page (
        instance text, page bigint, number bigint NOT NULL, image bytea NOT NULL,
        PRIMARY KEY (instance, page)) WITH (toast_tuple_target = 8160)""",
    "CREATE INDEX replica_page_by_number ON mayfly.replica_page (instance, number)",
    # The bytes are compressed already.
    "ALTER TABLE mayfly.replica_log ALTER pages SET STORAGE EXTERNAL",
    "ALTER TABLE mayfly.replica_part ALTER pages SET STORAGE EXTERNAL",
    "ALTER TABLE mayfly.replica_page ALTER image SET STORAGE EXTERNAL",
    # A row comes behind its parts.
    f"""CREATE VIEW mayfly.replica_piece AS
        SELECT instance, number, {_ROW_ITSELF} AS part, pages FROM mayfly.replica_log
        UNION ALL
        SELECT instance, number, part, p.pages
        FROM mayfly.replica_part p JOIN mayfly.replica_log USING (instance, number, epoch)""",
    """CREATE TABLE mayfly.replica_file (
        instance text, name text, number bigint NOT NULL, content bytea, digest bytea,
        PRIMARY KEY (instance, name))""",
    """CREATE TABLE mayfly.replica_standby (
        instance text, name text, number bigint NOT NULL, seen timestamptz NOT NULL,
        as_of timestamptz NOT NULL, addresses text NOT NULL,
        PRIMARY KEY (instance, name)) WITH (fillfactor = 10)""",
)
_FOUND_VERSION: Final = """
    SELECT coalesce(obj_description(oid, 'pg_class'), '')
    FROM pg_class WHERE oid = to_regclass('mayfly.replica')"""
_APPEND: Final = """
    INSERT INTO mayfly.replica_log
    SELECT %(instance)s, %(number)s, %(epoch)s, %(page_count)s, %(pages)b
    WHERE EXISTS (
        SELECT FROM mayfly.replica_log
        WHERE instance = %(instance)s AND number = %(number)s - 1 AND epoch = %(epoch)s)
    RETURNING number"""
_WRITE_PART: Final = """
    INSERT INTO mayfly.replica_part
    SELECT instance, %(number)s, %(part)s, epoch, %(pages)b FROM mayfly.replica
    WHERE instance = %(instance)s AND epoch = %(epoch)s
    ON CONFLICT (instance, number, part, epoch) DO UPDATE SET pages = excluded.pages
    RETURNING part"""
_DISCARD_PARTS: Final = """
    DELETE FROM mayfly.replica_part p
    WHERE instance = %(instance)s AND epoch < %(epoch)s AND NOT EXISTS (
        SELECT FROM mayfly.replica_log l
        WHERE (l.instance, l.number, l.epoch) = (p.instance, p.number, p.epoch))"""
_LEASE_END: Final = "clock_timestamp() + %(lease_ms)s * interval '1 ms'"
_TAKE: Final = f"""
    UPDATE mayfly.replica SET epoch = epoch + 1, owner = %(owner)s, lease_end = {_LEASE_END},
        addresses = '{{}}', is_wanted = false
    WHERE manager = %(manager)s AND instance = %(instance)s
        AND (lease_end <= clock_timestamp() OR epoch = %(own_epoch)s)
    RETURNING epoch"""
#: Waits for an append that is under way, and adds nothing if that has taken the number.
_FIRST_ROW: Final = """
    INSERT INTO mayfly.replica_log
    SELECT instance, number + 1, %(epoch)s, page_count, '' FROM mayfly.replica_log
    WHERE instance = %(instance)s ORDER BY number DESC LIMIT 1
    ON CONFLICT DO NOTHING
    RETURNING number"""
_RENEW: Final = f"""
    UPDATE mayfly.replica SET lease_end = {_LEASE_END}, addresses = %(addresses)s
    WHERE instance = %(instance)s AND epoch = %(epoch)s
    RETURNING is_wanted"""
_FOLLOW: Final = """
    INSERT INTO mayfly.replica_standby (instance, name, number, seen, as_of, addresses)
    VALUES (%(instance)s, %(name)s, %(number)s, clock_timestamp(),
        to_timestamp(%(as_of_ms)s / 1000.0), %(addresses)s)
    ON CONFLICT (instance, name) DO UPDATE SET number = excluded.number, seen = excluded.seen,
        as_of = excluded.as_of, addresses = excluded.addresses"""
#: One that was not seen for so long has ended.
_STANDBY_SECONDS: Final = 10
_WRITE_FILE: Final = """
    WITH owned AS (
        UPDATE mayfly.replica SET files = files + 1 WHERE instance = %(instance)s
            AND epoch = %(epoch)s
        RETURNING instance, files)
    INSERT INTO mayfly.replica_file
    SELECT instance, %(name)s, files, %(content)b, sha256(%(content)b) FROM owned
    ON CONFLICT (instance, name) DO UPDATE
    SET number = excluded.number, content = excluded.content, digest = excluded.digest
    RETURNING number"""
_FILES: Final = """
    SELECT r.epoch, r.files, f.name, f.content, f.digest = sha256(f.content)
    FROM mayfly.replica r
    LEFT JOIN mayfly.replica_file f ON f.instance = r.instance AND f.number > %s
    WHERE r.manager = %s"""
_RELEASE: Final = """
    UPDATE mayfly.replica SET lease_end = 'epoch' WHERE instance = %s AND epoch = %s"""
_IMAGE: Final = (
    "COPY mayfly.replica_page (instance, page, number, image) FROM STDIN (FORMAT BINARY)"
)
_LENGTH: Final = """
    SELECT count(*), coalesce(sum(length(pages)), 0)::bigint
    FROM (
        SELECT pages FROM mayfly.replica_piece
        WHERE instance = (SELECT instance FROM mayfly.replica WHERE manager = %s) AND pages <> ''
        LIMIT %s) AS counted"""
_ENDS: Final = """
    SELECT instance,
        (SELECT number FROM mayfly.replica_log l WHERE l.instance = r.instance AND pages <> ''
            ORDER BY number LIMIT 1),
        (SELECT max(number) FROM mayfly.replica_log l WHERE l.instance = r.instance)
    FROM mayfly.replica r WHERE manager = %s"""
#: By numbers from and to, since a long log is not sorted as a whole for a few rows of it.
_OLDEST: Final = """
    SELECT number, part, pages FROM mayfly.replica_piece
    WHERE instance = %s AND number BETWEEN %s AND %s AND pages <> '' ORDER BY number, part"""
_DELETE_BEYOND: Final = """
    DELETE FROM mayfly.replica_page WHERE instance = %(instance)s AND page > (
        SELECT max(page_count) FROM mayfly.replica_log
        WHERE instance = %(instance)s AND number >= %(number)s)"""
_MERGE: Final = """
    INSERT INTO mayfly.replica_page VALUES (%s, %s, %s, %s)
    ON CONFLICT (instance, page) DO UPDATE SET number = excluded.number, image = excluded.image"""
_LOG = logging.getLogger("mayfly.store")

if TYPE_CHECKING:
    from mayfly.store.replica.connection import BoundedConnection


class ReplicaError(StoreError):
    """The log in PostgreSQL cannot be used as it is."""


class Fenced(ReplicaError):
    """Another owner has taken the queue manager: nothing that was appended is in the log."""


class LogUnreachable(ReplicaError):
    """PostgreSQL did not answer for so long: it is unknown whether the append is in the log."""


class LogRow(NamedTuple):
    """A place in the log: the number of a row, and the epoch of the owner that wrote it.

    Number 0 is the place before everything.
    """

    number: int
    epoch: int


class Registered(NamedTuple):
    """A queue manager in the log: the instance id of its database, and the last row of its log."""

    instance: str
    end: LogRow


class Ownership(NamedTuple):
    """The owner of a queue manager, its epoch and last row, and ms to the end of its lease.

    ``instance`` is the instance id of its database, ``files`` how often a file of the folder was
    changed in the log, ``addresses`` where its owner listens, by the names of listeners,
    ``now_ms`` the database's clock.
    ``lease_ms`` is 0 when the lease has ended, or was given up. ``lease_end`` is that moment by the
    database's clock, and changes when the lease is renewed.
    """

    instance: str
    owner: str
    epoch: int
    last: int
    files: int
    addresses: dict[str, str]
    lease_end: str
    lease_ms: int
    now_ms: int


class StandbyNote(NamedTuple):
    """A standby's note about itself: its name, the last row that it has, and its addresses.

    It has all rows that the log had at ``as_of_ms``, by the database's clock.
    """

    name: str
    number: int
    as_of_ms: int
    addresses: Mapping[str, str]


class StandbyState(NamedTuple):
    """A process that follows: its name, the last row that it has, and how long ago it was seen.

    It may lack what was appended in the last ``lag_ms`` ms. ``addresses`` are where it listens, by
    the names of listeners.
    """

    name: str
    number: int
    age_ms: int
    lag_ms: int
    addresses: dict[str, str]


class ReplicaFiles(NamedTuple):
    """Files of a folder as the log has them.

    ``epoch`` is that of the queue manager's owner, ``number`` the last change of a file.
    ``contents`` has the content of each file by its name, None for one that was removed.
    """

    epoch: int
    number: int
    contents: dict[str, bytes | None]


class LogLength(NamedTuple):
    """Rows of the log with pages, where a part counts as a row, and the bytes of their pages."""

    rows: int
    size_bytes: int


class Owned(ReplicaError):
    """Another owner has the queue manager, and its lease has not ended."""

    def __init__(self, message: str, place: str, standing: Ownership) -> None:
        """Keep who has it, and for how long."""
        super().__init__(message, place)
        self.standing = standing


class LogEntry(NamedTuple):
    """A row of the log, written by one append, and the page count of the database after it."""

    position: LogRow
    page_count: int
    pages: bytes


class PostgresLog:
    """A connection to the log of one queue manager, made anew when it is lost.

    For one thread at a time. psycopg is imported here, at the first use.
    """

    def __init__(
        self, url: str, manager_name: str, runtime: Runtime, patience_ms: int = PATIENCE_MS
    ) -> None:
        """Connect, and create the tables if the database lacks them.

        ``url`` is that of a database (``postgresql://user@host/name``) or a connection string of
        libpq, ``runtime`` waits. Each answer is waited for ``patience_ms`` at most, and a new
        connection two seconds more; then the database counts as unreachable. Raises
        ReplicaError for a version before 15, with ``synchronous_commit`` off, for a database that
        refuses, and without psycopg; LogUnreachable.
        """
        try:
            import lz4.block  # noqa: F401  # for the pages
            import psycopg

            from mayfly.store.replica.connection import BoundedConnection
        except ModuleNotFoundError:
            text = "a replica needs psycopg and lz4: pip install 'mayfly-mq[replica]'"
            raise ReplicaError(text, manager_name) from None
        self._psycopg, self.manager_name, self._url = psycopg, manager_name, url
        self._patience_ms, self._pause = patience_ms, runtime.event()
        self._open = BoundedConnection.opened
        self._connection: BoundedConnection | None = None
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
                found = connection.execute(_FOUND_VERSION).fetchone()
                for statement in _SCHEMA if found is None else ():
                    connection.execute(statement)
        if found not in (None, (_SCHEMA_VERSION,)):
            text = "the tables in the schema mayfly are of another version of Mayfly"
            raise ReplicaError(f"{self._name}: {text}", self.manager_name)

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
                    "SELECT instance, number, l.epoch FROM mayfly.replica r "
                    "JOIN mayfly.replica_log l USING (instance) "
                    "WHERE manager = %s ORDER BY number DESC LIMIT 1",
                    (self.manager_name,),
                )
                .fetchone()
            )
        return None if row is None else Registered(row[0], LogRow(row[1], row[2]))

    def standing(self) -> Ownership | None:
        """Return who has the queue manager, None if the log knows nothing of it.

        Raises ReplicaError.
        """
        with self._errors():
            row = (
                self._connected()
                .execute(
                    "SELECT instance, owner, epoch, "
                    "(SELECT max(number) FROM mayfly.replica_log l WHERE l.instance = r.instance), "
                    "files, addresses, lease_end::text, greatest(0, "
                    "extract(epoch FROM lease_end - clock_timestamp()) * 1000)::bigint, "
                    "(extract(epoch FROM clock_timestamp()) * 1000)::bigint "
                    "FROM mayfly.replica r WHERE manager = %s",
                    (self.manager_name,),
                )
                .fetchone()
            )
        if row is None:
            return None
        standing = Ownership(*row)
        return standing._replace(addresses=json.loads(row[5]))

    def standbys(self, instance: str) -> list[StandbyState]:
        """Return the processes that follow, by name; raises ReplicaError."""
        with self._errors():
            rows = self._connected().execute(
                "SELECT name, number, "
                "(extract(epoch FROM clock_timestamp() - seen) * 1000)::bigint, "
                "greatest(0, extract(epoch FROM clock_timestamp() - as_of) * 1000)::bigint, "
                "addresses FROM mayfly.replica_standby WHERE instance = %s "
                "AND seen > clock_timestamp() - %s * interval '1 s' ORDER BY name",
                (instance, _STANDBY_SECONDS),
            )
            return [
                StandbyState(name, number, age_ms, lag_ms, json.loads(addresses))
                for name, number, age_ms, lag_ms, addresses in rows
            ]

    def follow(self, instance: str, note: StandbyNote) -> None:
        """Let others hear of a standby; raises ReplicaError."""
        values = note._asdict() | {
            "instance": instance,
            "addresses": json.dumps(dict(note.addresses)),
        }
        with self._errors():
            self._connected().execute(_FOLLOW, values)

    def stop_following(self, instance: str, name: str) -> None:
        """Remove the note of a standby from the log, so that the owner does not wait for it.

        Nothing happens if it has none. ``name`` is the standby's. Raises ReplicaError.
        """
        with self._errors():
            self._connected().execute(
                "DELETE FROM mayfly.replica_standby WHERE instance = %s AND name = %s",
                (instance, name),
            )

    def want(self, epoch: int, *, is_wanted: bool) -> None:
        """Ask the owner of an epoch to give the queue manager up, or ask no longer.

        Does nothing when there is another owner by now. Raises ReplicaError.
        """
        with self._errors():
            self._connected().execute(
                "UPDATE mayfly.replica SET is_wanted = %s WHERE manager = %s AND epoch = %s",
                (is_wanted, self.manager_name, epoch),
            )

    def is_first(self) -> bool:
        """Return True if nobody else is about to begin the log of this queue manager.

        Nobody else gets True until this connection is closed. Raises ReplicaError.
        """
        with self._errors():
            sql = "SELECT pg_try_advisory_lock(%s, hashtext(%s))"
            [is_first] = self._connected().execute(sql, (_FIRST_LOCK, self.manager_name)).fetchone()
        return bool(is_first)

    def register(
        self,
        instance: str,
        owner: str,
        images: Iterable[tuple[int, bytes]],
        page_count: int,
    ) -> LogRow:
        """Begin the log with an image of the whole database; return its end, of epoch 1.

        ``images`` are all pages with their numbers, in order. They are copied some at a time, and
        the log is begun when all are there: a copy that was interrupted is in no log. Its pages are
        copied again only where they differ. The epoch has no lease. Call it after
        :meth:`is_first`; a connection that is lost meanwhile, and the right with it, ends the copy.
        Raises LogUnreachable, ReplicaError, also when another owner was first.
        """
        position, pages = LogRow(1, 1), iter(images)
        while copied := dict(islice(pages, _COPIED_PAGES)):
            with self._errors():
                self._copy(instance, copied)
        with self._errors():
            connection = self._connected()
            with connection.transaction():
                connection.execute(
                    "DELETE FROM mayfly.replica_page WHERE instance = %s AND page > %s",
                    (instance, page_count),
                )
                connection.execute(
                    "INSERT INTO mayfly.replica VALUES (%s, %s, %s, %s, 'epoch', '{}', false, 0)",
                    (self.manager_name, instance, position.epoch, owner),
                )
                connection.execute(
                    "INSERT INTO mayfly.replica_log VALUES (%s, %s, %s, %s, %s)",
                    (instance, position.number, position.epoch, page_count, b""),
                )
        return position

    def _copy(self, instance: str, pages: Mapping[int, bytes]) -> None:
        """Write images of pages that follow each other, but for those that are there already."""
        connection, numbers = self._connected(), sorted(pages)
        images = {number: packed({number: pages[number]}) for number in numbers}
        with connection.transaction():
            found = connection.execute(
                "SELECT page, sha256(image) FROM mayfly.replica_page "
                "WHERE instance = %s AND page BETWEEN %s AND %s",
                (instance, numbers[0], numbers[-1]),
                binary=True,
            ).fetchall()
            same = {page for page, digest in found if digest == sha256(images[page]).digest()}
            if found:
                connection.execute(
                    "DELETE FROM mayfly.replica_page WHERE instance = %s AND page = ANY(%s)",
                    (instance, [page for page, _digest in found if page not in same]),
                )
            with connection.cursor() as cursor, cursor.copy(_IMAGE) as copying:
                copying.set_types(["text", "int8", "int8", "bytea"])
                for number, image in images.items():
                    if number not in same:
                        copying.write_row((instance, number, 1, image))

    def take(self, instance: str, owner: str, lease_ms: int, own_epoch: int = 0) -> LogRow:
        """Become the owner; return the first row of its epoch, which is the end of the log.

        From then on the owner before can append nothing, and nobody else becomes the owner within
        ``lease_ms`` ms. ``owner`` is shown to others. ``own_epoch`` is an epoch whose owner is
        known to have ended: its lease is not waited for. Raises Owned while the lease of another
        runs, and ReplicaError, also when the log has another instance of the queue manager.
        """
        values = {
            "owner": owner,
            "manager": self.manager_name,
            "instance": instance,
            "lease_ms": lease_ms,
            "own_epoch": own_epoch,
        }
        with self._errors():
            connection = self._connected()
            with connection.transaction():
                taken = connection.execute(_TAKE, values).fetchone()
                if taken is not None:
                    first = {"instance": instance, "epoch": taken[0]}
                    while (row := connection.execute(_FIRST_ROW, first).fetchone()) is None:
                        pass
                    return LogRow(row[0], taken[0])
        standing = self.standing()
        if standing is not None and standing.instance == instance:
            text = f"is owned by {standing.owner}, whose lease runs for another"
            raise Owned(
                f"{self.manager_name} {text} {standing.lease_ms / 1000:.1f} seconds",
                self.manager_name,
                standing,
            )
        raise ReplicaError(f"{self._name} has no instance {instance}", self.manager_name)

    def renew(self, instance: str, epoch: int, lease_ms: int, addresses: Mapping[str, str]) -> bool:
        """Let the lease of the owner of an epoch end in ``lease_ms`` ms.

        ``addresses`` are where the owner listens, by the names of listeners, to be shown to others.
        Returns True once somebody wants a standby to become the owner.

        Raises Fenced when another owner has taken the queue manager, LogUnreachable, ReplicaError.
        """
        values = {
            "instance": instance,
            "epoch": epoch,
            "lease_ms": lease_ms,
            "addresses": json.dumps(dict(addresses)),
        }
        with self._errors():
            row = self._connected().execute(_RENEW, values).fetchone()
            if row is None:
                raise self._refusal(instance, LogRow(0, epoch))
        [is_wanted] = row
        return bool(is_wanted)

    def release(self, instance: str, epoch: int) -> None:
        """End the lease of the owner of an epoch, unless another has it; raises ReplicaError."""
        with self._errors():
            self._connected().execute(_RELEASE, (instance, epoch))

    def append(self, instance: str, entry: LogEntry) -> None:
        """Append an entry behind the one before, and return when PostgreSQL has it.

        A database that goes away is waited for. It is asked whether the entry is there before the
        append is tried again. Raises Fenced when another owner has taken the queue manager;
        LogUnreachable when the database stays away for the patience of this log, which leaves it
        unknown whether the entry is there; ReplicaError when it refuses.
        """
        is_unsure = False

        def write() -> None:
            """Append the entry, unless an earlier try has done so."""
            nonlocal is_unsure
            if is_unsure and self._has(instance, entry.position):
                return
            is_unsure = True
            if self._append_once(instance, entry) or self._has(instance, entry.position):
                return
            raise self._refusal(instance, entry.position)

        self._patiently(write)

    def write_file(self, instance: str, epoch: int, name: str, content: bytes | None) -> None:
        """Replace what the log has of a file of the folder; None for one that was removed.

        Raises Fenced when another owner has taken the queue manager, LogUnreachable, ReplicaError.
        """
        values = {"instance": instance, "epoch": epoch, "name": name, "content": content}
        with self._errors():
            if self._connected().execute(_WRITE_FILE, values).fetchone() is None:
                raise self._refusal(instance, LogRow(0, epoch))

    def files_since(self, number: int) -> ReplicaFiles:
        """Return the files of the folder that were changed after change ``number``.

        Raises StoreDamaged for a content with a wrong digest, and ReplicaError, also when the log
        knows nothing of the queue manager.
        """
        with self._errors():
            values = number, self.manager_name
            rows = self._connected().execute(_FILES, values, binary=True).fetchall()
        if not rows:
            raise ReplicaError(f"{self._name} is not in this database", self.manager_name)
        contents = dict[str, bytes | None]()
        for _epoch, _number, name, content, is_right in rows:
            if is_right is False:
                source = f"the file {name} in {self._name}"
                raise StoreDamaged(f"{source} is damaged: its digest is wrong", source)
            if name is not None:
                contents[name] = content
        epoch, last, *_file = rows[0]
        return ReplicaFiles(epoch, last, contents)

    def write_part(self, instance: str, position: LogRow, part: int, pages: bytes) -> None:
        """Write a part of what the next append at ``position`` makes count, with its number.

        It is tried again while the database is away, as an append is. Raises Fenced,
        LogUnreachable, ReplicaError.
        """
        values = {
            "instance": instance,
            "number": position.number,
            "epoch": position.epoch,
            "part": part,
            "pages": pages,
        }

        def write() -> None:
            """Write the part, whatever was written of it before."""
            if self._connected().execute(_WRITE_PART, values).fetchone() is None:
                raise self._refusal(instance, position)

        self._patiently(write)

    def discard_parts(self, instance: str, epoch: int) -> None:
        """Delete parts from before an epoch that no append has made count.

        Call it as the owner of that epoch. Raises ReplicaError.
        """
        with self._errors():
            self._connected().execute(_DISCARD_PARTS, {"instance": instance, "epoch": epoch})

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

    def length(self, most_rows: int) -> LogLength:
        """Return how long the log is, of which ``most_rows`` are looked at; raises ReplicaError."""
        with self._errors():
            row = self._connected().execute(_LENGTH, (self.manager_name, most_rows)).fetchone()
        return LogLength(*row)

    def merge(self, most_rows: int, leaves_rows: int = 1, most_pages: int = MERGED_PAGES) -> int:
        """Move the oldest rows of the log into the image of the database; return how many.

        Rows of ``most_rows`` consecutive numbers are moved, in one transaction, and never the last
        ``leaves_rows``, of which there is at least one: by it a lost answer is found, and the next
        append is allowed. The row with which ``most_pages`` are reached is the last one. Parts
        count as rows, and some parts of a row may be moved before the row. First rows of epochs
        stay. Does nothing while another merges
        this log. Raises StoreDamaged, ReplicaError.
        """
        with self._errors():
            connection = self._connected()
            with connection.transaction():
                [is_free] = connection.execute(
                    "SELECT pg_try_advisory_xact_lock(%s, hashtext(%s))",
                    (_MERGE_LOCK, self.manager_name),
                ).fetchone()
                ends = connection.execute(_ENDS, (self.manager_name,)).fetchone()
                if not is_free or ends is None or ends[1] is None:
                    return 0
                instance, first, last = ends
                until = min(first + most_rows - 1, last - leaves_rows)
                images, places = dict[int, tuple[int, bytes]](), list[tuple[int, int]]()
                with connection.cursor(name="oldest", binary=True) as cursor:
                    cursor.itersize = _PIECES_AT_ONCE
                    cursor.execute(_OLDEST, (instance, first, until))
                    for number, part, pages in cursor:
                        for page, image in unpacked(pages, f"row {number} of {self._name}"):
                            images[page] = (number, image)
                        places.append((number, part))
                        if len(images) >= most_pages:
                            break
                if not places:
                    return 0
                number, part = places[-1]
                with connection.cursor() as cursor:
                    cursor.executemany(
                        _MERGE,
                        [
                            (instance, page, number, packed({page: image}))
                            for page, (number, image) in sorted(images.items())
                        ],
                    )
                whole = number if part == _ROW_ITSELF else number - 1
                # The database may have become smaller.
                connection.execute(_DELETE_BEYOND, {"instance": instance, "number": whole})
                connection.execute(
                    "DELETE FROM mayfly.replica_log "
                    "WHERE instance = %s AND number <= %s AND pages <> ''",
                    (instance, whole),
                )
                connection.execute(
                    "DELETE FROM mayfly.replica_part "
                    "WHERE instance = %s AND (number, part) <= (%s, %s)",
                    (instance, number, part),
                )
        return len(places)

    def _connected(self) -> Any:
        """Return the connection, made if needed; raises psycopg.Error, ReplicaError."""
        if self._connection is None:
            connection = self._open(self._url)
            connection.patience_ms = self._patience_ms
            try:
                self._check(connection)
            except BaseException:
                connection.close()
                raise
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

    def _patiently(self, write: Callable[[], None]) -> None:
        """Call a function, again while the database is away; it may have done its work before.

        Raises LogUnreachable when it stays away for the patience of this log, and as ``write``.
        """
        gone, end_ms = "", elapsed_ms() + self._patience_ms
        while not gone or elapsed_ms() < end_ms:
            try:
                with self._errors():
                    write()
                return
            except LogUnreachable as error:
                if gone != error.message:
                    _LOG.warning("%s, commits wait", error.message)
                gone = error.message
                self._pause.wait(_PAUSE_SECONDS)
        text = f"{gone}; given up after {self._patience_ms / 1000:g} seconds"
        raise LogUnreachable(text, self.manager_name)

    def _append_once(self, instance: str, entry: LogEntry) -> bool:
        """Try an append once; return False if its number is taken, or not the next one."""
        values = {
            "instance": instance,
            "number": entry.position.number,
            "epoch": entry.position.epoch,
            "page_count": entry.page_count,
            "pages": entry.pages,
        }
        try:
            return self._connected().execute(_APPEND, values).fetchone() is not None
        except self._psycopg.errors.UniqueViolation:
            return False

    def _has(self, instance: str, position: LogRow) -> bool:
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

    def _refusal(self, instance: str, position: LogRow) -> ReplicaError:
        """Return the error for an append that has changed nothing."""
        row = (
            self._connected()
            .execute(
                "SELECT r.epoch, owner, number FROM mayfly.replica r "
                "JOIN mayfly.replica_log l USING (instance) "
                "WHERE instance = %s ORDER BY number DESC LIMIT 1",
                (instance,),
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

    def check_holds(self, position: LogRow) -> None:
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
            cursor.itersize = _PIECES_AT_ONCE
            cursor.execute(
                "SELECT number, pages FROM mayfly.replica_piece "
                "WHERE instance = %s AND (number > %s OR %s) ORDER BY number, part",
                (self.instance, number, bool(wanted)),
            )
            for at, pages in cursor:
                for page, image in unpacked(pages, f"row {at} of {self._name}"):
                    if at > number or page in known:
                        yield page, image
