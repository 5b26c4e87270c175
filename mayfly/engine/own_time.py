"""The time of a queue manager beside the clock of its machine: how far apart, and how they meet.

A queue manager keeps its own time where the wall clock steps too far forward, or steps back; a
restart goes on from the time in the store. An operator who trusts the wall clock again accepts it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from mayfly.engine.core import Core
from mayfly.engine.expiry import ExpiryScan
from mayfly.engine.queues import PERSISTENT, VOLATILE
from mayfly.lifetime.times import SLEW_MS
from mayfly.lifetime.window import LONGEST_LIFE_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.runtime.clocks import SystemClock
from mayfly.runtime.virtual_clock import VirtualClock
from mayfly.store.keys import STAGING_NUMBER, queue_range, staging_key
from mayfly.store.messages import move_puts_back
from mayfly.store.units import Unit
from mayfly.verbs.facts import OwnTime

_LOG = logging.getLogger("mayfly.clock")


def warn_if_ahead(core: Core) -> None:
    """Warn that a queue manager that is being opened goes on from a time that is still to come."""
    if core.ahead_ms > SLEW_MS:
        _LOG.warning(
            "%s is %d ms ahead of the wall clock, by the time in its folder; "
            "'mayfly clock accept' brings it back",
            core.name,
            core.ahead_ms,
        )


def own_time(core: Core) -> OwnTime:
    """Return own time, wall clock and what lies between them; reads each message once."""
    # Another clock than the machine's is the wall clock itself, and takes no steps.
    system = core.clock if isinstance(core.clock, SystemClock) else None
    with core.engine_lock:
        core.check_running()
        own_ms = core.now_ms()
        stepped_ms = 0 if system is None else system.difference_ms()
        wall_ms = own_ms + stepped_ms - core.ahead_ms
        early_ms, late_ms = min(own_ms, wall_ms), max(own_ms, wall_ms)
        _low, staging_end = queue_range(STAGING_NUMBER)
        between, behind = staging_key(early_ms + 1, 0), staging_key(late_ms + 1, 0)
        sides = [core.messages(persistence) for persistence in (VOLATILE, PERSISTENT)]
        return OwnTime(
            own_ms,
            wall_ms,
            0 if system is None else system.step_count,
            sum(m.count_deadlines(early_ms, late_ms) for m in sides),
            sum(m.count(between, behind) for m in sides),
            sum(m.count_deadlines(0, own_ms) for m in sides),
            sum(m.count_put_after(wall_ms) for m in sides),
            sum(m.count_deadlines(late_ms, None) + m.count(behind, staging_end) for m in sides),
        )


def advance_clock(core: Core, ms: int) -> OwnTime:
    """Move a clock on that stands still by itself, with all its queue managers.

    Work that falls due on the way is done, at its moment. Returns the times afterwards. Raises
    MQRC_ENVIRONMENT_ERROR where time goes by itself, MQRC_OPTIONS_ERROR for a step back.
    """
    core.check_running()
    if not isinstance(core.clock, VirtualClock):
        text = f"{core.name} has the time of its machine: only a virtual clock is moved"
        raise mq_error(rc.MQRC_ENVIRONMENT_ERROR, text)
    if not 0 <= ms <= LONGEST_LIFE_MS:
        text = f"a step of {ms} ms: it is 0 to {LONGEST_LIFE_MS}"
        raise mq_error(rc.MQRC_OPTIONS_ERROR, text)
    core.clock.advance(ms)
    return own_time(core)


def follow_wall(core: Core) -> OwnTime:
    """Follow the wall clock forward to where it is, however far; return the times from before.

    Releases that fall due on the way are done at once; messages that expire are discarded when they
    are met. Raises MQRC_ENVIRONMENT_ERROR where the queue manager is ahead: time does not go back
    while programs use it, see :func:`return_to_wall_clock`. MQRC_FUNCTION_NOT_SUPPORTED in a
    queue-sharing group.
    """
    found = _checked(core)
    if found.difference_ms < 0:
        raise mq_error(
            rc.MQRC_ENVIRONMENT_ERROR,
            f"{core.name} is ahead of the clock of its machine by {-found.difference_ms} ms; "
            "time goes back only while nothing else uses the queue manager",
        )
    if found.difference_ms and isinstance(core.clock, SystemClock):
        with core.engine_lock:
            core.clock.accept_wall()
            core.ahead_ms = 0
        core.wake()
    return found


def return_to_wall_clock(core: Core, close: Callable[[], None]) -> OwnTime:
    """Go back to the wall clock and ``close`` the queue manager; return the times from before.

    No message comes back to life: messages expired by the old time are discarded first, and their
    reports sent. The put time of some messages is one that the wall clock has not reached. It is
    moved back together with the deadline, so that such a message keeps the life that its putter
    gave it. Other deadlines and delivery times stay, and come later by the difference. Raises
    MQRC_FUNCTION_NOT_SUPPORTED in a queue-sharing group, MQRC_STORAGE_MEDIUM_FULL.
    """
    found = _checked(core)
    core.do_due()
    ExpiryScan(core).discard_all()
    unit = Unit()
    unit.statements.append(move_puts_back(found.wall_ms, -found.difference_ms))
    unit.notes_time = True
    with core.engine_lock:
        core.ahead_ms += found.difference_ms
    # The time that this transaction notes is the wall clock's.
    core.store.group.commit(unit)
    close()
    return found


def _checked(core: Core) -> OwnTime:
    if core.committer.multi_store is not None:
        raise mq_error(
            rc.MQRC_FUNCTION_NOT_SUPPORTED,
            f"{core.name} has its time from its queue-sharing group",
        )
    return own_time(core)
