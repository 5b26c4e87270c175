"""The lock of the engine and that of definitions, for those who rely on one or have to wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mayfly.engine.core import Core


def assert_locked(core: Core) -> None:
    """Stop at the call that needs the lock and has not taken it."""
    assert core.latch._is_owned(), f"the lock of {core.name} is not held"  # type: ignore[attr-defined]  # the stub of RLock lacks it


@contextmanager
def definitions_if_free(core: Core) -> Iterator[bool]:
    """Let nobody else change definitions; gives False, and waits for nobody, when somebody does."""
    is_free = core.administration.acquire(blocking=False)
    try:
        yield is_free
    finally:
        if is_free:
            core.administration.release()
