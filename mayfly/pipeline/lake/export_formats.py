"""The file formats and filters of an export of ended messages, for Spark and DuckDB alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mayfly.pipeline.errors import ExportError
from mayfly.pipeline.lake.part import LakePart
from mayfly.pipeline.lake.queries import DURATIONS
from mayfly.verbs.contracts.outcomes import OUTCOME_CODES

#: Formats by the ending of a file's name.
FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json", ".json": "json"}
#: Columns that CSV and JSON have in hexadecimal.
ID_NAMES = ("msg_id", "correl_id", "origin_id")


def export_condition(part: LakePart, outcomes: Sequence[str], late_after_ms: int | None) -> str:
    """Return the filters as one SQL condition over ledger rows, ``true`` without any.

    ``outcomes`` must have passed :func:`check_export`; empty allows all. ``late_after_ms`` selects
    messages got more than so many ms after their delivery time; None selects all.
    """
    filters = [part.condition()]
    if outcomes:
        names = ", ".join(f"'{name}'" for name in outcomes)
        filters.append(f"outcome IN ({names})")
    if late_after_ms is not None:
        filters.append(f"{DURATIONS['waited']} > {late_after_ms}")
    return " AND ".join(filters)


def check_export(file: Path, outcomes: Sequence[str]) -> None:
    """Raise ExportError for a wrong suffix or outcome, a file that exists, or a missing folder."""
    if file.suffix not in FORMATS:
        raise ExportError(f"{file} ends in none of {', '.join(FORMATS)}")
    if file.exists():
        raise ExportError(f"{file} exists already")
    if not file.absolute().parent.is_dir():
        raise ExportError(f"there is no folder {file.absolute().parent}")
    for name in outcomes:
        if name not in OUTCOME_CODES:
            raise ExportError(f"outcome {name!r} is not one of {', '.join(OUTCOME_CODES)}")
