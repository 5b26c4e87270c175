"""Gets of tasks that wait under a virtual clock of this process, checked together."""

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
_CHECK_SECONDS = 0.002
#: The future of ``asyncio.gather``, which is done when its tasks are.
_GATHERING: type = getattr(asyncio.tasks, "_GatheringFuture", asyncio.Task)
#: Tasks that wait for a get under such a clock, in all loops.
_WAITING: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()


class VirtualWaits:
    """The gets of one client that wait under a virtual clock; only its event loop uses this.

    While gets wait, the clock advances (``autojump``). Without autojump they fail as soon as it is
    certain that nothing can end them. A check costs the same for one get as for thousands, until
    all tasks of the loop wait.
    """

    def __init__(self, time: VirtualTime, thread: ThreadPoolExecutor) -> None:
        """Take the clock, and the client's thread, which asks the gets for their state."""
        self._time, self._thread = time, thread
        self._loop = asyncio.get_running_loop()
        self._gets: dict[asyncio.Future[Any], PendingRequest] = {}
        self._wait: ClockWait | None = None

    def add(self, future: asyncio.Future[Any], get: PendingRequest) -> None:
        """Watch a get that the current task awaits.

        If the wait can never end, the get is cancelled and ``future`` gets a RuntimeError.
        """
        task = asyncio.current_task()
        assert task is not None
        if future.done():
            return
        _WAITING.add(task)
        self._gets[future] = get
        future.add_done_callback(partial(self._end, task))
        if self._wait is None:
            self._wait = self._time.clock.begin_wait(self._is_any_done, of_task=True)
            self._check_later()
        else:
            self._time.clock.note_change()

    def _end(self, task: asyncio.Task[Any], future: asyncio.Future[Any]) -> None:
        """Stop watching a get that is done."""
        _WAITING.discard(task)
        del self._gets[future]
        if self._wait is not None:
            self._time.clock.note_change()

    def _is_any_done(self) -> bool:
        return any(future.done() for future in tuple(self._gets))

    def _check_later(self) -> None:
        self._loop.call_later(_CHECK_SECONDS, self._check)

    def _check(self) -> None:
        """If every task waits, advance the clock or fail the gets; then schedule the next check."""
        clock, wait = self._time.clock, self._wait
        assert wait is not None
        if not self._gets:
            self._stop(wait)
        elif self._is_any_done() or not all_tasks_wait(self._loop):
            self._check_later()
        elif wait.turn != clock.turn:
            self._run_on_thread(
                partial(_all_pending, tuple(self._gets.values())),
                partial(self._on_pending, clock.turn),
            )
        else:
            try:
                if clock.autojump:
                    clock.jump()
                else:
                    self._time.check()
            except RuntimeError as error:
                self._run_on_thread(
                    partial(_cancel_all, dict(self._gets)), partial(self._on_cancelled, error)
                )
            else:
                self._check_later()

    def _run_on_thread(
        self, question: Callable[[], _T], answered: Callable[[asyncio.Future[_T]], None]
    ) -> None:
        """Run a function on the client's thread, and pass its future to ``answered``."""
        try:
            answer = self._loop.run_in_executor(self._thread, question)
        except RuntimeError:
            # The client is closed, which ends its gets.
            self._stop(self._wait)
        else:
            answer.add_done_callback(answered)

    def _on_pending(self, turn: int, answer: asyncio.Future[bool]) -> None:
        """Check again at once if all gets were pending at this turn of the clock, else later."""
        if self._wait is not None and not answer.cancelled():
            if answer.result():
                self._wait.turn = turn
                self._check()
            else:
                # One is decided, and its callback is on the way.
                self._check_later()

    def _on_cancelled(
        self, error: RuntimeError, answer: asyncio.Future[list[asyncio.Future[Any]]]
    ) -> None:
        """Fail the futures of cancelled gets with the RuntimeError of the clock."""
        if answer.cancelled():
            return
        for future in answer.result():
            if not future.done():
                future.set_exception(RuntimeError(*error.args))
        self._check_later()

    def _stop(self, wait: ClockWait | None) -> None:
        if wait is not None:
            self._time.clock.end_wait(wait)
        self._wait = None


def _all_pending(gets: tuple[PendingRequest, ...]) -> bool:
    """Return True if no get is decided."""
    return all(get.is_pending() for get in gets)


def _cancel_all(gets: dict[asyncio.Future[Any], PendingRequest]) -> list[asyncio.Future[Any]]:
    """Cancel gets; return the futures of those that were not decided before."""
    return [future for future, get in gets.items() if get.cancel()]


def all_tasks_wait(loop: asyncio.AbstractEventLoop) -> bool:
    """Return True if no task and no scheduled call of a loop can run.

    A task waits if it awaits a get under a virtual clock, or other tasks. Returns False for a loop
    that does not expose its scheduled calls.
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
    """Return True for a scheduled check of this package."""
    function = getattr(call, "_callback", None)
    return str(getattr(function, "__module__", "")).startswith("mayfly.client.aio.")
