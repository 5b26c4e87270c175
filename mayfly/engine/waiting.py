"""A get that waits: the thread that brings a message, or passes the deadline, decides it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mayfly.engine.queues import QueueOwner
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.runtime import Event
from mayfly.runtime.virtual_clock import check_wait

#: The result of a ``take`` that would hold the lock for too long to find out.
LOOK_YOURSELF = object()
#: The number under which waits are that a change of a definition may end; no queue has it.
DEFINITIONS = -(2**57)


class Waiter:
    """One waiting get. ``take`` tries to take a message under the lock and returns it or None.

    The decision is made by the thread that commits a message or passes the deadline, never by the
    waiting thread. So under a virtual clock it is made at its exact moment. The one exception is a
    ``take`` that returns LOOK_YOURSELF, for a long search by a selector: the wait is then over
    without a result, and the waiting thread searches.
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
        """Wait until a moment, None for ever; ``takes_any`` for the next message, whichever.

        ``owner`` is who waits: when that is closed, so is the wait. ``on_decided`` is called under
        the lock in the place of a waiting thread.
        """
        self.until_ms = until_ms
        self.owner = owner
        self.takes_any = takes_any
        self.result: Any = None
        self.error: MQError | None = None
        self._take = take
        self._on_decided = on_decided
        self._is_decided = False
        #: The event for which the waiting thread waits; None while it does not.
        self._decision: Event | None = None

    def attempt(self) -> bool:
        """Try to take a message; True when the wait is decided, which happens once."""
        if self._is_decided:
            # It waits on other queues, too.
            return True
        found: Any = None
        try:
            found = self._take()
        except MQError as error:
            # GET was inhibited while waiting (G4), or the unit of work is full.
            self.error = error
        if found is None and self.error is None:
            return False
        self.result = None if found is LOOK_YOURSELF else found
        self._decide()
        return True

    def end(self) -> None:
        """The deadline has come: a message that is there at this moment wins."""
        if not self.attempt():
            self.fail(mq_error(rc.MQRC_NO_MSG_AVAILABLE, "nothing came while waiting"))

    def fail(self, error: MQError) -> None:
        """Decide the wait by an error, unless it is decided."""
        if not self._is_decided:
            self.error = error
            self._decide()

    def drop(self) -> None:
        """End it without an outcome: its wait has been decided elsewhere."""
        self._is_decided = True

    def wait(self, owner: QueueOwner) -> Any:
        """Block until decided; return what was taken or raise the error; None: look yourself.

        Call it without the lock.

        Raises RuntimeError where it is certain that nobody will decide it, see ``check_wait``.
        """
        with owner.engine_lock:
            decision = None if self._is_decided else owner.runtime.event()
            self._decision = decision
        if decision is not None:
            if not owner.server_count:
                check_wait(owner.clock)
            decision.wait()
        if self.error is not None:
            raise self.error
        return self.result

    def _decide(self) -> None:
        self._is_decided = True
        if self._decision is not None:
            self._decision.set()
        if self._on_decided is not None:
            self._on_decided(self)


class Waits:
    """All waiting gets of a queue manager, by the number of their queue; under its lock."""

    def __init__(self) -> None:
        """Begin with nobody waiting."""
        self._by_queue: dict[int, list[Waiter]] = {}

    def add(self, queue_number: int, waiter: Waiter) -> None:
        """Let a get wait, behind those that wait already."""
        self._by_queue.setdefault(queue_number, []).append(waiter)

    def is_waited_on(self, queue_number: int) -> bool:
        """Return True if a get waits on a queue."""
        return queue_number in self._by_queue

    def next_end_ms(self) -> int | None:
        """Return when the next wait ends, None when none does."""
        ends = [w.until_ms for ws in self._by_queue.values() for w in ws if w.until_ms is not None]
        return min(ends, default=None)

    def offer(self, queue_number: int) -> None:
        """Give the gets that wait on a queue what they can have now, longest waiting first."""
        waiters = self._by_queue.get(queue_number, [])
        left = []
        for place, waiter in enumerate(waiters, 1):
            if not waiter.attempt():
                left.append(waiter)
                if waiter.takes_any:
                    # Those behind cannot have it either: a thousand waits cost like one.
                    left.extend(waiters[place:])
                    break
        self._keep(queue_number, left)

    def offer_all(self) -> None:
        """Let every waiting get try again: definitions have changed."""
        for queue_number, waiters in list(self._by_queue.items()):
            self._keep(queue_number, [w for w in waiters if not w.attempt()])

    def withdraw(self, queue_number: int, waiter: Waiter) -> None:
        """Forget a wait that was interrupted."""
        waiters = self._by_queue.get(queue_number, [])
        self._keep(queue_number, [w for w in waiters if w is not waiter])

    def end_due(self, now_ms: int, is_decided: Callable[[int, int], bool]) -> None:
        """End the waits whose time has come, in the order of their ends.

        ``is_decided(queue_number, end_ms)`` is True when no message can come any more that would
        have been there at the end of the wait.
        """
        over = [
            (waiter.until_ms, waiter)
            for queue_number, waiters in self._by_queue.items()
            for waiter in waiters
            if waiter.until_ms is not None
            and waiter.until_ms <= now_ms
            and is_decided(queue_number, waiter.until_ms)
        ]
        for _, waiter in sorted(over, key=lambda end: end[0]):
            waiter.end()
        self._forget({id(waiter) for _, waiter in over})

    def fail(self, error: MQError, queue_number: int | None = None) -> None:
        """Decide all waits, or those on one queue, by an error."""
        numbers = list(self._by_queue) if queue_number is None else [queue_number]
        for number in numbers:
            for waiter in self._by_queue.pop(number, ()):
                waiter.fail(error)

    def end_of(self, owner: object, error: MQError) -> None:
        """Decide the waits of an owner by an error; later messages are for the others."""
        for number, waiters in list(self._by_queue.items()):
            left = []
            for waiter in waiters:
                if waiter.owner is owner:
                    waiter.fail(error)
                else:
                    left.append(waiter)
            self._keep(number, left)

    def _forget(self, identities: set[int]) -> None:
        for number, waiters in list(self._by_queue.items()):
            self._keep(number, [w for w in waiters if id(w) not in identities])

    def _keep(self, queue_number: int, waiters: list[Waiter]) -> None:
        if waiters:
            self._by_queue[queue_number] = waiters
        else:
            self._by_queue.pop(queue_number, None)
