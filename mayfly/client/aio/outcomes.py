"""From the callbacks of a connection to the futures of one event loop, and to its one thread."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

from mayfly.client.aio.virtual_waits import VirtualWaits
from mayfly.client.connection import Connection, UnderWay
from mayfly.client.connection.virtual_time import PendingRequest, VirtualTime
from mayfly.mqi.errors import MQError
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery, Settlement

_T = TypeVar("_T")
#: A get that was cancelled waits so long for its end: a server that is stuck holds up no timeout.
_CANCEL_SECONDS = 1.0
#: Begins a verb that ends with the callback it is given.
Begin: TypeAlias = Callable[[Callable[[_T | MQError], object]], UnderWay]


class Outcomes:
    """Verbs of one connection, awaited in the loop that is running when this is made.

    A verb with a callback costs no thread. Verbs without one run on a single thread of their own,
    one after the other.
    """

    def __init__(self, connection: Connection) -> None:
        """Take the connection and the running loop."""
        self.connection = connection
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "mayfly-aio")
        #: Outcomes that callbacks have left for the loop, as calls that it has not yet made.
        self._outcomes: deque[Callable[[], None]] = deque()
        self._is_woken = False
        #: The puts of this turn of the loop.
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
        """Do what blocks on the thread."""
        return await self._loop.run_in_executor(self._thread, work)

    async def call(self, request: ask.Request[_T]) -> _T:
        """Make a request that blocks on the thread."""
        return await self.run(partial(self.connection.call, request))

    async def done(self, begin: Begin[_T]) -> _T:
        """Await a verb that cannot be taken back; a task that is cancelled does not wait for it."""
        future, on_done = self._future()
        begin(on_done)
        outcome: _T | MQError = await future
        return _or_raised(outcome)

    async def put(self, begin: Begin[_T]) -> _T:
        """Await a put; those that tasks begin in one turn of the loop travel together."""
        if self._together is None:
            self._together = self.connection.together()
            self._together.__enter__()
            self._loop.call_soon(self._end_together)
        return await self.done(begin)

    async def delivery(self, begin: Begin[Delivery]) -> Delivery:
        """Await a get; a message for a task that was cancelled goes back, uncounted."""
        self.raise_late_cancel()
        future, on_done = self._future(if_unwanted=self.give_back)
        under_way = begin(on_done)
        try:
            if self._waits is not None:
                self._waits.add(future, cast(PendingRequest, under_way))
            outcome: Delivery | MQError = await future
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

    async def taken(self, delivery: Delivery, within: int) -> None:
        """Settle what was delivered: the message is the task's from here on.

        A cancel that comes meanwhile would lose the message. It is raised by the next verb of the
        task instead, unless somebody has caught it (``asyncio.timeout``).
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
        self._raise_later(task)
        _or_raised(outcome)

    async def kept(self, work: Callable[[], _T]) -> _T:
        """Do on the thread what takes messages for good; a cancel that comes meanwhile waits.

        It is raised by the next verb of the task, as after :meth:`taken`.
        """
        future = self._loop.run_in_executor(self._thread, work)
        self._raise_later(await _cancelled_while(future))
        return future.result()

    def _raise_later(self, task: asyncio.Task[Any] | None) -> None:
        """Let the next verb of a task raise the cancel that came meanwhile."""
        if task is not None:
            self._cancelled.add(task)
            task.add_done_callback(self._cancelled.discard)

    async def end(self, work: Callable[[], None]) -> None:
        """Do the last work, behind all that goes back, and end the thread."""
        if self._returning:
            await asyncio.wait(tuple(self._returning))
        try:
            await self.run(work)
        finally:
            self._thread.shutdown(wait=False)

    def raise_late_cancel(self) -> None:
        """Raise what was left to the next verb of the task."""
        task = asyncio.current_task()
        if task in self._cancelled:
            self._cancelled.discard(task)
            if task.cancelling():
                raise asyncio.CancelledError

    def give_back(self, outcome: Delivery | MQError) -> None:
        """Let a message that no task gets go back to its place, uncounted."""
        if isinstance(outcome, MQError) or not outcome.number:
            return
        future, on_done = self._future()
        self._returning.add(future)
        future.add_done_callback(self._returning.discard)
        self.connection.begin(ask.Settle([outcome.number], Settlement.RETURNED), on_done)

    def _future(
        self, if_unwanted: Callable[[Any], None] | None = None
    ) -> tuple[asyncio.Future[Any], Callable[[object], object]]:
        """Return a future and the callback that ends it, on any thread.

        ``if_unwanted`` is called in the loop with what nobody waits for any more.
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
                    self._loop.call_soon_threadsafe(self._hear)

        return future, on_done

    def _end_together(self) -> None:
        together, self._together = self._together, None
        if together is not None:
            together.__exit__(None, None, None)

    def _hear(self) -> None:
        # Reset before the first look, so that an outcome after the last look wakes the loop again.
        self._is_woken = False
        while self._outcomes:
            self._outcomes.popleft()()


def _or_raised(outcome: _T | MQError) -> _T:
    if isinstance(outcome, MQError):
        raise outcome
    return outcome


async def _cancelled_while(future: asyncio.Future[Any]) -> asyncio.Task[Any] | None:
    """Wait for a future whatever happens; return the task if it was cancelled meanwhile."""
    is_cancelled = False
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError:
            is_cancelled = True
    return asyncio.current_task() if is_cancelled else None
