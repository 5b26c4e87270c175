"""A function that relies on the lock of the engine says so: its caller is stopped without it."""

from __future__ import annotations

from mayfly.engine.core import Core


def assert_locked(core: Core) -> None:
    """Stop at the call that needs the lock and has not taken it."""
    assert core.latch._is_owned(), f"the lock of {core.name} is not held"  # type: ignore[attr-defined]  # the stub of RLock lacks it
