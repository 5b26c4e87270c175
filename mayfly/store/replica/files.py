"""The files of a folder that the next owner needs beside the database: users, what was applied.

The owner looks at them when it renews its lease, and writes each changed one into the log. A
follower writes them into its own folder. A reader always finds them complete: a change replaces the
file by another one.

A folder whose owner was the last one has them as new as the log, or newer: the owner was killed
before it wrote a change. So its files stay, and are written into the log when it is opened again.
In any other folder those of the log count. Files that the log has never had stay in both.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from mayfly.runtime import Files
from mayfly.store.replica.log import PostgresLog, ReplicaFiles

#: Users; the scripts of the configuration as they were last applied; the table of client channels;
#: the passwords of ``--dev``; the token that a server makes when none is configured.
SHARED_FILES: Final = ("users.json", "applied.json", "ccdt.json", "developer.json", "token")
_LOG = logging.getLogger("mayfly.store")


class SharedFiles:
    """The shared files of an owner's folder, and which content of them the log has."""

    def __init__(self, folder: Path, in_log: Mapping[str, bytes | None]) -> None:
        """Know what the log has; a name that is not in ``in_log`` is not in the log."""
        self._folder = folder
        self._digests = {name: digest_of(content) for name, content in in_log.items()}
        self._stamps = dict[str, tuple[int, int, int] | None]()
        self._failure = ""

    def write_changed(self, log: PostgresLog, instance: str, epoch: int) -> None:
        """Write each file that has changed into the log, as its owner of an epoch.

        One that cannot be read is logged, and tried again the next time. Raises Fenced,
        LogUnreachable, ReplicaError.
        """
        for name in SHARED_FILES:
            try:
                stamp = _stamp_of(self._folder / name)
                if name in self._stamps and self._stamps[name] == stamp:
                    continue
                content = _content_of(self._folder / name)
            except OSError as error:
                if self._failure != str(error):
                    _LOG.error("the log of the replica lacks a file of the folder: %s", error)
                self._failure = str(error)
                continue
            digest = digest_of(content)
            if digest != self._digests.get(name):
                log.write_file(instance, epoch, name, content)
            # The stamp is from before the file was read: a change since is seen the next time.
            self._digests[name], self._stamps[name] = digest, stamp


def write_files(folder: Path, found: ReplicaFiles, files: Files) -> None:
    """Make the shared files of a folder those of the log, on the disk; raises OSError."""
    for name in SHARED_FILES:
        if name not in found.contents:
            continue
        content = found.contents[name]
        if content is None:
            files.remove(folder / name)
        elif content != _content_of(folder / name):
            files.write_atomically(folder / name, content)


def digest_of(content: bytes | None) -> bytes | None:
    """Return the SHA-256 of a file; None for a file that is not there."""
    return None if content is None else sha256(content).digest()


def _stamp_of(file: Path) -> tuple[int, int, int] | None:
    """Return what changes with a file, None for one that is not there; raises OSError."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _content_of(file: Path) -> bytes | None:
    """Return the content of a file, None for one that is not there; raises OSError."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
