"""The content of a unit of work, for those who list messages or look for one."""

from __future__ import annotations

from collections.abc import Iterator

from mayfly.engine.queues import Found
from mayfly.engine.unit_of_work import UncommittedPut, UnitOfWork


def parts_of(unit_of_work: UnitOfWork) -> list[UnitOfWork]:
    """Return a unit of work, and what of it concerns queues of others in a queue-sharing group."""
    return [unit_of_work, *unit_of_work._parts.values()]


def open_puts(unit_of_work: UnitOfWork) -> Iterator[tuple[UncommittedPut, bool]]:
    """Yield what it has put and not committed, and whether it has got that again (P9)."""
    assert unit_of_work._core.engine_lock.is_held()
    for part in parts_of(unit_of_work):
        yield from ((UncommittedPut(*put), False) for put in part._puts.values())
        yield from ((pending, True) for pending in part._through)


def taken_by(unit_of_work: UnitOfWork) -> list[Found]:
    """Return what it has got of what others had committed."""
    return [taken for part in parts_of(unit_of_work) for taken in part._takes]
