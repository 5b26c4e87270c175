"""One session of the bridge: it takes requests off the queue and sees each to its end."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mayfly.engine import GetRequest, Message, forward, full_name, put_dead_letter_reply, put_reply
from mayfly.engine.face.jms import Source
from mayfly.ims_bridge.refusals import ImsNak, refuse
from mayfly.ims_bridge.replies import reply_to
from mayfly.ims_bridge.requests import Asked, Request, asked_by, feedback_of
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, MQError, NoMessage, mq_error
from mayfly.pymqi.headers import IIH
from mayfly.queue_manager import QueueManager

_LOG = logging.getLogger("mayfly.ims_bridge")
#: Called with the data of a request and its MQIIH, None without; returns the answer, None for none.
Transaction = Callable[[Request, IIH | None], bytes | None]


class RequestHandler:
    """Takes requests under syncpoint; request and reply are one unit of work. To be closed."""

    def __init__(self, manager: QueueManager, queue: str, transaction: Transaction) -> None:
        """Open the queue; raises its reason code."""
        self._manager = manager
        self._transaction = transaction
        self._session = manager.session(program="mayfly-ims")
        try:
            self._handle = self._session.open(queue, c.MQOO_INPUT_SHARED)
        except MQError:
            self._session.close()
            raise
        self.queue_number = self._handle.queue.number
        request = GetRequest(wait_ms=c.MQWI_UNLIMITED)
        getter = self._handle.getter(request, c.MQGMO_WAIT, self._session.unit_of_work)
        self.source = Source(getter)

    @property
    def backout_threshold(self) -> int:
        """BOTHRESH of the queue: how often a request is tried; 0: there is no limit."""
        return self._handle.queue.definition.bothresh

    def next(self) -> Message | None:
        """Take the next request, None when there is none; the unit of work is open then."""
        try:
            return self._handle.get(GetRequest(), c.MQGMO_SYNCPOINT).message
        except NoMessage:
            return None

    def deal_with(self, message: Message) -> bool:
        """See a request to its end and commit; False when it was backed out and is to come again.

        Raises why it can go nowhere; it is backed out then, too.
        """
        try:
            is_done = self._is_dealt_with(message)
            if is_done:
                self._session.commit()
        except BaseException:
            self._session.backout()
            raise
        if not is_done:
            self._session.backout()
        return is_done

    def close(self) -> None:
        """End the session; uncommitted work is backed out."""
        self._session.close(commit=False)

    def _is_dealt_with(self, message: Message) -> bool:
        if 0 < self.backout_threshold <= message.backout_count:
            self._give_up(message)
            return True
        try:
            asked = asked_by(message)
        except MQError as error:
            _LOG.warning("%s is no request: %s", message, error)
            refuse(self._manager, self._session, message, feedback_of(error))
            return True
        try:
            answer = _checked(self._transaction(asked.data, asked.iih))
        except ImsNak as nak:
            refuse(self._manager, self._session, message, nak.feedback)
            return True
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the program's own failure
            _LOG.warning("%s: the transaction raised %r", message, error, exc_info=error)
            return False
        if answer is not None:
            self._answer(message, asked, answer)
        return True

    def _give_up(self, message: Message) -> None:
        queue = self._handle.queue.definition.boqname
        if queue:
            try:
                forward(self._manager.engine, self._session, queue, message)
            except MQError as error:
                _LOG.warning("%s cannot go to BOQNAME(%s): %s", message, queue, error)
            else:
                return
        refuse(self._manager, self._session, message, c.MQFB_IMS_ERROR)

    def _answer(self, message: Message, asked: Asked, answer: bytes) -> None:
        request, body = reply_to(message, asked, answer)
        original = message.descriptor
        target = full_name(original.reply_to_q, original.reply_to_q_mgr, self._manager.name)
        try:
            if not original.reply_to_q:
                raise mq_error(rc.MQRC_MISSING_REPLY_TO_Q, "the request names no ReplyToQ")
            # As with reports (R6): nobody gets the bridge to put where he may not.
            put_reply(self._session, target, original.user_identifier, body, request)
        except ConnectionBroken:
            raise
        except MQError as error:
            if error.reason == rc.MQRC_SYNCPOINT_LIMIT_REACHED:
                # That is no fault of the reply queue.
                raise
            _LOG.warning("the reply to %s cannot go to %r: %s", message, target, error)
            put_dead_letter_reply(self._session, body, request, error.reason, target)


def _checked(answer: object) -> bytes | None:
    if answer is None or isinstance(answer, (bytes, bytearray, memoryview)):
        return None if answer is None else bytes(answer)
    raise TypeError(f"a transaction answers bytes or None, not {type(answer).__name__}")
