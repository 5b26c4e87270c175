"""The bridge itself: one pass over its queue, or a thread that waits there."""

from __future__ import annotations

import logging
import threading
from contextlib import closing

from mayfly.engine import Message, Signal, definitions_version, wait_for
from mayfly.ims_bridge.request_handler import RequestHandler, Transaction
from mayfly.mqi.errors import ConnectionBroken, InhibitedError, MQError, StoreError
from mayfly.queue_manager import QueueManager

_LOG = logging.getLogger("mayfly.ims_bridge")


class _Called:
    """Found in the place of a message: the thread is to look again by itself, or to end."""


_LOOK_AGAIN, _STOP = _Called(), _Called()


class ImsBridge:
    """Answers the requests on a queue by a transaction program (E30, docs/IMS_BRIDGE.md).

    A request of format MQIMS begins with an MQIIH; of any other format, such as MQIMSVS, it is data
    only. ``transaction(request, iih)`` gets that data as bytes and the header or None, and returns
    the answer; None answers nothing, ImsNak refuses the request, any other exception backs it out.
    """

    def __init__(self, manager: QueueManager, *, queue: str, transaction: Transaction) -> None:
        """Take the queue and the program; nothing is opened yet. Raises TypeError."""
        if not callable(transaction):
            raise TypeError(f"transaction {transaction!r} cannot be called")
        self._manager = manager
        self._queue = queue
        self._transaction = transaction
        self._signal = Signal(manager.engine)
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._held_at_version: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether a thread waits for requests, or answers one."""
        return self._thread is not None and self._thread.is_alive()

    def run_once(self) -> int:
        """See the requests that are there to their end, and return how many.

        A pass is over where the transaction fails: that request is on the queue again. Raises the
        reason code why the queue cannot be got from, or why a request can go nowhere: not to the
        dead-letter queue either; nothing is lost then, and the request is on the queue again.
        """
        count = 0
        with closing(RequestHandler(self._manager, self._queue, self._transaction)) as handler:
            # Requests that come meanwhile are for the next pass: a reply may be a request again.
            for _ in range(self._manager.curdepth(self._queue)):
                message = handler.next()
                if message is None or not handler.deal_with(message):
                    break
                count += 1
        return count

    def start(self) -> None:
        """Let a thread answer requests as they come; nothing when it does already.

        Raises the reason code why the queue cannot be opened, RuntimeError from inside of a
        transaction that has stopped the bridge.
        """
        if self.is_running and not self._is_stopping:
            return
        self._join()
        handler = RequestHandler(self._manager, self._queue, self._transaction)
        self._is_stopping, self._held_at_version = False, None
        self._thread = threading.Thread(
            target=self._serve, args=(handler,), name="mayfly-ims", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests, and wait for the one in work; a second stop does nothing.

        From inside of a transaction it does not wait: the thread ends when that has returned.
        """
        self._is_stopping = True
        self._signal.send()
        if self._thread is not threading.current_thread():
            self._join()

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _serve(self, handler: RequestHandler) -> None:
        try:
            with closing(handler):
                while (message := self._next(handler)) is not None:
                    self._deal_with(handler, message)
        except ConnectionBroken as error:
            _LOG.info("the bridge on %s ends: %s", self._queue, error)
        except (MQError, StoreError) as error:
            _LOG.error("the bridge on %s stops: %s", self._queue, error)

    def _next(self, handler: RequestHandler) -> Message | None:
        """Wait for a request; None at the end."""

        def take() -> Message | _Called | None:
            return self._take(handler)

        found: Message | _Called = _LOOK_AGAIN
        while found is _LOOK_AGAIN:
            found = wait_for(
                self._manager.engine, take, (self._signal.number, handler.queue_number)
            )
        return found if isinstance(found, Message) else None

    def _take(self, handler: RequestHandler) -> Message | _Called | None:
        if self._is_stopping:
            return _STOP
        if self._held_at_version == definitions_version(self._manager.engine):
            return None
        try:
            message = handler.source.take(in_parts=threading.current_thread() is self._thread)
        except InhibitedError:
            # Until somebody enables it again.
            return None
        return _LOOK_AGAIN if handler.source.is_cut else message

    def _deal_with(self, handler: RequestHandler, message: Message) -> None:
        # Read before the attempt: a definition changed during it may be the missing one.
        version = definitions_version(self._manager.engine)
        try:
            comes_again = not handler.deal_with(message) and not handler.backout_threshold
        except ConnectionBroken:
            raise
        except MQError as error:
            _LOG.error("%s can go nowhere: %s", message, error)
            comes_again = True
        if comes_again:
            # At once, and for ever: until a definition changes, nothing is taken.
            self._held_at_version = version
            _LOG.error("the bridge on %s is held until a definition changes", self._queue)
