"""When the end of an object that a program has dropped may run: not in the midst of the engine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from mayfly.engine.core import Core

_OURS, _FACADE = "mayfly.", "mayfly.pymqi."


def end_dropped(core: Core, end: Callable[[], None]) -> None:
    """Run what ends a dropped object: at once, or at the next verb when this is the engine.

    Objects in a cycle are collected wherever memory is asked for, also inside a call of the queue
    manager. Its thread may hold locks then, for which the end would wait for ever.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.startswith(_OURS) and not module.startswith(_FACADE):
            core.dropped.append(end)
            return
        frame = frame.f_back
    end()
