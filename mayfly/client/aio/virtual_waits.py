"""The waits of tasks for gets under a virtual clock of this process, checked together."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable
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
        self._timer: asyncio.TimerHandle | None = None

    async def result(self, future: asyncio.Future[_T], get: PendingRequest) -> _T:
        """Await the outcome of a get in the current task and return it.

        The outcome of ``get`` is set in ``future`` by its callback. Raises RuntimeError if the wait
        can never end; the get is then cancelled.
        """
        task = asyncio.current_task()
        assert task is not None
        _WAITING.add(task)
        self._gets[future] = get
        if self._wait is None:
            self._wait = self._time.clock.begin_wait(self._is_any_done, of_task=True)
            self._check_later()
        else:
            self._time.clock.note_change()
        try:
            return await future
        finally:
            # The clock's wait ends with the last get, as the loop may not run a check any more.
            _WAITING.discard(task)
            del self._gets[future]
            if not self._gets:
                self._stop()
            elif self._wait is not None:
                self._time.clock.note_change()

    def _is_any_done(self) -> bool:
        """Return True if a waiting get has its outcome."""
        return any(future.done() for future in tuple(self._gets))

    def _check_later(self) -> None:
        """Schedule the next check in 2 ms of the machine's time."""
        self._timer = self._loop.call_later(_CHECK_SECONDS, self._check)

    def _check(self) -> None:
        """If every task waits, advance the virtual clock; then schedule the next check.

        The clock jumps to the next moment at which work is due, if its attribute ``autojump`` is
        set. Without ``autojump`` the clock stays, and the gets fail with RuntimeError if nothing
        can end them.
        """
        clock, wait = self._time.clock, self._wait
        if wait is None:
            return
        if self._is_any_done() or not all_tasks_wait(self._loop):
            self._check_later()
        elif wait.turn != clock.turn:
            self._run_on_thread(
                partial(_all_pending, tuple(self._gets.values())),
                partial(self._on_pending, wait, clock.turn),
            )
        else:
            try:
                if clock.autojump:
                    clock.jump()
                else:
                    self._time.check()
            except RuntimeError as error:
                self._run_on_thread(
                    partial(_cancel_all, dict(self._gets)), partial(self._on_cancelled, wait, error)
                )
            else:
                self._check_later()

    def _run_on_thread(
        self, question: Callable[[], _T], answered: Callable[[asyncio.Future[_T]], None]
    ) -> None:
        """Begin to run ``question`` on the client's thread.

        When it has ended, ``answered`` gets the future with its result. If the client is closed,
        end the checks instead.
        """
        try:
            answer = self._loop.run_in_executor(self._thread, question)
        except RuntimeError:
            # The client is closed, which ends its gets.
            self._stop()
        else:
            answer.add_done_callback(answered)

    def _on_pending(self, wait: ClockWait, turn: int, answer: asyncio.Future[bool]) -> None:
        """Check again at once if all gets are pending (the result of ``answer``), else later.

        ``wait`` is the wait under the clock for which was asked; if it has ended, nothing happens.
        ``turn`` is the clock's count of changes at the time of the question. An error in ``answer``
        fails all gets.
        """
        if wait is not self._wait or answer.cancelled():
            return
        if (error := answer.exception()) is not None:
            self._fail(self._gets, error)
        elif answer.result():
            wait.turn = turn
            self._check()
        else:
            # One is decided, and its callback is on the way.
            self._check_later()

    def _on_cancelled(
        self,
        wait: ClockWait,
        error: RuntimeError,
        answer: asyncio.Future[list[asyncio.Future[Any]]],
    ) -> None:
        """Fail the futures of cancelled gets with copies of ``error``; the other gets go on.

        ``answer`` has these futures. If it has an error instead, all gets fail. The checks
        continue, unless the wait under the clock, ``wait``, has ended.
        """
        if answer.cancelled():
            return
        self._fail(answer.result() if answer.exception() is None else self._gets, error)
        if wait is self._wait:
            self._check_later()

    def _fail(self, futures: Iterable[asyncio.Future[Any]], error: BaseException) -> None:
        """Fail the futures that have no result yet, each with a copy of ``error``."""
        for future in tuple(futures):
            if not future.done():
                future.set_exception(type(error)(*error.args))

    def _stop(self) -> None:
        """End the wait under the clock, and the checks."""
        if self._wait is not None:
            self._time.clock.end_wait(self._wait)
        if self._timer is not None:
            self._timer.cancel()
        self._wait = self._timer = None


def _all_pending(gets: tuple[PendingRequest, ...]) -> bool:
    """Return True if no get has its outcome yet."""
    return all(get.is_pending() for get in gets)


def _cancel_all(gets: dict[asyncio.Future[Any], PendingRequest]) -> list[asyncio.Future[Any]]:
    """Cancel gets; return the futures of those that had no outcome before."""
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
