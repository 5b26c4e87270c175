"""A get that ends with a callback instead of making a thread wait."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from mayfly.engine.callbacks import Later
from mayfly.engine.core import Core
from mayfly.engine.get import GetResult, Getter
from mayfly.engine.waiting import Waiter
from mayfly.engine.work import Work
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error

#: Called under the lock once a get has its message, which nobody else will get then.
OnTaken: TypeAlias = Callable[[GetResult], None]
#: Called with what a get has got, or why it has got nothing.
OnGot: TypeAlias = Callable[[GetResult | MQError], None]


class StandingGet:
    """One get that stands until a message, its time or a cancel ends it.

    The decision is made under the lock, once, by whoever brings the message, ends the wait or
    cancels. ``on_got`` is called afterwards without the lock; after a cancel never.
    """

    def __init__(
        self, core: Core, getter: Getter, on_got: OnGot, on_taken: OnTaken | None = None
    ) -> None:
        """Prepare it; :meth:`begin` makes it stand."""
        self._core, self._getter = core, getter
        self._on_got, self._on_taken = on_got, on_taken
        self._waiter: Waiter | None = None
        self._is_decided = False

    def begin(self) -> None:
        """Take a message that is there, or stand; raises nothing that ``on_got`` is told."""
        with self._core.latch:
            self._step()
        self._core.run_deferred()

    def cancel(self) -> bool:
        """End it without a message; False when it was decided before: ``on_got`` tells how."""
        core = self._core
        with core.latch:
            if self._is_decided:
                return False
            self._is_decided = True
            if self._waiter is not None:
                core.waits.withdraw(self._getter.path.queue.number, self._waiter)
        return True

    def _step(self) -> None:
        """Try once, under the lock; what was cut goes on in the background."""
        core, getter = self._core, self._getter
        if self._is_decided:
            return
        try:
            core.check_running()
            getter.holder.check()
            outcome = getter.take(in_parts=True)
        except MQError as error:
            self._decide(error)
            return
        if outcome is not None:
            self._decide(*outcome)
        elif getter.is_cut:
            core.background.do(self._go_on)
        elif getter.may_wait():
            until_ms = getter.until_ms
            self._waiter = Waiter(
                getter.attempt,
                until_ms,
                getter.holder,
                takes_any=getter.takes_any,
                on_decided=self._end_wait,
            )
            getter.holder.wait(getter.path.queue, self._waiter)
            if until_ms is not None:
                core.must_wake = True
        else:
            self._decide(mq_error(rc.MQRC_NO_MSG_AVAILABLE, f"no message on {getter.path.name}"))

    def _end_wait(self, waiter: Waiter) -> None:
        self._waiter = None
        if waiter.error is not None:
            self._decide(waiter.error)
        elif waiter.result is None:
            self._core.background.do(self._go_on)
        else:
            self._decide(*waiter.result)

    def _go_on(self) -> None:
        """Search on, without the lock: a selector may have to be asked of many messages."""
        getter, core = self._getter, self._core
        try:
            core.run_deferred()
            if getter.place is not None:
                getter.place.scout(getter.holder)
        except MQError as error:
            with core.latch:
                if not self._is_decided:
                    self._decide(error)
            return
        self.begin()

    def _decide(self, outcome: GetResult | MQError, work: Work | None = None) -> None:
        """Decide, under the lock; what nobody holds is taken durably before it is told."""
        core = self._core
        self._is_decided = True
        if not isinstance(outcome, MQError) and self._on_taken is not None:
            self._on_taken(outcome)
        if work is None or core.run_at_once(work):
            core.callbacks.waiting.append(partial(self._on_got, outcome))
            if core.is_stopped or core.is_closing:
                # Nobody calls verbs any more, by which others would be told.
                core.background.do(lambda: None)
            return
        later = Later()
        later.work = work
        core.background.do(partial(core.background.end_later, later, partial(self._told, outcome)))

    def _told(self, outcome: GetResult | MQError, error: MQError | None) -> None:
        self._on_got(outcome if error is None else error)
