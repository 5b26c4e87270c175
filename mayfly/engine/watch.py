"""Waits of programs: on several open queues at once, for a signal, for a moment."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from mayfly.engine.core import Core
from mayfly.engine.get import Getter
from mayfly.engine.message import Message
from mayfly.engine.waiting import LOOK_YOURSELF, Waiter
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import NoMessage, mq_error

_T = TypeVar("_T")

#: Numbers of signals, which neither queues nor what else waits have.
_signal_numbers = itertools.count(-(2**59))


class Signal:
    """Lets a wait look again that nothing on its queues would; any thread may send it."""

    def __init__(self, core: Core) -> None:
        """Begin; :func:`wait_for` waits for it under ``number``."""
        self._core = core
        self.number = next(_signal_numbers)

    def send(self) -> None:
        """Let those who wait under the number look again, and run what that leads to."""
        between_takes(self._core, partial(self._core.waits.offer, self.number))


def between_takes(core: Core, call: Callable[[], _T]) -> _T:
    """Return what ``call`` returns, which runs while no wait asks for what it takes.

    So a service changes, and reads, what its takes look at: takes run under the engine's lock, and
    with a lock of its own the service would see a message taken and its own state from before. The
    call is short, waits for nothing and uses no verb. Outside of a take and of another such call,
    what it has led to is run before the return.
    """
    with core.engine_lock:
        result = call()
    if not core.engine_lock.is_held():
        core.committer.run_deferred()
    return result


class Source:
    """An open queue as one of those that a thread waits on; messages are got under syncpoint."""

    def __init__(self, getter: Getter) -> None:
        """Take a get in a unit of work; Handle.getter makes it."""
        self._getter = getter
        self._holder, self._place = getter.requester, getter.place

    @property
    def is_cut(self) -> bool:
        """Whether the last take has not come to the end of the queue: :meth:`go_on`, then again."""
        return self._getter.is_cut

    def take(self, *, in_parts: bool) -> Message | None:
        """Take the next message now, under the lock; None when there is none, or it was cut.

        ``in_parts`` lets the lock go after a number of expired messages; a search by a selector
        does so anyway. Raises as ``get.get``.
        """
        self._holder.check()
        outcome = self._getter.take(in_parts=in_parts or self._place is not None)
        return None if outcome is None else outcome[0].message

    def go_on(self) -> None:
        """Go on with a search that was cut, up to what may be taken; without the lock."""
        if self._place is not None:
            self._place.scout(self._holder)


def wait_for(core: Core, take: Callable[[], Any], numbers: Iterable[int]) -> Any:
    """Wait until ``take`` returns something but None, and return that.

    It is called under the lock, at once and whenever something happens under one of the numbers,
    by the thread that makes it happen; once it has returned something, never again. Raises
    MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING; MQRC_Q_DELETED when a queue of a number goes.
    """
    waiter = Waiter(take, None, take)
    numbers = tuple(numbers)
    with core.engine_lock:
        core.check_running()
        if not waiter.attempt():
            for number in numbers:
                core.waits.add(number, waiter)
    try:
        core.committer.run_deferred()
        return waiter.wait(core)
    finally:
        with core.engine_lock:
            for number in numbers:
                core.waits.withdraw(number, waiter)


#: Asked under the lock for what is waited for, None for nothing yet; LOOK_YOURSELF when that is a
#: long search. The argument tells whether the waiting thread asks for itself.
Take = Callable[[bool], Any]


class Wait:
    """The waits of one thread, which any other may interrupt for good; under the lock."""

    def __init__(self, core: Core) -> None:
        """Begin without waiting."""
        self._core = core
        self._waiter: Waiter | None = None
        self._is_interrupted = False
        self._signal = Signal(core)
        self._is_pausing = False
        #: Set when the first wait has begun, or found something at once.
        self.begun = core.runtime.event()

    @property
    def is_waiting(self) -> bool:
        """Whether a wait for something is under way that nothing has decided yet."""
        waiter = self._waiter
        is_undecided = waiter is not None and waiter.result is None and waiter.error is None
        return is_undecided and not self._is_pausing

    def until(
        self,
        take: Take,
        under: Iterable[int],
        until_ms: int | None,
        *,
        takes_any: bool = False,
    ) -> Any:
        """Wait until ``take`` finds something, and return that; None at the end or interrupted.

        It is asked at once, whenever something happens under one of the numbers, and at the very
        end, which is then decided by whoever lets the time pass. ``until_ms`` is the queue
        manager's time, None for ever. Raises what ``take`` does, MQRC_CONNECTION_BROKEN and
        MQRC_Q_MGR_STOPPING.
        """
        core, waiter = self._core, None
        with core.engine_lock:
            core.check_running()
            if self._is_interrupted:
                return None
            found = take(True)
            if found is None and (until_ms is None or core.now_ms() < until_ms):
                waiter = Waiter(partial(take, False), until_ms, self, takes_any=takes_any)
                for number in under:
                    core.waits.add(number, waiter)
                self._waiter = waiter
                if until_ms is not None:
                    core.must_wake = True
            if not self.begun.is_set():
                self.begun.set()
        core.committer.run_deferred()
        return found if waiter is None else self._outcome(waiter, under)

    def pause(self, until_ms: int) -> None:
        """Wait for nothing but a moment or an interrupt; raises as :meth:`until`."""
        self._is_pausing = True
        try:
            self.until(lambda _is_own_thread: None, (self._signal.number,), until_ms)
        finally:
            self._is_pausing = False

    def interrupt(self) -> None:
        """End the wait under way without a find, and any later one at once."""
        with self._core.engine_lock:
            self._is_interrupted = True
            if self._waiter is not None:
                self._waiter.fail(mq_error(rc.MQRC_NO_MSG_AVAILABLE, "the wait was interrupted"))

    def _outcome(self, waiter: Waiter, under: Iterable[int]) -> Any:
        try:
            found = waiter.wait(self._core)
        except NoMessage:
            return None
        finally:
            with self._core.engine_lock:
                self._waiter = None
                for number in under:
                    self._core.waits.withdraw(number, waiter)
        return LOOK_YOURSELF if found is None else found
