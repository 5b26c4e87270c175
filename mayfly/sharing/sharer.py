"""What members and their group have in common: works that change the stores of several of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mayfly.engine.manager import Manager
from mayfly.engine.transaction import Transaction
from mayfly.mqi.errors import MQError


class Sharer(Manager):
    """A queue manager that may be one of several whose stores change together."""

    #: How they do; None outside of a group.
    run_jointly: Callable[[Sharer, Sequence[Transaction]], None] | None = None
    #: Decided works that a full disk keeps from being carried out, with their intents.
    unfinished: list[tuple[Transaction, int]]
    #: Intents it need not remember any longer to have carried out.
    remembered: list[int]

    @property
    def is_usable(self) -> bool:
        """Whether it takes new work."""
        return not (self.is_stopped or self.is_closing)

    def enter(self, transaction: Transaction) -> None:
        """Begin to run a transaction; call it with the lock held.

        Raises MQRC_CONNECTION_BROKEN and MQRC_Q_MGR_STOPPING; the work stays as it is then.
        """
        self._enter(())
        self.under_way.add(transaction)

    def leave(self, transaction: Transaction) -> None:
        """End to run a transaction whose effect is left open."""
        with self.engine_lock:
            self.under_way.discard(transaction)
        self._settle(())

    def settle(self, transaction: Transaction) -> None:
        """Let a transaction that is durable take effect, and run what that leads to."""
        led_to = self._settle([transaction])
        if led_to:
            try:
                self.run(*led_to)
            except MQError as error:
                self._survive_a_full_disk(error)

    def release_due_ms(self) -> int | None:
        """Return when delayed messages are released next, None when none waits for it."""
        due_ms = self._delay_processor.next_due_ms()
        return None if due_ms is None else max(due_ms, self._postponed_to_ms)

    def _run_across(self, transactions: Sequence[Transaction]) -> bool:
        if self.run_jointly is None or not any(
            transaction.elsewhere for transaction in transactions
        ):
            return False
        self.run_jointly(self, transactions)
        return True
