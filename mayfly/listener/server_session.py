"""A server session: a JMS session with its consumer, on which one thread at a time works."""

from __future__ import annotations

import logging
import threading

from mayfly.connection import Delivery, GetResult, LocalConnection
from mayfly.engine import GetRequest
from mayfly.engine import Message as QueueMessage
from mayfly.engine.face.jms import LOOK_YOURSELF, Source, Wait
from mayfly.jms.errors import IllegalStateException
from mayfly.jms.messages import Message
from mayfly.jms.sessions import Session
from mayfly.listener.conversations import Conversations
from mayfly.listener.settings import Settings
from mayfly.listener.statistics import Tally
from mayfly.listener.transactions import Transaction, TransactionRolledBack
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError

_LOG = logging.getLogger("mayfly.listener")
_current = threading.local()


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
    """Takes messages and calls on_message with them, each in a transaction handed in."""

    def __init__(self, conversations: Conversations, settings: Settings, tally: Tally) -> None:
        """Open a session and its consumer; raises JMSException."""
        self._conversations, self._settings, self._tally = conversations, settings, tally
        self.session: Session
        self.session, self._consumer = conversations.open()
        number = self._consumer.open_handle()
        assert isinstance(self.session.mq, LocalConnection)
        handle = self.session.mq._objects.queue(number, rc.MQRC_HOBJ_ERROR)
        self._queue = handle.queue
        request = GetRequest(wait_ms=c.MQWI_UNLIMITED)
        unit_of_work = self.session.mq._session.unit_of_work
        self._source = Source(handle.getter(request, c.MQGMO_WAIT, unit_of_work))
        #: Under which messages of its queue come.
        self.number = handle.queue.number

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed the session, or its connection."""
        return self.session.is_open

    @property
    def may_find(self) -> bool:
        """Whether its queue holds messages at all, suitable or not; asked in a take."""
        return self._queue.depth > 0

    def receive(self, wait: Wait, until_ms: int) -> QueueMessage | None:
        """Take the next suitable message into the unit of work, waiting for it; else None.

        A message that the selector refuses is left alone (L6), an expired one is discarded (L15),
        and one that is there at the moment the wait ends is taken. Raises MQError.
        """
        takes_any = self._settings.selector is None
        while True:
            found: QueueMessage | object | None = wait.until(
                self.take, (self.number,), until_ms, takes_any=takes_any
            )
            if found is not LOOK_YOURSELF:
                assert found is None or isinstance(found, QueueMessage)
                return found
            self.go_on()

    def take(self, is_own_thread: bool) -> QueueMessage | object | None:
        """Take the next message under the lock, as a wait asks for it; raises MQError."""
        message = self._source.take(in_parts=is_own_thread)
        return LOOK_YOURSELF if message is None and self._source.is_cut else message

    def go_on(self) -> None:
        """Go on with a long search, without the lock."""
        self._source.go_on()

    def deliver(self, transaction: Transaction, message: QueueMessage) -> bool:
        """Call on_message and end the transaction; False when the port is to stop (max_retries).

        One that was backed out too often is moved away instead. Raises MQError when nobody takes
        it or the queue manager could not commit; it is rolled back then. JMSException when the
        outcome of the commit is unknown.
        """
        try:
            received = self._consumer.accept(Delivery(0, GetResult(message, 0, 0), 0))
        except MQError:
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
        return is_done or limit is None or message.backout_count < limit

    def close(self) -> None:
        """Close the session; uncommitted work is rolled back."""
        self._conversations.close(self.session)

    def _call(self, transaction: Transaction, message: Message) -> bool:
        """Call on_message; when it raises, roll back and return False."""
        self._tally.add("delivered")
        _current.transaction = transaction
        self.session.is_lent = transaction.is_lent = True
        is_done = False
        try:
            self._settings.on_message(message)
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
