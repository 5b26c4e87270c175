"""The counts of a pipeline on one line, for the end of a run, a terminal and the status."""

from __future__ import annotations

from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.progress import Progress


def progress_line(progress: Progress) -> str:
    """Return the counts of a pipeline on one line; a number of held rows that is None is "?"."""
    held = "?" if progress.held is None else f"{progress.held:,}"
    cells = [
        f"{progress.pipeline}",
        f"in {progress.rows_in:,}",
        f"held {held}",
        f"released {progress.released:,}",
        f"expired {progress.expired:,}",
        f"refused {progress.dead_lettered:,}",
        f"reports {progress.reports:,}",
    ]
    if progress.releasing:
        cells.append(f"releasing {progress.releasing:,}")
    if progress.lag_ms is not None:
        cells.append(f"lag {progress.lag_ms / SECOND_MS:,.1f} s")
    if progress.restarts:
        cells.append(f"restarts {progress.restarts}")
    return "  ".join(cells)
