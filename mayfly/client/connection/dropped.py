"""Objects that a program has dropped: their end runs at once, or is left to the next verb."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

#: Modules in the midst of which nothing is closed, but for those of facades.
_OURS, _FACADES = "mayfly.", ("mayfly.pymqi.", "mayfly.jms.")


def end_dropped(end: Callable[[], None], leave: Callable[[Callable[[], None]], object]) -> None:
    """Run an end, or leave it where a verb is under way, whose locks it might need."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        is_own_call = frame.f_code.co_name == "end_dropped"
        if module.startswith(_OURS) and not module.startswith(_FACADES) and not is_own_call:
            leave(end)
            return
        frame = frame.f_back
    end()
