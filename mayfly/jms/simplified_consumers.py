"""Consumers and browsers of the simplified API; each has one of the classic API behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mayfly.jms.browsers import QueueBrowser
from mayfly.jms.consumers import MessageConsumer
from mayfly.jms.destinations import Queue
from mayfly.jms.errors import simplified
from mayfly.jms.messages import Message


class JMSConsumer:
    """Receives the messages of one queue or subscription. Errors are JMSRuntimeException."""

    def __init__(self, consumer: MessageConsumer) -> None:
        """Take the consumer of the classic API that receives; contexts make consumers."""
        self._consumer = consumer

    @property
    def message_selector(self) -> str | None:
        """Which messages it takes; None: all."""
        return self._consumer.message_selector

    @property
    def message_listener(self) -> Callable[[Message], object] | None:
        """The function that is called with each message; None when messages are received."""
        return self._consumer.message_listener

    @simplified
    def set_message_listener(self, listener: Callable[[Message], object] | None) -> None:
        """Have a thread of the context call this with each message, None to receive again.

        The listener is called while the connection is started, for one message of the context at a
        time. Nobody can receive in the context meanwhile. In AUTO_ACKNOWLEDGE and
        DUPS_OK_ACKNOWLEDGE the return of the listener acknowledges the message. When the listener
        raises, the message comes again (BackoutCount and BOTHRESH apply). Raises
        IllegalStateRuntimeException when the consumer is closed.
        """
        self._consumer.set_message_listener(listener)

    @simplified
    def receive(self, timeout_ms: int | None = None) -> Message | None:
        """Return the next message, waiting for it; None and 0 wait for ever.

        Returns None when none came in time, or when it is closed meanwhile.
        """
        return self._consumer.receive(timeout_ms)

    @simplified
    def receive_no_wait(self) -> Message | None:
        """Return the next message, None when there is none."""
        return self._consumer.receive_no_wait()

    @simplified
    def receive_body(self, body_type: type, timeout_ms: int | None = None) -> Any:
        """Return the body of the next message as str, bytes or dict; None when none came.

        Raises MessageFormatRuntimeException for a body of another type; in AUTO_ACKNOWLEDGE and
        DUPS_OK_ACKNOWLEDGE the message is received again by the next call.
        """
        message = self._consumer.receive_as(body_type, self._consumer.wait_of(timeout_ms))
        return None if message is None else message.get_body(body_type)

    @simplified
    def receive_body_no_wait(self, body_type: type) -> Any:
        """Return the body of the next message, None when there is none."""
        message = self._consumer.receive_as(body_type, 0)
        return None if message is None else message.get_body(body_type)

    @simplified
    def close(self) -> None:
        """Close; a receive of another thread returns None."""
        self._consumer.close()


class JMSBrowser:
    """Shows the messages of a queue; each iteration begins anew. Errors are JMSRuntimeException."""

    def __init__(self, browser: QueueBrowser) -> None:
        """Take the browser of the classic API that browses; contexts make browsers."""
        self._browser = browser

    @property
    def queue(self) -> Queue:
        """The queue it shows."""
        return self._browser.queue

    @property
    def message_selector(self) -> str | None:
        """Which messages it shows; None: all."""
        return self._browser.message_selector

    def __iter__(self) -> Iterator[Message]:
        """Yield the messages in get order, each read when it is asked for."""
        messages = iter(self._browser)
        while (message := self._next(messages)) is not None:
            yield message

    #: JMS calls it so.
    get_enumeration = __iter__

    @simplified
    def _next(self, messages: Iterator[Message]) -> Message | None:
        return next(messages, None)

    def close(self) -> None:
        """Close; iterations under way end with an error."""
        self._browser.close()
