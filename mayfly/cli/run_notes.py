"""Notes about pipelines and ledger runs of this machine, which ``mayfly pipeline status`` reads.

    $MAYFLY_HOME/pipeline-runs/KIND-HASH.json     what the run said last; replaced as a whole
    $MAYFLY_HOME/pipeline-runs/KIND-HASH.lock     locked by the kernel while its process lives

A note stays when its run has ended, whatever ended it. A note that says "running" without a lock is
of a process that was killed. The name of the folder has a hyphen, so no queue manager has it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.pipeline.progress import LedgerProgress, Progress, write_whole
from mayfly.runtime import SystemClock
from mayfly.runtime.files import FOLDER_MODE, is_locked, locked_file
from mayfly.verbs.checks import home_folder
from mayfly.verbs.contracts.config_files import is_url, local_path

_FOLDER = "pipeline-runs"


class RunKind(StrEnum):
    """The kind of a run: a pipeline of a TOML file, or the copy of a ledger into a lake."""

    PIPELINE = "pipeline"
    LEDGER = "ledger"


class RunState(StrEnum):
    """The state of a run. NEW: no run of it is known here. KILLED is found, never written."""

    NEW = "new"
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    DONE = "done"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    KILLED = "killed"


#: A process in one of these states lives.
_LIVING = (RunState.STARTING, RunState.RUNNING, RunState.RESTARTING)


class CopiedLedger(NamedTuple):
    """The ledger that a run copies: its server, and the id of the queue manager's store."""

    url: str
    token_file: str | None
    manager: str
    instance_id: str


class RunNote(NamedTuple):
    """The known facts of a run.

    ``place`` is the absolute path of a pipeline's file, or a lake: an absolute path or a URL.
    ``since_ms`` is the time of the last change of ``state``, in ms since 1970. ``text`` is the
    reason of a failure, "" without one. ``process`` is the number of the process that wrote the
    note. ``progress`` is its last snapshot, None before the first. ``ledger`` is None for a
    pipeline.
    """

    kind: RunKind
    place: str
    state: RunState = RunState.NEW
    since_ms: int | None = None
    text: str = ""
    process: int | None = None
    progress: Progress | LedgerProgress | None = None
    ledger: CopiedLedger | None = None


class RunNoteFile:
    """The note of a run of this process; a target of its snapshots."""

    def __init__(self, kind: RunKind, place: str, ledger: CopiedLedger | None = None) -> None:
        """Lock the note, which ``mayfly pipeline status`` reads, and write that the run starts.

        The note is a file. ``place`` is the pipeline's file or the lake, ``ledger`` the ledger that
        is copied, None for a pipeline. Raises CommandFailed if another process runs the same,
        OSError if the note cannot be written.
        """
        self._clock = SystemClock()
        folder = home_folder() / _FOLDER
        folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        self._file = folder / f"{kind}-{_hash_of(place, ledger)}.json"
        try:
            self._lock = locked_file(_lock_of(self._file))
        except BlockingIOError:
            raise CommandFailed(
                ExitCode.PIPELINE, f"another process runs {place}: mayfly pipeline status"
            ) from None
        self._note = RunNote(kind, place, process=os.getpid(), ledger=ledger)
        self._written: RunNote | None = None
        self._enter(RunState.STARTING)

    def show(self, progress: Progress | LedgerProgress, *, is_up: bool, failure: str = "") -> None:
        """Write a snapshot into the note.

        ``is_up`` says that the run works. Otherwise a ``failure`` says that it waits for a restart,
        and why. Without either only the snapshot changes, not the state. Raises OSError if the note
        cannot be written.
        """
        self._note = self._note._replace(progress=progress)
        if is_up:
            self._enter(RunState.RUNNING)
        elif failure:
            self._enter(RunState.RESTARTING, failure)
        else:
            self._write()

    def end(self, state: RunState, text: str = "") -> None:
        """Write how the run has ended; ``text`` is why it failed, or "".

        Raises OSError if the note cannot be written.
        """
        self._enter(state, text)

    def close(self) -> None:
        """Unlock the note; the file stays, so that the end of the run can be read."""
        os.close(self._lock)

    def _enter(self, state: RunState, text: str = "") -> None:
        """Write the note with a state and its text; another state than before begins now."""
        since_ms = self._note.since_ms if state is self._note.state else self._clock.now_ms()
        self._note = self._note._replace(state=state, text=text, since_ms=since_ms)
        self._write()

    def _write(self) -> None:
        """Replace the file by the note, unless it has it already."""
        if self._note != self._written:
            write_whole(self._file, json.dumps(as_json(self._note)))
            self._written = self._note


@contextmanager
def noted(
    kind: RunKind, place: str, say: Callable[[str], None], ledger: CopiedLedger | None = None
) -> Iterator[RunNoteFile | None]:
    """Return a context with the note of a run, the file that ``mayfly pipeline status`` reads.

    ``place`` and ``ledger`` are those of `RunNoteFile`. An error that leaves the block is noted as
    the end of the run, and passed on. If the note cannot be written, ``say`` is called with the
    reason and the context has None: the run goes on without a note. Raises CommandFailed if another
    process runs the same.
    """
    try:
        note = RunNoteFile(kind, place, ledger)
    except OSError as error:
        say(f"mayfly pipeline status will not know of it: {error.filename}: {error.strerror}")
        yield None
        return
    except RuntimeError as error:
        # Neither MAYFLY_HOME nor a home: a user in a container without a name.
        say(f"mayfly pipeline status will not know of it: {error}")
        yield None
        return
    try:
        yield note
    except BaseException as error:
        is_interrupted = isinstance(error, KeyboardInterrupt)
        state = RunState.INTERRUPTED if is_interrupted else RunState.FAILED
        # The user sees the error that ended the run, not one of writing the note.
        with suppress(OSError):
            note.end(state, " ".join(str(error).split()))
        raise
    finally:
        note.close()


def notes_at(kind: RunKind, place: str) -> list[RunNote]:
    """Return the notes of the runs at a place: a pipeline's file or a lake.

    A lake has one note for each ledger that was copied into it. If nothing is known it is one note
    whose state is NEW. Raises OSError if a note cannot be read.
    """
    found = [note for note in all_notes() if (note.kind, note.place) == (kind, place)]
    return found or [RunNote(kind, place)]


def lake_key(lake: str) -> str:
    """Return the place of a lake as notes have it: an absolute path, or a URL without a last slash.

    Raises ValueError for a ``file:`` URL of another machine.
    """
    return lake.rstrip("/") if is_url(lake) else str(local_path(lake).absolute())


def all_notes() -> list[RunNote]:
    """Return the notes of all runs of this machine, by kind, place and ledger; [] without any.

    Raises OSError if a note cannot be read. Damaged ones are left out.
    """
    found = [_read(file) for file in (home_folder() / _FOLDER).glob("*.json")]
    return sorted((note for note in found if note is not None), key=_order)


def as_json(note: RunNote) -> dict[str, Any]:
    """Return a note as a dict for JSON, with the fields of RunNote as keys.

    ``progress`` and ``ledger`` are dicts of their fields, or None.
    """
    progress = None if note.progress is None else note.progress._asdict()
    ledger = None if note.ledger is None else note.ledger._asdict()
    return {**note._asdict(), "progress": progress, "ledger": ledger}


def _order(note: RunNote) -> tuple[str, str, str]:
    """Return the sort key of a note: kind, place, queue manager of the ledger ("" without one)."""
    return note.kind, note.place, "" if note.ledger is None else note.ledger.manager


def _hash_of(place: str, ledger: CopiedLedger | None) -> str:
    """Return the part of a note's file name that tells a run from others of its kind."""
    words = [place] if ledger is None else [place, ledger.instance_id]
    return hashlib.sha256("\0".join(words).encode(errors="surrogateescape")).hexdigest()[:16]


def _lock_of(file: Path) -> Path:
    """Return the file that is locked while the process of a note lives."""
    return file.with_suffix(".lock")


def _read(file: Path) -> RunNote | None:
    """Return the note in a file, None without a file or for one that is damaged.

    A note of a process that has died in the midst of its work is KILLED.
    """
    # Asked first: a note of a process that ends meanwhile then says how.
    is_alive = is_locked(_lock_of(file))
    try:
        note = _note(json.loads(file.read_text("utf-8")))
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    return note if is_alive or note.state not in _LIVING else note._replace(state=RunState.KILLED)


def _note(found: dict[str, Any]) -> RunNote:
    """Return a note from its JSON; raises TypeError, ValueError or KeyError for another one.

    Fields of a version to come are left out.
    """
    kind = RunKind(found["kind"])
    progress_type = Progress if kind is RunKind.PIPELINE else LedgerProgress
    values = {
        **found,
        "kind": kind,
        "state": RunState(found["state"]),
        "progress": _of_type(progress_type, found["progress"]),
        "ledger": _of_type(CopiedLedger, found["ledger"]),
    }
    return RunNote(**{name: values[name] for name in RunNote._fields})


def _of_type(kind: type[Any], found: dict[str, Any] | None) -> Any:
    """Return a row of a type from a dict, None for None; unknown fields are left out."""
    if found is None:
        return None
    return kind(**{name: value for name, value in found.items() if name in kind._fields})
