"""Arrivals made for tests: at given times, independent, and in bursts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mayfly.pipeline.advise.simulate import QueueArrivals
from mayfly.pipeline.replay.kernel import NEVER_MS

START_MS = 1_700_000_000_000


def arrivals_at(
    times_ms: Sequence[int] | np.typing.NDArray[np.int64],
    expire_at_ms: Sequence[int] | None = None,
) -> QueueArrivals:
    """Return messages of one priority that come at times after START_MS, in their order."""
    count = len(times_ms)
    ends_ms = np.full(count, NEVER_MS)
    if expire_at_ms is not None:
        ends_ms = np.array(expire_at_ms, dtype=np.int64) + START_MS
    available_ms = np.array(times_ms, dtype=np.int64) + START_MS
    return QueueArrivals("Q1", available_ms, ends_ms, np.arange(count))


def poisson(count: int, gap_ms: float, seed: int) -> QueueArrivals:
    """Return independent arrivals, so far apart on average."""
    gaps_ms = np.random.default_rng(seed).exponential(gap_ms, count)
    return arrivals_at(np.cumsum(gaps_ms).astype(np.int64))


def bursts(count: int, gap_ms: float, burst_max: int, seed: int) -> QueueArrivals:
    """Return bursts of 1 to ``burst_max`` messages within a millisecond each, independent."""
    chance = np.random.default_rng(seed)
    starts_ms = np.cumsum(chance.exponential(gap_ms, count)).astype(np.int64)
    sizes = chance.integers(1, burst_max, count, endpoint=True)
    return arrivals_at(np.repeat(starts_ms, sizes))


def constant(count: int, on_message_ms: int) -> np.typing.NDArray[np.int64]:
    """Return the same time for each message."""
    return np.full(count, on_message_ms, dtype=np.int64)
