"""One conversation of the bridge: it takes requests off the queue and sees each to its end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from mayfly.client.connection import Connection, LocalConnection
from mayfly.client.connection.interface import OnDone, UnderWay
from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError, NoMessage
from mayfly.pymqi.headers import IIH
from mayfly.queue_manager import QueueManager
from mayfly.services.ims_bridge.refusals import ImsNak, refuse
from mayfly.services.ims_bridge.replies import reply_to
from mayfly.services.ims_bridge.requests import Asked, Request, asked_by, feedback_of
from mayfly.verbs.messages import Delivery, Message

_LOG = logging.getLogger("mayfly.ims_bridge")
#: Called with the data of a request and its MQIIH, None without; returns the answer, None for none.
Transaction = Callable[[Request, IIH | None], bytes | None]
#: A request is read as it was put.
_GET = c.MQGMO_SYNCPOINT | c.MQGMO_PROPERTIES_FORCE_MQRFH2


class RequestHandler:
    """Takes requests under syncpoint; request and reply are one unit of work. To be closed."""

    def __init__(
        self, source: QueueManager | Connection, queue: str, transaction: Transaction
    ) -> None:
        """Open the queue; raises its reason code."""
        self._transaction = transaction
        self._owns_connection = isinstance(source, QueueManager)
        if isinstance(source, QueueManager):
            source = LocalConnection(source.session(program="mayfly-ims"), source)
        self.connection = source
        try:
            self._handle = source.open(queue, c.MQOO_INPUT_SHARED).handle
        except MQError:
            if self._owns_connection:
                source.close(commit=False)
            raise

    def next(self) -> Message | None:
        """Take the next request, None when there is none; the unit of work is open then."""
        try:
            return self.connection.get(self._handle, _GET).message
        except NoMessage:
            return None

    def begin(self, on_done: OnDone[Delivery]) -> UnderWay:
        """Begin to wait for the next request; where the queue cannot be got from, until it can."""
        return self.connection.asynchronous.get_any(
            [self._handle], _GET | c.MQGMO_WAIT, on_done=on_done, on_refused=_wait_on
        )

    def deal_with(self, message: Message) -> bool:
        """See a request to its end and commit; False when it was backed out and is to come again.

        Raises why it can go nowhere; it is backed out then, too.
        """
        try:
            is_done = self._is_dealt_with(message)
            if is_done:
                self.connection.commit()
        except BaseException:
            with suppress(MQError):
                self.connection.backout()
            raise
        if not is_done:
            self.connection.backout()
        return is_done

    def has_limit(self) -> bool:
        """Return True if BOTHRESH of the queue limits the tries of a request."""
        return self.connection.objects.backout_rule(self._handle).threshold > 0

    def close(self) -> None:
        """Back out, and close the queue; close the connection too if it is the handler's own."""
        if self._owns_connection:
            self.connection.close(commit=False)
            return
        # A connection that is broken, or closed, has nothing left to close.
        with suppress(MQError):
            self.connection.backout()
            self.connection.close_object(self._handle)

    def _is_dealt_with(self, message: Message) -> bool:
        connection = self.connection
        if message.backout_count:
            rule = connection.objects.backout_rule(self._handle)
            if 0 < rule.threshold <= message.backout_count:
                self._give_up(message, rule.queue_name)
                return True
        try:
            asked = asked_by(message)
        except MQError as error:
            _LOG.warning("%s is no request: %s", message, error)
            refuse(connection, message, feedback_of(error))
            return True
        try:
            answer = _checked(self._transaction(asked.data, asked.iih))
        except ImsNak as nak:
            refuse(connection, message, nak.feedback)
            return True
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the program's own failure
            _LOG.warning("%s: the transaction raised %r", message, error, exc_info=error)
            return False
        if answer is not None:
            self._answer(message, asked, answer)
        return True

    def _give_up(self, message: Message, queue: str) -> None:
        if queue:
            try:
                self.connection.onward.forward(message, queue)
            except MQError as error:
                _LOG.warning("%s cannot go to BOQNAME(%s): %s", message, queue, error)
            else:
                return
        refuse(self.connection, message, c.MQFB_IMS_ERROR)

    def _answer(self, message: Message, asked: Asked, answer: bytes) -> None:
        reply, original = reply_to(message, asked, answer), message.descriptor
        # As with reports (R6): nobody gets the bridge to put where he may not.
        reason = self.connection.onward.reply(
            original.reply_to_q,
            original.reply_to_q_mgr,
            reply.body,
            reply.descriptor,
            putter=original.user_identifier,
            msg_id=reply.msg_id,
            correl_id=reply.correl_id,
            time_to_live_ms=reply.time_to_live_ms,
        )
        if reason:
            _LOG.warning("the reply to %s is a dead letter, reason %d", message, reason)


def _wait_on(_handle: int, _error: MQError) -> None:
    """Wait until somebody enables the queue again."""


def _checked(answer: object) -> bytes | None:
    if answer is None or isinstance(answer, (bytes, bytearray, memoryview)):
        return None if answer is None else bytes(answer)
    raise TypeError(f"a transaction answers bytes or None, not {type(answer).__name__}")
