"""Puts of a remote connection that do not wait for their answers: MQPMO_ASYNC_RESPONSE (P13)."""

from __future__ import annotations

from collections import deque
from typing import Any

from mayfly.connection.remote_conversation import Conversation
from mayfly.connection.remote_requests import Request, answer_of
from mayfly.connection.values import PutResult
from mayfly.contracts.wire import DONE_BYTES, MOST_UNANSWERED_PUTS
from mayfly.contracts.wire_verbs import FORMS, Verb
from mayfly.lifetime.window import Window
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import ConnectionBroken, MQError, mq_error

_ID_BYTES = 24
#: So many MsgIds are asked for at a time.
_IDS_AT_A_TIME = 256
#: Where the MsgId stands in the fields of a put.
_MSG_ID = 4


class UnansweredPuts:
    """Puts on their way, in the order in which their answers will come.

    MQSTAT reports messages that their queues refuse. An error of a call itself is raised by the
    next commit, which backs out, or by the next MQSTAT.
    """

    def __init__(self, conversation: Conversation, max_message_bytes: int) -> None:
        """Begin with none; the channel takes messages of so many bytes."""
        self._conversation = conversation
        self._max_message_bytes = max_message_bytes
        self._sent: deque[Request] = deque()
        self._failure: MQError | None = None
        #: MsgIds that the queue manager has handed out, and its time then.
        self._ids: deque[bytes] = deque()
        self._now_ms = 0

    def check_length(self, body: bytes) -> None:
        """Raise MQRC_MSG_TOO_BIG_FOR_CHANNEL for a message that the channel does not take."""
        if len(body) > self._max_message_bytes:
            said = f"{len(body)} bytes; the channel takes {self._max_message_bytes}"
            raise mq_error(rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL, said)

    def is_one(self, handle: int, descriptor: Descriptor, options: int) -> bool:
        """Return True if a put need not wait for its answer.

        It has MQPMO_ASYNC_RESPONSE, goes to a queue, and is durable at a later commit or never. A
        publication waits: its result is needed at once.
        """
        is_volatile = descriptor.persistence == c.MQPER_NOT_PERSISTENT
        is_safe = is_volatile or options & c.MQPMO_SYNCPOINT
        is_queue = self._conversation.open_handles.get(handle) == c.MQOT_Q
        return bool(options & c.MQPMO_ASYNC_RESPONSE and is_safe and is_queue)

    def send(self, fields: list[Any], descriptor: Descriptor) -> PutResult:
        """Send a put; the result has its MsgId, but no field that the queue manager fills in.

        ``fields`` are those of the verb.
        """
        if not fields[_MSG_ID]:
            fields[_MSG_ID] = self._new_id()
        if len(self._sent) >= MOST_UNANSWERED_PUTS:
            oldest = self._sent[MOST_UNANSWERED_PUTS // 2]
            self._conversation.link.read_until(oldest)
            self._take_answers()
        self._sent.append(self._conversation.post(Verb.PUT, fields))
        window = Window(self._now_ms, self._now_ms, None)
        msg_id, correl_id = fields[_MSG_ID : _MSG_ID + 2]
        return PutResult(msg_id, correl_id, descriptor, window, rc.MQRC_NONE, "", "")

    def end(self) -> MQError | None:
        """Wait for all answers; return the error of the first call that failed, once."""
        if self._sent:
            self._conversation.link.read_until(self._sent[-1])
            self._take_answers()
        failure, self._failure = self._failure, None
        return failure

    def check_before_commit(self) -> None:
        """Wait for all answers; after a wrong call back out, and raise MQRC_BACKED_OUT."""
        failure = self.end()
        if failure is None:
            return
        if isinstance(failure, ConnectionBroken):
            raise failure
        self._conversation.call(Verb.BACKOUT, [])
        raise mq_error(rc.MQRC_BACKED_OUT, f"an asynchronous put has failed: {failure}")

    def _take_answers(self) -> None:
        while self._sent and not self._sent[0].is_open:
            payload = self._sent.popleft().payload
            if isinstance(payload, bytes) and payload.startswith(DONE_BYTES):
                continue
            try:
                answer_of(payload, FORMS[Verb.PUT].answer)
            except MQError as error:
                self._failure = self._failure or error

    def _new_id(self) -> bytes:
        if not self._ids:
            now_ms, ids = self._conversation.call(Verb.NEW_IDS, [_IDS_AT_A_TIME])
            self._now_ms = now_ms
            for at in range(0, len(ids), _ID_BYTES):
                self._ids.append(ids[at : at + _ID_BYTES])
        return self._ids.popleft()
