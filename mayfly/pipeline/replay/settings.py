"""The settings to try in a replay, for each queue or for all, and the engine that runs it."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, TypeAlias

from mayfly.lifetime.window import LATEST_DUE_MS, LONGEST_LIFE_MS
from mayfly.pipeline.errors import ReplayError

#: Take the message of the highest priority first, as MSGDLVSQ(PRIORITY); without priorities FIFO.
PRIORITY = "priority"
#: Take the message that was delivered first, as MSGDLVSQ(FIFO).
FIFO = "fifo"
#: In settings by queue: every queue that is not named.
EVERY_OTHER = "*"
#: Highest number of consumers to try: no queue has more threads that get from it.
CONSUMERS_MAX = 100_000


class WhatIf(NamedTuple):
    """The settings to try on a queue in a replay; None keeps the value of the trace.

    ``cap_ms`` is the longest lifetime (CAPEXPRY) and can only shorten one. ``from_release`` is
    TTLFROM(RELEASE): the lifetime begins at the delivery time. With ``consumers`` the gets of the
    trace are ignored: this number of consumers, idle before the first put, take any message and
    work on it for ``service_ms``. ``receive_timeout_ms`` is the longest wait of a receive; None is
    no wait for a get of the trace, and an endless wait for a consumer.
    """

    life_ms: int | None = None
    delay_ms: int | None = None
    cap_ms: int | None = None
    from_release: bool = False
    sequence: str = PRIORITY
    consumers: int | None = None
    service_ms: int = 0
    receive_timeout_ms: int | None = None


#: The settings of every queue, or of each by its name and of the rest as EVERY_OTHER.
Settings: TypeAlias = "WhatIf | Mapping[str, WhatIf]"

AS_IT_WAS = WhatIf()

_BOUNDS: dict[str, tuple[int, int]] = {
    "life_ms": (0, LONGEST_LIFE_MS),
    "delay_ms": (0, LATEST_DUE_MS),
    "cap_ms": (1, LONGEST_LIFE_MS),
    "consumers": (1, CONSUMERS_MAX),
    "service_ms": (0, LONGEST_LIFE_MS),
    "receive_timeout_ms": (0, LONGEST_LIFE_MS),
}


def settings_of(settings: Settings, queue: str) -> WhatIf:
    """Return the replay settings for a queue: by its name, else of EVERY_OTHER, else AS_IT_WAS."""
    if isinstance(settings, WhatIf):
        return settings
    return settings.get(queue, settings.get(EVERY_OTHER, AS_IT_WAS))


def check_settings(settings: Settings) -> None:
    """Raise ReplayError for an invalid value; the text names queue, setting and value."""
    by_queue = {EVERY_OTHER: settings} if isinstance(settings, WhatIf) else settings
    for queue, what_if in by_queue.items():
        _check(queue, what_if)


def check_queues(settings: Settings, queues: Collection[str]) -> None:
    """Raise ReplayError if settings name a queue on which the trace has no message."""
    if isinstance(settings, WhatIf):
        return
    for queue in settings:
        if queue != EVERY_OTHER and queue not in queues:
            known = ", ".join(sorted(queues)[:10])
            raise ReplayError(f"no message of the trace is on queue {queue!r}; it has {known}")


def _check(queue: str, what_if: WhatIf) -> None:
    """Raise ReplayError for an invalid value in the settings of one queue."""
    for name, (lowest, highest) in _BOUNDS.items():
        value = getattr(what_if, name)
        if value is not None and not (type(value) is int and lowest <= value <= highest):
            raise ReplayError(
                f"{name} of queue {queue!r} is {value!r}, not a number from {lowest} to {highest}"
            )
    if what_if.sequence not in (PRIORITY, FIFO):
        raise ReplayError(
            f"sequence of queue {queue!r} is {what_if.sequence!r}, not {PRIORITY} or {FIFO}"
        )
    if what_if.consumers is None and what_if.service_ms:
        raise ReplayError(f"service_ms of queue {queue!r} needs consumers, whose time it is")
    if what_if.consumers is not None and what_if.receive_timeout_ms == 0:
        # A consumer with timeout 0 would ask again at once, for ever.
        raise ReplayError(f"receive_timeout_ms of queue {queue!r} is 0: its consumers never wait")


#: Memory for one message of a comparison, in bytes, at its peak: measured 540 with a correlation
#: id, of which 75 are the trace. The rows of a lake, from which a trace is made, are the rest.
BYTES_PER_MESSAGE = 800
#: The memory limit of a container in bytes, by cgroup version 2; "max" without a limit.
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


class ReplayEngine(StrEnum):
    """The engine that computes a replay: this process, or the workers of Spark."""

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
    """Return the engine for a replay of ``message_count`` messages, by the memory they need.

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
