"""Measure parts with the Mayfly of today and with that of a commit, in turn, and compare them."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.machine import LOAD
from bench.parts import known_part, usual_parts
from bench.ratios import SIDES, THEN, TODAY, CannotRun, compared, table
from bench.record import Part, from_json

_ROOT: Final = Path(__file__).parents[1]
#: What the packages of ``.venv`` are installed from.
_REQUIREMENTS: Final = ("pyproject.toml", "constraints.txt")
#: With fewer, chance alone tells the sides apart too often.
_FEWEST_ROUNDS: Final = 3


def main(arguments: list[str]) -> int:
    """Run as told; 1 when a figure is worse or nothing was compared, 2 for a wrong argument."""
    parser = _parser()
    told = parser.parse_args(arguments)
    commit = commit_of(_ROOT, told.commit)
    if commit is None:
        parser.error(f"no commit {told.commit!r}")
    with earlier(_ROOT, commit) as tree:
        turns = _Turns({TODAY: _ROOT, THEN: tree}, tree.parent)
        found = compared(told.parts or usual_parts(), told.rounds, turns.measured)
    for side in SIDES:
        print(f"{side}: {turns.versions.get(side, 'nothing was measured')}")
    if turns.loads:
        low, high = min(turns.loads), max(turns.loads)
        print(f"{turns.processors} processors; load when rounds began: {low:g} to {high:g}")
    for name in differing(_ROOT, commit):
        print(f"{name} differs: the packages are those of today on both sides")
    if found.ratios:
        print(table(found.ratios))
    for line in found.left_out:
        print(line)
    return 0 if found.ratios and all(one.verdict != "worse" for one in found.ratios) else 1


class _Turns:
    """Measures either side, each time in a process of its own."""

    def __init__(self, trees: dict[str, Path], scratch: Path) -> None:
        """Take the source of each side; files are written into ``scratch``."""
        self._trees, self._scratch = trees, scratch
        #: By side: what was measured there.
        self.versions: dict[str, str] = {}
        self.processors = ""
        self.loads: list[float] = []

    def measured(self, side: str, name: str) -> Part:
        """Measure a part on a side; raises CannotRun."""
        if sys.stderr.isatty():
            print(f"measuring {name}, {side} …", file=sys.stderr, flush=True)
        record, errors = self._scratch / "record.json", self._scratch / "errors"
        tree = self._trees[side]
        # A file: a server that a part leaves behind would keep a pipe open.
        with errors.open("w") as stderr:
            ended = subprocess.run(
                [sys.executable, "-m", "bench.side", name, str(record)],
                cwd=tree,
                env={**os.environ, "PYTHONPATH": str(tree)},
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                check=False,
            )
        if ended.returncode:
            said = errors.read_text(errors="replace").strip() or f"exit code {ended.returncode}"
            raise CannotRun(said.splitlines()[-1])
        run = from_json(record.read_text())
        version = run.machine["Mayfly"]
        if side == THEN:
            # It is the bench of today that differs from the commit.
            version = version.removesuffix("-dirty")
        self.versions[side] = f"{version}, {run.machine['build']}"
        self.processors = run.machine["processors"]
        self.loads.append(float(run.machine[LOAD]))
        return run.parts[0]


@contextmanager
def earlier(root: Path, commit: str) -> Iterator[Path]:
    """Have the source of a commit for a block, with the ``bench`` of today, below ``out``."""
    out = root / "out"
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="compare-", dir=out) as folder:
        tree = Path(folder) / "source"
        _git(root, "worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            shutil.rmtree(tree / "bench", ignore_errors=True)
            skipped = shutil.ignore_patterns("__pycache__")
            shutil.copytree(root / "bench", tree / "bench", ignore=skipped)
            yield tree
        finally:
            _git(root, "worktree", "remove", "--force", str(tree))


def commit_of(root: Path, name: str) -> str | None:
    """Return the commit that a branch, a tag or a number names; None when there is none."""
    try:
        return _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^0")
    except subprocess.CalledProcessError:
        return None


def differing(root: Path, commit: str) -> list[str]:
    """Return the files of requirements that have changed since a commit."""
    return _git(root, "diff", "--name-only", commit, "--", *_REQUIREMENTS).splitlines()


def _git(root: Path, *words: str) -> str:
    told = subprocess.run(["git", *words], cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    return told.stdout.strip()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare", description="Compare parts with those of a commit, in turn."
    )
    parser.add_argument("commit", help="what git calls a commit: a number, a branch, HEAD~5")
    parser.add_argument("parts", nargs="*", metavar="part", type=known_part)
    parser.add_argument("--rounds", type=round_count, default=5, help="of each part; default 5")
    return parser


def round_count(text: str) -> int:
    """Return how many rounds a text asks for; argparse tells of too few."""
    count = int(text)
    if count < _FEWEST_ROUNDS:
        raise argparse.ArgumentTypeError(f"{count} is below {_FEWEST_ROUNDS}")
    return count


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
