"""A process under load that is killed: it says ``ready`` when it begins, and knows nothing else."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


def started(*commands: tuple[object, ...]) -> "list[subprocess.Popen[str]]":
    """Run modules, each with its arguments, and return once all have begun."""
    processes = [_spawned(*command) for command in commands]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    return processes


def _spawned(module: object, *arguments: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", str(module), *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill(process: "subprocess.Popen[str]", after_seconds: float) -> str:
    """Kill a process so long from now, and return what it has complained of."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(after_seconds)
    process.kill()
    complaint = process.communicate()[1]
    assert process.returncode == -9, complaint
    return complaint


def run_and_kill(
    module: str, folder: Path, journals: Path, seed: str, after_seconds: float, line_count: int = 0
) -> None:
    """Run a module on a folder and kill it so long after it began.

    With a ``line_count`` the time counts from when its journals, together with those of the runs
    before, have so many lines.
    """
    [process] = started((module, folder, journals, seed))
    while process.poll() is None and lines_in(journals) < line_count:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    complaint = kill(process, after_seconds)
    assert not complaint, complaint


def lines_in(journals: Path) -> int:
    """Return how many lines the files of a folder have."""
    return sum(path.read_bytes().count(b"\n") for path in journals.iterdir() if path.is_file())
