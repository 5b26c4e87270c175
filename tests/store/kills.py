"""A process under load that is killed: it says ``ready`` when it begins, and knows nothing else."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_and_kill(
    module: str, folder: Path, journals: Path, seed: str, after_seconds: float
) -> None:
    """Run a module, named with its package, on a folder and kill it so long after it began."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, str(folder), str(journals), seed],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    with suppress(subprocess.TimeoutExpired):
        process.wait(after_seconds)
    process.kill()
    complaint = process.communicate()[1]
    assert not complaint, complaint
    assert process.returncode == -9
