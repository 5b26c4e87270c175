"""The step runtime: one of its threads runs at a time, however late a thread is that gives way."""

from __future__ import annotations

import threading

from tests.facts import wait_until
from tests.runtime.steps import Loop


class SlowBaton(threading.Semaphore):
    """Its release returns only when the other thread has given the turn back."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(0)
        self._loop = loop

    def release(self, n: int = 1) -> None:
        super().release(n)
        wait_until(lambda: self._loop.turn == 0)


def test_a_thread_that_has_the_turn_back_before_it_waits_takes_it_once() -> None:
    loop = Loop(1)
    number = loop.add()
    loop._batons[number] = SlowBaton(loop)

    def run() -> None:
        loop.begin(number)
        loop.end()

    other = threading.Thread(target=run)
    other.start()
    while loop.switch_count == 0:
        loop.give_way()
    # A turn that is left over would let two threads run at once.
    assert not loop._batons[0].acquire(blocking=False)
    other.join()
