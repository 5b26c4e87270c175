"""``served.json``, the file by which commands find the server that has a folder open."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from threading import Event
from typing import Any, Final, NamedTuple, TypeVar

from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.show import note
from mayfly.mqi.errors import FolderInUse, StoreError
from mayfly.runtime.files import FOLDER_MODE, is_locked, locked_file
from mayfly.store.database import REPLICA_FILE
from mayfly.store.folder_lock import holder_of
from mayfly.store.replica.standing import STANDBY, read_standing

SERVED_FILE = "served.json"
#: Values of ``Served.is_ready``: all listeners are there; one of the server's loops is gone.
READY, IMPAIRED = 1, 2
#: A server starts within two seconds on a quiet machine, and within fifteen under load.
_PATIENCE_SECONDS = 30
_LOOK_SECONDS = 0.02
_T = TypeVar("_T")
_LOG = logging.getLogger("mayfly.serve")
_COMMAND_LOOK_SECONDS: Final = 0.05
#: A process that holds the folder and is not found has just ended, or cannot be seen.
_MAX_UNKNOWN_HOLDERS: Final = 10


class Served(NamedTuple):
    """The content of ``served.json``: how to reach a server. None: no file, no TLS, no socket.

    ``token_file`` None means a token in MAYFLY_TOKEN. ``mq_socket`` is the socket in the folder,
    which listens first. ``role`` is that in a pair with a replica: ``owner`` or ``standby``.
    ``is_ready`` is 0 while other listeners start, then READY, and IMPAIRED if
    a thread of the server has ended.
    """

    token_file: str | None
    tls_certificate: str | None = None
    mq_socket: str | None = None
    role: str | None = None
    is_ready: int = 0


class ServedFile:
    """The file ``served.json`` in a folder that a server has open, or is about to open.

    The file is locked from before the folder is opened until it is closed. A file that is not
    locked was left by a server that was killed, and is ignored.
    """

    def __init__(self, folder: Path) -> None:
        """Make the folder if it is missing, and lock the file.

        Raises FolderInUse if another server has locked it, StoreError if it cannot be made.
        """
        self._file = folder / SERVED_FILE
        try:
            folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
            self._descriptor = locked_file(self._file)
        except BlockingIOError:
            raise FolderInUse(f"{folder} is in use by another mayfly serve", folder) from None
        except OSError as error:
            raise StoreError(f"{self._file} cannot be made: {error.strerror}", folder) from error

    @contextlib.contextmanager
    def announced(self, served: Served) -> Iterator[None]:
        """Return a context in which the file says how to reach the server: ``served`` as JSON.

        At its end the file is emptied.
        """
        os.pwrite(self._descriptor, json.dumps(served._asdict()).encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(self._descriptor, 0)

    def set_ready(self, is_ready: int) -> None:
        """Write to the file that all listeners run (READY), or that a thread ended (IMPAIRED).

        Outside of :meth:`announced` nothing is done.
        """
        # One byte is written, the last value: a reader finds the old file or the new one whole.
        size = os.fstat(self._descriptor).st_size
        if size:
            os.pwrite(self._descriptor, str(is_ready).encode(), size - len("0}"))

    def close(self) -> None:
        """Remove and unlock the file; call it once, after the folder is closed."""
        self._file.unlink(missing_ok=True)
        os.close(self._descriptor)


def served_at(folder: Path, *, all_listeners: bool = False) -> Served | None:
    """Return how to reach the server that has a folder open; None without a server.

    Waits, and says so on stderr, while a server is about to open or to close the folder. With
    ``all_listeners`` it also waits until they all run. Raises CommandFailed after 30 seconds, and
    for a standby.
    """
    for _ in polls(folder):
        if not is_served(folder):
            return None
        served = read_served(folder / SERVED_FILE)
        if served is not None and (served.is_ready or not all_listeners):
            check_owner(served, folder)
            return served
    return None


def check_owner(served: Served, folder: Path) -> None:
    """Raise CommandFailed if the server of a folder is a standby, which carries out no command."""
    if served.role == STANDBY:
        standing = read_standing(folder)
        text = f"{folder} is that of a standby" if standing is None else standing.refusal
        raise CommandFailed(ExitCode.PIPELINE, f"{text}; ask its owner")


def check_owns(name: str, folder: Path) -> None:
    """Raise CommandFailed if what a command writes into a folder beside its database would be lost.

    In a folder with a replica that is so unless the owner of the queue manager ``name`` has it
    open: the files of the owner are written over the others. The text names the owner if it is
    known. Waits, and says so on stderr, while a server is about to open or to close the folder.
    """
    file = folder / REPLICA_FILE
    if not file.exists() or not file.stat().st_size:
        return
    for _ in polls(folder):
        served = read_served(folder / SERVED_FILE) if is_served(folder) else None
        if served is not None and served.role == STANDBY:
            standing = read_standing(folder)
            text = f"another server owns {name}" if standing is None else standing.refusal
            text = f"{text}: do this where the owner has its folder"
            raise CommandFailed(ExitCode.PIPELINE, f"{folder} is not the owner's; {text}")
        if served is not None or not is_served(folder):
            break
    if holder_of(folder) is None:
        text = "has a replica, and no owner has it open: another server may own its queue manager"
        raise CommandFailed(
            ExitCode.PIPELINE, f"{folder} {text}; do this while the owner runs, in its folder"
        )


def polls(folder: Path) -> Iterator[None]:
    """Yield every 20 ms, so that the caller can look for a folder's server that starts or ends.

    Prints on stderr that it waits. Raises CommandFailed after 30 seconds.
    """
    pause = Event()
    for look in range(round(_PATIENCE_SECONDS / _LOOK_SECONDS)):
        yield
        if not look:
            note(f"the server of {folder} is starting or ending; wait")
        pause.wait(_LOOK_SECONDS)
    raise CommandFailed(
        ExitCode.PIPELINE,
        f"the server of {folder} has been starting or ending for {_PATIENCE_SECONDS} seconds",
    )


def is_served(folder: Path) -> bool:
    """Return True while a server has a folder open, or is about to open or close it.

    False for a file that a killed server has left.
    """
    return is_locked(folder / SERVED_FILE)


def read_served(file: Path) -> Served | None:
    """Return the content of a ``served.json``; None if it is missing or empty.

    Raises CommandFailed for a damaged file. It may be left by a server that was killed: ask
    :func:`is_served`.
    """
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return None
    if not text:
        return None
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise TypeError("it is no JSON object")
        values: list[Any] = [found.get(name) for name in Served._fields]
        served = Served(*values)
        for name, value in served._asdict().items():
            if not isinstance(value, int if name == "is_ready" else str | None):
                raise TypeError(f"{name} cannot be {value!r}")
    except (ValueError, TypeError, RecursionError) as error:
        raise CommandFailed(
            ExitCode.FILE, f"{file} is damaged: {error}; start the server again"
        ) from error
    return served


def opened_when_free(opens: Callable[[], _T], folder: Path, pause: Callable[[float], object]) -> _T:
    """Return the result of ``opens``, called again while a command has the folder open.

    Logs which command it waits for. ``pause`` waits for some seconds. Raises FolderInUse if the
    command does not end within 30 seconds, and at once if the holder is not a command of Mayfly.
    """
    waited_for, unknown_count = "", 0
    for _look in range(round(_PATIENCE_SECONDS / _COMMAND_LOOK_SECONDS)):
        try:
            return opens()
        except FolderInUse:
            process = holder_of(folder)
            command = None if process is None else _command_of(process)
            if process is None:
                unknown_count += 1
            if command == "" or unknown_count > _MAX_UNKNOWN_HOLDERS:
                raise
        if command and command != waited_for:
            waited_for = command
            _LOG.warning("%s is in use by %s: waits until it ends", folder, command)
        pause(_COMMAND_LOOK_SECONDS)
    holder = waited_for or "a process that is ending"
    text = f"{folder} has been in use by {holder} for {_PATIENCE_SECONDS} seconds"
    raise FolderInUse(text, folder)


def _command_of(process: int) -> str | None:
    """Return the Mayfly command that a process runs, as text; "" for another program.

    Returns None for a process that is ending: it has lost its command line, and still has its
    files open for a moment.

    Only two of its words are shown, as in "mayfly get (process 17)", since others may be the text
    of a message.
    """
    try:
        arguments = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return None
    if not arguments:
        return None
    words = arguments.split("\0")
    for place, word in enumerate(words):
        is_module = word == "mayfly" and words[place - 1] == "-m"
        if is_module or (PurePath(word).name == "mayfly" and place < 2):
            shown = [each for each in words[place + 1 :] if each and not each.startswith("-")]
            return f"`{' '.join(['mayfly', *shown[:2]])}` (process {process})"
    return ""
