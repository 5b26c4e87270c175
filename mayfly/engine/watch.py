"""Waits of programs: on several open queues at once, for a signal, for a moment."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from mayfly.engine.core import Core
from mayfly.engine.get import Getter
from mayfly.engine.message import Message
from mayfly.engine.waiting import Waiter

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
