"""What the checkpoint of a Spark query says about its batches, read without Spark.

Spark writes ``offsets/N`` before batch N begins and ``commits/N`` when it is written completely.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.bulk.batch_log import COMMITS, OFFSETS, LocalFiles


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


def lake_checkpoint(lake: Path, instance_id: str) -> Path:
    """Return the checkpoint of the stream that copies the ledger of a store into a Parquet lake."""
    return lake / "_checkpoint" / instance_id


def ledger_position(folder: Path) -> int | None:
    """Return the last ledger position that a stream has written, by its checkpoint.

    ``folder`` is the checkpoint of a stream whose only source is a ledger. None before the first
    batch. Raises OSError if it cannot be read.
    """
    files = LocalFiles(folder)
    committed = max(_batches(files, COMMITS) & _batches(files, OFFSETS), default=None)
    if committed is None:
        return None
    # A line with a version, one about the batch, then one for each source in its own form.
    *_, offset = (files.read(f"{OFFSETS}/{committed}") or "").splitlines() or [""]
    try:
        found: Any = json.loads(offset)
    except ValueError:
        return None
    match found:
        case {"position": int(position)}:
            return position
    return None


def _batches(files: LocalFiles, folder: str) -> set[int]:
    """Return the batch numbers that have a file in the subfolder, an empty set if it is missing."""
    return {int(name) for name in files.names(folder) if name.isdecimal()}
