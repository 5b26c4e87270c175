"""Gets of tasks under a virtual clock of this process: one look at all of them, now and then."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from mayfly.client.connection.virtual_time import PendingRequest, VirtualTime
from mayfly.runtime.virtual_clock import ClockWait

_T = TypeVar("_T")
#: Gets that wait are looked at this often, in the machine's time.
_LOOK_SECONDS = 0.002
#: The future of ``asyncio.gather``, which is done when its tasks are.
_GATHERING: type = getattr(asyncio.tasks, "_GatheringFuture", asyncio.Task)
#: Tasks that wait for a get under such a clock, in all loops.
_WAITING: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()


class VirtualWaits:
    """The gets of one client that wait under a virtual clock; used in the client's loop alone.

    While any waits, time passes (``autojump``) or the gets are refused as soon as it is certain
    that nobody can end them. A look costs the same for one get as for thousands until all tasks of
    the loop wait.
    """

    def __init__(self, time: VirtualTime, thread: ThreadPoolExecutor) -> None:
        """Take the clock and the client's thread, on which gets are asked whether they stand."""
        self._time, self._thread = time, thread
        self._loop = asyncio.get_running_loop()
        self._gets: dict[asyncio.Future[Any], PendingRequest] = {}
        self._wait: ClockWait | None = None

    def add(self, future: asyncio.Future[Any], get: PendingRequest) -> None:
        """Look after a get that the current task awaits.

        ``future`` gets RuntimeError, with the get cancelled, where the wait would never end.
        """
        task = asyncio.current_task()
        assert task is not None
        if future.done():
            return
        _WAITING.add(task)
        self._gets[future] = get
        future.add_done_callback(partial(self._end, task))
        if self._wait is None:
            self._wait = self._time.clock.begin_wait(self._is_one_over, of_task=True)
            self._look_later()
        else:
            self._time.clock.note_change()

    def _end(self, task: asyncio.Task[Any], future: asyncio.Future[Any]) -> None:
        _WAITING.discard(task)
        del self._gets[future]
        if self._wait is not None:
            self._time.clock.note_change()

    def _is_one_over(self) -> bool:
        return any(future.done() for future in tuple(self._gets))

    def _look_later(self) -> None:
        self._loop.call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Let time pass, or refuse the gets, if every task waits; then look again later."""
        clock, wait = self._time.clock, self._wait
        assert wait is not None
        if not self._gets:
            self._stop(wait)
        elif self._is_one_over() or not all_tasks_wait(self._loop):
            self._look_later()
        elif wait.turn != clock.turn:
            self._ask(partial(_stand, tuple(self._gets.values())), partial(self._stood, clock.turn))
        else:
            try:
                if clock.autojump:
                    clock.jump()
                else:
                    self._time.check()
            except RuntimeError as error:
                self._ask(partial(_cancelled, dict(self._gets)), partial(self._refused, error))
            else:
                self._look_later()

    def _ask(
        self, question: Callable[[], _T], answered: Callable[[asyncio.Future[_T]], None]
    ) -> None:
        """Ask the gets on the client's thread, then go on in the loop."""
        try:
            asked = self._loop.run_in_executor(self._thread, question)
        except RuntimeError:
            # The client is closed, which ends its gets.
            self._stop(self._wait)
        else:
            asked.add_done_callback(answered)

    def _stood(self, turn: int, asked: asyncio.Future[bool]) -> None:
        if self._wait is not None and not asked.cancelled():
            if asked.result():
                self._wait.turn = turn
                self._look()
            else:
                # One is decided, and its callback is on the way.
                self._look_later()

    def _refused(
        self, error: RuntimeError, asked: asyncio.Future[list[asyncio.Future[Any]]]
    ) -> None:
        if asked.cancelled():
            return
        for future in asked.result():
            if not future.done():
                future.set_exception(RuntimeError(*error.args))
        self._look_later()

    def _stop(self, wait: ClockWait | None) -> None:
        if wait is not None:
            self._time.clock.end_wait(wait)
        self._wait = None


def _stand(gets: tuple[PendingRequest, ...]) -> bool:
    return all(get.is_pending() for get in gets)


def _cancelled(gets: dict[asyncio.Future[Any], PendingRequest]) -> list[asyncio.Future[Any]]:
    """Cancel gets; return those that were not decided before."""
    return [future for future, get in gets.items() if get.cancel()]


def all_tasks_wait(loop: asyncio.AbstractEventLoop) -> bool:
    """Return True if no task of a loop, and no call that it is to make, can do anything.

    A task waits that awaits a get under a virtual clock, or another task, or several. False where
    the loop does not tell.
    """
    ready, scheduled = (getattr(loop, name, None) for name in ("_ready", "_scheduled"))
    if ready is None or scheduled is None or ready:
        return False
    if any(not (call.cancelled() or _is_ours(call)) for call in scheduled):
        return False
    return all(
        task in _WAITING
        or isinstance(getattr(task, "_fut_waiter", None), (asyncio.Task, _GATHERING))
        for task in asyncio.all_tasks(loop)
    )


def _is_ours(call: asyncio.Handle) -> bool:
    """Return True for a look of clients at what they have open, or at gets that wait."""
    function = getattr(call, "_callback", None)
    return str(getattr(function, "__module__", "")).startswith("mayfly.client.aio.")
