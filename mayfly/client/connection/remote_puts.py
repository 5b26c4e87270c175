"""Puts of a remote connection that do not wait for their answers: MQPMO_ASYNC_RESPONSE (P13)."""

from __future__ import annotations

from collections import deque

from msgspec.structs import replace

from mayfly.client.connection.remote_conversation import Conversation
from mayfly.client.connection.remote_put_frames import OpenPutFrame, PutFrame
from mayfly.client.connection.remote_requests import Request, answer_of
from mayfly.lifetime.window import Window
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, MQError, error_of, mq_error
from mayfly.verbs.contracts.wire import DONE_BYTES, MOST_UNANSWERED_PUTS, descriptor_of, packed
from mayfly.verbs.messages import PutResult
from mayfly.verbs.requests import Backout, NewIds, Put
from mayfly.verbs.rows import PutsRow

_ID_BYTES = 24
#: So many MsgIds are asked for at a time.
_IDS_AT_A_TIME = 256
#: The answer to puts that are all put.
_ALL_PUT = DONE_BYTES + packed(PutsRow([], []))


class UnansweredPuts:
    """Puts on their way, in the order in which their answers will come.

    MQSTAT reports messages that their queues refuse. An error of a call itself is raised by the
    next commit, which backs out, or by the next MQSTAT.
    """

    def __init__(self, conversation: Conversation) -> None:
        """Begin with none."""
        self._conversation = conversation
        self._frames: deque[PutFrame] = deque()
        self._open = OpenPutFrame(conversation, self._begun)
        self._put_count = 0
        self._failure: MQError | None = None
        #: MsgIds that the queue manager has handed out, and its time then.
        self._ids: deque[bytes] = deque()
        self._now_ms = 0

    def is_one(self, put: Put) -> bool:
        """Return True if a put need not wait for its answer.

        It has MQPMO_ASYNC_RESPONSE, goes to a queue, and is durable at a later commit or never. A
        publication waits: its result is needed at once.
        """
        options = put.options
        is_volatile = descriptor_of(put.descriptor).persistence == c.MQPER_NOT_PERSISTENT
        is_safe = is_volatile or options & c.MQPMO_SYNCPOINT
        is_queue = self._conversation.open_handles.get(put.handle) == c.MQOT_Q
        return bool(options & c.MQPMO_ASYNC_RESPONSE and is_safe and is_queue)

    def send(self, put: Put) -> PutResult:
        """Send a put; the result has its MsgId, but no field that the queue manager fills in."""
        if not put.message.msg_id:
            put = replace(put, message=replace(put.message, msg_id=self._new_id()))
        if self._put_count >= MOST_UNANSWERED_PUTS:
            self._wait_for(self._frames[len(self._frames) // 2])
        if self._open.put(put, self._note):
            self._conversation.link.sender.watch()
        window = Window(self._now_ms, self._now_ms, None)
        descriptor = descriptor_of(put.descriptor)
        return PutResult(
            put.message.msg_id, put.message.correl_id, descriptor, window, rc.MQRC_NONE, "", ""
        )

    def end(self) -> MQError | None:
        """Wait for all answers; return the error of the first call that failed, once."""
        if self._frames:
            self._wait_for(self._frames[-1])
        failure, self._failure = self._failure, None
        return failure

    def check_before_commit(self) -> None:
        """Wait for all answers; after a wrong call back out, and raise MQRC_BACKED_OUT."""
        failure = self.end()
        if failure is None:
            return
        if isinstance(failure, ConnectionBroken):
            raise failure
        self._conversation.call(Backout())
        raise mq_error(rc.MQRC_BACKED_OUT, f"an asynchronous put has failed: {failure}")

    def _begun(self, put: Put) -> PutFrame:
        request = Request(is_doubtful=False)
        frame = PutFrame(put, request)
        self._conversation.gather(frame.packed, request)
        self._frames.append(frame)
        return frame

    def _note(self, _frame: PutFrame) -> None:
        self._put_count += 1

    def _wait_for(self, frame: PutFrame) -> None:
        """Wait for the answer to a frame, and look at those that have come."""
        self._conversation.link.read_until(frame.request)
        while self._frames and not self._frames[0].request.is_open:
            answered = self._frames.popleft()
            self._put_count -= answered.put_count
            self._failure = self._failure or _failure_in(answered.request.payload)

    def _new_id(self) -> bytes:
        if not self._ids:
            now_ms, ids = self._conversation.call(NewIds(_IDS_AT_A_TIME))
            self._now_ms = now_ms
            for at in range(0, len(ids), _ID_BYTES):
                self._ids.append(ids[at : at + _ID_BYTES])
        return self._ids.popleft()


def _failure_in(payload: bytes | MQError | None) -> MQError | None:
    """Return why the first of several puts that failed did so."""
    if payload == _ALL_PUT:
        return None
    try:
        _results, failed = answer_of(payload, PutsRow)
    except MQError as error:
        return error
    return error_of(failed[0].failure) if failed else None
