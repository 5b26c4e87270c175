"""Places that a backup is written to: a folder of this machine, or an object store."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Protocol

from mayfly.mqi.errors import StoreError
from mayfly.runtime.files import FILE_MODE, FOLDER_MODE
from mayfly.verbs.contracts.files import is_url, local_path

#: The space that a backup leaves free on a disk: four times the ballast of a queue manager there.
RESERVED_BYTES = 64 * 2**20


class BackupPlace(Protocol):
    """Objects by name, such as ``epoch/image/1``; every method raises OSError on failure."""

    def write(self, name: str, content: bytes) -> None:
        """Write an object, which is there as a whole, on the disk, or not at all."""

    def read(self, name: str) -> bytes:
        """Return the content of an object; raises FileNotFoundError."""

    def names(self) -> list[str]:
        """Return the names of all objects, sorted."""

    def remove(self, name: str) -> None:
        """Remove an object; do nothing if it does not exist."""


class NoRoom(StoreError):
    """The disk of the backup has too little room: the backup ends, the queue manager goes on."""


class FolderPlace:
    """A folder of this machine, which is created; its files are readable by their owner alone."""

    def __init__(self, folder: Path) -> None:
        """Name the folder, which need not exist."""
        self._folder = folder

    def check_room(self, size_bytes: int) -> None:
        """Raise NoRoom unless the disk has ``size_bytes`` free, besides RESERVED_BYTES."""
        existing = self._folder
        while not existing.exists():
            existing = existing.parent
        disk = os.statvfs(existing)
        free_bytes = disk.f_bavail * disk.f_frsize
        if free_bytes < size_bytes + RESERVED_BYTES:
            raise NoRoom(
                f"{self._folder} has {free_bytes} bytes free, and {size_bytes} are to be written: "
                f"a backup leaves {RESERVED_BYTES} to others, and ends here",
                self._folder,
            )

    def write(self, name: str, content: bytes) -> None:
        """Write a file beside its name, sync it, and rename it; raises NoRoom, OSError."""
        self.check_room(len(content))
        file = self._folder / name
        file.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}.new")
        flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY
        with os.fdopen(os.open(new, flags, FILE_MODE), "wb") as output:
            output.write(content)
            output.flush()
            os.fsync(output.fileno())
        new.replace(file)
        descriptor = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self, name: str) -> bytes:
        """Return the content of a file; raises FileNotFoundError, OSError."""
        return (self._folder / name).read_bytes()

    def names(self) -> list[str]:
        """Return the paths of all whole files, from the folder on, sorted; empty without it."""
        found = [path for path in self._folder.rglob("*") if path.is_file()]
        return sorted(str(p.relative_to(self._folder)) for p in found if p.suffix != ".new")

    def remove(self, name: str) -> None:
        """Remove a file, and the folders that are empty without it."""
        file = self._folder / name
        file.unlink(missing_ok=True)
        for folder in file.parents:
            if folder == self._folder:
                return
            with contextlib.suppress(OSError):
                folder.rmdir()


class ObjectStorePlace:
    """A prefix of an object store that pyarrow knows: ``s3://``, ``gs://``, ``abfss://``."""

    def __init__(self, url: str) -> None:
        """Open the file system of a URL, by the variables of its tools, such as AWS_REGION.

        Raises StoreError for a URL that pyarrow does not know, ModuleNotFoundError without pyarrow.
        """
        from pyarrow import ArrowException, fs

        try:
            found: tuple[Any, str] = fs.FileSystem.from_uri(url)
        except (ArrowException, ValueError, OSError) as error:
            raise StoreError(f"{url}: {error}", Path(url)) from error
        self._files, self._prefix = found[0], found[1].rstrip("/")

    def write(self, name: str, content: bytes) -> None:
        """Write an object, which a store shows only when it is whole."""
        with self._files.open_output_stream(f"{self._prefix}/{name}") as output:
            output.write(content)

    def read(self, name: str) -> bytes:
        """Return the content of an object; raises FileNotFoundError, OSError."""
        with self._files.open_input_stream(f"{self._prefix}/{name}") as opened:
            return bytes(opened.read())

    def names(self) -> list[str]:
        """Return the names of all objects below the prefix, sorted."""
        from pyarrow import fs

        wanted = fs.FileSelector(self._prefix, recursive=True, allow_not_found=True)
        start = len(self._prefix) + 1
        found = self._files.get_file_info(wanted)
        return sorted(info.path[start:] for info in found if info.type == fs.FileType.File)

    def remove(self, name: str) -> None:
        """Remove an object; do nothing if it does not exist."""
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_file(f"{self._prefix}/{name}")


def place_of(text: str) -> BackupPlace:
    """Return the place that a path or URL names; raises StoreError, ModuleNotFoundError."""
    return ObjectStorePlace(text) if is_url(text) else FolderPlace(local_path(text).absolute())
