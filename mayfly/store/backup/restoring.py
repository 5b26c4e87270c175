"""Makes a folder of a queue manager from a backup, as it was at a moment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from mayfly.mqi.errors import NewerSchema, StoreDamaged, StoreError
from mayfly.runtime import Runtime
from mayfly.runtime.files import FOLDER_MODE
from mayfly.store.backup.objects import (
    ChangeName,
    Epoch,
    EpochContents,
    chain,
    place_of,
    read_epoch,
    read_files,
    restore_files,
    unpacked_pages,
)
from mayfly.store.changes import PageWriter, check_page_bytes
from mayfly.store.database import DATABASE_FILE, SCHEMA_VERSION
from mayfly.store.restoring import make_own


class Plan(NamedTuple):
    """The parts of a backup that a restore takes: an epoch, its changes, and files of some moment.

    The folder will hold all that was committed before ``until_ms`` (epoch ms), and nothing of a
    later moment. ``files_ms`` is None without files.
    """

    epoch: Epoch
    changes: list[ChangeName]
    until_ms: int
    files_ms: int | None


class Restored(NamedTuple):
    """A folder that was made from a backup; ``left_out`` names files that the backup lacks."""

    instance: str
    until_ms: int
    page_count: int
    files: list[str]
    left_out: list[str]


def plan_of(source: str, as_of_ms: int | None) -> Plan:
    """Return what to restore from a backup, a folder or URL: the newest state, or that of a moment.

    Raises StoreError when there is no whole backup, or none of that moment;
    StoreDamaged when one of its objects is missing, NewerSchema, OSError.
    """
    place = place_of(source)
    contents = EpochContents(place)
    if not contents.whole:
        kind = "a backup that was broken off" if contents.unfinished else "no backup"
        raise StoreError(f"{source} holds {kind}", Path(source))
    for began_ms in reversed(contents.whole):
        epoch = read_epoch(place, began_ms)
        if as_of_ms is None or epoch.whole_at_ms <= as_of_ms:
            break
    else:
        raise StoreError(
            f"{source} holds nothing as of {as_of_ms}: it begins at {epoch.whole_at_ms}",
            Path(source),
        )
    if epoch.schema > SCHEMA_VERSION:
        raise NewerSchema(
            f"{source} was written by Mayfly {epoch.mayfly}: schema {epoch.schema}, known "
            f"{SCHEMA_VERSION}",
            Path(source),
        )
    known = contents.changes_of(began_ms)
    changes = chain(known, as_of_ms)
    last = changes[-1].last if changes else 0
    wanted = [change for change in known if as_of_ms is None or change.until_ms <= as_of_ms]
    if last < max([epoch.first_whole, *(change.last for change in wanted)]):
        raise StoreDamaged(f"{source} is damaged: change {last + 1} is missing", Path(source))
    until_ms = max([epoch.whole_at_ms, *(change.until_ms for change in changes)])
    files = [at for at in contents.files if as_of_ms is None or at <= max(as_of_ms, until_ms)]
    return Plan(epoch, changes, until_ms, max(files, default=None))


def restore(
    source: str,
    plan: Plan,
    folder: Path,
    *,
    is_new_instance: bool,
    passphrase: str | None,
    say: Callable[[int, int], None],
) -> Restored:
    """Make ``folder`` from a backup by a plan; until it is whole there is no such folder.

    ``say`` is called with the objects that are read and their number. Raises StoreError when the
    folder exists and is not empty, when its disk is full, and for a wrong passphrase; StoreDamaged
    when the database is damaged; OSError.
    """
    place = place_of(source)
    files = {} if plan.files_ms is None else read_files(place, plan.files_ms, passphrase)
    with _new_folder(folder) as new:
        page_count = write_database(source, plan, new / DATABASE_FILE, say)
        name = plan.epoch.queue_manager
        instance = make_own(new, name, is_new_instance=is_new_instance)
        restore_files(new, files)
    return Restored(instance, plan.until_ms, page_count, sorted(files), list(plan.epoch.left_out))


def write_database(
    source: str, plan: Plan, file: Path, say: Callable[[int, int], None] = lambda _done, _all: None
) -> int:
    """Write the database of a backup into a new file, page by page; return the number of pages.

    ``say`` is called with the objects that are read and their number. Raises StoreDamaged when one
    is damaged or missing, OSError when the file exists or the disk is full.
    """
    place = place_of(source)
    names = [*plan.epoch.pieces, *(c.path(plan.epoch.began_ms) for c in plan.changes)]
    writer: PageWriter | None = None
    page_count = 0
    for done, name in enumerate(names, 1):
        try:
            facts, pages = unpacked_pages(name, place.read(name))
        except FileNotFoundError:
            text = f"{source} is damaged: {name} is missing"
            raise StoreDamaged(text, Path(source)) from None
        if writer is None:
            # The first object has page 1: an image from its beginning, or a whole log.
            first = pages.get(1, b"")
            check_page_bytes(first, Path(source))
            writer = PageWriter(file, first)
        for number, page in pages.items():
            writer.write(number, page)
        page_count = facts.page_count or max([page_count, *pages])
        say(done, len(names))
    if writer is None:
        raise StoreDamaged(f"{source} is damaged: it has no pages", Path(source))
    writer.finish(page_count)
    return page_count


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Return a context with a folder beside ``folder``, which is renamed to that at its end.

    After an error it is removed. Raises StoreError when ``folder`` exists and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StoreError(f"{folder} is there and not empty: nothing is restored over it", folder)
    folder.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    new = folder.with_name(f"{folder.name}.restoring-{Runtime().random_bytes(4).hex()}")
    new.mkdir(FOLDER_MODE)
    try:
        yield new
        new.rename(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    descriptor = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
