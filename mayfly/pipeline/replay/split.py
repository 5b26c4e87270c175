"""A trace split by queue: one folder ``queue=NAME`` each, so that one task reads one queue."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from mayfly.pipeline.errors import ReplayError
from mayfly.pipeline.replay.trace import as_trace
from mayfly.verbs.contracts.files import local_path

_PREFIX = "queue="


def write_split(trace: pa.Table, folder: str | Path) -> None:
    """Write a trace (recorded messages) into folders ``queue=NAME``, replacing their files.

    Raises ReplayError for an invalid trace, or a URL of another machine.
    """
    ds.write_dataset(
        as_trace(trace),
        str(local_trace(folder)),
        format="parquet",
        partitioning=["queue"],
        partitioning_flavor="hive",
        existing_data_behavior="delete_matching",
        max_partitions=1_000_000,
    )


def local_trace(path: str | Path) -> Path:
    """Return the path of a trace (a file of recorded messages) on this machine.

    Raises ReplayError for a URL of another machine.
    """
    try:
        return local_path(path)
    except ValueError as error:
        raise ReplayError(str(error)) from error


def is_split(folder: Path) -> bool:
    """Return True if the folder has subfolders ``queue=NAME``: a trace split by queue."""
    return any(folder.glob(f"{_PREFIX}*"))


def queue_folders(folder: str | Path) -> list[Path]:
    """Return the folders ``queue=NAME`` sorted by path; raises ReplayError if none exists."""
    folders = sorted(local_trace(folder).absolute().glob(f"{_PREFIX}*"))
    if not folders:
        raise ReplayError(f"{folder} is not split by queue: it has no folder queue=NAME")
    return folders


def read_queue(folder: Path) -> pa.Table:
    """Return the recorded messages of one queue, as a trace, from its folder ``queue=NAME``.

    Raises ReplayError without a Parquet file, or for missing values.
    """
    rows = pa.concat_tables([pq.read_table(file, partitioning=None) for file in _files(folder)])
    name = queue_of(folder)
    if "queue" in rows.column_names:
        rows = rows.drop_columns("queue")
    return as_trace(rows.append_column("queue", pa.repeat(pa.scalar(name), len(rows))))


def queue_of(folder: Path) -> str:
    """Return the queue name in the name of a folder: ``queue=DEV.Q1`` -> ``DEV.Q1``."""
    return unquote(folder.name.removeprefix(_PREFIX))


def read_split(folder: str | Path) -> pa.Table:
    """Return the recorded messages of all folders ``queue=NAME`` as one trace.

    Raises ReplayError if no such folder exists, or for missing values.
    """
    return pa.concat_tables([read_queue(path) for path in queue_folders(folder)])


def _files(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder; raises ReplayError if there are none."""
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise ReplayError(f"{folder} holds no Parquet file")
    return files
