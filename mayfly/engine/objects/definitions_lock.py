"""The lock of definitions, for those who look and change, or do something else meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mayfly.engine.core import Core


@contextmanager
def definitions_unchanged(core: Core) -> Iterator[None]:
    """Let nobody else change definitions for a block: its changes are of what it has looked at.

    Definitions of a queue-sharing group are the exception: other members may change them.
    """
    with core.definitions_lock:
        yield


@contextmanager
def definitions_if_free(core: Core) -> Iterator[bool]:
    """Let nobody else change definitions; gives False, and waits for nobody, when somebody does."""
    is_free = core.definitions_lock.acquire(blocking=False)
    try:
        yield is_free
    finally:
        if is_free:
            core.definitions_lock.release()
