"""A server session: a JMS session with its consumer, on which one thread at a time works."""

from __future__ import annotations

import logging
import threading

from mayfly.client.connection.instruments import instrumented_listener
from mayfly.client.connection.interface import OnDone, UnderWay
from mayfly.client.connection.waits import Wait
from mayfly.jms.errors import IllegalStateException
from mayfly.jms.messages import Message
from mayfly.jms.sessions import Session
from mayfly.mqi import constants as c
from mayfly.mqi.errors import NoMessage
from mayfly.services.listener.conversations import Conversations
from mayfly.services.listener.settings import Settings
from mayfly.services.listener.statistics import Tally
from mayfly.services.listener.transactions import (
    Transaction,
    TransactionRolledBack,
    TransactionService,
)
from mayfly.verbs.messages import Delivery

_LOG = logging.getLogger("mayfly.listener")
_current = threading.local()
#: The MQRFH2 is read here, whatever PROPCTL of the queue says.
_TAKES = c.MQGMO_SYNCPOINT | c.MQGMO_PROPERTIES_FORCE_MQRFH2
_LOOKS = c.MQGMO_BROWSE_FIRST | c.MQGMO_WAIT | c.MQGMO_ACCEPT_TRUNCATED_MSG


def current_transaction() -> Transaction:
    """Return the transaction in which on_message is being called on this thread.

    Its ``session`` is the JMS session of the message: sends by it are part of the transaction.
    Raises IllegalStateException elsewhere.
    """
    transaction: Transaction | None = getattr(_current, "transaction", None)
    if transaction is None:
        raise IllegalStateException("current_transaction() outside of on_message")
    return transaction


class ServerSession:
    """Takes messages and calls on_message with them, each in a transaction of its own."""

    def __init__(self, conversations: Conversations, settings: Settings, tally: Tally) -> None:
        """Open a session and its consumer; raises JMSException."""
        self._conversations, self._settings, self._tally = conversations, settings, tally
        self.session: Session
        self.session, self._consumer = conversations.open()
        self._on_message = instrumented_listener(self.session.mq, settings.on_message)
        #: Whether the last receive has found one.
        self._had_message = True
        #: The handle of looks at the queue; the first look opens it.
        self._look_handle: int | None = None
        self._transactions = TransactionService(
            self.session.mq,
            total_tran_lifetime_timeout_s=settings.total_tran_lifetime_timeout_s,
            on_timeout=lambda _transaction: tally.add("timed_out"),
        )

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed the session, or its connection."""
        return self.session.is_open

    def begin(self, begun_ms: int | None = None) -> Transaction:
        """Begin a transaction, whose time runs from a moment on, None is now; raises MQError."""
        return self._transactions.begin(self.session, begun_ms)

    def receive(self, wait: Wait, wait_ms: int) -> Delivery | None:
        """Take the next suitable message into the unit of work, waiting for it; else None.

        A message that the selector refuses is left alone (L6), an expired one is discarded (L15),
        and one that is there at the moment the wait ends is taken. Raises MQError.
        """
        delivery = None
        if self._had_message or not wait_ms:
            # Behind a message another one is likely: got without a callback, in half the time.
            delivery = wait.attempt(self._take_now)
        if delivery is None and wait_ms:
            handle = self._consumer.open_handle()
            delivery = self._get(wait, handle, _TAKES | c.MQGMO_WAIT, wait_ms)
        self._had_message = delivery is not None
        return delivery

    def look(self, wait: Wait) -> bool:
        """Wait until there is a message to take; it stays where it is. Raises MQError."""
        if self._look_handle is None:
            self._look_handle = self._consumer.open_to_look()
        return self._get(wait, self._look_handle, _LOOKS, c.MQWI_UNLIMITED) is not None

    def now_ms(self) -> int:
        """Return the queue manager's time; raises MQError."""
        return self.session.mq.now_ms()

    def deliver(self, transaction: Transaction, delivery: Delivery) -> bool:
        """Call on_message and end the transaction; False when the port is to stop (max_retries).

        One that was backed out too often is moved away instead. Raises MQError when nobody takes
        it or the queue manager could not commit; it is rolled back then. JMSException when the
        outcome of the commit is unknown.
        """
        try:
            received = self._consumer.accept(delivery)
        except Exception:
            transaction.rollback()
            raise
        if received is None:
            is_done = self._commit(transaction)
            if is_done:
                self._tally.add("requeued")
            return True
        try:
            is_done = self._call(transaction, received) and self._commit(transaction)
        except (TransactionRolledBack, IllegalStateException):
            # The session was closed in it, or the queue manager could not commit.
            self._tally.add("rolled_back")
            raise
        self._tally.add("committed" if is_done else "rolled_back")
        limit = self._settings.max_retries
        return is_done or limit is None or delivery.result.message.backout_count < limit

    def close(self) -> None:
        """Close the session; uncommitted work is rolled back."""
        self._transactions.close()
        self._conversations.close(self.session)

    def _take_now(self) -> Delivery | None:
        handle = self._consumer.open_handle()
        try:
            return Delivery(0, self.session.mq.get(handle, _TAKES), handle)
        except NoMessage:
            return None

    def _get(self, wait: Wait, handle: int, options: int, wait_ms: int) -> Delivery | None:
        get = self.session.mq.asynchronous.get

        def begin(on_done: OnDone[Delivery]) -> UnderWay:
            return get(handle, options, on_done=on_done, wait_ms=wait_ms)

        try:
            return wait.of(begin)
        except NoMessage:
            return None

    def _call(self, transaction: Transaction, message: Message) -> bool:
        """Call on_message; when it raises, roll back and return False."""
        self._tally.add("delivered")
        _current.transaction = transaction
        self.session.is_lent = transaction.is_lent = True
        is_done = False
        try:
            self._on_message(message)
            is_done = True
        except BaseException:  # noqa: BLE001 - the application's; nobody else would hear of it
            _LOG.exception("on_message failed; %s is rolled back", message.jms_message_id)
        finally:
            self.session.is_lent = transaction.is_lent = False
            _current.transaction = None
        if not is_done:
            transaction.rollback()
        return is_done

    def _commit(self, transaction: Transaction) -> bool:
        try:
            transaction.commit()
        except TransactionRolledBack as error:
            if error.__cause__ is not None:
                # The queue manager could not, and could not at once again: its disk is full.
                raise
            _LOG.warning("the commit was refused: %s", error)
            return False
        return True
