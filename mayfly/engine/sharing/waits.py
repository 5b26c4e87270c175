"""The waits of a member: those on its own queues, and those on shared ones, kept by the group."""

from __future__ import annotations

from typing import Final
from weakref import WeakSet

from mayfly.engine.waiting import Waiter, Waits
from mayfly.mqi.errors import MQError
from mayfly.store.keys import LARGEST_QUEUE_NUMBER

#: Shared queues are numbered from here, so that a number says whose a queue is.
FIRST_SHARED: Final = (LARGEST_QUEUE_NUMBER + 1) // 2


class MemberWaits(Waits):
    """Waits by the number of their queue; those on a shared one go to the group."""

    def __init__(self, shared: Waits) -> None:
        """Begin with nobody waiting."""
        super().__init__()
        self._shared = shared
        #: The waits there that came by way of this member.
        self._own: WeakSet[Waiter] = WeakSet()

    def add(self, queue_number: int, waiter: Waiter) -> None:
        """Let a get wait, behind those that wait already."""
        if queue_number < FIRST_SHARED:
            super().add(queue_number, waiter)
        else:
            self._own.add(waiter)
            self._shared.add(queue_number, waiter)

    def is_waited_on(self, queue_number: int) -> bool:
        """Return True if a get waits on a queue."""
        if queue_number < FIRST_SHARED:
            return super().is_waited_on(queue_number)
        return self._shared.is_waited_on(queue_number)

    def offer(self, queue_number: int) -> None:
        """Give the gets that wait on a queue what they can have now, longest waiting first."""
        if queue_number < FIRST_SHARED:
            super().offer(queue_number)
        else:
            self._shared.offer(queue_number)

    def offer_all(self) -> None:
        """Let every waiting get try again: definitions have changed."""
        super().offer_all()
        self._shared.offer_all()

    def withdraw(self, waiter: Waiter) -> None:
        """Forget a wait that was interrupted, if it is there."""
        if waiter.queue_number < FIRST_SHARED:
            super().withdraw(waiter)
        else:
            self._shared.withdraw(waiter)

    def fail(self, error: MQError, queue_number: int | None = None) -> None:
        """Decide all waits of the member, or those on one queue of its own, by an error."""
        super().fail(error, queue_number)
        if queue_number is None:
            for waiter in list(self._own):
                waiter.fail(error)
                self._shared.withdraw(waiter)

    def end_of(self, owner: object, error: MQError) -> None:
        """Decide the waits of an owner by an error; later messages are for the others."""
        super().end_of(owner, error)
        self._shared.end_of(owner, error)
