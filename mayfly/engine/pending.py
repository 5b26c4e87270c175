"""Pending gets and waits: they call a function at their end and block no thread."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from mayfly.engine.callbacks import Completion, OnEnd
from mayfly.engine.core import Core
from mayfly.engine.get import Getter
from mayfly.engine.requester import Requester
from mayfly.engine.transaction import Transaction
from mayfly.engine.waiting import DEFINITIONS, SEARCH_UNLOCKED, Waiter
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, NoMessage, mq_error
from mayfly.verbs.messages import GetResult

#: Called under the lock when a get has its message, with the result and the index of its getter.
OnTaken: TypeAlias = Callable[[GetResult, int], None]
#: Called with the result of a get, or its error.
OnGot: TypeAlias = Callable[[GetResult | MQError], object]
#: Called under the lock with the index of a getter and the error that refuses it; with None when it
#: is not refused.
OnGetterRefused: TypeAlias = Callable[[int, MQError | None], None]
#: Numbers to wait under, which no queue has.
_numbers = itertools.count(-(2**58))


class PendingGet:
    """One get on one or several queues that ends by a message, its WaitInterval or a cancel.

    Earlier getters are tried first. The thread that brings the message, ends the wait or cancels
    makes the decision, once, under the engine lock. ``on_got`` is called afterwards without the
    lock, when a get outside of syncpoint is durable; after a cancel never. With ``on_refused`` an
    error of one getter does not end the get: that getter is tried again when definitions change.
    """

    def __init__(
        self,
        core: Core,
        getters: Sequence[Getter],
        on_got: OnGot,
        on_taken: OnTaken,
        on_refused: OnGetterRefused | None = None,
        *,
        finish: Callable[[GetResult | MQError], GetResult | MQError] | None = None,
    ) -> None:
        """Prepare the get for :meth:`begin`, which runs it.

        ``getters`` are tried in this order. ``on_got`` is called without locks with the result or
        the error, and not after a cancel. ``on_taken`` is called under the engine lock with the
        result and the index of the getter. ``on_refused`` is called with the index of a getter and
        its error, None once it works again; with ``on_refused`` None such an error ends the get.
        ``finish`` changes the outcome before ``on_got`` receives it.
        """
        self._core, self._getters = core, getters
        self._on_got, self._on_taken, self._on_refused = on_got, on_taken, on_refused
        self._finish = finish
        #: Whether it is being begun by a caller that takes the outcome, and the outcome.
        self._is_awaited = False
        self._outcome: GetResult | MQError | None = None
        #: While it waits, one for each getter.
        self._waiters: list[Waiter] = []
        self._is_decided = False

    def begin(self) -> None:
        """Take a present message, or begin to wait; return at once.

        ``on_got`` receives the result or the error.
        """
        with self._core.engine_lock:
            self._step()
        self._core.committer.run_deferred()

    def begin_at_once(self) -> GetResult | MQError | None:
        """Begin like :meth:`begin`, but return an outcome that needs no disk write.

        Returns None when the outcome comes later, by a call of ``on_got``; otherwise ``on_got`` is
        not called.
        """
        with self._core.engine_lock:
            self._is_awaited = True
            self._step()
            self._is_awaited = False
        self._core.committer.run_deferred()
        outcome = self._outcome
        return outcome if outcome is None or self._finish is None else self._finish(outcome)

    def is_pending(self) -> bool:
        """Return True until the outcome is decided; the call of ``on_got`` may come later."""
        return not self._is_decided

    def cancel(self) -> bool:
        """End the get without a message; return True, and ``on_got`` is never called.

        Returns False if the get was decided already: then ``on_got`` is called.
        """
        with self._core.engine_lock:
            if self._is_decided:
                return False
            self._end()
            self._leave()
        return True

    def _step(self) -> None:
        """Try each getter once; continue in the background if a search was cut, else begin to wait.

        Without wait time the outcome is MQRC_NO_MSG_AVAILABLE. Needs the engine lock.
        """
        core, is_cut = self._core, False
        if self._is_decided:
            return
        for place, getter in enumerate(self._getters):
            try:
                core.check_running()
                getter.requester.check()
                outcome = self._ask(place, in_parts=True)
            except MQError as error:
                self._decide(error)
                return
            if outcome is not None:
                self._decide(outcome, place)
                return
            is_cut = is_cut or getter.is_cut
        if is_cut:
            core.background.do(self._continue_search)
        elif all(getter.may_wait() for getter in self._getters):
            self._begin_wait()
        else:
            names = ", ".join(getter.path.name for getter in self._getters)
            self._decide(mq_error(rc.MQRC_NO_MSG_AVAILABLE, f"no message on {names}"))

    def _ask(self, place: int, *, in_parts: bool) -> tuple[GetResult, Transaction | None] | None:
        """Try the getter with this index; return result and transaction, or None without a message.

        ``in_parts`` lets a long search stop early. With ``on_refused``, an error of the getter is
        passed to that function instead of raised.
        """
        getter, on_refused = self._getters[place], self._on_refused
        if on_refused is None:
            return getter.take(in_parts=in_parts)
        try:
            outcome = getter.take(in_parts=in_parts)
        except MQError as error:
            getter.is_cut = False
            on_refused(place, error)
            return None
        on_refused(place, None)
        return outcome

    def _attempt(self, place: int) -> object:
        """Try the getter with this index for its waiter, which a message or a definition has woken.

        Returns its outcome, None without a message, or SEARCH_UNLOCKED for a search too long for
        the lock.
        """
        getter = self._getters[place]
        outcome = self._ask(place, in_parts=getter.has_selector)
        return SEARCH_UNLOCKED if getter.is_cut else outcome

    def _begin_wait(self) -> None:
        """Add a waiter for each getter to its queue; needs the engine lock."""
        asks_all = self._on_refused is None
        for place, getter in enumerate(self._getters):
            waiter = Waiter(
                getter.attempt if asks_all else partial(self._attempt, place),
                getter.until_ms,
                getter.requester,
                # Another get may take a message that this one is refused.
                takes_any=getter.takes_any and asks_all,
                on_decided=partial(self._end_wait, place),
            )
            self._waiters.append(waiter)
            getter.requester.wait(getter.path.queue.number, waiter)
            if getter.until_ms is not None:
                self._core.must_wake = True

    def _end_wait(self, place: int, waiter: Waiter) -> None:
        """Decide the get when one of its waiters has ended: by error or by message.

        A waiter with neither has a long search to do, which continues in the background.
        """
        self._leave()
        if waiter.error is not None:
            self._decide(waiter.error)
        elif waiter.result is None:
            self._core.background.do(self._continue_search)
        else:
            self._decide(waiter.result, place)

    def _leave(self) -> None:
        """Remove all waiters of this get from their queues."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            # A waiter that is asked just now must not be asked again.
            waiter.drop()
            self._core.waits.withdraw(waiter)

    def _continue_search(self) -> None:
        """Evaluate selectors without the engine lock, then try all getters again."""
        core = self._core
        try:
            core.committer.run_deferred()
            for getter in self._getters:
                getter.search_on()
        except MQError as error:
            with core.engine_lock:
                if not self._is_decided:
                    self._decide(error)
            return
        self.begin()

    def _decide(
        self, outcome: tuple[GetResult, Transaction | None] | MQError, place: int = 0
    ) -> None:
        """Record the outcome, a result or an error, and queue the call of ``on_got``.

        ``place`` is the index of the getter. A caller of :meth:`begin_at_once` takes the outcome
        itself if it needs no disk write. Needs the engine lock.
        """
        core = self._core
        self._end()
        result: GetResult | MQError
        if isinstance(outcome, MQError):
            result, transaction = outcome, None
        else:
            result, transaction = outcome
            self._on_taken(result, place)
        if self._is_awaited and (transaction is None or core.committer.run_at_once(transaction)):
            self._outcome = result
            return
        core.callbacks.waiting.append(
            partial(self._report, result)
            if transaction is None
            else partial(self._run, result, transaction, self._getters[place])
        )
        if core.is_stopped or core.is_closing:
            # No verb makes the callbacks any more, so the background does.
            core.background.do(lambda: None)

    def _end(self) -> None:
        """Mark the get and its getters as decided."""
        self._is_decided = True
        for getter in self._getters:
            getter.is_over = True

    def _run(self, result: GetResult | MQError, transaction: Transaction, getter: Getter) -> None:
        """Make a get final, then call ``on_got``.

        If session or handle was closed meanwhile, the message returns to its queue, and ``on_got``
        receives the error.
        """
        core, requester = self._core, getter.requester
        with core.engine_lock:
            is_ended = requester.is_ended
            if is_ended:
                core.committer.take_back(transaction)
            is_over = is_ended or core.committer.run_at_once(transaction)
        if is_over:
            core.committer.run_deferred()
            self._report(requester.error() if is_ended else result)
            return
        completion = Completion()
        completion.transaction = transaction

        def end(error: MQError | None) -> None:
            """Call ``on_got`` with the result, or with the error of the transaction."""
            self._report(result if error is None else error)

        core.background.end_with(completion, end)

    def _report(self, outcome: GetResult | MQError) -> None:
        """Call ``on_got`` with the outcome, changed by ``finish`` if there was one."""
        self._on_got(outcome if self._finish is None else self._finish(outcome))


class PendingWaits:
    """The waits of one connection that end by a callback; :meth:`end` ends them all."""

    def __init__(self, core: Core) -> None:
        """Begin with no wait."""
        self._core = core
        self._requester = Requester(core)

    def until(self, moment_ms: int | None, on_end: OnEnd) -> PendingWait:
        """Begin a wait until the queue manager's time is ``moment_ms``, None for ever; return it.

        Nothing blocks. ``on_end`` is called without locks when the wait has ended, with None or the
        error that ended it, and not after a cancel. An exception of it is logged.
        """
        number, nothing = next(_numbers), lambda: None
        return PendingWait(self._core, self._requester, number, nothing, moment_ms, on_end)

    def for_definitions(self, on_end: OnEnd) -> PendingWait:
        """Begin a wait until the definition of any object changes; return it.

        Nothing blocks. ``on_end`` is called without locks when the wait has ended, with None or the
        error that ended it, and not after a cancel. An exception of it is logged.
        """
        registry = self._core.registry
        version = registry.version

        def has_changed() -> bool | None:
            return registry.version != version or None

        return PendingWait(self._core, self._requester, DEFINITIONS, has_changed, None, on_end)

    def end(self) -> None:
        """End all waits with MQRC_HCONN_ERROR, and each later one as soon as it begins."""
        with self._core.engine_lock:
            self._requester.end(rc.MQRC_HCONN_ERROR, "the connection is closed")
        self._core.committer.run_deferred()


class PendingWait:
    """One wait that ends once, under the engine lock.

    ``on_end`` is called afterwards without it.
    """

    def __init__(
        self,
        core: Core,
        requester: Requester,
        number: int,
        take: Callable[[], object],
        until_ms: int | None,
        on_end: OnEnd,
    ) -> None:
        """Begin to wait until ``take`` returns another value than None, or until ``until_ms``.

        ``on_end`` is called at the end, with None or the error that ended the wait. ``take`` is
        tried when something happens on the queue ``number``, or for the number ``DEFINITIONS`` when
        a definition changes. The close of ``requester`` ends the wait by an error. ``until_ms``
        None has no end. Nothing blocks here.
        """
        self._core, self._on_end = core, on_end
        self._is_decided = False
        self._waiter = waiter = Waiter(take, until_ms, requester, on_decided=self._decide)
        with core.engine_lock:
            try:
                core.check_running()
                requester.check()
            except MQError as error:
                waiter.fail(error)
            else:
                if until_ms is not None and until_ms <= core.now_ms():
                    waiter.time_out()
                elif not waiter.attempt():
                    requester.wait(number, waiter)
                    core.must_wake = core.must_wake or until_ms is not None
        core.committer.run_deferred()

    def cancel(self) -> bool:
        """End the wait without calling ``on_end``; return False if it has ended already."""
        with self._core.engine_lock:
            if self._is_decided:
                return False
            self._is_decided = True
            self._waiter.drop()
            self._core.waits.withdraw(self._waiter)
        return True

    def _decide(self, waiter: Waiter) -> None:
        """Mark the wait as decided and queue the call of ``on_end``.

        ``on_end`` receives None when the time has come, else the error of the waiter.
        """
        self._is_decided = True
        error = None if isinstance(waiter.error, NoMessage) else waiter.error
        core = self._core
        core.callbacks.waiting.append(lambda: self._on_end(error))
        if not core.is_usable:
            # No verb makes the callbacks any more, so the background does.
            core.background.do(lambda: None)
