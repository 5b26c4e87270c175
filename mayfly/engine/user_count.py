"""Counts the messages on a queue that a user has put."""

from __future__ import annotations

from mayfly.engine.core import Core
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue
from mayfly.mqi.descriptor import unpack_descriptor


def count_of_user(core: Core, queue: LocalQueue, user: str) -> int:
    """Return the number of messages on a queue, visible or not, with this MQMD.UserIdentifier.

    Raises MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
    """
    with core.engine_lock:
        core.check_running()
        return sum(
            unpack_descriptor(packed).user_identifier == user
            for persistence in (VOLATILE, PERSISTENT)
            for _key, packed in core.messages(persistence).described(queue.low, queue.high, -1)
        )
