"""Reads the batch log in the checkpoint of a Spark query: batches, and claims that are written.

A claim is a numbered set of messages that a queue manager reserves for a consumer. Spark writes
``offsets/N`` before batch N begins and ``commits/N`` when it is written completely. The offset of a
queue is the last claim of the batch. Claims up to the offset of the last committed batch are
written. Later claims may or may not be written while their batch is unfinished.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from mayfly.lifetime.times import SECOND_MS

_VERSION = 1
OFFSETS, COMMITS = "offsets", "commits"


class ClaimOffset(NamedTuple):
    """Spark's offset of a queue: the number of the last claim read, with consumer, queue and store.

    A claim is a numbered set of messages that a queue manager reserves for a consumer.
    """

    consumer: str
    queue: str
    instance_id: str
    claim: int

    def as_json(self) -> dict[str, Any]:
        """Return the offset as a dict, in the form that Spark stores."""
        return {
            "version": _VERSION,
            "claim": self.claim,
            "consumer": self.consumer,
            "queue": self.queue,
            "instance": self.instance_id,
        }


def claim_offset(value: Any) -> ClaimOffset | None:
    """Return the offset from a dict that ``ClaimOffset.as_json`` made; None for any other value."""
    match value:
        case {
            "version": 1,
            "claim": int(claim),
            "consumer": str(consumer),
            "queue": str(queue),
            "instance": str(instance_id),
        }:
            return ClaimOffset(consumer, queue, instance_id, claim)
    return None


class LogFiles(Protocol):
    """Access to the files of a Spark checkpoint; names are relative to its folder."""

    def names(self, folder: str) -> list[str]:
        """Return the file names in a subfolder, an empty list if it does not exist."""

    def read(self, name: str) -> str | None:
        """Return the text of a file, None if it does not exist."""


class LocalFiles:
    """The files of a checkpoint on this machine; raises OSError for a file that cannot be read."""

    def __init__(self, folder: Path) -> None:
        """Keep the folder of the checkpoint, which need not exist."""
        self._folder = folder

    def names(self, folder: str) -> list[str]:
        """Return the file names in a subfolder, an empty list if it does not exist."""
        found = self._folder / folder
        return [file.name for file in found.iterdir()] if found.is_dir() else []

    def read(self, name: str) -> str | None:
        """Return the text of a file, None if it does not exist."""
        file = self._folder / name
        return file.read_text("utf-8", errors="replace") if file.is_file() else None


class WrittenClaims(NamedTuple):
    """The last claim of a consumer that a Spark query has written to its sinks, 0 for none.

    A claim is a numbered set of reserved messages. ``unfinished_batch`` is the batch that was begun
    and not committed, None unless it contains later claims.
    """

    offset: ClaimOffset
    unfinished_batch: int | None


def written_claims(files: LogFiles) -> list[WrittenClaims]:
    """Return for each queue of a Spark query the last claim that the query has written.

    A claim is a numbered set of messages reserved for a consumer. Returns [] before the first
    batch. ``files`` are those of the query's checkpoint.
    """
    # The commits are read first: a batch committed meanwhile then counts as unfinished, which is
    # safe. The other order could count an unfinished batch as written.
    commits, offsets = (_batches(files, folder) for folder in (COMMITS, OFFSETS))
    if not offsets:
        return []
    newest = max(offsets)
    committed = max(commits & offsets, default=None)
    written = [] if committed is None else _claim_offsets(files, committed)
    found = []
    for begun in _claim_offsets(files, newest):
        nothing = begun._replace(claim=0)
        offset = next((one for one in written if one._replace(claim=0) == nothing), nothing)
        is_unfinished = newest != committed and begun.claim > offset.claim
        found.append(WrittenClaims(offset, newest if is_unfinished else None))
    return found


def _batches(files: LogFiles, folder: str) -> set[int]:
    """Return the batch numbers that have a file in the subfolder, an empty set if it is missing."""
    return {int(name) for name in files.names(folder) if name.isdecimal()}


def _claim_offsets(files: LogFiles, batch: int) -> list[ClaimOffset]:
    """Return the offsets of queues in the file ``offsets/BATCH``; [] if the file is missing.

    Offsets of other kinds of sources are skipped.
    """
    # A line with a version, one about the batch, then one for each source in its own form.
    lines = (files.read(f"{OFFSETS}/{batch}") or "").splitlines()
    return [offset for line in lines if (offset := claim_offset(_json(line))) is not None]


def _json(line: str) -> Any:
    """Return the JSON value of a line, None if it is no JSON."""
    try:
        return json.loads(line)
    except ValueError:
        return None


class CheckpointState(NamedTuple):
    """The batches of a checkpoint: numbers, None for none.

    ``committed`` is the last batch that is written completely, and ``committed_ms`` the time of
    its file in ms since 1970. ``unfinished`` is a batch that was begun after it: the next start
    repeats it.
    """

    committed: int | None
    committed_ms: int | None
    unfinished: int | None


def checkpoint_state(folder: Path) -> CheckpointState:
    """Return the state of a checkpoint on this machine; of one that is not begun, all None.

    Raises OSError if it cannot be read.
    """
    files = LocalFiles(folder)
    committed = max(_batches(files, COMMITS), default=None)
    begun = max(_batches(files, OFFSETS), default=None)
    committed_ms = None
    # Spark removes old files meanwhile.
    with contextlib.suppress(FileNotFoundError):
        if committed is not None:
            modified_seconds = (folder / COMMITS / str(committed)).stat().st_mtime
            committed_ms = int(modified_seconds * SECOND_MS)
    is_unfinished = begun is not None and (committed is None or begun > committed)
    return CheckpointState(committed, committed_ms, begun if is_unfinished else None)
