"""The engine of a replay: one process while the messages fit its memory, Spark beyond that."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

#: Memory for one message of a comparison, in bytes, at its peak: measured 540 with a correlation
#: id, of which 75 are the trace. The rows of a lake, from which a trace is made, are the rest.
BYTES_PER_MESSAGE = 800
#: What a container may use at most, by cgroup version 2; "max" without a limit.
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


class ReplayEngine(StrEnum):
    """What computes a replay: this process, or the workers of Spark."""

    PROCESS = "process"
    SPARK = "spark"


class EngineChoice(NamedTuple):
    """An engine, and the sentence that says why it was taken."""

    engine: ReplayEngine
    reason: str


def choose_engine(
    message_count: int | None,
    usable_bytes: int,
    *,
    has_spark: bool,
    asked: ReplayEngine | None = None,
) -> EngineChoice:
    """Return the engine for a replay of so many messages, by the memory that they need.

    ``usable_bytes`` is the memory that one process may use. ``message_count`` None means that only
    one process can read the messages. ``asked`` is the user's own choice, which wins; without
    Spark (``has_spark`` False) the choice is one process.
    """
    if asked is not None:
        return EngineChoice(asked, "as --engine says")
    if message_count is None:
        return EngineChoice(ReplayEngine.PROCESS, "a file of this kind is read in one process")
    needed_bytes = message_count * BYTES_PER_MESSAGE
    sizes = f"{message_count:,} messages need {_gib(needed_bytes)} of {_gib(usable_bytes)}"
    if needed_bytes <= usable_bytes:
        return EngineChoice(ReplayEngine.PROCESS, sizes)
    if not has_spark:
        return EngineChoice(ReplayEngine.PROCESS, f"{sizes}, but Spark is not installed")
    return EngineChoice(ReplayEngine.SPARK, sizes)


def usable_bytes() -> int:
    """Return the memory that one process may use: half of the machine's, or of its container's."""
    machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _CONTAINER_LIMIT.read_text().strip() if _CONTAINER_LIMIT.exists() else "max"
    return (machine_bytes if limit == "max" else min(machine_bytes, int(limit))) // 2


def _gib(size_bytes: int) -> str:
    """Return a size in GiB with one digit, such as ``1.2 GiB``."""
    return f"{size_bytes / 2**30:.1f} GiB"
