"""Gets that a kill of the process has interrupted: each counts as a backout (G8)."""

from __future__ import annotations

import logging

from mayfly.engine.core import Core
from mayfly.engine.queues import LocalQueue
from mayfly.mqi.constants import MQQA_BACKOUT_HARDENED, MQQSGD_SHARED
from mayfly.mqi.errors import ResourceError
from mayfly.store.keys import queue_number_of
from mayfly.store.units import Unit

_LOG = logging.getLogger("mayfly")
#: Once at most: behind the first time the count is another one.
_COUNT = "UPDATE message SET backout_count = backout_count + 1 WHERE k = ? AND backout_count = ?"


def count_interrupted(core: Core) -> None:
    """Raise the backout counts of messages that units of work held when their process was killed.

    On z/OS those of private queues with NOHARDENBO stay as they were; elsewhere the attribute says
    nothing (HardenGetBackout). Call it before anything is got.
    """
    held = core.store.held_gets
    unit = Unit()
    for get in held.left():
        queue = core.registry.by_number(queue_number_of(get.key))
        if queue is not None and _is_hardened(core, queue):
            unit.statements.append((_COUNT, get))
    try:
        core.store.commit([unit])
    except ResourceError as error:
        # On a full disk they stay as they are, like those of a backout.
        _LOG.error("backout counts on %s stay as they were: %s", core.name, error)
    held.forget_left()


def _is_hardened(core: Core, queue: LocalQueue) -> bool:
    definition = queue.definition
    return (
        core.platform != "zos"
        or definition.qsgdisp == MQQSGD_SHARED
        or definition.hardenbo == MQQA_BACKOUT_HARDENED
    )
