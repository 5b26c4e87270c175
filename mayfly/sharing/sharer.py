"""What members and their group have in common: works that change the stores of several of them."""

from __future__ import annotations

from mayfly.engine.manager import Manager
from mayfly.engine.transaction import Transaction


class Sharer(Manager):
    """A queue manager that may be one of several whose stores change together."""

    #: Decided works that a full disk keeps from being carried out, with their intents.
    unfinished: list[tuple[Transaction, int]]
    #: Intents it need not remember any longer to have carried out.
    remembered: list[int]

    @property
    def is_usable(self) -> bool:
        """Whether it takes new work."""
        return not (self.is_stopped or self.is_closing)

    def release_due_ms(self) -> int | None:
        """Return when delayed messages are released next, None when none waits for it."""
        due_ms = self._delay_processor.next_due_ms()
        return None if due_ms is None else max(due_ms, self._postponed_to_ms)
