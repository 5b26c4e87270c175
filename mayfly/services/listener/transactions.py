"""Transactions of listener ports, and the service that limits how long they may last.

Its timeouts count on the queue manager's clock. At the total transaction lifetime timeout a
transaction is marked for rollback, even while a verb runs in it. It can then no longer be
committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Protocol

from mayfly.client.connection import Connection
from mayfly.jms import connections as jms
from mayfly.jms.connections import ConnectionFactory
from mayfly.jms.errors import (
    IllegalStateException,
    JMSException,
    TransactionRolledBackException,
    TransactionRolledBackRuntimeException,
)
from mayfly.lifetime.moments import (
    TOTAL_TRAN_LIFETIME_TIMEOUT_S,
    is_timed_out,
    timeout_ms,
)
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.queue_manager import QueueManager
from mayfly.verbs import requests as ask

_LOG = logging.getLogger("mayfly.listener")


def factory_of(manager: QueueManager | ConnectionFactory) -> ConnectionFactory:
    """Return a connection factory for a queue manager; a factory is returned unchanged.

    Raises TypeError for any other value.
    """
    return manager if isinstance(manager, ConnectionFactory) else ConnectionFactory(manager)


class TransactionRolledBack(MQError):
    """MQRC_BACKED_OUT: a commit was refused, and the transaction was rolled back instead."""

    def __init__(self, detail: str) -> None:
        """Take the reason of the rollback in words."""
        super().__init__(rc.MQRC_BACKED_OUT, detail)


class Transacted(Protocol):
    """A transacted session or context of JMS, which a transaction commits or rolls back."""

    def commit(self) -> None:
        """Commit the unit of work."""

    def rollback(self) -> None:
        """Back out the unit of work."""


class Status(Enum):
    """The status of a transaction."""

    ACTIVE = "active"
    MARKED_ROLLBACK = "marked for rollback"
    #: Its commit is under way, or has failed in a way that leaves the outcome unknown.
    UNKNOWN = "unknown"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


class Transaction:
    """A transaction of one thread; a timeout in another thread may mark it for rollback."""

    def __init__(self, service: TransactionService, session: Transacted, begun_ms: int) -> None:
        """Begin at a moment in epoch ms; programs call :meth:`TransactionService.begin` instead."""
        self._service = service
        self.session = session
        self.begun_ms = begun_ms
        #: When a timeout marks it for rollback, unless it ends before; None when none does.
        self.due_ms = service.due_ms_of(self.begun_ms, self.begun_ms)
        self._status = Status.ACTIVE
        self._why = ""
        #: Whether on_message of a port runs in it: the port alone ends it.
        self.is_managed_by_port = False

    @property
    def status(self) -> Status:
        """The present status; from the exact moment of a timeout on it is MARKED_ROLLBACK."""
        self._service.check(self)
        return self._status

    @property
    def is_active(self) -> bool:
        """Whether the last known status allows a commit; timeouts since then are not checked."""
        return self._status is Status.ACTIVE

    def use(self) -> None:
        """Restart the inactivity timeout, because the transaction is in use."""
        self._service.check(self)
        self.due_ms = self._service.due_ms_of(self.begun_ms, self._service.now_ms())

    def set_rollback_only(self) -> None:
        """Mark the transaction for rollback, as setRollbackOnly of a message-driven bean does."""
        self._service.mark(self, "the application has set it to be rolled back only")

    def mark(self, why: str) -> None:
        """Mark the transaction for rollback; does nothing if it is not active.

        ``why`` becomes the text of the error at its commit.
        """
        if self._status is Status.ACTIVE:
            self._status, self._why = Status.MARKED_ROLLBACK, why

    def commit(self) -> None:
        """Commit the unit of work of the session.

        If the transaction was marked for rollback, or the queue manager cannot commit, rolls back
        and raises TransactionRolledBack (MQRC_BACKED_OUT). Raises JMSException with
        MQRC_CONNECTION_BROKEN if the outcome is unknown. Raises IllegalStateException if the
        transaction has ended, or inside on_message.
        """
        self._check_not_ended("commit")
        if not self._service.end(self, Status.UNKNOWN):
            why = self._why
            self.rollback()
            raise TransactionRolledBack(why)
        try:
            self.session.commit()
        except (TransactionRolledBackException, TransactionRolledBackRuntimeException) as error:
            self._status = Status.ROLLED_BACK
            raise TransactionRolledBack(str(error)) from error
        self._status = Status.COMMITTED

    def rollback(self) -> None:
        """Back out the unit of work of the session.

        Raises IllegalStateException if the transaction has ended, or inside on_message.
        """
        self._check_not_ended("rollback")
        self._service.end(self, Status.ROLLED_BACK)
        self._status = Status.ROLLED_BACK
        self.session.rollback()

    def abandon(self) -> None:
        """End the transaction as rolled back, without a call on its session.

        Used when the connection of the session is broken.
        """
        self._service.end(self, Status.ROLLED_BACK)
        self._status = Status.ROLLED_BACK

    def end_as(self, status: Status) -> bool:
        """Set the final status of an active transaction; return False if it is not active."""
        if self._status is not Status.ACTIVE:
            return False
        self._status = status
        return True

    def _check_not_ended(self, call: str) -> None:
        """Raise IllegalStateException if the transaction has ended, or inside on_message.

        ``call`` is the method name for the text.
        """
        if self._status not in (Status.ACTIVE, Status.MARKED_ROLLBACK):
            raise IllegalStateException(f"{call}() of a transaction that is {self._status.value}")
        if self.is_managed_by_port:
            raise IllegalStateException(f"{call}() inside of on_message: its port ends it")


class TransactionService:
    """Begins transactions, and marks late ones for rollback by the queue manager's clock.

    Several threads may use it. Close it, or use it as a context manager.
    """

    def __init__(
        self,
        manager: QueueManager | ConnectionFactory | Connection,
        *,
        total_tran_lifetime_timeout_s: int = TOTAL_TRAN_LIFETIME_TIMEOUT_S,
        inactivity_timeout_s: int = 0,
        on_timeout: Callable[[Transaction], object] = lambda _transaction: None,
    ) -> None:
        """Set the timeouts in seconds, 0 for none; ``on_timeout`` is called at each timeout.

        The time is that of a queue manager, to which it connects, or of an open connection, which
        it does not close. The inactivity timeout counts from the begin or the last ``use``. Raises
        ValueError for a wrong timeout, TypeError for a wrong manager, and JMSException when it
        cannot connect.
        """
        self._lifetime_ms = timeout_ms(
            "total_tran_lifetime_timeout_s", total_tran_lifetime_timeout_s
        )
        self._inactivity_ms = timeout_ms("inactivity_timeout_s", inactivity_timeout_s)
        self._own: jms.Connection | None = None
        if isinstance(manager, (QueueManager, ConnectionFactory)):
            self._own = factory_of(manager).create_connection()
            manager = self._own.mq
        self._connection = manager
        self._notify = on_timeout
        #: Held while ``on_timeout`` is called, so the call comes before the rollback has ended.
        self._lock = manager.runtime.reentrant_lock("transactions")
        self._open: set[Transaction] = set()
        #: Whether a moment is waited for at which one may be late, or nobody is to wait any more.
        self._is_timed = False
        self.now_ms = manager.now_ms

    def begin(self, session: Transacted, begun_ms: int | None = None) -> Transaction:
        """Begin a transaction for the unit of work of a session.

        Its timeouts count from ``begun_ms`` (epoch ms); None asks the queue manager for its present
        time. Raises MQError if the queue manager cannot be asked.
        """
        begun_ms = self.now_ms() if begun_ms is None else begun_ms
        transaction = Transaction(self, session, begun_ms)
        with self._lock:
            self._open.add(transaction)
            was_timed = self._is_timed
            self._is_timed = was_timed or transaction.due_ms is not None
        if transaction.due_ms is not None and not was_timed:
            self._wait_for(transaction.due_ms)
        return transaction

    def due_ms_of(self, begun_ms: int, used_ms: int) -> int | None:
        """Return the epoch ms of the next timeout of a transaction; None if it has none.

        It was begun at ``begun_ms`` and last used at ``used_ms``.
        """
        lifetime_ms, inactivity_ms = self._lifetime_ms, self._inactivity_ms
        ends = [begun_ms + lifetime_ms] if lifetime_ms else []
        if inactivity_ms:
            ends.append(used_ms + inactivity_ms)
        return min(ends, default=None)

    def check(self, transaction: Transaction) -> None:
        """Mark a transaction for rollback if a timeout is over, its exact moment included."""
        now_ms = self._now_for(transaction)
        with self._lock:
            self._mark_if_late(transaction, now_ms)

    def mark(self, transaction: Transaction, why: str) -> None:
        """Mark a transaction for rollback, with the reason ``why``; ignored if it is not active."""
        with self._lock:
            transaction.mark(why)

    def end(self, transaction: Transaction, status: Status) -> bool:
        """Give an active transaction its final status; return False if it is not active.

        A transaction whose timeout is over is marked for rollback first. Its timeouts end.
        """
        now_ms = self._now_for(transaction)
        with self._lock:
            self._mark_if_late(transaction, now_ms)
            self._open.discard(transaction)
            return transaction.end_as(status)

    def close(self) -> None:
        """Stop the timeouts; open transactions can still be committed or rolled back."""
        with self._lock:
            self._is_timed = True
            self._open.clear()
        if self._own is not None:
            with suppress(MQError, JMSException):
                self._own.close()

    def _wait_for(self, due_ms: int) -> None:
        """Let :meth:`_on_due` be called at a moment of the queue manager's clock.

        ``due_ms`` is in epoch ms. This only begins the wait.
        """
        self._connection.begin(ask.WaitUntil(due_ms), partial(self._on_due, due_ms))

    def _on_due(self, due_ms: int, error: MQError | None) -> None:
        """Mark the late transactions, and wait for the next timeout; called at the end of a wait.

        ``due_ms`` (epoch ms) is the moment for which was waited. One wait is enough for all: a
        transaction that begins later is not late before this wait ends. Does nothing after an
        error, since the connection has ended.
        """
        if error is not None:
            # The connection has ended, and with it the transactions.
            return
        with self._lock:
            for transaction in list(self._open):
                self._mark_if_late(transaction, due_ms)
            moments = [one.due_ms for one in self._open if one.due_ms is not None and one.is_active]
            next_ms = min(moments, default=None)
            self._is_timed = next_ms is not None
        if next_ms is not None:
            self._wait_for(next_ms)

    def _now_for(self, transaction: Transaction) -> int:
        """Return the present time (epoch ms) if the transaction may be late, else 0.

        Returns 0 if the queue manager cannot be asked, too.
        """
        if transaction.due_ms is None or not transaction.is_active:
            return 0
        try:
            return self.now_ms()
        except MQError:
            # The connection is broken: its unit of work is backed out, and cannot be committed.
            return 0

    def _mark_if_late(self, transaction: Transaction, now_ms: int) -> None:
        """Mark an active transaction for rollback if its timeout is over; then call ``on_timeout``.

        Does nothing if the timeout is not over at ``now_ms``.
        """
        due_ms = transaction.due_ms
        if due_ms is None or not transaction.is_active or now_ms < due_ms:
            return
        is_too_long = is_timed_out(now_ms - transaction.begun_ms, self._lifetime_ms)
        timeout = (
            f"total transaction lifetime timeout of {self._lifetime_ms} ms"
            if is_too_long
            else f"inactivity timeout of {self._inactivity_ms} ms"
        )
        transaction.mark(f"the {timeout} is over; begun at {transaction.begun_ms}")
        _LOG.warning("a transaction is marked for rollback, begun at %d", transaction.begun_ms)
        self._notify(transaction)

    def __enter__(self) -> TransactionService:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the timeouts; open transactions can still be committed or rolled back."""
        self.close()
