"""Warnings at the put of a delayed message that may never reach its queue (D33).

A message that is not persistent is lost when the queue manager restarts before it is due. One that
finds its queue full when it is due goes to the dead-letter queue.
"""

from __future__ import annotations

import logging

from mayfly.engine.core import Core
from mayfly.engine.descriptors import Prepared
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.lifetime.time_limits import is_unsafe_delay
from mayfly.lifetime.window import Window
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

_LOG = logging.getLogger("mayfly.delay")


def check_delay_is_safe(
    core: Core, path: ResolvedQueue, prepared: Prepared, window: Window
) -> None:
    """Warn of a delayed put that may be lost or refused later; the engine lock is held.

    The log has one line a minute for each queue and program, with the number of messages. A queue
    manager in memory alone warns of a full queue only. Raises MQRC_OPTIONS_ERROR for a delay above
    one minute of a message that is not persistent where ``delay.volatile_check`` is ``refuse``.
    """
    assert core.engine_lock.is_held()
    delay_ms, check = window.deliver_at_ms - window.put_ms, core.settings.volatile_delay_check
    if (
        check != "off"
        and core.store.folder is not None
        and is_unsafe_delay(delay_ms, persistent=prepared.persistent)
    ):
        text = f"a restart would lose a message that is delayed for {path.name}: not persistent"
        if check == "refuse":
            raise mq_error(rc.MQRC_OPTIONS_ERROR, f"delay_ms {delay_ms}: {text}")
        program = prepared.descriptor.put_appl_name
        _warn(core, ("volatile", path.name, program), f"{text}, put by {program or 'a program'}")
    queue = path.queue
    if path.remote is None and queue.owner is core and queue.staged_for >= path.max_depth:
        text = f"more messages are delayed for {path.name} than MAXDEPTH({path.max_depth})"
        _warn(core, ("crowded", path.name), text)


def _warn(core: Core, kind: tuple[str, ...], text: str) -> None:
    """Log a warning; ``kind`` is any value that equal warnings share."""
    core.alike_warnings.note(_LOG, kind, core.now_ms(), text)
