"""Waits that end with a callback, for a moment or for a change of what is defined."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeAlias

from mayfly.engine.core import Core
from mayfly.engine.requester import Requester
from mayfly.engine.waiting import DEFINITIONS, Waiter
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, NoMessage

#: Numbers to wait under, which neither queues nor what else waits have.
_numbers = itertools.count(-(2**58))
#: Called without the lock when a wait is over: with None, or with what has ended it before.
OnEnd: TypeAlias = Callable[[MQError | None], object]


class StandingWaits:
    """The waits of one connection; its end ends them."""

    def __init__(self, core: Core) -> None:
        """Begin with none."""
        self._core = core
        self._requester = Requester(core)

    def until(self, moment_ms: int | None, on_end: OnEnd) -> StandingWait:
        """Wait until the queue manager's time is a moment, maybe now; None is never."""
        return self._begun(next(_numbers), lambda: None, moment_ms, on_end)

    def for_definitions(self, on_end: OnEnd) -> StandingWait:
        """Wait until a definition changes that is as it is now."""
        registry = self._core.registry
        version = registry.version
        return self._begun(DEFINITIONS, lambda: registry.version != version or None, None, on_end)

    def end(self) -> None:
        """End all of them with MQRC_HCONN_ERROR, and any later one at once."""
        with self._core.engine_lock:
            self._requester.end(rc.MQRC_HCONN_ERROR, "the connection is closed")
        self._core.committer.run_deferred()

    def _begun(
        self, number: int, take: Callable[[], object], until_ms: int | None, on_end: OnEnd
    ) -> StandingWait:
        wait = StandingWait(self._core, self._requester, number, on_end)
        wait.begin(take, until_ms)
        return wait


class StandingWait:
    """One wait; it is decided once, under the lock, and told without it. A cancel is not told."""

    def __init__(self, core: Core, requester: Requester, number: int, on_end: OnEnd) -> None:
        """Prepare it; :meth:`begin` lets it wait under a number."""
        self._core, self._requester, self._on_end = core, requester, on_end
        self._number = number
        self._waiter: Waiter | None = None
        self._is_decided = False

    def begin(self, take: Callable[[], object], until_ms: int | None) -> None:
        """Wait until ``take`` returns something but None, or until a moment."""
        core = self._core
        waiter = self._waiter = Waiter(take, until_ms, self._requester, on_decided=self._decide)
        with core.engine_lock:
            try:
                core.check_running()
                self._requester.check()
            except MQError as error:
                waiter.fail(error)
            else:
                if until_ms is not None and until_ms <= core.now_ms():
                    waiter.end()
                elif not waiter.attempt():
                    self._requester.wait(self._number, waiter)
                    core.must_wake = core.must_wake or until_ms is not None
        core.committer.run_deferred()

    def cancel(self) -> bool:
        """End it; False when it is over: ``on_end`` has been or will be called."""
        with self._core.engine_lock:
            if self._is_decided:
                return False
            self._is_decided = True
            assert self._waiter is not None
            self._waiter.drop()
            self._core.waits.withdraw(self._waiter)
        return True

    def _decide(self, waiter: Waiter) -> None:
        self._is_decided = True
        error = None if isinstance(waiter.error, NoMessage) else waiter.error
        core = self._core
        core.callbacks.waiting.append(lambda: self._on_end(error))
        if not core.is_usable:
            # Nobody calls verbs any more, by which others would be told.
            core.background.do(lambda: None)
