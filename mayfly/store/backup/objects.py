"""The objects of a backup: the places that have them, the epochs that they belong to, and files.

A place is a folder of this machine, or an object store. An epoch has the names and the content of
its objects, and says which ones to restore. The files are those of a folder beside its database:
users, certificates, keys, settings. Those that hold secrets are sealed by a passphrase (scrypt and
AES-GCM), or left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import struct
import zlib
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from mayfly.mqi.errors import NewerSchema, StoreDamaged, StoreError
from mayfly.runtime import Runtime
from mayfly.runtime.files import FILE_MODE, FOLDER_MODE
from mayfly.store.database import REPLICA_FILE
from mayfly.store.followers import LogPosition
from mayfly.store.replica.standing import STANDING_FILE
from mayfly.store.write_ahead_log import PAGE_BYTES
from mayfly.verbs.contracts.config_files import is_url, local_path

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


#: Files that no backup has: they say which server runs now, are made anew at a start, or name the
#: row of a log that this database has, which differs at another moment.
_NEVER: Final = (
    *("identity.json", "served.json", "ballast", "users.lock", "server.log"),
    STANDING_FILE,
    REPLICA_FILE,
)
#: Databases, with their logs and what lies beside them.
_DATABASE: Final = ".db"
#: Begun anew by the server that misses it.
_FIGURES: Final = "figures.db"
_PUBLIC: Final = ("ccdt.json", "applied.json", "developer-cert.pem")
_SCRYPT_COST: Final = 2**15
_SALT_BYTES, _NONCE_BYTES = 16, 12


class Secrets(NamedTuple):
    """The treatment of files with secrets: sealed by ``passphrase``, left out without one."""

    passphrase: str | None


class FileStamp(NamedTuple):
    """Name, length and last change of a file; with another one it is copied again."""

    name: str
    size_bytes: int
    changed_ns: int


def stamps_of(folder: Path) -> list[FileStamp]:
    """Return the files that a backup holds beside the database, sorted by name; raises OSError."""
    found = []
    for entry in os.scandir(folder):
        is_ours = entry.is_file(follow_symlinks=False) and entry.name not in _NEVER
        if is_ours and _DATABASE not in entry.name and not entry.name.endswith(".new"):
            facts = entry.stat()
            found.append(FileStamp(entry.name, facts.st_size, facts.st_mtime_ns))
    return sorted(found)


def secret_names(folder: Path) -> list[str]:
    """Return the names of the files of a folder that hold secrets; all that are not known may."""
    return [stamp.name for stamp in stamps_of(folder) if stamp.name not in _PUBLIC]


def databases_left_out(folder: Path, database_file: str) -> list[str]:
    """Return the names of databases of the folder that a backup lacks: other than the messages."""
    names = (entry.name for entry in os.scandir(folder))
    have = (database_file, _FIGURES)
    return sorted(name for name in names if name.endswith(_DATABASE) and name not in have)


def write_files(place: BackupPlace, folder: Path, secrets: Secrets, now_ms: int) -> list[str]:
    """Write the files of a folder as one object; return the names of those that are left out.

    Raises OSError, and ModuleNotFoundError when there are secrets and no ``cryptography``.
    """
    plain, secret = dict[str, str](), dict[str, str]()
    for stamp in stamps_of(folder):
        kind = plain if stamp.name in _PUBLIC else secret
        kind[stamp.name] = b64encode((folder / stamp.name).read_bytes()).decode()
    left_out = []
    sealed = None
    if secrets.passphrase is None:
        left_out = sorted(secret)
    elif secret:
        sealed = _sealed(json.dumps(secret).encode(), secrets.passphrase)
    content = {"plain": plain, "sealed": sealed, "left_out": left_out}
    place.write(files_path(now_ms), json.dumps(content).encode())
    return left_out


def read_files(place: BackupPlace, at_ms: int, passphrase: str | None) -> Mapping[str, bytes]:
    """Return the content of files by name, as they were written at a moment.

    Raises StoreError when they are sealed and the passphrase is missing or wrong, StoreDamaged,
    OSError.
    """
    name = files_path(at_ms)
    try:
        content = json.loads(place.read(name))
        files, sealed = dict(content["plain"]), content["sealed"]
    except (ValueError, TypeError, KeyError) as error:
        raise StoreDamaged(f"{name} is damaged: {error}", Path(name)) from error
    if sealed is not None:
        if passphrase is None:
            raise StoreError(f"{name} is sealed: give the passphrase of the backup", Path(name))
        files |= json.loads(_opened(sealed, passphrase, name))
    return {file: b64decode(text) for file, text in files.items()}


def restore_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder, readable by their owner alone; raises OSError."""
    for name, content in files.items():
        # A name is one file of this folder, whatever the backup says.
        file = folder / Path(name).name
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE)
        with os.fdopen(descriptor, "wb") as output:
            output.write(content)
            output.flush()
            os.fsync(output.fileno())


def _sealed(content: bytes, passphrase: str) -> dict[str, str]:
    """Return content sealed by a passphrase, with what is needed to open it, for JSON."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    random_bytes = Runtime().random_bytes
    salt, nonce = random_bytes(_SALT_BYTES), random_bytes(_NONCE_BYTES)
    sealed = AESGCM(_key_of(passphrase, salt)).encrypt(nonce, content, None)
    parts = {"salt": salt, "nonce": nonce, "content": sealed}
    return {name: b64encode(part).decode() for name, part in parts.items()}


def _opened(sealed: Mapping[str, str], passphrase: str, name: str) -> bytes:
    """Return what was sealed; raises StoreError for a wrong passphrase or a changed object."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    salt, nonce, content = (b64decode(sealed[part]) for part in ("salt", "nonce", "content"))
    try:
        return AESGCM(_key_of(passphrase, salt)).decrypt(nonce, content, None)
    except InvalidTag:
        raise StoreError(f"the passphrase is not that of {name}", Path(name)) from None


def _key_of(passphrase: str, salt: bytes) -> bytes:
    """Return the key that scrypt makes of a passphrase."""
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    return Scrypt(salt=salt, length=32, n=_SCRYPT_COST, r=8, p=1).derive(passphrase.encode())
