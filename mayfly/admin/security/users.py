"""Users of a queue manager, with their groups and the hashes of their passwords (argon2id).

They are stored in ``users.json`` in the folder of the queue manager, readable by its owner only.
Each change replaces the whole file. A changed file is read again, so a running queue manager knows
a new user at once. The users of a queue manager in memory are in memory only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mayfly.engine import Engine
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import StoreDamaged, StoreError, mq_error
from mayfly.runtime.files import Files

if TYPE_CHECKING:
    from argon2 import PasswordHasher

FILE: Final = "users.json"
_LOCK: Final = "users.lock"
_VERSION: Final = 1
#: As many characters as MQMD.UserIdentifier holds.
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,12}")
_GROUP = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
_LONGEST_PASSWORD_BYTES = 1_024
#: OWASP's choice: 19 MiB, two rounds, one lane. A check takes some 25 ms of one core; the defaults
#: of the library took 300 ms and 64 MiB.
_MEMORY_KIB, _ROUNDS, _LANES = 19 * 1024, 2, 1


@dataclass(frozen=True, slots=True)
class User:
    """One user: name, groups, and the hash of the password, which no output shows."""

    name: str
    groups: tuple[str, ...] = ()
    password_hash: str = field(default="", repr=False)


class Users:
    """The users of one queue manager; any thread or process may change them."""

    def __init__(self, folder: Path | None = None, files: Files | None = None) -> None:
        """Keep the users in ``users.json`` of a folder, in memory for None.

        ``files`` writes the file; None means the machine's files.
        """
        self._folder = folder
        self._files = Files() if files is None else files
        self._known: Mapping[str, User] = {}
        self._stamp: tuple[int, int, int] | None = None
        self._changing = threading.RLock()

    def all(self) -> list[User]:
        """Return all users, sorted by name; empty without a file.

        Raises StoreDamaged for a damaged file, OSError.
        """
        found = self._current()
        return [found[name] for name in sorted(found)]

    def find(self, name: str) -> User | None:
        """Return a user, None for an unknown name.

        Raises StoreDamaged for a damaged file, OSError.
        """
        return self._current().get(name)

    def check(self) -> None:
        """Read the users' file again; return if it is valid or missing.

        Raises StoreDamaged for a damaged file, StoreError for one that cannot be read.
        """
        self.read_again()
        try:
            self._current()
        except NotADirectoryError:
            # There is no folder for a file, of which its opening says more.
            return
        except OSError as error:
            text = f"the file of users {error.filename} cannot be read: {error.strerror}"
            raise StoreError(text, error.filename) from error

    def groups_of(self, user: str) -> tuple[str, ...] | None:
        """Return the groups of a user, None for an unknown user.

        Raises StoreDamaged for a damaged file.
        """
        found = self.find(user)
        return None if found is None else found.groups

    def add(self, name: str, password: str, groups: Sequence[str] = ()) -> None:
        """Add a user and store the file; the password is stored as a hash only.

        Raises MQRC_OBJECT_ALREADY_EXISTS for a known name, ValueError for an invalid name, password
        or group. Raises StoreDamaged for a damaged file, OSError.
        """
        if not _NAME.fullmatch(name):
            text = f"user {name!r} is not 1 to 12 characters of A-Z a-z 0-9 . _ @ -"
            raise ValueError(text)
        made = User(name, _checked_groups(groups), _hash_of(password))
        with self._transaction() as users:
            if name in users:
                raise mq_error(rc.MQRC_OBJECT_ALREADY_EXISTS, f"user {name} exists")
            users[name] = made

    def change(
        self,
        name: str,
        *,
        password: str | None = None,
        groups: Sequence[str] | None = None,
        check: Callable[[User], None] = lambda _before: None,
    ) -> None:
        """Change the password or groups of a user and store the file; None leaves them as they are.

        ``check`` is called with the user before the change, while no other process can change the
        user. If it raises an exception, nothing changes and the exception is passed on. Raises
        MQRC_UNKNOWN_OBJECT_NAME for an unknown user, ValueError for an invalid password or group.
        """
        password_hash = None if password is None else _hash_of(password)
        checked = None if groups is None else _checked_groups(groups)
        with self._transaction() as users:
            before = _existing(users, name)
            check(before)
            users[name] = User(
                name,
                before.groups if checked is None else checked,
                before.password_hash if password_hash is None else password_hash,
            )

    def remove(self, name: str, check: Callable[[User], None] = lambda _before: None) -> None:
        """Remove a user and store the file; connections of the user stay open.

        ``check`` is called with the user first; if it raises an exception, nothing changes and the
        exception is passed on. Raises MQRC_UNKNOWN_OBJECT_NAME for an unknown user.
        """
        with self._transaction() as users:
            check(_existing(users, name))
            del users[name]

    def read_again(self) -> None:
        """Make the next call read the file, even if the file looks unchanged."""
        self._stamp = None

    def _current(self) -> Mapping[str, User]:
        """Return the users by name; read the file first if it has changed.

        A missing file means no users. Raises StoreDamaged, OSError.
        """
        if self._folder is None:
            return self._known
        file = self._folder / FILE
        try:
            found = file.stat()
        except FileNotFoundError:
            self._known, self._stamp = {}, None
            return self._known
        stamp = found.st_mtime_ns, found.st_ino, found.st_size
        if stamp != self._stamp:
            # The stamp comes first: a change meanwhile makes the next caller read once more.
            self._known, self._stamp = _read(file), stamp
        return self._known

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[dict[str, User]]:
        """Yield the users by name as a dict to change; then store it, unless the block raises.

        Other threads and processes wait meanwhile.
        """
        with self._changing, self._lock_file():
            users = dict(self._current())
            yield users
            if self._folder is not None:
                self._files.write_atomically(self._folder / FILE, _written(users))
                self._stamp = None
            self._known = users

    @contextlib.contextmanager
    def _lock_file(self) -> Iterator[None]:
        """Lock the file against changes by other processes; a killed process loses the lock.

        Waits for the lock. In memory it does nothing.
        """
        if self._folder is None:
            yield
            return
        flags = os.O_CREAT | os.O_RDWR
        descriptor = os.open(self._folder / _LOCK, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def users_of(manager: Engine) -> Users:
    """Return the users of a queue manager; AssertionError if it was opened without users."""
    users = manager.users
    assert isinstance(users, Users), f"{manager.label} was opened without users"
    return users


def _existing(users: Mapping[str, User], name: str) -> User:
    """Return the user with a name; raises MQRC_UNKNOWN_OBJECT_NAME for an unknown one."""
    if name not in users:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"there is no user {name}")
    return users[name]


def _hash_of(password: str) -> str:
    """Return the hash of a new password; raises ValueError unless it has 1 to 1024 bytes."""
    if not password or len(password.encode()) > _LONGEST_PASSWORD_BYTES:
        raise ValueError(f"a password has 1 to {_LONGEST_PASSWORD_BYTES} bytes")
    return hashed(password)


def _checked_groups(groups: Sequence[str]) -> tuple[str, ...]:
    """Return group names without repetitions, in order; raises ValueError for an invalid one."""
    for group in groups:
        if not _GROUP.fullmatch(group):
            raise ValueError(f"group {group!r} is not 1 to 64 characters of A-Z a-z 0-9 . _ @ -")
    return tuple(dict.fromkeys(groups))


def _written(users: Mapping[str, User]) -> str:
    """Return the content of ``users.json`` (JSON with a checksum) for these users."""
    rows = {
        user.name: {"password": user.password_hash, "groups": list(user.groups)}
        for _, user in sorted(users.items())
    }
    content = {"version": _VERSION, "users": rows, "checksum": _checksum(rows)}
    return json.dumps(content, indent=2) + "\n"


def _checksum(rows: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the users in a file, independent of their order and of spaces."""
    text = json.dumps(rows, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def _read(file: Path) -> Mapping[str, User]:
    """Return the users in a file by name; raises StoreDamaged for a damaged or unknown content.

    A file without checksum, from an older Mayfly, is accepted.
    """
    try:
        content: Any = json.loads(file.read_text("utf-8"))
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']!r} is not known here")
        unknown = content.keys() - {"version", "users", "checksum"}
        if unknown:
            raise ValueError(f"{sorted(unknown)} are not known here")
        rows: dict[str, Any] = content["users"]
        if "checksum" in content and content["checksum"] != _checksum(rows):
            raise ValueError("its checksum is wrong")
        return {
            str(name): User(str(name), tuple(map(str, row["groups"])), str(row["password"]))
            for name, row in rows.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"the file of users {file} cannot be read: {error!r}"
        raise StoreDamaged(text, file) from error


@cache
def _hasher() -> PasswordHasher:
    """Return the argon2id hasher with Mayfly's costs."""
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=_ROUNDS, memory_cost=_MEMORY_KIB, parallelism=_LANES)


def hashed(password: str) -> str:
    """Return the argon2id hash of a password, with a new random salt."""
    return _hasher().hash(password)


@cache
def _dummy_hash() -> str:
    """Return a hash to compare with for an unknown user, so that the check takes the same time."""
    return hashed("nobody")


def is_right(password: str, password_hash: str) -> bool:
    """Return True if a password has this hash.

    An empty hash, for an unknown user, takes as long and returns False. An invalid hash returns
    False.
    """
    from argon2.exceptions import InvalidHashError, VerificationError

    # Made for a known user too: else the first unknown one would be found by its time.
    of_nobody = _dummy_hash()
    try:
        _hasher().verify(password_hash or of_nobody, password)
    except (VerificationError, InvalidHashError):
        return False
    return bool(password_hash)
