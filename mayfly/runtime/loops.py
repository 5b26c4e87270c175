"""Loops: threads that take turns until they are told to end, and survive what a turn raises.

Nobody misses a thread that has ended by an error. Its work is not done any more, for anybody:
answers, heartbeats, due work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from mayfly.runtime.runtime import Runtime

_LOG = logging.getLogger("mayfly.loops")
#: Turns that fail one after the other are this far apart at least, then twice as far each time.
_FIRST_PAUSE_SECONDS = 0.001
_LONGEST_PAUSE_SECONDS = 1.0


class Loop:
    """A thread that calls ``turn`` until that returns False.

    A turn that raises is logged, and the next one follows. The pause between turns that fail one
    after the other grows to a second, and an error that stays the same is logged once. Its runtime
    knows a loop from its start to its end: :meth:`Runtime.gone` names the loops that are not there
    though nobody has told them to end.
    """

    def __init__(
        self, runtime: Runtime, turn: Callable[[], bool], name: str, *, goes_on: bool = True
    ) -> None:
        """Take the name of the thread, which is not started yet.

        ``goes_on`` is False for a turn that cannot be taken again once it has raised: the loop is
        gone then.
        """
        self.name = name
        self._runtime, self._turn, self._goes_on = runtime, turn, goes_on
        self._worker = runtime.thread(self._run, name)
        #: Of turns that have failed one after the other.
        self._failure_count = 0
        self._said = ""
        self._has_begun = self._is_told = False

    @property
    def ident(self) -> int | None:
        """The number of its thread; None before it is started."""
        return self._worker.ident

    def start(self) -> None:
        """Begin; raises RuntimeError when the machine has no thread left."""
        self._runtime.note_begun(self)
        try:
            self._worker.start()
        except BaseException:
            self._runtime.note_ended(self)
            raise

    def join(self, seconds: float | None = None) -> None:
        """Wait until it has ended, or so many seconds: its owner has told it to end."""
        self._is_told = True
        self._worker.join(seconds)
        self._runtime.note_ended(self)

    def is_alive(self) -> bool:
        """Return True from its start to its end."""
        return self._worker.is_alive()

    @property
    def is_gone(self) -> bool:
        """Whether its thread has ended, though nobody has told it to."""
        return self._has_begun and not self._worker.is_alive()

    def _run(self) -> None:
        self._has_begun = True
        while True:
            try:
                if not self._turn():
                    break
            except BaseException as error:  # noqa: BLE001 - an item must not end it for the others
                self._note(error)
                if not self._goes_on:
                    return
                if self._is_told:
                    break
                self._pause()
            else:
                self._failure_count, self._said = 0, ""
        self._runtime.note_ended(self)

    def _note(self, error: BaseException) -> None:
        said = repr(error)
        if said != self._said:
            self._said = said
            what = "goes on after" if self._goes_on else "has ended with"
            _LOG.error("%s %s an error: %s", self.name, what, said, exc_info=error)

    def _pause(self) -> None:
        if self._failure_count:
            pause = _FIRST_PAUSE_SECONDS * 2 ** min(self._failure_count - 1, 20)
            self._runtime.event().wait(min(pause, _LONGEST_PAUSE_SECONDS))
        self._failure_count += 1
