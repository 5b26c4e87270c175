"""Epochs of a backup: the names and the content of their objects, and which ones to restore."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from mayfly.mqi.errors import NewerSchema, StoreDamaged, StoreError
from mayfly.store.backup.places import BackupPlace
from mayfly.store.followers import LogPosition
from mayfly.store.write_ahead_log import PAGE_BYTES

FORMAT: Final = 1
EPOCH_FILE: Final = "epoch.json"
FILES_FOLDER: Final = "files"
_MAGIC: Final = b"mayfly pages 1\n"
_NUMBER: Final = struct.Struct(">I")
_EPOCH: Final = re.compile(r"(\d{13})/(.+)")
_CHANGE: Final = re.compile(r"changes/(\d{10})-(\d{10})-(\d{13})")
_FILES: Final = re.compile(rf"{FILES_FOLDER}/(\d{{13}})\.json")


class Epoch(NamedTuple):
    """The content of ``epoch.json``.

    The database is all pieces of the image, with the changes up to ``first_whole`` at least.
    """

    format: int
    mayfly: str
    queue_manager: str
    instance: str
    schema: int
    began_ms: int
    #: The number of the change with which the image is whole, and up to when that has read.
    first_whole: int
    whole_at_ms: int
    pieces: Sequence[str]
    #: Files of the folder that are not in the backup, such as keys when they were not wanted.
    left_out: Sequence[str]


class ChangeName(NamedTuple):
    """The name of a change: its first and last number, and the moment that it has read up to."""

    first: int
    last: int
    until_ms: int

    def path(self, began_ms: int) -> str:
        """Return the name of its object in the epoch that began at a moment."""
        return f"{began_ms:013d}/changes/{self.first:010d}-{self.last:010d}-{self.until_ms:013d}"


class PageFacts(NamedTuple):
    """The header before the pages of a change: where it ends; all 0 in a piece of an image."""

    page_count: int = 0
    commit_count: int = 0
    end_salts: str = ""
    end_frames: int = 0

    @property
    def end(self) -> LogPosition:
        """The position of the log behind the change."""
        return LogPosition(bytes.fromhex(self.end_salts), self.end_frames)


def packed_pages(facts: PageFacts, pages: Mapping[int, bytes]) -> bytes:
    """Return an object with pages, in the order of their numbers, compressed, with their digest."""
    body = b"".join(_NUMBER.pack(number) + pages[number] for number in sorted(pages))
    head = facts._asdict() | {"digest": digest_of(body)}
    return _MAGIC + json.dumps(head).encode() + b"\n" + zlib.compress(body, 1)


def unpacked_pages(name: str, packed: bytes) -> tuple[PageFacts, dict[int, bytes]]:
    """Return (facts, pages by number) of an object; raises StoreDamaged, with its name."""
    try:
        magic, head, body = packed.split(b"\n", 2)
        fields = json.loads(head)
        digest, whole = fields.pop("digest"), zlib.decompress(body)
        facts = PageFacts(**fields)
        is_right = magic + b"\n" == _MAGIC and digest_of(whole) == digest
    except (ValueError, TypeError, KeyError, AttributeError, zlib.error):
        is_right = False
    if not is_right:
        raise StoreDamaged(f"{name} is damaged: it is not as it was written", Path(name))
    step = _NUMBER.size + PAGE_BYTES
    return facts, {
        _NUMBER.unpack_from(whole, at)[0]: whole[at + _NUMBER.size : at + step]
        for at in range(0, len(whole), step)
    }


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def piece_path(began_ms: int, first_page: int, digest: str) -> str:
    """Return the name of a piece of an image; the same pages have the same name in one epoch."""
    return f"{began_ms:013d}/image/{first_page:010d}-{digest[:32]}"


def files_path(at_ms: int) -> str:
    """Return the name of the files of the folder, as they were at a moment."""
    return f"{FILES_FOLDER}/{at_ms:013d}.json"


def write_epoch(place: BackupPlace, epoch: Epoch) -> None:
    """Write ``epoch.json``, with which an epoch is whole; raises OSError, NoRoom."""
    fields: dict[str, Any] = epoch._asdict()
    fields["digest"] = digest_of(json.dumps(fields).encode())
    content = json.dumps(fields, indent=2).encode() + b"\n"
    place.write(f"{epoch.began_ms:013d}/{EPOCH_FILE}", content)


def read_epoch(place: BackupPlace, began_ms: int) -> Epoch:
    """Return the epoch that began at a moment; raises StoreDamaged, NewerSchema, OSError."""
    name = f"{began_ms:013d}/{EPOCH_FILE}"
    try:
        fields = json.loads(place.read(name))
        digest = fields.pop("digest")
        if int(fields["format"]) > FORMAT:
            raise NewerSchema(f"{name} was written by a newer Mayfly: {fields['mayfly']}", name)
        if digest_of(json.dumps(fields).encode()) != digest:
            raise ValueError("its digest is wrong")
        return Epoch(**fields)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreDamaged(f"{name} is damaged: {error}", Path(name)) from error


class EpochContents:
    """The contents of a place, by one look at the names of its objects."""

    def __init__(self, place: BackupPlace) -> None:
        """List the place; raises OSError."""
        names = place.names()
        self._names = defaultdict[int, list[str]](list)
        for name in names:
            found = _EPOCH.fullmatch(name)
            if found:
                self._names[int(found[1])].append(found[2])
        #: Moments at which epochs began, that are whole and that are not.
        self.whole = sorted(at for at, rest in self._names.items() if EPOCH_FILE in rest)
        self.unfinished = sorted(self._names.keys() - set(self.whole))
        #: Moments of the files of the folder.
        self.files = [int(found[1]) for name in names if (found := _FILES.fullmatch(name))]

    def names_of(self, began_ms: int) -> list[str]:
        """Return the names of all objects of an epoch, from the place on; ``epoch.json`` first."""
        names = sorted(self._names[began_ms], key=lambda name: name != EPOCH_FILE)
        return [f"{began_ms:013d}/{name}" for name in names]

    def changes_of(self, began_ms: int) -> list[ChangeName]:
        """Return all changes of an epoch, sorted; some may be part of longer ones."""
        matches = filter(None, map(_CHANGE.fullmatch, self._names[began_ms]))
        return sorted(ChangeName(*map(int, found.groups())) for found in matches)


def chain(changes: Iterable[ChangeName], until_ms: int | None) -> list[ChangeName]:
    """Return the changes to apply, in order from number 1 on, without gap.

    None reads beyond ``until_ms``, if that is not None. Of several that begin at a number the
    longest is taken: it was merged from the others.
    """
    longest: dict[int, ChangeName] = {}
    for change in sorted(changes):
        if until_ms is None or change.until_ms <= until_ms:
            longest[change.first] = change
    found, number = [], 1
    while number in longest:
        found.append(longest[number])
        number = longest[number].last + 1
    return found


def check_same_manager(epoch: Epoch, manager_name: str, target: str) -> None:
    """Raise StoreError if a backup is that of another queue manager."""
    if epoch.queue_manager != manager_name:
        raise StoreError(
            f"{target} is a backup of queue manager {epoch.queue_manager}, not {manager_name}",
            Path(target),
        )
