"""The outcomes of verbs as futures of an event loop, in real or virtual time."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

from mayfly.client.connection import Connection, UnderWay
from mayfly.client.connection.waits import PendingRequest, VirtualTime
from mayfly.mqi.errors import MQError
from mayfly.runtime.virtual_clock import ClockWait
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery, Settlement

_T = TypeVar("_T")
#: How long a cancelled get waits for its end: a stuck server must not delay a timeout.
_CANCEL_SECONDS = 1.0
#: Begins a verb that ends with the callback it is given.
Begin: TypeAlias = Callable[[Callable[[_T | MQError], object]], UnderWay]
#: Gets that wait are looked at this often, in the machine's time.
_CHECK_SECONDS = 0.002
#: The future of ``asyncio.gather``, which is done when its tasks are.
_GATHERING: type = getattr(asyncio.tasks, "_GatheringFuture", asyncio.Task)
#: Tasks that wait for a get under such a clock, in all loops.
_WAITING: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()


class AwaitableVerbs:
    """Runs the verbs of one connection as awaitables of the event loop that is running now.

    A verb with a callback needs no thread. Verbs without one run one after the other on a single
    thread.

    A task that is cancelled while a message becomes its own keeps the message, and its next verb
    raises CancelledError before it begins. Closing an object or the connection does not.
    """

    def __init__(self, connection: Connection) -> None:
        """Use a connection in the event loop that is running now."""
        self.connection = connection
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "mayfly-aio")
        #: Outcomes that callbacks have left for the loop, as calls that it has not yet made.
        self._outcomes: deque[Callable[[], None]] = deque()
        self._is_woken = False
        #: The puts of this iteration of the loop.
        self._together: AbstractContextManager[object] | None = None
        #: Deliveries that become messages of their tasks.
        self.settling: set[int] = set()
        self._returning: set[asyncio.Future[Any]] = set()
        virtual_time: VirtualTime | None = getattr(connection, "virtual_time", None)
        #: The gets that wait under a virtual clock of this process, if there is one.
        self._waits = None if virtual_time is None else VirtualWaits(virtual_time, self._thread)
        #: Tasks that were cancelled while a message became theirs.
        self._cancelled: set[asyncio.Task[object]] = set()

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run blocking ``work`` on the client's thread and return its result; raises its error."""
        self.raise_deferred_cancel()
        return await self._loop.run_in_executor(self._thread, work)

    async def call(self, request: ask.Request[_T]) -> _T:
        """Send a request on the client's thread and return its answer; raises MQError."""
        return await self.run(partial(self.connection.call, request))

    async def close(self, request: ask.Request[Any]) -> None:
        """Close an object or subscription on the client's thread.

        Raises MQError. A cancellation that was deferred stays for the next verb.
        """
        await self._loop.run_in_executor(self._thread, self.connection.call, request)

    async def finished(self, begin: Begin[_T]) -> _T:
        """Await a verb that cannot be undone and return its outcome; raises MQError.

        ``begin`` begins the verb; it is passed the callback for the outcome. A cancelled task does
        not wait for the verb, which continues.
        """
        self.raise_deferred_cancel()
        future, on_done = self._future()
        begin(on_done)
        outcome: _T | MQError = await future
        return _or_raised(outcome)

    async def put(self, begin: Begin[_T]) -> _T:
        """Await a put and return its result; raises MQError.

        Puts that begin in the same iteration of the event loop share frames. ``begin`` begins the
        put; it is passed the callback for the outcome. A cancelled task does not wait for the put,
        which continues.
        """
        if self._together is None:
            self._together = self.connection.together()
            self._together.__enter__()
            self._loop.call_soon(self._end_together)
        return await self.finished(begin)

    async def delivery(self, begin: Begin[Delivery]) -> Delivery:
        """Await a get and return its delivery; raises MQError, for example NoMessage.

        ``begin`` begins the get; it is passed the callback for the outcome. The message is held
        until the delivery is settled. If the task is cancelled, the message goes back to its queue,
        and its backout count stays as it was.
        """
        self.raise_deferred_cancel()
        future, on_done = self._future(if_unwanted=self.give_back)
        under_way = begin(on_done)
        try:
            outcome: Delivery | MQError = await (
                future
                if self._waits is None
                else self._waits.result(future, cast(PendingRequest, under_way))
            )
            return _or_raised(outcome)
        except asyncio.CancelledError:
            if future.cancelled():
                # The answer is not needed: when the cancel comes too late, the callback gives the
                # message back. In a closed client the thread has ended, and all gets with it.
                with suppress(RuntimeError):
                    cancelling = self._loop.run_in_executor(self._thread, under_way.cancel)
                    await asyncio.wait((cancelling,), timeout=_CANCEL_SECONDS)
            else:
                self.give_back(future.result())
            raise

    async def settle_taken(self, delivery: Delivery, within: int) -> None:
        """Settle a delivery as taken: the message then belongs to the task.

        ``within`` is the conversation whose unit of work takes the message, 0 for none. Raises
        MQError if the settlement fails, or CancelledError if the task was cancelled as well. A
        cancellation of the task is otherwise deferred, because it would lose the message: the next
        verb of the task raises CancelledError, unless the program has handled the cancellation by
        then (``asyncio.timeout``).
        """
        future, on_done = self._future()
        self.settling.add(delivery.number)
        future.add_done_callback(lambda _done: self.settling.discard(delivery.number))
        self.connection.begin(
            ask.Settle([delivery.number], Settlement.TAKEN, within=within), on_done
        )
        task = await _cancelled_while(future)
        outcome = future.result()
        if task is not None and isinstance(outcome, MQError):
            raise asyncio.CancelledError from outcome
        self._defer_cancel(task)
        _or_raised(outcome)

    async def run_to_end(self, work: Callable[[], _T]) -> _T:
        """Run ``work`` that takes messages on the client's thread, and return its result.

        A cancellation of the task does not interrupt ``work``: the next verb of the task raises
        CancelledError.
        """
        future = self._loop.run_in_executor(self._thread, work)
        self._defer_cancel(await _cancelled_while(future))
        return future.result()

    def _defer_cancel(self, task: asyncio.Task[Any] | None) -> None:
        """Let the next verb of ``task``, which was cancelled, raise CancelledError.

        None does nothing: no task was cancelled.
        """
        if task is not None:
            self._cancelled.add(task)
            task.add_done_callback(self._cancelled.discard)

    async def end(self, work: Callable[[], None]) -> None:
        """Wait for messages that go back to their queues, run ``work``, and end the thread.

        ``work`` runs on the client's thread, after the verbs that are already queued there. Raises
        the errors of ``work``.
        """
        if self._returning:
            await asyncio.wait(tuple(self._returning))
        try:
            await self._loop.run_in_executor(self._thread, work)
        finally:
            self._thread.shutdown(wait=False)

    def raise_deferred_cancel(self) -> None:
        """Raise CancelledError once if an earlier cancellation of the current task was deferred.

        Does nothing if the program has handled that cancellation since.
        """
        task = asyncio.current_task()
        if task in self._cancelled:
            self._cancelled.discard(task)
            if task.cancelling():
                raise asyncio.CancelledError

    def give_back(self, outcome: Delivery | MQError) -> None:
        """Return a message that no task wants to its queue; its backout count stays as it was.

        Only begins the return and does not wait for it. Does nothing for an MQError, or a delivery
        that is not held.
        """
        if isinstance(outcome, MQError) or not outcome.number:
            return
        future, on_done = self._future()
        self._returning.add(future)
        future.add_done_callback(self._returning.discard)
        self.connection.begin(ask.Settle([outcome.number], Settlement.RETURNED), on_done)

    def _future(
        self, if_unwanted: Callable[[Any], None] | None = None
    ) -> tuple[asyncio.Future[Any], Callable[[object], object]]:
        """Return a future, and a callback for any thread that sets its result.

        If the future was cancelled, ``if_unwanted`` is called in the loop with the result.
        """
        future: asyncio.Future[Any] = self._loop.create_future()

        def report(outcome: object) -> None:
            if not future.done():
                future.set_result(outcome)
            elif if_unwanted is not None:
                if_unwanted(outcome)

        def on_done(outcome: object) -> None:
            self._outcomes.append(partial(report, outcome))
            if not self._is_woken:
                self._is_woken = True
                # A loop that was closed has no tasks: held messages go back with the connection.
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._report_outcomes)

        return future, on_done

    def _end_together(self) -> None:
        """Send the puts of this iteration of the event loop."""
        together, self._together = self._together, None
        if together is not None:
            together.__exit__(None, None, None)

    def _report_outcomes(self) -> None:
        """Set the results of futures for which callbacks have come; runs in the event loop."""
        # Reset before the first look, so that an outcome after the last look wakes the loop again.
        self._is_woken = False
        while self._outcomes:
            self._outcomes.popleft()()


def _or_raised(outcome: _T | MQError) -> _T:
    """Return an outcome, or raise it if it is an MQError."""
    if isinstance(outcome, MQError):
        raise outcome
    return outcome


async def _cancelled_while(future: asyncio.Future[Any]) -> asyncio.Task[Any] | None:
    """Wait for a future despite cancellation; return the task if it was cancelled, else None."""
    is_cancelled = False
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError:
            is_cancelled = True
    return asyncio.current_task() if is_cancelled else None


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
