"""The lock of an engine: who holds it, and how threads wait for a change under it."""

import threading

from mayfly.runtime import EngineLock
from tests.facts import wait_until
from tests.spec.scene import Running


def test_lock_is_held_by_the_thread_that_took_it_and_by_no_other() -> None:
    lock = EngineLock()
    assert not lock.is_held()
    with lock, lock:
        assert lock.is_held()
        assert not Running(lock.is_held).finish()
    assert not lock.is_held()


def test_wait_ends_when_somebody_tells_and_what_was_waited_for_is_over() -> None:
    lock, looks, is_under_way = EngineLock(), list[bool](), True

    def look() -> bool:
        assert lock.is_held()
        looks.append(is_under_way)
        return is_under_way

    def wait() -> None:
        # Held twice, it is free all the same while the thread waits.
        with lock, lock:
            lock.wait_while(look)

    waiting = Running(wait)
    wait_until(lambda: looks)
    with lock:
        lock.notify_all()
    wait_until(lambda: looks == [True, True])
    # Nothing looks again by itself, however long it takes.
    threading.Event().wait(0.05)
    with lock:
        assert looks == [True, True]
        is_under_way = False
        lock.notify_all()
    waiting.finish()
    assert looks == [True, True, False]


def test_wait_for_what_is_over_already_needs_nobody() -> None:
    lock = EngineLock()
    with lock:
        lock.wait_while(lambda: False)
        lock.notify_all()
