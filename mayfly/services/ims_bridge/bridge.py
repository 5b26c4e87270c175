"""The bridge itself: one pass over its queue, or a thread that waits there."""

from __future__ import annotations

import logging
from contextlib import closing
from functools import partial
from typing import Final

from mayfly.client.connection import Connection
from mayfly.client.connection.interface import UnderWay
from mayfly.client.connection.waits import Wait
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, MQError, StoreError
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Thread
from mayfly.services.ims_bridge.request_handler import RequestHandler, Transaction
from mayfly.verbs.messages import Message

_LOG = logging.getLogger("mayfly.ims_bridge")
#: Of a connection that was made again: the unit of work is backed out, or its commit in doubt.
_ENDED_WITH_CONNECTION: Final = frozenset({rc.MQRC_BACKED_OUT, rc.MQRC_CALL_INTERRUPTED})


class ImsBridge:
    """Answers the requests on a queue by a transaction program (E30, docs/IMS_BRIDGE.md).

    A request of format MQIMS begins with an MQIIH; of any other format, such as MQIMSVS, it is data
    only. ``transaction(request, iih)`` gets that data as bytes and the header or None, and returns
    the answer; None answers nothing, ImsNak refuses the request, any other exception backs it out.
    """

    def __init__(
        self, source: QueueManager | Connection, *, queue: str, transaction: Transaction
    ) -> None:
        """Take the queue and the program; nothing is opened yet. Raises TypeError.

        ``source`` is a queue manager of this process; or a connection of an operator, which the
        bridge has for itself while it works, and leaves open.
        """
        if not callable(transaction):
            raise TypeError(f"transaction {transaction!r} cannot be called")
        self._source = source
        self._queue = queue
        self._transaction = transaction
        holder = source.engine if isinstance(source, QueueManager) else source
        self._runtime = holder.runtime
        self._thread: Thread | None = None
        self._wait = Wait(self._runtime)
        self._is_stopping = False
        #: How often definitions were seen to change, and how often they had before the attempt
        #: since which nothing is taken.
        self._change_count = 0
        self._held_at_count: int | None = None

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
        with closing(RequestHandler(self._source, self._queue, self._transaction)) as handler:
            # Requests that come meanwhile are for the next pass: a reply may be a request again.
            for _ in range(handler.connection.admin.curdepth(self._queue)):
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
        handler = RequestHandler(self._source, self._queue, self._transaction)
        self._is_stopping, self._held_at_count = False, None
        self._wait = Wait(self._runtime)
        self._thread = self._runtime.thread(partial(self._serve, handler), "mayfly-ims")
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests, and wait for the one in work; a second stop does nothing.

        From inside of a transaction it does not wait: the thread ends when that has returned.
        """
        self._is_stopping = True
        self._wait.end()
        if self._thread is not None and self._thread.ident != self._runtime.thread_id():
            self._join()

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _serve(self, handler: RequestHandler) -> None:
        changes = _Changes(self, handler.connection)
        try:
            with closing(handler), closing(changes):
                while (message := self._next(handler)) is not None:
                    self._deal_with(handler, message)
        except ConnectionBroken as error:
            _LOG.info("the bridge on %s ends: %s", self._queue, error)
        except (MQError, StoreError) as error:
            _LOG.error("the bridge on %s stops: %s", self._queue, error)

    def note_change(self) -> None:
        """Note that definitions have changed: a message that is held may now go to its queue."""
        self._change_count += 1
        self._wait.wake()

    def _next(self, handler: RequestHandler) -> Message | None:
        """Wait for a request; None at the end."""
        while not self._is_stopping:
            if self._held_at_count == self._change_count:
                self._wait.for_change()
                continue
            delivery = self._wait.of(handler.begin)
            if delivery is not None:
                return delivery.result.message
        return None

    def _deal_with(self, handler: RequestHandler, message: Message) -> None:
        # Read before the attempt: a definition changed during it may be the missing one.
        change_count = self._change_count
        try:
            comes_again = not handler.deal_with(message) and not handler.has_limit()
        except ConnectionBroken:
            raise
        except MQError as error:
            if error.reason in _ENDED_WITH_CONNECTION:
                # There is a new connection: a message that was backed out comes again, counted.
                _LOG.warning("%s: the connection was made again: %s", message, error)
                return
            _LOG.error("%s can go nowhere: %s", message, error)
            comes_again = True
        except Exception:  # noqa: BLE001 - a request that nobody expected ends no thread
            _LOG.exception("%s cannot be answered", message)
            comes_again = not handler.has_limit()
        if comes_again:
            # At once, and for ever: until a definition changes, nothing is taken.
            self._held_at_count = change_count
            _LOG.error("the bridge on %s is held until a definition changes", self._queue)


class _Changes:
    """Tells a bridge of each change of definitions, until it is closed or its connection ends."""

    def __init__(self, bridge: ImsBridge, connection: Connection) -> None:
        self._bridge, self._asynchronous = bridge, connection.asynchronous
        self._is_closed = False
        self._under_way: UnderWay = self._asynchronous.await_definitions(on_done=self._tell)

    def close(self) -> None:
        """Tell of nothing any more."""
        self._is_closed = True
        self._under_way.cancel()

    def _tell(self, error: MQError | None) -> None:
        if error is None and not self._is_closed:
            self._under_way = self._asynchronous.await_definitions(on_done=self._tell)
        # At the end of the connection, too: a bridge that is held meets it then.
        self._bridge.note_change()
