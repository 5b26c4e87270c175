"""Browsing a queue: its messages in order, left where they are."""

from __future__ import annotations

from collections.abc import Iterator

from mayfly.jms.destinations import Destination, Queue
from mayfly.jms.errors import classic, refuse
from mayfly.jms.feeds import selector_text
from mayfly.jms.messages import Message
from mayfly.jms.reading import incoming
from mayfly.jms.roles import OwningSession
from mayfly.jms.sending import queue_to_use
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import NoMessage
from mayfly.verbs import requests as ask

#: The MQRFH2 is read here, whatever PROPCTL of the queue says.
_BROWSE_NEXT = c.MQGMO_BROWSE_NEXT | c.MQGMO_PROPERTIES_FORCE_MQRFH2


class QueueBrowser:
    """Shows the messages of a queue; each iteration begins anew. Errors are JMSException."""

    @classic
    def __init__(
        self, session: OwningSession, queue: Destination, selector: str | None = None
    ) -> None:
        """Check queue and selector; sessions make browsers.

        Raises InvalidDestinationException, InvalidSelectorException.
        """
        self._selector = selector_text(selector)
        self._session = session
        self._queue = queue_to_use(queue)
        self._is_open = True
        self._handles: list[int] = []
        session.close_handle(self._open())

    @property
    def queue(self) -> Queue:
        """The queue it shows."""
        return self._queue

    @property
    def message_selector(self) -> str | None:
        """Which messages it shows; None: all."""
        return self._selector

    def __iter__(self) -> Iterator[Message]:
        """Yield the messages in get order, each read when it is asked for."""
        self._check_open()
        with self._session.lock:
            handle = self._open()
            self._handles.append(handle)
        try:
            while (message := self._next(handle)) is not None:
                yield message
        finally:
            self._session.close_handle(handle)
            self._handles.remove(handle)

    #: JMS calls it so.
    get_enumeration = __iter__

    def close(self) -> None:
        """Close; iterations under way end with an error. A second close does nothing."""
        self._is_open = False
        for handle in list(self._handles):
            self._session.close_handle(handle)

    @classic
    def _next(self, handle: int) -> Message | None:
        self._check_open()
        try:
            message = self._session.mq.get(handle, _BROWSE_NEXT).message
        except NoMessage:
            return None
        return incoming(message, self._session.mq.name, None)

    @classic
    def _open(self) -> int:
        queue = self._queue
        return self._session.mq.call(
            ask.Open(
                queue.queue_name,
                c.MQOO_BROWSE,
                manager=queue.queue_manager,
                selector=self._selector,
            )
        ).handle

    def _check_open(self) -> None:
        self._session.check_open()
        if not self._is_open:
            refuse(rc.MQRC_HOBJ_ERROR, "the browser is closed")
