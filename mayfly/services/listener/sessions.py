"""Server sessions, which receive messages and call on_message, and the connections they share.

At most ``conversations_per_connection`` sessions share a connection. Over a network each connection
is a socket.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from mayfly.client.connection.interface import instrumented_listener
from mayfly.client.connection.waits import Wait
from mayfly.jms.connections import Connection, ConnectionFactory
from mayfly.jms.constants import SESSION_TRANSACTED
from mayfly.jms.consumers import MessageConsumer
from mayfly.jms.destinations import Topic
from mayfly.jms.errors import IllegalStateException, JMSException, classic
from mayfly.jms.messages import Message
from mayfly.jms.sessions import Session
from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError, NoMessage
from mayfly.runtime import Lock
from mayfly.services.listener.settings import PortSettings
from mayfly.services.listener.transactions import (
    Transaction,
    TransactionRolledBack,
    TransactionService,
)
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery

_LOG = logging.getLogger("mayfly.listener")
_current = threading.local()
_subscriptions = itertools.count(1)
#: The MQRFH2 is read here, whatever PROPCTL of the queue says.
_TAKE = c.MQGMO_SYNCPOINT | c.MQGMO_PROPERTIES_FORCE_MQRFH2
_BROWSE = c.MQGMO_BROWSE_FIRST | c.MQGMO_WAIT | c.MQGMO_ACCEPT_TRUNCATED_MSG


@dataclass(frozen=True)
class Statistics:
    """The present state of a port, and its counts over all starts since it was created.

    State: ``threads`` is the number of sessions with a thread, ``connections`` that of their
    connections, ``receiving`` that of threads that wait for a message (in ASF, for the dispatcher).
    Counts: ``idle_rollbacks`` are transactions whose receive found nothing. ``delivered`` are calls
    of on_message, each of which ends as ``committed`` or ``rolled_back``. ``timed_out`` are
    transactions marked for rollback by a timeout, ``requeued`` messages moved to BOQNAME or the
    dead-letter queue, ``listener_retries`` recoveries of all sessions.
    """

    threads: int
    connections: int
    receiving: int
    idle_rollbacks: int
    delivered: int
    committed: int
    rolled_back: int
    timed_out: int
    requeued: int
    listener_retries: int


class Counters:
    """The counters for :class:`Statistics` of one port; its threads share them."""

    def __init__(self, lock: Lock) -> None:
        """Begin with all counts 0; ``lock`` guards them."""
        self._lock = lock
        self._counts: Counter[str] = Counter()

    def add(self, name: str) -> None:
        """Add one to the counter of this field of :class:`Statistics`."""
        with self._lock:
            self._counts[name] += 1

    def statistics(self, state: Callable[[], tuple[int, int, int]]) -> Statistics:
        """Return the counts, and the three numbers of ``state``: threads, connections, receiving.

        No count changes while ``state`` is called.
        """
        with self._lock:
            threads, connections, receiving = state()
            counts = self._counts.copy()
        return Statistics(
            threads,
            connections,
            receiving,
            counts["idle_rollbacks"],
            counts["delivered"],
            counts["committed"],
            counts["rolled_back"],
            counts["timed_out"],
            counts["requeued"],
            counts["listener_retries"],
        )


class SharedConnections:
    """Opens the sessions of a port on as few connections as possible.

    Several threads may use it.
    """

    def __init__(self, factory: ConnectionFactory, settings: PortSettings) -> None:
        """Begin without connections, which ``factory`` creates when needed."""
        self._factory = factory
        self._settings = settings
        #: The sessions of a topic share one subscription, which ends with the last of them.
        self._subscription = f"mayfly.listener.{next(_subscriptions)}"
        self._lock = factory.runtime.lock("conversations")
        self._connections: list[Connection] = []

    @property
    def connection_count(self) -> int:
        """The number of open connections; over a network the number of sockets.

        It is higher than the sessions need if the channel allows fewer conversations on each.
        """
        connections = self._connections
        sockets = set[int]().union(*(connection.sockets for connection in connections))
        return len(sockets) or len(connections)

    @classic
    def open(self) -> tuple[Session, MessageConsumer]:
        """Open a transacted session and its consumer.

        Raises JMSException, and leaves nothing open.
        """
        with self._lock:
            connection = self._connection_with_capacity()
            try:
                session = connection.create_session(SESSION_TRANSACTED)
                return session, self._consumer(session)
            except BaseException:
                self._close_if_unused(connection)
                raise

    def close(self, session: Session) -> None:
        """Close a session, which rolls it back, and its connection if no other session uses it.

        Errors are ignored: when a connection breaks, the queue manager rolls back.
        """
        with self._lock:
            owner = session.connection
            with suppress(MQError, JMSException):
                session.close()
            for connection in [one for one in self._connections if one is owner]:
                self._close_if_unused(connection)

    def _connection_with_capacity(self) -> Connection:
        """Return an open connection with fewer sessions than its limit, or a new, started one.

        Raises JMSException if the queue manager cannot be connected.
        """
        for connection in self._connections:
            has_capacity = len(connection.sessions()) < self._settings.conversations_per_connection
            if has_capacity and connection.is_open and not connection.is_broken:
                return connection
        limit = self._settings.conversations_per_connection
        connection = self._factory.create_connection_of(limit)
        connection.start()
        self._connections.append(connection)
        return connection

    def _consumer(self, session: Session) -> MessageConsumer:
        """Return a new consumer of a session; raises JMSException, and then closes the session."""
        destination, selector = self._settings.destination, self._settings.selector
        try:
            if isinstance(destination, Topic):
                return session.create_shared_consumer(destination, self._subscription, selector)
            return session.create_consumer(destination, selector)
        except BaseException:
            session.close()
            raise

    def _close_if_unused(self, connection: Connection) -> None:
        """Close a connection without sessions; errors are ignored."""
        if connection in self._connections and not connection.sessions():
            self._connections.remove(connection)
            with suppress(MQError, JMSException):
                connection.close()


def current_transaction() -> Transaction:
    """Return the transaction of the on_message call that runs on this thread.

    Its ``session`` is the JMS session of the message; messages sent with it are part of the
    transaction. Raises IllegalStateException outside on_message.
    """
    transaction: Transaction | None = getattr(_current, "transaction", None)
    if transaction is None:
        raise IllegalStateException("current_transaction() outside of on_message")
    return transaction


class ServerSession:
    """A session that receives messages and calls on_message, one transaction for each message."""

    def __init__(
        self, connections: SharedConnections, settings: PortSettings, counters: Counters
    ) -> None:
        """Open a session and its consumer on one of the ``connections``; raises JMSException."""
        self._shared, self._settings, self._counters = connections, settings, counters
        self.session: Session
        self.session, self._consumer = connections.open()
        self._on_message = instrumented_listener(self.session.mq, settings.on_message)
        #: Whether the last receive has found one.
        self._had_message = True
        #: The handle of looks at the queue; the first look opens it.
        self._browse_handle: int | None = None
        self._transactions = TransactionService(
            self.session.mq,
            total_tran_lifetime_timeout_s=settings.total_tran_lifetime_timeout_s,
            on_timeout=lambda _transaction: counters.add("timed_out"),
        )

    @property
    def is_open(self) -> bool:
        """Whether the session and its connection are open."""
        return self.session.is_open

    def begin(self, begun_ms: int | None = None) -> Transaction:
        """Begin a transaction, whose timeouts count from ``begun_ms`` (epoch ms); None means now.

        Raises MQError.
        """
        return self._transactions.begin(self.session, begun_ms)

    def receive(self, wait: Wait, wait_ms: int) -> Delivery | None:
        """Get the next message under syncpoint, waiting up to ``wait_ms``; None if none came.

        Messages that the selector excludes stay on the queue; expired ones are discarded. A message
        that is available at the moment the wait ends is taken. Ending ``wait`` ends the wait.
        Raises MQError.
        """
        delivery = None
        if self._had_message or not wait_ms:
            # Behind a message another one is likely: got without a callback, in half the time.
            delivery = wait.attempt(self._take_now)
        if delivery is None and wait_ms:
            handle = self._consumer.open_handle()
            delivery = self._get(wait, handle, _TAKE | c.MQGMO_WAIT, wait_ms)
        self._had_message = delivery is not None
        return delivery

    def wait_until_available(self, wait: Wait) -> bool:
        """Wait until a message is available, without taking it; False if ``wait`` was ended.

        Raises MQError.
        """
        if self._browse_handle is None:
            self._browse_handle = self._consumer.open_to_browse()
        return self._get(wait, self._browse_handle, _BROWSE, c.MQWI_UNLIMITED) is not None

    def now_ms(self) -> int:
        """Return the queue manager's time in epoch ms; raises MQError."""
        return self.session.mq.now_ms()

    def deliver(self, transaction: Transaction, delivery: Delivery) -> bool:
        """Call on_message and commit, or roll back if it fails; False means: stop the port.

        That is the case if the message has failed after ``max_retries`` retries. A message whose
        backout count has reached BOTHRESH is moved away instead. Raises MQError, after a rollback,
        if no queue accepts it or the queue manager cannot commit. Raises JMSException if the
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
                self._counters.add("requeued")
            return True
        try:
            is_done = self._call(transaction, received) and self._commit(transaction)
        except (TransactionRolledBack, IllegalStateException):
            # The session was closed in it, or the queue manager could not commit.
            self._counters.add("rolled_back")
            raise
        self._counters.add("committed" if is_done else "rolled_back")
        limit = self._settings.max_retries
        return is_done or limit is None or delivery.result.message.backout_count < limit

    def close(self) -> None:
        """Close the session, which rolls back uncommitted work."""
        self._transactions.close()
        self._shared.close(self.session)

    def _take_now(self) -> Delivery | None:
        """Get a message under syncpoint without waiting; None if none is available."""
        handle = self._consumer.open_handle()
        try:
            return Delivery(0, self.session.mq.get(handle, _TAKE), handle)
        except NoMessage:
            return None

    def _get(self, wait: Wait, handle: int, options: int, wait_ms: int) -> Delivery | None:
        """Get a message with these options, waiting up to ``wait_ms``; None if none came."""
        request = ask.GetAny([handle], options, wait_ms)
        try:
            return wait.of(partial(self.session.mq.begin, request))
        except NoMessage:
            return None

    def _call(self, transaction: Transaction, message: Message) -> bool:
        """Call on_message and return True.

        If it raises, log the error, roll back ``transaction`` and return False; the message returns
        to its queue.
        """
        self._counters.add("delivered")
        _current.transaction = transaction
        self.session.is_managed_by_port = transaction.is_managed_by_port = True
        is_done = False
        try:
            self._on_message(message)
            is_done = True
        except BaseException:  # noqa: BLE001 - the application's; nobody else would hear of it
            _LOG.exception("on_message failed; %s is rolled back", message.jms_message_id)
        finally:
            self.session.is_managed_by_port = transaction.is_managed_by_port = False
            _current.transaction = None
        if not is_done:
            transaction.rollback()
        return is_done

    def _commit(self, transaction: Transaction) -> bool:
        """Commit a transaction; False if it was marked for rollback, which is logged.

        Raises TransactionRolledBack if the queue manager cannot commit.
        """
        try:
            transaction.commit()
        except TransactionRolledBack as error:
            if error.__cause__ is not None:
                # The queue manager could not, and could not at once again: its disk is full.
                raise
            _LOG.warning("the commit was refused: %s", error)
            return False
        return True
