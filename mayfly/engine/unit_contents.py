"""The content of a unit of work, for those who list messages, look for one or add many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mayfly.engine import holding
from mayfly.engine.holding import Hold
from mayfly.engine.queues import Found
from mayfly.engine.unit_of_work import UncommittedGet, UncommittedPut, UnitOfWork


def parts_of(unit_of_work: UnitOfWork) -> list[UnitOfWork]:
    """Return a unit of work, and what of it concerns queues of others in a queue-sharing group."""
    return [unit_of_work, *unit_of_work._parts.values()]


def open_puts(unit_of_work: UnitOfWork) -> Iterator[tuple[UncommittedPut, bool]]:
    """Yield what it has put and not committed, and whether it has got that again (P9)."""
    assert unit_of_work._core.engine_lock.is_held()
    for part in parts_of(unit_of_work):
        yield from ((UncommittedPut(*put), False) for put in part._puts.values())
        yield from ((pending, True) for pending in part._through)


def has_taken(unit_of_work: UnitOfWork, key: int) -> bool:
    """Return True if a delayed message was got, and not rescheduled, in a unit of work."""
    return any(row.k == key for _queue, row, _side in unit_of_work._takes)


def taken_by(unit_of_work: UnitOfWork) -> list[Found]:
    """Return what it has got of what others had committed."""
    return [taken for part in parts_of(unit_of_work) for taken in part._takes]


def take_all(unit_of_work: UnitOfWork, found: Sequence[Found], now_ms: int) -> None:
    """Add gets of committed messages of one queue, as ``UnitOfWork.take`` does with one."""
    if unit_of_work.began_ms is None:
        unit_of_work.began_ms = now_ms
    home = found[0][0].home
    if home is not unit_of_work._core:
        take_all(unit_of_work.at(home), found, now_ms)
        return
    core = unit_of_work._core
    holding.hold_gets(found, unit_of_work)
    if core.on_departure:
        # Backed out, they come back unmarked.
        core.note_departure([row.k for _queue, row, _side in found])
    unit_of_work._takes += found
    unit_of_work._operation_count += len(found)


def take_over(unit_of_work: UnitOfWork, taken: UncommittedGet, by: Hold) -> None:
    """Let one take over a message that ``by`` holds and that owes no report."""
    assert unit_of_work._core.engine_lock.is_held()
    if unit_of_work.began_ms is None:
        unit_of_work.began_ms = unit_of_work._core.now_ms()
    holding.hand_over(taken, by, unit_of_work)
    unit_of_work._takes.append(taken)
    unit_of_work._operation_count += 1


def absorb(unit_of_work: UnitOfWork, held: UnitOfWork) -> None:
    """Let one take over what another has got, with the reports it owes."""
    assert unit_of_work._core.engine_lock.is_held()
    for taken in held._takes:
        holding.hand_over(taken, held, unit_of_work)
    unit_of_work._takes += held._takes
    if unit_of_work.began_ms is None:
        unit_of_work.began_ms = held.began_ms
    for put in held._puts.values():
        unit_of_work._add(put)
    unit_of_work._operation_count += held._operation_count
    for home, part in held._parts.items():
        absorb(unit_of_work.at(home), part)
    held._clear()
