"""Stores for tests: opening one, rows and units to commit, and a disk that fails on demand."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from mayfly.lifetime.life import LifeRecord, State
from mayfly.mqi.errors import MQError
from mayfly.runtime import Runtime
from mayfly.store.contents import LEAST_COPIES
from mayfly.store.damage import checksum_vfs
from mayfly.store.database import DATABASE_FILE, connect
from mayfly.store.keys import generated_id, id_hash, order_key, start_of_ids
from mayfly.store.store import Store
from mayfly.store.units import StoredMessage, Unit
from tests.snapshots import on_a_snapshot

NUMBER = 1
#: The name of a disk of the tests with SQLite.
DISK = "mayfly-disk"
#: The name that the checksum extension has with SQLite.
CHECKSUMS = "cksmvfs"
NOW_MS = 1_700_000_000_000
#: A transaction that has not come so far after this never will.
GATE_SECONDS = 120.0


def opened(
    folder: Path | None,
    now_ms: Callable[[], int] = lambda: NOW_MS,
    *,
    runtime: Runtime | None = None,
) -> Store:
    """Open a store that has the queue Q1 under number 1; its folder may be a copy."""
    runtime = on_a_snapshot() if runtime is None else runtime
    store = Store(folder, runtime.engine_lock(), now_ms, runtime)
    store.ledger_writer.totals.open_queue(NUMBER, "Q1")
    return store


def raw(folder: Path) -> apsw.Connection:
    """Open the database of a folder by hand; pages that are written get their checksums."""
    return connect(folder / DATABASE_FILE, checksum_vfs(None, folder))


def new_row(store: Store, body: bytes = b"body") -> StoredMessage:
    with store.engine_lock:
        sequence = store.sequence.next()
    msg_id = generated_id(start_of_ids("QM1", store.sequence.instance), sequence)
    key = order_key(NUMBER, 5, sequence)
    return StoredMessage(
        key, NOW_MS, None, None, id_hash(msg_id), None, 0, msg_id, b"", None, b"", body
    )  # fmt: skip


def new_copies(store: Store, body: bytes, count: int = LEAST_COPIES) -> list[StoredMessage]:
    """Return copies of one publication, all of them for Q1."""
    first, *more = [new_row(store)._replace(topic="a/b", body=body) for _ in range(count)]
    return [first, *(row._replace(msg_id=first.msg_id, msg_hash=first.msg_hash) for row in more)]


def contents(store: Store) -> list[bytes]:
    """Return the data of each content that copies of persistent publications share."""
    return [body for (body,) in store.persistent.fetch("SELECT body FROM content ORDER BY id", ())]


def put_unit(store: Store, *rows: StoredMessage, persistent: bool = True) -> Unit:
    unit = Unit()
    for row in rows or (new_row(store),):
        unit.put(NUMBER, row, persistent=persistent)
    return unit


def get_unit(*rows: StoredMessage, persistent: bool = True) -> Unit:
    unit = Unit()
    for row in rows:
        unit.end(NUMBER, row.k, life(row.msg_id, persistent=persistent))
    return unit


def statement(sql: str, *bindings: Any) -> Unit:
    """Return a unit that runs one statement inside the leader's transaction."""
    unit = Unit()
    unit.statements.append((sql, bindings))
    return unit


def life(msg_id: bytes, *, persistent: bool = True) -> LifeRecord:
    return LifeRecord(
        "Q1", msg_id, b"", None, NOW_MS, NOW_MS, None, NOW_MS, State.GOT.value, 0, 5,
        int(persistent), 4, 0, "", 0, "",
    )  # fmt: skip


def held(store: Store) -> list[bytes]:
    """Return the MsgIds of the persistent messages, in get order."""
    rows = store.persistent.in_order(NUMBER << 48, (NUMBER + 1) << 48, 1_000_000)
    return [row.msg_id for row in rows]


class Gate:
    """The SQL function ``gate()``: holds the leader inside its transaction until opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def wait(self, *_: object) -> int:
        self.reached.set()
        assert self.opened.wait(GATE_SECONDS)
        return 0

    def add_to(self, connection: apsw.Connection) -> None:
        connection.create_scalar_function("gate", self.wait, 0)

    def batch(self, store: Store, *units: Unit) -> list[BaseException | None]:
        """Commit units from a thread each, all in one transaction; return what each raised."""
        outcomes: list[BaseException | None] = [None] * len(units)

        def commit(place: int) -> None:
            try:
                store.commit([units[place]])
            except (apsw.Error, MQError, LookupError) as error:
                outcomes[place] = error

        leader = threading.Thread(target=store.commit, args=([statement("SELECT gate()")],))
        leader.start()
        assert self.reached.wait(GATE_SECONDS)
        threads = [threading.Thread(target=commit, args=(n,)) for n in range(len(units))]
        for n, thread in enumerate(threads, 1):
            thread.start()
            while len(store.group.waiting) < n:
                threading.Event().wait(0.001)
        self.opened.set()
        for thread in (leader, *threads):
            thread.join()
        return outcomes


@contextmanager
def gate() -> Iterator[Gate]:
    """Give every connection opened meanwhile the SQL function ``gate()``."""
    made = Gate()
    apsw.connection_hooks.append(made.add_to)
    try:
        yield made
    finally:
        apsw.connection_hooks.remove(made.add_to)


class Disk(apsw.VFS):
    """A real file system layer under SQLite whose calls fail while ``failing`` names them."""

    def __init__(self, *, is_default: bool = True) -> None:
        self.failing = ""
        self.error: type[apsw.Error] = apsw.IOError
        self.calls: list[str] = []
        super().__init__(DISK, "unix", makedefault=is_default)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return DiskFile(self, name, flags)

    def check(self, call: str, name: str) -> None:
        self.calls.append(f"{call} {name}")
        if self.failing and f"{call} {name}".startswith(self.failing):
            raise self.error(f"{call} {name} fails")


class DiskFile(apsw.VFSFile):
    """A file of the disk; SQLite calls its methods."""

    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self.disk = disk
        self.suffix = Path(path).suffix
        super().__init__("unix", name, flags)

    def xSync(self, flags: int) -> None:
        self.disk.check("sync", self.suffix)
        super().xSync(flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self.disk.check("write", self.suffix)
        super().xWrite(data, offset)


@contextmanager
def failing_disk() -> Iterator[Disk]:
    """Put a disk that can fail under all databases opened meanwhile."""
    forget_checksum_vfs()
    disk = Disk()
    try:
        yield disk
    finally:
        disk.unregister()
        forget_checksum_vfs()


def forget_checksum_vfs() -> None:
    """Let the next store load the checksums anew, on top of the file system there is by then."""
    if CHECKSUMS in apsw.vfs_names():
        apsw.unregister_vfs(CHECKSUMS)
