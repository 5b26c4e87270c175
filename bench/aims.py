"""Aims that depend on the build: they are those of the compiled one, and looser for pure Python."""

from __future__ import annotations

from typing import Final

from bench.machine import is_compiled

#: Pure Python is to reach this share of the compiled build.
PURE_SHARE: Final = 0.55


def least_rate(compiled: float) -> float:
    """Return the aim of the build that runs: a rate or ratio, of which this is the compiled one."""
    return compiled if is_compiled() else _rounded(compiled * PURE_SHARE)


def max_cost(compiled: float) -> float:
    """Return the aim of the build that runs: a cost, of which this is the compiled one."""
    return compiled if is_compiled() else _rounded(compiled / PURE_SHARE)


def _rounded(aim: float) -> float:
    return float(f"{aim:.3g}")
