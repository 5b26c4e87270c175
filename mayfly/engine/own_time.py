"""Own time: the time that a queue manager keeps, and its difference to the wall clock.

The time of a queue manager does not follow the wall clock back, or too far forward. A restart
continues from the time in the store. An operator who trusts the wall clock again accepts it.
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
    """Log a warning if the time in a queue manager's store is ahead of the wall clock.

    A small difference, up to SLEW_MS, is not logged.
    """
    if core.ahead_ms > SLEW_MS:
        _LOG.warning(
            "%s is %d ms ahead of the wall clock, by the time in its folder; "
            "'mayfly clock accept' brings it back",
            core.name,
            core.ahead_ms,
        )


def own_time(core: Core) -> OwnTime:
    """Return the queue manager's time, the wall clock, and counts of messages.

    The counts are of messages that would expire or fall due if the queue manager took over the wall
    clock, and of those that wait anyway. Raises MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
    """
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
    """Advance a virtual clock by ``ms``, do the work that falls due, and return the times.

    All queue managers of the clock are advanced. Raises MQRC_ENVIRONMENT_ERROR for another clock,
    MQRC_OPTIONS_ERROR for ``ms`` below 0 or above LONGEST_LIFE_MS.
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
    """Set the queue manager's time forward to the wall clock; return the times from before.

    Delayed messages that fall due are released at once; expired ones are discarded as usual. Raises
    MQRC_ENVIRONMENT_ERROR if the queue manager is ahead, since time cannot go back under programs
    (see :func:`return_to_wall_clock`); MQRC_FUNCTION_NOT_SUPPORTED in a queue-sharing group.
    Without a difference it changes nothing.
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
    """Set the queue manager's time back to the wall clock and call ``close``; return the old times.

    ``close`` closes the queue manager, so that no program sees time go back. Expired messages are
    discarded first, so none becomes valid again. A message with a put time in the future gets put
    time and deadline moved back, and keeps its time to live. Other deadlines and delivery times
    stay, and so come later. Raises MQRC_FUNCTION_NOT_SUPPORTED in a queue-sharing group,
    MQRC_STORAGE_MEDIUM_FULL.
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
    """Return the times of :func:`own_time`.

    Raises MQRC_FUNCTION_NOT_SUPPORTED in a queue-sharing group.
    """
    if core.committer.multi_store is not None:
        raise mq_error(
            rc.MQRC_FUNCTION_NOT_SUPPORTED,
            f"{core.name} gets its time from its queue-sharing group",
        )
    return own_time(core)
