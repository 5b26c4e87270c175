"""Waiting gets: the thread that brings a message, or reaches the deadline, ends the wait."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

from mayfly.engine.queues import QueueOwner
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.runtime import Signal
from mayfly.runtime.compiling import weakly_held
from mayfly.runtime.virtual_clock import VirtualClock, check_wait

#: The result of a ``take`` that would hold the lock for too long to find out.
SEARCH_UNLOCKED = object()
#: The number under which waits for a change of definitions are; no queue has it.
DEFINITIONS = -(2**57)
#: Ends of waits that are over: the heap keeps this number, and as many as there are of others.
_SPARE_ENDS = 64


@weakly_held
class Waiter:
    """One waiting get; ``take`` tries to take a message under the lock, and returns it or None.

    The thread that commits a message or reaches the deadline decides the wait, never the waiting
    thread; under a virtual clock the decision so happens at its exact moment. Only when ``take``
    returns SEARCH_UNLOCKED, for a long search by a selector, the wait ends without a result and the
    waiting thread searches.
    """

    def __init__(
        self,
        take: Callable[[], Any],
        until_ms: int | None,
        owner: object,
        *,
        takes_any: bool = False,
        on_decided: Callable[[Waiter], None] | None = None,
    ) -> None:
        """Prepare a wait until ``until_ms``, None for ever; :meth:`Waits.add` begins it.

        ``take`` is called at each attempt, under the engine lock. ``owner`` is the session or
        handle whose close ends the wait. ``takes_any`` is True when any message satisfies it.
        ``on_decided`` is called under the lock, for a wait without a thread.
        """
        self.until_ms = until_ms
        self.owner = owner
        self.takes_any = takes_any
        #: The queue it waits on, and which wait it is; set by :meth:`Waits.add`.
        self.queue_number = self.number = 0
        self.result: Any = None
        self.error: MQError | None = None
        self._take = take
        self._on_decided = on_decided
        self._is_decided = False
        #: The signal for which the waiting thread waits; None while it does not.
        self._decision: Signal | None = None

    def attempt(self) -> bool:
        """Try to take a message, under the engine lock; return True if the wait is decided now.

        An MQError of ``take`` decides it too. Returns False if no message came.
        """
        if self._is_decided:
            # It waits on several queues.
            return True
        found: Any = None
        try:
            found = self._take()
        except MQError as error:
            # GET was inhibited while waiting (G4), or the unit of work is full.
            self.error = error
        if found is None and self.error is None:
            return False
        self.result = None if found is SEARCH_UNLOCKED else found
        self._decide()
        return True

    def time_out(self) -> None:
        """End the wait at its deadline: take a message, else fail with MQRC_NO_MSG_AVAILABLE."""
        if not self.attempt():
            self.fail(mq_error(rc.MQRC_NO_MSG_AVAILABLE, "nothing came while waiting"))

    def fail(self, error: MQError) -> None:
        """Decide the wait by an error; does nothing if it is decided."""
        if not self._is_decided:
            self.error = error
            self._decide()

    def drop(self) -> None:
        """Mark the wait as decided, without result, error or call of ``on_decided``."""
        self._is_decided = True

    def wait(self, owner: QueueOwner) -> Any:
        """Block until the wait is decided.

        ``owner`` is the queue manager or group of the queue. Returns the message, or None if the
        caller must search again. Raises the error of the wait. Call it without the lock. Raises
        RuntimeError where certainly no thread can decide it (``check_wait``).
        """
        with owner.engine_lock:
            decision = None if self._is_decided else owner.runtime.signal()
            self._decision = decision
        if decision is not None:
            clock = owner.clock
            if isinstance(clock, VirtualClock) and clock.autojump:
                clock.wait_until(decision.is_set)
            else:
                check_wait(clock, owner.foreign_client_count)
                decision.wait()
        if self.error is not None:
            raise self.error
        return self.result

    def _decide(self) -> None:
        """Mark the wait as decided; wake its thread, or call ``on_decided``."""
        self._is_decided = True
        if self._decision is not None:
            self._decision.set()
        if self._on_decided is not None:
            self._on_decided(self)


class Waits:
    """All waits of a queue manager, by queue number; callers hold the engine lock."""

    def __init__(self) -> None:
        """Begin without waits."""
        #: Those on a queue, longest waiting first.
        self.by_queue: dict[int, OrderedDict[Waiter, None]] = {}
        self._by_owner: dict[object, dict[Waiter, None]] = {}
        #: Those that end at a moment, by their numbers.
        self._ending: dict[int, Waiter] = {}
        #: A heap of moments with numbers. An end stays when its wait is over, until it is the next
        #: one or there are too many of them: nothing looks for it.
        self._ends: list[tuple[int, int]] = []
        self._last_number = 0

    def add(self, queue_number: int, waiter: Waiter) -> None:
        """Add a wait of a get on a queue, as the last of that queue; the get is not tried now."""
        self._last_number = number = self._last_number + 1
        waiter.queue_number, waiter.number = queue_number, number
        self._by_owner.setdefault(waiter.owner, {})[waiter] = None
        if waiter.until_ms is not None:
            self._ending[number] = waiter
            heappush(self._ends, (waiter.until_ms, number))
        waiters = self.by_queue.get(queue_number)
        if waiters is None:
            waiters = self.by_queue[queue_number] = OrderedDict()
        waiters[waiter] = None

    def is_waited_on(self, queue_number: int) -> bool:
        """Return True if a get waits on the queue with this number."""
        return queue_number in self.by_queue

    def next_end_ms(self) -> int | None:
        """Return when the next wait ends, in ms; None when no wait has an end."""
        ends = self._ends
        while ends:
            end_ms, number = ends[0]
            if number in self._ending:
                return end_ms
            heappop(ends)
        return None

    def offer(self, queue_number: int) -> None:
        """Let the gets that wait on a queue try to take its messages, longest waiting first."""
        waiters = self.by_queue.get(queue_number)
        while waiters:
            first = next(iter(waiters))
            if not first.attempt():
                if not first.takes_any:
                    self._offer_behind(first, waiters)
                # Those behind cannot have it either: a thousand waits cost like one.
                return
            self.withdraw(first)

    def offer_all(self) -> None:
        """Let every waiting get try again, after a change of definitions."""
        for waiters in list(self.by_queue.values()):
            for waiter in list(waiters):
                if waiter.attempt():
                    self.withdraw(waiter)

    def withdraw(self, waiter: Waiter) -> None:
        """Remove a wait, decided or not, from all lists; does nothing if it is in none."""
        waiters = self.by_queue.get(waiter.queue_number)
        if waiters is not None:
            waiters.pop(waiter, None)
            if not waiters:
                del self.by_queue[waiter.queue_number]
        owned = self._by_owner.get(waiter.owner)
        if owned is not None:
            owned.pop(waiter, None)
            if not owned:
                del self._by_owner[waiter.owner]
        if self._ending.pop(waiter.number, None) is not None:
            self._drop_old_ends()

    def end_due(self, now_ms: int, is_decided: Callable[[int, int], bool]) -> None:
        """End the waits whose deadline has come, in the order of deadlines; each tries once more.

        ``is_decided(queue_number, end_ms)`` returns True when no message can arrive any more that
        would have been in time. While it returns False, the wait goes on.
        """
        over = []
        for end_ms, number in self._due(now_ms):
            waiter = self._ending.get(number)
            if waiter is not None and is_decided(waiter.queue_number, end_ms):
                over.append(waiter)
        for waiter in over:
            waiter.time_out()
            self.withdraw(waiter)

    def fail(self, error: MQError, queue_number: int | None = None) -> None:
        """End all waits with an error, or those on one queue if ``queue_number`` is not None."""
        numbers = list(self.by_queue) if queue_number is None else [queue_number]
        for number in numbers:
            for waiter in list(self.by_queue.get(number, ())):
                self.withdraw(waiter)
                waiter.fail(error)

    def fail_owner(self, owner: object, error: MQError) -> None:
        """End the waits of a session or handle with an error."""
        for waiter in list(self._by_owner.get(owner, ())):
            waiter.fail(error)
            self.withdraw(waiter)

    def _offer_behind(self, first: Waiter, waiters: OrderedDict[Waiter, None]) -> None:
        """Let all gets of ``waiters`` but ``first`` try, the longest waiting first.

        A get that would take any message and finds none is the last one to try.
        """
        for waiter in list(waiters):
            if waiter is first:
                continue
            if waiter.attempt():
                self.withdraw(waiter)
            elif waiter.takes_any:
                return

    def _due(self, now_ms: int) -> list[tuple[int, int]]:
        """Return (deadline, number of the wait) for each deadline that has come, in order.

        The heap is not changed; ended waits may be among them.
        """
        ends, places, due = self._ends, [0], []
        while places:
            place = places.pop()
            if place < len(ends) and ends[place][0] <= now_ms:
                due.append(ends[place])
                places.append(2 * place + 1)
                places.append(2 * place + 2)
        due.sort()
        return due

    def _drop_old_ends(self) -> None:
        """Rebuild the heap when most of its deadlines are of ended waits."""
        if len(self._ends) > 2 * len(self._ending) + _SPARE_ENDS:
            ends = [end for end in self._ends if end[1] in self._ending]
            heapify(ends)
            self._ends = ends
