"""Today beside the commit before the work on speed, in turn, each side in processes of its own.

A program as well, for one round of one side: ``python -m bench.before ROLE COUNT``. It runs in the
source of either side with today's ``bench``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from bench.aims import least_rate, max_cost
from bench.compare import commit_of, earlier
from bench.figures import Figure, at_least, at_most, median, seconds_of
from bench.listener import SESSIONS, durable_rate
from bench.side import check_package
from mayfly import QueueManager

#: The last commit before the work on speed.
BEFORE: Final = "3d2fa18d"
_ROOT: Final = Path(__file__).parents[1]
_ROUNDS, _PAIRS, _MESSAGES = 5, 20_000, 1_500
_BODY: Final = os.urandom(200)
_PAIR = f"non-persistent put + get beside commit {BEFORE}"
_LISTENER = f"listener, persistent, {SESSIONS} sessions beside one of commit {BEFORE}"


def figures() -> Iterator[Figure]:
    """Measure everything of this file."""
    commit = commit_of(_ROOT, BEFORE)
    if commit is None:
        note = f"this clone has no commit {BEFORE}"
        yield Figure(_PAIR, "-", "", True, note)
        yield Figure(_LISTENER, "-", "", True, note)
        return
    with earlier(_ROOT, commit) as tree:
        pairs = [
            (_measured(_ROOT, "pair", _PAIRS), _measured(tree, "pair", _PAIRS))
            for _ in range(_ROUNDS)
        ]
        rates = [
            (_measured(_ROOT, "eight", _MESSAGES), _measured(tree, "one", _MESSAGES))
            for _ in range(_ROUNDS)
        ]
    now_us, then_us = (median(each) for each in zip(*pairs, strict=True))
    ratios = [now / then for now, then in pairs]
    note = f"{now_us:.1f} µs against {then_us:.1f} µs"
    yield at_most(_PAIR, median(ratios), max_cost(0.4), "x", note, samples=ratios)
    eight, one = (median(each) for each in zip(*rates, strict=True))
    ratios = [now / then for now, then in rates]
    note = f"{eight:,.0f}/s against {one:,.0f}/s"
    yield at_least(_LISTENER, median(ratios), least_rate(2.5), "x", note, samples=ratios)


def _measured(tree: Path, role: str, count: int) -> float:
    """Measure one round in the source of a side; a side that cannot run ends the part."""
    told = subprocess.run(
        [sys.executable, "-m", "bench.before", role, str(count)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(told.stdout)


def _pair_us(count: int) -> float:
    """Return how long a non-persistent put and its get take, in µs."""
    with QueueManager("BENCH") as manager, manager.session() as session:
        manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)")
        put, get = session.put, session.get

        def run() -> None:
            for _ in range(count):
                put("Q1", _BODY, persistent=False)
                get("Q1")

        return seconds_of(run) / count * 1e6


def _one(count: int) -> float:
    return durable_rate(count, 1)


def _eight(count: int) -> float:
    return durable_rate(count, SESSIONS)


if __name__ == "__main__":
    check_package(Path.cwd())
    roles: dict[str, Callable[[int], float]] = {"pair": _pair_us, "one": _one, "eight": _eight}
    print(roles[sys.argv[1]](int(sys.argv[2])))
