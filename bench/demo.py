"""How long ``mayfly demo`` takes from the command to its last line."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator

from bench.figures import Figure, at_most, seconds_of


def figures() -> Iterator[Figure]:
    """Run the demo as a newcomer does."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mayfly", "demo", "--out", folder]
        seconds = seconds_of(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
    yield at_most(
        "mayfly demo", seconds, 120, " s", "one day on two clocks, the year replayed, plots"
    )
