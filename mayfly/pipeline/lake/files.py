"""The files of a lake that a reader must read: names, the manifest, and leases of readers.

    LAKE/date=D/batch-<instance>-<batch>.parquet   rows of one batch of a stream
    LAKE/date=D/run-<generation>-<id>.parquet      rows of many batches, sorted by queue (a run)
    LAKE/_runs/date=D/run-….parquet                a run that has not replaced the batches yet
    LAKE/_mayfly/manifest.json                     which runs contain which batches
    LAKE/_mayfly/leases/                           one file for each reader, with its generation

The manifest is replaced atomically. A batch's file is read unless the manifest records it in a run;
a run is read when the manifest names it. A reader lists the files first and then reads the
manifest; so it has every row once, at whatever point a compaction was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mayfly.pipeline.errors import LakeError
from mayfly.verbs.contracts.config_files import is_url, local_path
from mayfly.verbs.contracts.erasure import Erasure

MARKS = "_mayfly"
STAGING = "_staging"
RUNS = "_runs"
_ERASURES = "erasures.json"
_VERSION = 2
_BATCH = re.compile(r"batch-(\w+)-(\d+)\.parquet")
_RUN = re.compile(r"run-\d+-\w+\.parquet")
_DATE = "date="
#: A process that reads a lake again and again keeps at most this number of leases, the last ones.
_LEASES_MAX = 64


class BatchName(NamedTuple):
    """The parts of a batch's file name: the (shortened) id of its store, and its number."""

    store: str
    batch: int


def batch_name(name: str) -> BatchName | None:
    """Return store and batch number in a file name, None if it is not that of a batch.

    Example: ``batch-0a1b-000000000007.parquet`` -> ``("0a1b", 7)``.
    """
    found = _BATCH.fullmatch(name)
    return None if found is None else BatchName(found[1], int(found[2]))


def is_run(name: str) -> bool:
    """Return True for the file name of a run: a file merged from many batches."""
    return _RUN.fullmatch(name) is not None


@dataclass
class DateEntry:
    """The entry of the manifest for one date: its runs, which are files merged from many batches.

    ``through`` is the last batch of each store that the runs contain. Runs in ``hidden`` stay in
    ``_runs`` as long as readers of a generation before ``since`` need the files they replace.
    """

    runs: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    through: dict[str, int] = field(default_factory=dict)
    since: int = 0


@dataclass
class Manifest:
    """The list of a lake's runs (merged files), with a generation number.

    ``generation`` increases with every change. ``retired`` maps a file to a generation: only
    readers of an earlier generation need the file.
    """

    generation: int = 0
    dates: dict[str, DateEntry] = field(default_factory=dict)
    retired: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, lake: Path) -> Manifest:
        """Return the manifest of a lake: the list of its merged files. Empty if it has none.

        Raises LakeError for a damaged manifest or one of another version.
        """
        path = lake / MARKS / "manifest.json"
        try:
            held: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            return cls()
        except ValueError as error:
            raise LakeError(f"{path} is damaged: {error}") from error
        if held.pop("version", None) != _VERSION:
            raise LakeError(f"{path} is not of version {_VERSION}")
        try:
            dates = {name: DateEntry(**entry) for name, entry in held.pop("dates").items()}
            return cls(dates=dates, **held)
        except (KeyError, TypeError, AttributeError) as error:
            raise LakeError(f"{path} is damaged: {error}") from error

    def publish(self, lake: Path) -> None:
        """Increase the manifest's generation by 1 and store it in the lake, durably.

        The caller holds the lake's lock.
        """
        self.generation += 1
        held = {name: value for name, value in vars(self).items() if name != "dates"}
        dates = {name: vars(entry) for name, entry in self.dates.items()}
        path = lake / MARKS / "manifest.json"
        write_safely(path, json.dumps({"version": _VERSION, **held, "dates": dates}))

    def entry(self, date: str) -> DateEntry:
        """Return the entry of a date, which the caller may change.

        A missing entry is added, empty.
        """
        return self.dates.setdefault(date, DateEntry())

    def holds(self, date: str, name: str) -> bool:
        """Return True if a merged file contains the rows of this batch's file.

        The batch's file may be removed then. False for a file that is not a batch's.
        """
        batch = batch_name(name)
        through = self.dates[date].through if date in self.dates else {}
        return batch is not None and batch.batch <= through.get(batch.store, -1)

    def has_rows_of(self, store: str) -> bool:
        """Return True if merged files have rows of the store with this (shortened) id."""
        return any(store in entry.through for entry in self.dates.values())


class LakeFile(NamedTuple):
    """A file of a lake, and the date of its rows."""

    date: str
    path: Path


@dataclass(frozen=True)
class Snapshot:
    """The files to read at one moment, which contain every row of a lake once.

    ``batches`` are files of single batches and ``runs`` files merged from many. ``missing`` are
    files that the manifest names and that do not exist.
    """

    lake: Path
    manifest: Manifest
    batches: tuple[LakeFile, ...]
    runs: tuple[LakeFile, ...]
    missing: tuple[Path, ...]

    @property
    def files(self) -> tuple[LakeFile, ...]:
        """All files to read, merged ones first."""
        return self.runs + self.batches

    @classmethod
    def take(cls, lake: Path) -> Snapshot:
        """Return the Parquet files of a lake at this moment; raises LakeError if damaged.

        The files are listed before the manifest is read, so that none is missed. A file that the
        manifest names and that does not exist is in ``missing``.
        """
        listed = [
            LakeFile(path.parent.name.removeprefix(_DATE), path)
            for path in sorted(lake.glob(f"{_DATE}*/*.parquet"))
            if not path.name.startswith(("_", "."))
        ]
        manifest = Manifest.load(lake)
        if not manifest.generation:
            # A copy of the dates without the manifest: all runs are read as they are.
            for file in listed:
                if is_run(file.path.name):
                    manifest.entry(file.date).runs.append(file.path.name)
        batches = [
            file
            for file in listed
            if not is_run(file.path.name) and not manifest.holds(file.date, file.path.name)
        ]
        named = [
            LakeFile(date, run_path(lake, date, name, is_hidden=name in entry.hidden))
            for date, entry in sorted(manifest.dates.items())
            for name in entry.runs
        ]
        runs = [file for file in named if file.path.exists()]
        missing = [file.path for file in named if not file.path.exists()]
        return cls(lake, manifest, tuple(batches), tuple(runs), tuple(missing))


def run_path(lake: Path, date: str, name: str, *, is_hidden: bool) -> Path:
    """Return the path of a run (a merged file) of a date.

    ``is_hidden`` is True for a run that is not yet published, which is in ``_runs``.
    """
    root = lake / RUNS if is_hidden else lake
    return root / f"{_DATE}{date}" / name


def is_delta(place: str | Path) -> bool:
    """Return True if a lake consists of Delta tables; at a URL it can be of no other kind."""
    return is_url(place) or (local_path(place) / "lives" / "_delta_log").is_dir()


def existing_lake(lake_path: str | Path) -> Path:
    """Return the absolute path of a lake; raises LakeError if the folder does not exist."""
    lake = local_folder(lake_path)
    if not lake.is_dir():
        raise LakeError(f"there is no lake at {lake}")
    return lake


def local_folder(path: str | Path) -> Path:
    """Return the absolute path on this machine; raises LakeError for a URL of another machine."""
    try:
        return local_path(path).absolute()
    except ValueError as error:
        raise LakeError(str(error)) from error


def check_complete(snapshot: Snapshot) -> None:
    """Raise LakeError if a file that the manifest names does not exist."""
    if snapshot.missing:
        raise LakeError(f"{snapshot.missing[0]} is missing: lake {snapshot.lake} is not complete")


# Locks and leases


@contextlib.contextmanager
def locked(lake: Path, name: str = "lock", *, is_shared: bool = False) -> Iterator[None]:
    """Return a context that holds a file lock of a lake, and waits for it first.

    ``is_shared`` lets other shared holders in. The kernel releases the lock if the process dies.
    """
    path = lake / MARKS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def held_alone(lake: Path, name: str) -> Iterator[bool]:
    """Return a context that tries to hold a file lock of a lake alone, without waiting.

    The context yields True if it holds the lock. It yields False if another process has the lock,
    or the lake is read-only. The kernel releases the lock if the process dies.
    """
    path = lake / MARKS / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:
        # A read-only lake: no process can write it.
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)


class Lease:
    """A reader's claim on the files of a lake's generation: they are not removed until close().

    It also ends with the process. ``snapshot`` has the files to read.
    """

    def __init__(self, lake: Path) -> None:
        """Take a snapshot of a lake and protect its files from removal.

        A read-only lake, or one without a manifest folder, needs no protection and gets none.
        Raises LakeError for a damaged manifest.
        """
        self._descriptor: int | None = None
        # A lake of bare files is never compacted, so it needs no lease; a read-only one has none.
        if not os.access(lake / MARKS, os.W_OK):
            self.snapshot = Snapshot.take(lake)
            return
        with locked(lake, is_shared=True):
            self.snapshot = Snapshot.take(lake)
            folder = lake / MARKS / "leases"
            folder.mkdir(exist_ok=True)
            self._path = folder / f"{self.snapshot.manifest.generation}-{uuid.uuid4().hex}"
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def close(self) -> None:
        """Give up the protection of the files; a second call does nothing."""
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None


@contextlib.contextmanager
def reading(lake_path: str | Path) -> Iterator[list[str]]:
    """Return a context with the paths of a lake's Parquet files, which contain every row once.

    The files stay until the end of the block, whatever a stream adds and a compaction replaces. The
    newest date comes first, because older files may lack columns. Raises LakeError without a lake,
    or when a file is missing.
    """
    lease = Lease(existing_lake(lake_path))
    try:
        check_complete(lease.snapshot)
        newest_first = sorted(lease.snapshot.files, key=lambda file: file.date, reverse=True)
        yield [str(file.path) for file in newest_first]
    finally:
        lease.close()


_KEPT: dict[Path, list[Lease]] = {}


def kept_snapshot(lake: Path) -> Snapshot:
    """Return a snapshot of a lake whose files stay after the call, because Spark reads them late.

    They stay until the process ends, or until it has taken _LEASES_MAX newer snapshots of the lake.
    Raises LakeError for a damaged manifest.
    """
    lease = Lease(lake)
    kept = _KEPT.setdefault(lake, [])
    generation = lease.snapshot.manifest.generation
    if kept and kept[-1].snapshot.manifest.generation == generation:
        lease.close()
        return lease.snapshot
    kept.append(lease)
    if len(kept) > _LEASES_MAX:
        kept.pop(0).close()
    return lease.snapshot


def oldest_lease(lake: Path) -> int | None:
    """Return the oldest generation of a lake's manifest that still has a reader, None without.

    The caller holds the lake's lock. Leases of killed readers are removed.
    """
    generations = []
    for path in (lake / MARKS / "leases").glob("*-*"):
        descriptor = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            generations.append(int(path.name.partition("-")[0]))
        else:
            # Its holder was killed: a live one would hold the lock.
            path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
    return min(generations, default=None)


# Records of erasures


def records_in(lake: Path) -> list[Erasure]:
    """Return the records of erasures from a lake of Parquet files, oldest first; [] without any.

    Raises LakeError if they are damaged.
    """
    path = lake / MARKS / _ERASURES
    try:
        return [Erasure(**record) for record in json.loads(path.read_text())]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError) as error:
        raise LakeError(f"{path} is damaged: {error}") from error


def add_record(lake: Path, record: Erasure) -> None:
    """Add the record of an erasure, durably; raises LakeError if the older ones are damaged."""
    with locked(lake):
        records = [each._asdict() for each in (*records_in(lake), record)]
        write_safely(lake / MARKS / _ERASURES, json.dumps(records))


# Files that stay


def sync(path: Path) -> None:
    """Make a file's content, or a folder's names, survive a crash of the machine (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_safely(path: Path, text: str) -> None:
    """Replace a small file atomically and durably: after a crash it has the old or the new text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".new")
    unfinished.write_text(text)
    sync(unfinished)
    unfinished.replace(path)
    sync(path.parent)


def move_into_place(written: Path, target: Path) -> None:
    """Move a finished file to its final path in the lake, durably; makes the folder if needed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    sync(written)
    written.replace(target)
    sync(target.parent)
