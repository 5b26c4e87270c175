"""The lock of definitions, for one who does something else while somebody changes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mayfly.engine.core import Core


@contextmanager
def definitions_if_free(core: Core) -> Iterator[bool]:
    """Let nobody else change definitions; gives False, and waits for nobody, when somebody does."""
    is_free = core.definitions_lock.acquire(blocking=False)
    try:
        yield is_free
    finally:
        if is_free:
            core.definitions_lock.release()
