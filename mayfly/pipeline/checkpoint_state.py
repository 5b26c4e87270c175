"""What the checkpoint of a Spark query says about its batches, read without Spark.

Spark writes ``offsets/N`` before batch N begins and ``commits/N`` when it is written completely.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

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


def _batches(files: LocalFiles, folder: str) -> set[int]:
    """Return the batch numbers that have a file in the subfolder, an empty set if it is missing."""
    return {int(name) for name in files.names(folder) if name.isdecimal()}
