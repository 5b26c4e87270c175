"""Facts that a test waits for, however slow the machine is: that something is so, or that a thread
waits for another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CodeType

from mayfly.runtime.virtual_clock import frames_of_threads

#: A fact that has not come about after so long never will.
PATIENCE_SECONDS = 60
#: Time between two looks: a share of the time that one has waited, within these bounds. A look
#: takes the processor from what is waited for.
_PAUSE_SHARE, _PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 0.05, 0.001, 0.05
#: Where the threading module waits for a lock of its own.
_WAITS = frozenset({"wait", "join", "_wait_for_tstate_lock"})


def wait_until(is_so: Callable[[], object], patience_seconds: int = PATIENCE_SECONDS) -> None:
    """Return as soon as something is so; fail after some time."""
    pause, waited_seconds = threading.Event(), 0.0
    while not is_so():
        if waited_seconds >= patience_seconds:
            raise AssertionError("it has not come about")
        share_seconds = max(waited_seconds * _PAUSE_SHARE, _PAUSE_SECONDS_MIN)
        pause_seconds = min(share_seconds, _PAUSE_SECONDS_MAX)
        pause.wait(pause_seconds)
        waited_seconds += pause_seconds


def wait_until_blocked(thread: threading.Thread) -> None:
    """Return when a thread is in the midst of a wait for an event, a condition or a thread.

    The thread has then done everything before that wait. One that has only been started may not
    have begun at all.
    """

    def is_blocked() -> bool:
        assert thread.is_alive(), "it has come back"
        code = code_of(thread)
        return (
            code is not None and code.co_filename == threading.__file__ and code.co_name in _WAITS
        )

    wait_until(is_blocked)


def code_of(thread: threading.Thread) -> CodeType | None:
    """Return the code that a thread is in, None before it has begun and after its end."""
    frame = frames_of_threads().get(thread.ident or 0)
    return None if frame is None else frame.f_code
