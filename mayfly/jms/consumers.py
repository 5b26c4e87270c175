"""The consumer of the classic API: takes messages off a queue, or waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mayfly.engine.get import GetRequest
from mayfly.engine.handles import Handle
from mayfly.engine.message import Message as QueueMessage
from mayfly.engine.session import Session as EngineSession
from mayfly.jms.constants import AUTO_ACKNOWLEDGE, DUPS_OK_ACKNOWLEDGE
from mayfly.jms.destinations import Destination, Queue
from mayfly.jms.errors import (
    InvalidDestinationException,
    JMSException,
    MessageFormatException,
    classic,
    refuse,
)
from mayfly.jms.messages import Message
from mayfly.jms.poison import is_poisonous, move_away
from mayfly.jms.reading import incoming
from mayfly.jms.sending import own_queue_name, queue_to_use
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, MQError, NoMessage

if TYPE_CHECKING:
    from mayfly.jms.sessions import Session

_CLOSED_MEANWHILE = (rc.MQRC_HCONN_ERROR, rc.MQRC_HOBJ_ERROR)
_GET_OPTIONS = c.MQGMO_SYNCPOINT | c.MQGMO_WAIT
_FOREVER = -1


class MessageConsumer:
    """Receives the messages of one queue. Errors are JMSException.

    Everything is got under syncpoint. In AUTO_ACKNOWLEDGE and DUPS_OK_ACKNOWLEDGE the consumer has
    a connection of its own to the queue manager and commits before it hands a message out;
    otherwise the session's unit of work holds what was received.
    """

    @classic
    def __init__(
        self, session: Session, destination: Destination, selector: str | None = None
    ) -> None:
        """Open the queue; sessions make consumers.

        Raises InvalidDestinationException for a queue that is not known or another connection's
        temporary queue, InvalidSelectorException, MQRC_FUNCTION_NOT_SUPPORTED for a topic.
        """
        self._selector = selector_text(selector)
        self._session = session
        self._queue: Queue = queue_to_use(destination)
        self._name = own_queue_name(session, self._queue)
        self._is_automatic = session.acknowledge_mode in (AUTO_ACKNOWLEDGE, DUPS_OK_ACKNOWLEDGE)
        self._mq: EngineSession = session.connect() if self._is_automatic else session.mq
        self._handle: Handle | None = None
        #: A message whose body was not of the type asked for: it comes again.
        self._held: tuple[QueueMessage, Message] | None = None
        self._is_open = True
        try:
            self._open_handle()
        except (MQError, JMSException):
            if self._is_automatic:
                self._mq.close(commit=False)
            raise

    @property
    def destination(self) -> Destination:
        """The queue it receives from."""
        return self._queue

    @property
    def message_selector(self) -> str | None:
        """Which messages it takes; None: all."""
        return self._selector

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
        self._session.check_open()
        if not self._is_open:
            refuse(rc.MQRC_HOBJ_ERROR, "the consumer is closed")
        until_ms = None if wait_ms == _FOREVER else self._session.manager.now_ms() + wait_ms
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
            self._close_handle()

    def close(self) -> None:
        """Close; a receive of another thread returns None. A second close does nothing."""
        with self._session.lock:
            if not self._is_open:
                return
            self._is_open = False
            if self._is_automatic:
                self._mq.close(commit=False)
            else:
                self._close_handle()
        self._session.connection.wake()
        self._session.forget(self)

    def _receive_one(
        self, until_ms: int | None, body_type: type | None
    ) -> tuple[bool, Message | None]:
        """Return whether the receive has ended, and with what."""
        with self._session.lock:
            if not self._owner_is_open():
                return True, None
            if self._held is not None:
                return True, self._hand_out(*self._held, body_type)
            handle = self._open_handle()
        try:
            message = handle.get(self._request(until_ms), _GET_OPTIONS).message
        except MQError as error:
            if error.reason not in _CLOSED_MEANWHILE:
                raise
            with self._session.lock:
                if self._handle is handle:
                    self._handle = None
            return False, None
        with self._session.lock:
            is_lost = not (self._owner_is_open() if self._is_automatic else self._session.is_open)
            if is_lost:
                # The close has given it back.
                return True, None
            if is_poisonous(handle, message):
                self._move_away(handle, message)
                return False, None
            received = incoming(message, self._session.manager.name, self._session.acknowledge)
            return True, self._hand_out(message, received, body_type)

    def _request(self, until_ms: int | None) -> GetRequest:
        if until_ms is None:
            return GetRequest(wait_ms=_FOREVER)
        return GetRequest(wait_ms=max(until_ms - self._session.manager.now_ms(), 0))

    def _hand_out(
        self, message: QueueMessage, received: Message, body_type: type | None
    ) -> Message:
        if body_type is not None and not has_body(received, body_type):
            if self._is_automatic:
                self._held = message, received
            raise MessageFormatException(
                f"the body of a {type(received).__name__} is no {body_type.__name__}"
            )
        self._held = None
        if self._is_automatic:
            self._mq.commit()
        return received

    def _move_away(self, handle: Handle, message: QueueMessage) -> None:
        try:
            move_away(self._session.manager, self._mq, handle, message)
        except MQError as error:
            if self._is_automatic:
                self._mq.backout()
            else:
                # It is in the unit of work, which must not be committed without it.
                self._session.must_roll_back = error
            raise
        if self._is_automatic:
            self._mq.commit()

    def _open_handle(self) -> Handle:
        if self._handle is None:
            options = c.MQOO_INPUT_AS_Q_DEF | c.MQOO_INQUIRE
            self._handle = self._mq.open(self._name, options, selector=self._selector)
            definition = self._handle.queue.definition
            if definition.definition_type == c.MQQDT_TEMPORARY_DYNAMIC and (
                not self._session.connection.has_temporary_queue(definition.name)
            ):
                self._close_handle()
                raise InvalidDestinationException(
                    f"{definition.name} is the temporary queue of another connection",
                    rc.MQRC_OPTION_NOT_VALID_FOR_TYPE,
                )
        return self._handle

    def _close_handle(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None and handle.is_open:
            handle.close()

    def _owner_is_open(self) -> bool:
        return self._is_open and self._session.is_open


def has_body(message: Message, body_type: type) -> bool:
    """Tell whether a message has a body of a type; one without a body has none."""
    return message.kind != Message.kind and message.is_body_assignable_to(body_type)


def selector_text(selector: str | None) -> str | None:
    """Return a message selector, None for a blank one; raises InvalidSelectorException if no text.

    Whether it is well formed turns out when its queue is opened.
    """
    if selector is not None and not isinstance(selector, str):
        refuse(rc.MQRC_SELECTION_STRING_ERROR, f"selector {selector!r} is no text")
    return selector if selector is not None and selector.strip() else None
