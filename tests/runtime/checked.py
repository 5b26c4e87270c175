"""A runtime of checked locks: they remember in which order threads take them, by their names."""

from __future__ import annotations

import threading
from graphlib import CycleError, TopologicalSorter
from types import TracebackType

from mayfly.runtime import EngineLock, Runtime

ENGINE = "engine"


class Order:
    """Which locks were waited for while which others were held, in any thread."""

    def __init__(self) -> None:
        self.pairs: set[tuple[str, str]] = set()
        self._of_thread = threading.local()

    @property
    def _held(self) -> list[tuple[str, object]]:
        held: list[tuple[str, object]] | None = getattr(self._of_thread, "held", None)
        if held is None:
            held = self._of_thread.held = []
        return held

    def wait_for(self, name: str, lock: object) -> None:
        """Note that a thread is about to wait for a lock, unless it holds it already."""
        if all(one is not lock for _name, one in self._held):
            self.pairs.update((held, name) for held, _lock in self._held)

    def take(self, name: str, lock: object) -> None:
        self._held.append((name, lock))

    def free(self, lock: object) -> None:
        places = [n for n, (_name, one) in enumerate(self._held) if one is lock]
        # A plain lock may be freed by another thread than took it.
        if places:
            del self._held[places[-1]]

    def free_all(self, lock: object) -> int:
        """Free a lock that a condition gives away; return how often it was taken."""
        count = sum(one is lock for _name, one in self._held)
        self._held[:] = [(name, one) for name, one in self._held if one is not lock]
        return count

    def circle(self) -> list[str]:
        """Return locks that are taken in a circle, which may stop threads for ever."""
        graph: dict[str, set[str]] = {}
        for first, second in self.pairs:
            graph.setdefault(second, set()).add(first)
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle: list[str] = error.args[1]
            return circle
        return []


class CheckedLock:
    """A lock of the machine, with a name."""

    def __init__(self, name: str, order: Order, *, is_reentrant: bool) -> None:
        self._name, self._order = name, order
        self._is_reentrant = is_reentrant
        self._lock = threading.RLock() if is_reentrant else threading.Lock()
        self._is_taken = False

    def acquire(self, blocking: bool = True) -> bool:
        if blocking:
            self._order.wait_for(self._name, self)
        is_taken = self._lock.acquire(blocking)
        if is_taken:
            self._is_taken = True
            self._order.take(self._name, self)
        return is_taken

    def release(self) -> None:
        self._order.free(self)
        self._is_taken = False
        self._lock.release()

    def locked(self) -> bool:
        return self._is_taken

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


class CheckedEngineLock(EngineLock):  # type: ignore[misc]  # final in typeshed alone
    """The lock of an engine; a thread that waits or tells must hold it."""

    def __init__(self, order: Order) -> None:
        self._order = order
        super().__init__()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if blocking:
            self._order.wait_for(ENGINE, self)
        is_taken = super().acquire(blocking, timeout)
        if is_taken:
            self._order.take(ENGINE, self)
        return is_taken

    def release(self) -> None:
        self._order.free(self)
        super().release()

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()

    def notify_all(self) -> None:
        assert self.is_held()
        super().notify_all()

    # Called by threading.Condition.

    def _release_save(self) -> tuple[int, object]:
        return self._order.free_all(self), super()._release_save()  # type: ignore[misc]  # not in typeshed

    def _acquire_restore(self, saved: tuple[int, object]) -> None:
        count, state = saved
        super()._acquire_restore(state)  # type: ignore[misc]  # not in typeshed
        for _ in range(count):
            self._order.take(ENGINE, self)


class CheckedRuntime(Runtime):
    """The machine, with locks that are checked."""

    def __init__(self) -> None:
        super().__init__()
        self.order = Order()

    def lock(self, name: str) -> CheckedLock:
        return CheckedLock(name, self.order, is_reentrant=False)

    def reentrant_lock(self, name: str) -> CheckedLock:
        return CheckedLock(name, self.order, is_reentrant=True)

    def engine_lock(self) -> CheckedEngineLock:
        return CheckedEngineLock(self.order)
