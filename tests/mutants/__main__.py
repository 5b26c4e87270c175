"""Rules broken on purpose: each patch here is a wrong Mayfly that the tests of its rule must find.

``python -m tests.mutants [NAME ...]`` applies each patch to a copy of the source, runs the tests
that are named after its rule (the first word of its name) until one fails, and prints which. It
returns 1 when a mutant lived, or a patch no longer applies: then the code that it breaks has moved,
and the patch moves with it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tests.rules import ROOT, code_of, proofs

_HERE: Final = Path(__file__).parent
_WORKERS: Final = 2
#: A mutant that lets its tests hang has been found as well.
_LIMIT_SECONDS: Final = 300
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
#: Statuses of pytest: all passed, and none was there to run.
_PASSED, _NONE_RUN = 0, 5


def names() -> list[str]:
    """Return the names of all mutants."""
    return sorted(patch.stem for patch in _HERE.glob("*.patch"))


def proofs_of(name: str) -> list[str]:
    """Return the tests that must find a mutant, those without a server or Spark first."""
    code = code_of(name.partition("_")[0])
    found = proofs().get(code or "", [])
    return sorted(found, key=lambda test: (test.startswith(("tests/servers", "tests/spark")), test))


def outcome_of(name: str, tree: Path) -> str:
    """Break a copy of the source, run the tests, mend it again; return who has found the mutant.

    The text is empty when nobody has.
    """
    patch = str(_HERE / f"{name}.patch")
    subprocess.run(["git", "apply", patch], cwd=tree, check=True, capture_output=True)
    options = ("-q", "-x", "--no-header", "-p", "no:cacheprovider", "-m", "not spark and not slow")
    command = [sys.executable, "-m", "pytest", *options, *proofs_of(name)]
    try:
        ran = subprocess.run(
            command,
            check=False,
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"{_LIMIT_SECONDS} s"
    finally:
        subprocess.run(["git", "apply", "-R", patch], cwd=tree, check=True, capture_output=True)
    if ran.returncode in (_PASSED, _NONE_RUN):
        return ""
    failed = _FAILED.search(ran.stdout)
    return failed[1] if failed else ran.stdout[-400:]


@contextmanager
def copies(count: int) -> Iterator[SimpleQueue[Path]]:
    """Give copies of the source, uncommitted changes included, for a block."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    with tempfile.TemporaryDirectory() as folder:
        trees = SimpleQueue[Path]()
        for number in range(count):
            tree = Path(folder, str(number))
            for file in filter(None, listed.stdout.decode().split("\0")):
                if (ROOT / file).is_file():
                    (tree / file).parent.mkdir(parents=True, exist_ok=True)
                    (tree / file).write_bytes((ROOT / file).read_bytes())
            trees.put(tree)
        yield trees


def main(wanted: Sequence[str]) -> int:
    """Try the mutants of these names, or all; return 1 when one lived."""
    unknown = set(wanted) - set(names())
    if unknown:
        print(f"no mutant: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    lived = []
    with copies(_WORKERS) as trees, ThreadPoolExecutor(_WORKERS) as pool:

        def tried(name: str) -> tuple[str, str]:
            tree = trees.get()
            try:
                return name, outcome_of(name, tree)
            except subprocess.CalledProcessError as error:
                return name, f"!{error.stderr.decode().strip()}"
            finally:
                trees.put(tree)

        for name, outcome in pool.map(tried, wanted or names()):
            if outcome.startswith("!"):
                print(f"cannot be applied: {name}: {outcome[1:]}", flush=True)
            else:
                print(f"{name}: {outcome or 'LIVED'}", flush=True)
            if not outcome or outcome.startswith("!"):
                lived.append(name)
    print(f"{len(lived)} of {len(wanted or names())} have not been found")
    return 1 if lived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
