"""The consumer of the classic API: takes messages off a queue, or waits for them."""

from __future__ import annotations

from collections.abc import Callable

from mayfly.jms.constants import AUTO_ACKNOWLEDGE, DUPS_OK_ACKNOWLEDGE
from mayfly.jms.destinations import Destination
from mayfly.jms.errors import (
    IllegalStateException,
    JMSException,
    MessageFormatException,
    classic,
    refuse,
)
from mayfly.jms.feeds import Feed
from mayfly.jms.messages import Message
from mayfly.jms.poison import is_poisonous, move_away
from mayfly.jms.reading import incoming
from mayfly.jms.roles import OwningSession
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, MQError, NoMessage
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery, Settlement

_CLOSED_MEANWHILE = (rc.MQRC_HCONN_ERROR, rc.MQRC_HOBJ_ERROR)
#: The queue manager, or the connection to it, has ended before: then nothing is left to close.
_ENDED_MEANWHILE = (
    *_CLOSED_MEANWHILE,
    rc.MQRC_CONNECTION_BROKEN,
    rc.MQRC_Q_MGR_QUIESCING,
    rc.MQRC_Q_MGR_STOPPING,
)
#: The MQRFH2 is read here, whatever PROPCTL of the queue says.
_HELD = c.MQGMO_WAIT | c.MQGMO_PROPERTIES_FORCE_MQRFH2
_IN_UNIT = c.MQGMO_SYNCPOINT | _HELD
_FOREVER = c.MQWI_UNLIMITED
#: The queue manager's time of the end of a receive that does not wait.
_NOW = 0


class MessageConsumer:
    """Receives the messages of one queue or subscription. Errors are JMSException.

    In AUTO_ACKNOWLEDGE and DUPS_OK_ACKNOWLEDGE a message is held as a delivery, and settled before
    it is handed out; otherwise the session's unit of work holds what was received.
    """

    @classic
    def __init__(self, session: OwningSession, feed: Feed) -> None:
        """Open the feed; sessions make consumers. Raises as ``open`` of the feed."""
        self._session = session
        self._feed = feed
        #: Whether the return of a receive, or of a listener, acknowledges the message.
        self.is_automatic = session.acknowledge_mode in (AUTO_ACKNOWLEDGE, DUPS_OK_ACKNOWLEDGE)
        self._mq = session.mq
        self._handle: int | None = None
        #: A message whose body was not of the type asked for: it comes again.
        self._held: tuple[Delivery, Message] | None = None
        self._listener: Callable[[Message], object] | None = None
        self._is_open = True
        try:
            self.open_handle()
        except (MQError, JMSException):
            self._feed.close(self._mq)
            raise

    @property
    def destination(self) -> Destination:
        """The queue or topic it receives from."""
        return self._feed.destination

    @property
    def message_selector(self) -> str | None:
        """Which messages it takes; None: all."""
        return self._feed.message_selector

    @property
    def no_local(self) -> bool:
        """Whether it leaves out what its own connection, or client id, publishes."""
        return self._feed.no_local

    @property
    def message_listener(self) -> Callable[[Message], object] | None:
        """The function that is called with each message; None when messages are received."""
        return self._listener

    @classic
    def set_message_listener(self, listener: Callable[[Message], object] | None) -> None:
        """Have a thread of the session call this with each message, None to receive again.

        The listener is called while the connection is started, for one message of the session at a
        time. Nobody can receive in the session meanwhile. In AUTO_ACKNOWLEDGE and
        DUPS_OK_ACKNOWLEDGE the return of the listener acknowledges the message. When the listener
        raises, the message comes again (BackoutCount and BOTHRESH apply). Raises
        IllegalStateException when the consumer is closed.
        """
        if listener is not None and not callable(listener):
            raise JMSException(f"message listener {listener!r} cannot be called")
        self._check_open()
        if listener is None:
            self._session.listening.leave(self)
        with self._session.lock:
            # From here on a stop of another thread leaves the handle open.
            self._listener = listener
        if listener is not None:
            self._session.listening.listen(self, listener)

    def receive(self, timeout_ms: int | None = None) -> Message | None:
        """Return the next message, waiting for it; None and 0 wait for ever.

        Returns None when none came in time, or when the consumer, its session or its connection is
        closed meanwhile. Nothing comes while the connection is stopped. Raises JMSException with
        the reason of the failed get, IllegalStateException when it is closed already.
        """
        return self.receive_as(None, self.wait_of(timeout_ms))

    def receive_no_wait(self) -> Message | None:
        """Return the next message, None when there is none."""
        return self.receive_as(None, 0)

    @classic
    def receive_as(self, body_type: type | None, wait_ms: int) -> Message | None:
        """Receive a message whose body is of a type, of any type with None; -1 waits for ever.

        Raises MessageFormatException for another body; in AUTO_ACKNOWLEDGE and DUPS_OK_ACKNOWLEDGE
        the message is then received again by the next call.
        """
        self._check_open()
        if self._session.listening.is_used:
            raise IllegalStateException("the session has message listeners: nothing is received")
        self._session.begin_work()
        until_ms = None if wait_ms == _FOREVER else _NOW
        if wait_ms > 0:
            until_ms = self._mq.now_ms() + wait_ms
        while True:
            if not self._session.connection.wait_for_start(until_ms, self._owner_is_open):
                return None
            try:
                is_ended, message = self._receive_one(until_ms, body_type)
            except NoMessage:
                return None
            except ConnectionBroken:
                if self._owner_is_open():
                    raise
                return None
            except MQError as error:
                # The connection was lost with the message, and made again: it comes again.
                if error.reason != rc.MQRC_BACKED_OUT or not self.is_automatic:
                    raise
                continue
            if is_ended:
                return message

    @staticmethod
    def wait_of(timeout_ms: int | None) -> int:
        """Return how long a receive waits: as JMS has it, None and 0 are for ever, here -1."""
        if timeout_ms is None or timeout_ms == 0:
            return _FOREVER
        if timeout_ms < 0:
            raise JMSException(f"timeout_ms {timeout_ms} is negative", rc.MQRC_WAIT_INTERVAL_ERROR)
        return timeout_ms

    def interrupt(self) -> None:
        """End a wait of another thread, which then sees that the connection is stopped."""
        with self._session.lock:
            if self._listener is None:
                self._close_handle()

    def close(self) -> None:
        """Close; a receive of another thread returns None. A second close does nothing.

        It waits for a message listener at work. Called inside of its own listener, it closes when
        that returns.
        """
        listening = self._session.listening
        if listening.leave_later(self):
            return
        listening.leave(self)
        with self._session.lock:
            if not self._is_open:
                return
            self._is_open = False
            held = self.take_held()
            try:
                self._let_go(held)
            except MQError as error:
                if error.reason not in _ENDED_MEANWHILE:
                    raise
        self._session.connection.wake()
        self._session.forget(self)

    def _let_go(self, held: Delivery | None) -> None:
        if self._mq.is_open:
            if held is not None:
                self._settle(held, is_done=False)
            self._close_handle()
            self._feed.close(self._mq)

    def take_held(self) -> Delivery | None:
        """Take the message that was of another type than a receive has asked for, if any."""
        held, self._held = self._held, None
        return None if held is None else held[0]

    def accept(self, delivery: Delivery) -> Message | None:
        """Return the JMS message for the listener; None when it was poisonous and is moved away.

        Raises MQRC_BACKOUT_THRESHOLD_REACHED and others when the move fails.
        """
        message = delivery.result.message
        with self._session.lock:
            if not self.is_automatic:
                self._session.has_work = True
            handle = self.open_handle()
            if is_poisonous(self._mq, handle, message):
                self._move_away(handle, delivery)
                return None
            return incoming(message, self._mq.name, self._session.acknowledge)

    def settle(self, delivery: Delivery, *, is_done: bool) -> None:
        """Acknowledge the message of a listener that has returned, or let it come again.

        In CLIENT_ACKNOWLEDGE and SESSION_TRANSACTED it does nothing: the application acknowledges
        or commits itself.
        """
        if self.is_automatic:
            self._settle(delivery, is_done=is_done)

    def _settle(self, delivery: Delivery, *, is_done: bool) -> None:
        settlement = Settlement.TAKEN if is_done else Settlement.BACKED_OUT
        self._mq.call(ask.Settle([delivery.number], settlement))

    def _check_open(self) -> None:
        self._session.check_open()
        if not self._is_open:
            refuse(rc.MQRC_HOBJ_ERROR, "the consumer is closed")

    def _receive_one(
        self, until_ms: int | None, body_type: type | None
    ) -> tuple[bool, Message | None]:
        """Return whether the receive has ended, and with what."""
        with self._session.lock:
            if not self._owner_is_open():
                return True, None
            if self._held is not None:
                return True, self._hand_out(*self._held, body_type)
            handle = self.open_handle()
        try:
            delivery = self._get(handle, until_ms)
        except MQError as error:
            if error.reason not in _CLOSED_MEANWHILE:
                raise
            with self._session.lock:
                if self._handle == handle:
                    self._handle = None
            return False, None
        with self._session.lock:
            if not self._session.is_open:
                # The close has given it back.
                return True, None
            if self.is_automatic and not self._is_open:
                self._settle(delivery, is_done=False)
                return True, None
            message = delivery.result.message
            if is_poisonous(self._mq, handle, message):
                self._move_away(handle, delivery)
                return False, None
            received = incoming(message, self._mq.name, self._session.acknowledge)
            return True, self._hand_out(delivery, received, body_type)

    def _get(self, handle: int, until_ms: int | None) -> Delivery:
        wait_ms = _FOREVER
        if until_ms is not None:
            wait_ms = 0 if until_ms == _NOW else max(until_ms - self._mq.now_ms(), 0)
        if self.is_automatic:
            return self._mq.call(ask.GetAny([handle], _HELD, wait_ms=wait_ms))
        result = self._mq.get(handle, _IN_UNIT, wait_ms=wait_ms)
        self._session.has_work = True
        return Delivery(0, result, handle)

    def _hand_out(self, delivery: Delivery, received: Message, body_type: type | None) -> Message:
        if body_type is not None and not has_body(received, body_type):
            if self.is_automatic:
                self._held = delivery, received
            raise MessageFormatException(
                f"the body of a {type(received).__name__} is no {body_type.__name__}"
            )
        self._held = None
        if self.is_automatic:
            self._settle(delivery, is_done=True)
        return received

    def _move_away(self, handle: int, delivery: Delivery) -> None:
        mq = self._mq
        if self.is_automatic:
            # The unit of work has nothing else in it.
            numbers = [delivery.number]
            mq.call(ask.Settle(list(numbers), Settlement.TAKEN, within=mq.number))
        try:
            move_away(mq, handle, delivery.result.message)
        except MQError as error:
            if self.is_automatic:
                self._mq.call(ask.Backout())
            else:
                # It is in the unit of work, which must not be committed without it.
                self._session.must_roll_back = error
            raise
        if self.is_automatic:
            self._mq.call(ask.Commit())

    def open_handle(self) -> int:
        """Return the handle on its queue, open."""
        if self._handle is None:
            self._handle = self._feed.open(self._mq)
        return self._handle

    @classic
    def open_to_look(self) -> int:
        """Return a new handle that sees what the consumer would get; it ends with the session.

        Raises JMSSecurityException for a user who may not browse the queue.
        """
        return self._feed.open_to_look(self._mq)

    def _close_handle(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None and self._mq.has_open(handle):
            self._mq.call(ask.CloseObject(handle))

    def _owner_is_open(self) -> bool:
        session = self._session
        return self._is_open and session.is_open and session.connection.is_open


def has_body(message: Message, body_type: type) -> bool:
    """Return True if a message has a body that can be read as a type."""
    return message.kind != Message.kind and message.is_body_assignable_to(body_type)
