"""Messages taken in one turn of the lock, each to be settled alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from mayfly.engine.core import Core
from mayfly.engine.finding.alive import DISCARD_BATCH
from mayfly.engine.finding.search import ANY, Page, in_order
from mayfly.engine.get import GetRequest, Getter, seen
from mayfly.engine.holding import messages
from mayfly.engine.holding.messages import Hold
from mayfly.engine.queues import Found
from mayfly.engine.row_taking import discard_met, take_row
from mayfly.engine.unit_of_work import UncommittedGet, UnitOfWork
from mayfly.lifetime.moments import is_expired
from mayfly.mqi.constants import MQRO_COD
from mayfly.verbs.messages import GetResult


class Room(NamedTuple):
    """How much a program takes at once: messages, and bytes of bodies until it has enough."""

    messages: int
    body_bytes: int


#: A message that is held: by the unit of work that has got it, or by a holder of many as it is.
Got: TypeAlias = UnitOfWork | UncommittedGet


class Taken(NamedTuple):
    """A message that was taken; one that stays on its queue is not held."""

    got: Got
    result: GetResult


def each_taken(
    core: Core,
    request: GetRequest,
    getter_into: Callable[[UnitOfWork], Getter],
    room: Room,
    holder: Hold,
) -> Iterator[Taken]:
    """Yield messages that are there, as far as there is room; read it under the lock.

    They may be fewer than there are: a long search is left to a get that waits. ``getter_into``
    returns the getter for the request that takes into a unit of work. Those with nothing but
    themselves to settle are held by ``holder``. Raises as ``get.get``.
    """
    assert core.engine_lock.is_held()
    held = UnitOfWork(core, holder.ending)
    getter = getter_into(held)
    getter.is_over = True
    getter.requester.check()
    if getter.takes_any:
        yield from _by_one_search(core, request, getter, room, holder)
        return
    left_bytes, count = room.body_bytes, 0
    while count < room.messages and left_bytes > 0:
        outcome = getter.take(in_parts=True)
        if outcome is None:
            return
        result = outcome[0]
        yield Taken(held, result)
        if result.stays:
            return
        count += 1
        left_bytes -= len(result.message.body)
        held = UnitOfWork(core, holder.ending)
        getter = getter_into(held)
        getter.is_over = True


def _by_one_search(
    core: Core, request: GetRequest, getter: Getter, room: Room, holder: Hold
) -> Iterator[Taken]:
    queue, now_ms, requester = getter.ready(), core.now_ms(), getter.requester
    expired: list[Found] = []
    left_bytes, left = room.body_bytes, room.messages
    page = Page(left, left_bytes)
    rows = in_order(core, queue, ANY, queue.low, requester, page=page)
    try:
        while left > 0 and left_bytes > 0 and len(expired) < DISCARD_BATCH:
            found = next(rows, None)
            if found is None:
                return
            row, persistence = found
            if is_expired(row.expire_at_ms, now_ms):
                expired.append((queue, row, persistence))
                continue
            result = seen(core, request, queue, row, now_ms)
            got = UncommittedGet(queue, row, persistence)
            if result.stays:
                yield Taken(got, result)
                return
            # All before it was looked at, and is hidden at the end of the turn.
            messages.pass_over(queue, persistence, row.k)
            requester.forget_lock(row.k)
            left -= 1
            left_bytes -= len(row.body)
            if queue.home is not core or result.message.descriptor.report & MQRO_COD:
                held = UnitOfWork(core, holder.ending)
                take_row(core, got, held, now_ms, holder.ending)
                yield Taken(held, result)
            else:
                messages.hold_got(got, holder)
                if core.on_departure:
                    # Given back, it comes back unmarked.
                    core.note_departure((row.k,))
                yield Taken(got, result)
    finally:
        if expired and (left < room.messages or core.settings.discard_on_empty):
            discard_met(core, expired, now_ms, requester)
