"""Where a message stands on its queue now: its state, what has locked it, what hinders a get."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.engine.core import Core
from mayfly.engine.engine import Engine
from mayfly.engine.queues import LocalQueue
from mayfly.engine.requester import Requester
from mayfly.engine.session import Session
from mayfly.engine.settlement import Deliveries
from mayfly.engine.transit import ChannelBatch
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.life import State
from mayfly.lifetime.times import spelled_moment
from mayfly.store.units import StoredMessage

#: Why the queue manager releases nothing, where its status does not say so itself.
_OF_STATUS = {"running": "", "spark": "DDELAY(SPARK) leaves that to a pipeline"}


class Standing(NamedTuple):
    """The state of a message on its queue, what has locked it, and why it cannot be got.

    ``holder`` and ``hindrance`` are texts, empty when nothing has locked it or hinders a get.
    """

    state: State
    holder: str = ""
    hindrance: str = ""


def standing_of(
    engine: Engine,
    queue_owner: Core,
    queue: LocalQueue,
    row: StoredMessage,
    processor_status: str,
) -> Standing:
    """Return where a stored message stands: locked, delayed or available, and why.

    ``queue_owner`` is the engine whose store has the queue, ``engine`` the queue manager that asks.
    ``processor_status`` is the status of its delay processor. Needs the engine lock.
    """
    owner = queue_owner.hidden.get(row.k)
    until_ms = queue_owner.redeliveries.until_ms(row.k)
    if until_ms is not None:
        times = "once" if row.backout_count == 1 else f"{row.backout_count:,} times"
        text = f"backed out {times}, it is delayed until {spelled_moment(until_ms)} (BODELAY)"
        return Standing(State.DELAYED, hindrance=text)
    if owner is not None and owner is not queue_owner.staging.releasing:
        return Standing(State.LOCKED, holder_of(engine, owner))
    if queue.is_staging:
        if owner is not None:
            return Standing(State.DELAYED, holder="a pipeline that is about to release it")
        return Standing(State.DELAYED, hindrance=_OF_STATUS.get(processor_status, processor_status))
    return Standing(State.AVAILABLE, hindrance=_hindrance(queue_owner, queue))


def holder_of(engine: Engine, owner: object) -> str:
    """Return text that names the owner of a lock, for example ``a channel that is sending it``.

    The text for an unknown owner is ``a change that is on its way to the disk``.
    """
    if isinstance(owner, UnitOfWork):
        for session in list(engine.sessions):
            if owner in session.unit_of_work.parts():
                return unit_of(session)
    if isinstance(owner, UnitOfWork | Deliveries):
        return "an open unit of work"
    if isinstance(owner, Requester):
        return "a browse that has locked it"
    if isinstance(owner, ChannelBatch):
        return "a channel that is sending it"
    return "a change that is on its way to the disk"


def unit_of(session: Session) -> str:
    """Return text such as ``the open unit of work of alice (app)`` for a session."""
    context = session.context
    user, program = context.user_identifier.strip(), context.put_appl_name.strip()
    who = f"{user} ({program})" if user else program
    return f"the open unit of work of {who}"


def _hindrance(queue_owner: Core, queue: LocalQueue) -> str:
    """Return why gets from a queue fail or wait, such as ``GET(DISABLED)``; empty if neither."""
    if queue_owner.registry.resolve(queue.name).get_inhibited:
        return "GET(DISABLED)"
    if queue.exclusive_holder is not None:
        return "a program has it open for exclusive input"
    return ""
