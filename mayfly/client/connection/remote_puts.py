"""The puts of a remote connection that share a frame, or do not wait for their answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Raw
from msgspec.structs import replace

from mayfly.client.connection.interface import OnDone
from mayfly.client.connection.remote_conversation import Conversation
from mayfly.client.connection.remote_link import SentRequest, answer_of
from mayfly.lifetime.window import Window
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, MQError, error_of, mq_error
from mayfly.verbs.checks import ID_BYTES
from mayfly.verbs.contracts.wire import (
    DONE_BYTES,
    MAX_PUTS_IN_FRAME,
    MAX_UNANSWERED_PUTS,
    PackedDescriptor,
    descriptor_of,
    packed,
)
from mayfly.verbs.messages import PutResult
from mayfly.verbs.requests import Backout, NewIds, Put, Puts
from mayfly.verbs.rows import PutsRow, put_of

#: A frame takes no further put that would make it longer than this, in bytes.
_FRAME_BYTES = 32_768


def _head(put: Put) -> tuple[PackedDescriptor, int, int, int]:
    """Return what all puts of one frame share.

    That is the descriptor, the MQPMO options, the handle, and the handle whose context is passed
    on.
    """
    return put.descriptor, put.options, put.handle, put.context


class PutFrame:
    """Puts to one object that are sent in one frame, and the request of that frame.

    The lock of the sender guards it.
    """

    __slots__ = ("_byte_count", "_first", "_is_complete", "_messages", "request")

    def __init__(self, put: Put, request: SentRequest) -> None:
        """Begin an empty frame for puts with the same handle, options and descriptor as ``put``.

        ``request`` gets the answer to the frame.
        """
        self._first, self.request = put, request
        self._messages: list[Raw] = []
        self._byte_count = 0
        self._is_complete = False

    def has_capacity(self, put: Put, message: bytes) -> bool:
        """Return True if ``put``, whose encoded message is ``message``, may join the frame.

        It must have the handle, options and descriptor of the frame. The frame must not be full or
        complete.
        """
        return (
            not self._is_complete
            and _head(self._first) == _head(put)
            and not self.is_full
            and self._byte_count + len(message) <= _FRAME_BYTES
        )

    def add(self, message: bytes) -> None:
        """Add the packed message of a put."""
        self._messages.append(Raw(message))
        self._byte_count += len(message)

    @property
    def put_count(self) -> int:
        """The number of puts in the frame."""
        return len(self._messages)

    @property
    def is_full(self) -> bool:
        """True when the frame has the largest number of puts and must be sent."""
        return len(self._messages) >= MAX_PUTS_IN_FRAME

    def complete(self) -> None:
        """Accept no more puts."""
        self._is_complete = True

    def packed(self) -> bytes:
        """Return the bytes of the frame, which accepts no more puts."""
        self._is_complete = True
        return packed(Puts(*_head(self._first), self._messages))


class OpenPutFrame:
    """The frame that the next put may join; thread-safe."""

    def __init__(self, conversation: Conversation, begin: Callable[[Put], PutFrame]) -> None:
        """Begin without a frame; ``begin`` makes one for a first put and queues it to be sent."""
        self._conversation, self._begin = conversation, begin
        self._frame: PutFrame | None = None

    def put(self, put: Put, note: Callable[[PutFrame], object]) -> bool:
        """Add a put to the open frame or to a new one; ``note`` gets that frame before it is sent.

        Returns True if the frame is new: the caller must see that it is sent. A full frame is sent
        here. Raises MQError for a value that cannot be encoded, and for a broken connection.
        """
        message = self._conversation.packed_message(put.message)
        sender = self._conversation.link.sender
        with sender.lock:
            frame, is_new = self._frame, False
            if frame is None or not frame.has_capacity(put, message):
                frame = self._frame = self._begin(put)
                is_new = True
            frame.add(message)
            note(frame)
        if frame.is_full:
            sender.flush()
        return is_new


class CallbackPuts:
    """Puts with callbacks that share frames within ``with`` blocks."""

    def __init__(self, conversation: Conversation) -> None:
        """Begin without a frame, outside of a ``with`` block of :meth:`together`."""
        self._conversation = conversation
        self._open = OpenPutFrame(conversation, self._begun)
        #: The callbacks of frames that are not answered.
        self._waiting: dict[PutFrame, list[OnDone[PutResult | None]]] = {}
        #: Blocks in which puts travel together.
        self._block_count = 0

    @property
    def are_together(self) -> bool:
        """True within a ``with`` block of :meth:`together`."""
        return self._block_count > 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let puts share frames until the end of a ``with`` block, which sends the last one."""
        sender = self._conversation.link.sender
        with sender.lock:
            self._block_count += 1
        try:
            yield
        finally:
            with sender.lock:
                self._block_count -= 1
            sender.flush()

    def put(self, put: Put, on_done: OnDone[PutResult | None]) -> None:
        """Send a put; ``on_done`` gets its result or MQError.

        Within a ``with`` block of :meth:`together` the put is sent by the end of the block. Raises
        MQError when the put cannot be sent; ``on_done`` is then not called.
        """
        self._open.put(put, lambda frame: self._waiting[frame].append(on_done))
        if not self._block_count:
            # Another thread has ended the block meanwhile.
            self._conversation.link.sender.flush()

    def _begun(self, put: Put) -> PutFrame:
        """Begin an empty frame for puts with the handle, options and descriptor of ``put``.

        The frame is sent later, and its answer goes to :meth:`_answered`. Raises the error of a
        broken link.
        """
        request = SentRequest(
            is_doubtful=True, on_answer=lambda payload: self._answered(frame, payload)
        )
        frame = PutFrame(put, request)
        self._conversation.gather(frame.packed, request)
        self._waiting[frame] = []
        return frame

    def _answered(self, frame: PutFrame, payload: bytes | MQError) -> None:
        """Call the callbacks of a frame, each with its result or MQError.

        If the whole frame failed, each gets the error of the frame.
        """
        with self._conversation.link.sender.lock:
            # The connection may be gone before the frame was sent.
            frame.complete()
            on_dones = self._waiting.pop(frame)
        # Its callback has the frame: only a collection would find the two.
        del frame.request
        try:
            results, failed = answer_of(payload, PutsRow)
        except MQError as error:
            for on_done in on_dones:
                on_done(error)
            return
        failures = {place: error_of(failure) for place, failure in failed}
        for place, on_done in enumerate(on_dones):
            on_done(failures.get(place) or put_of(results[place]))


#: The number of MsgIds that one request asks for.
_IDS_AT_A_TIME = 256
#: The answer to puts that are all put.
_ALL_PUT = DONE_BYTES + packed(PutsRow([], []))


class UnansweredPuts:
    """Asynchronous puts without an answer yet, in the order of their answers.

    MQSTAT reports messages that their queues refuse. An error of a call itself is raised by the
    next commit, which backs out, or by the next MQSTAT.
    """

    def __init__(self, conversation: Conversation) -> None:
        """Begin without puts."""
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

        Such a put has MQPMO_ASYNC_RESPONSE, goes to a queue, and is nonpersistent or under
        syncpoint. A publication waits: its result is needed at once.
        """
        options = put.options
        is_volatile = descriptor_of(put.descriptor).persistence == c.MQPER_NOT_PERSISTENT
        is_safe = is_volatile or options & c.MQPMO_SYNCPOINT
        is_queue = self._conversation.open_handles.get(put.handle) == c.MQOT_Q
        return bool(options & c.MQPMO_ASYNC_RESPONSE and is_safe and is_queue)

    def send(self, put: Put) -> PutResult:
        """Send a put and return its result without waiting for an answer.

        The result has MsgId and CorrelId, but no fields that the queue manager sets. Waits for
        older answers when MAX_UNANSWERED_PUTS have none. Raises MQError when the put cannot be
        sent; :meth:`end` returns a failure that is known later.
        """
        if not put.message.msg_id:
            put = replace(put, message=replace(put.message, msg_id=self._new_id()))
        if self._put_count >= MAX_UNANSWERED_PUTS:
            self._wait_for(self._frames[len(self._frames) // 2])
        if self._open.put(put, self._note):
            self._conversation.link.sender.watch()
        window = Window(self._now_ms, self._now_ms, None)
        descriptor = descriptor_of(put.descriptor)
        return PutResult(
            put.message.msg_id, put.message.correl_id, descriptor, window, rc.MQRC_NONE, "", ""
        )

    def end(self) -> MQError | None:
        """Wait for all answers; return the error of the first failed call, None if none failed.

        A second call does not return the same error again.
        """
        if self._frames:
            self._wait_for(self._frames[-1])
        failure, self._failure = self._failure, None
        return failure

    def check_before_commit(self) -> None:
        """Wait for all answers; if a call failed, back out and raise MQRC_BACKED_OUT.

        Raises MQRC_CONNECTION_BROKEN when the connection is gone.
        """
        failure = self.end()
        if failure is None:
            return
        if isinstance(failure, ConnectionBroken):
            raise failure
        self._conversation.call(Backout())
        raise mq_error(rc.MQRC_BACKED_OUT, f"an asynchronous put has failed: {failure}")

    def _begun(self, put: Put) -> PutFrame:
        """Begin an empty frame for puts with the handle, options and descriptor of ``put``.

        The frame is sent later, and joins the frames without an answer.
        """
        request = SentRequest(is_doubtful=False)
        frame = PutFrame(put, request)
        self._conversation.gather(frame.packed, request)
        self._frames.append(frame)
        return frame

    def _note(self, _frame: PutFrame) -> None:
        """Count a put that has no answer yet."""
        self._put_count += 1

    def _wait_for(self, frame: PutFrame) -> None:
        """Wait for the answer to a frame, and process all answers up to it.

        The error of the first failed put is kept for :meth:`end`.
        """
        self._conversation.link.read_until(frame.request)
        while self._frames and not self._frames[0].request.is_open:
            answered = self._frames.popleft()
            self._put_count -= answered.put_count
            self._failure = self._failure or _failure_in(answered.request.payload)

    def _new_id(self) -> bytes:
        """Return a new MsgId of the queue manager; requests 256 of them at a time."""
        if not self._ids:
            now_ms, ids = self._conversation.call(NewIds(_IDS_AT_A_TIME))
            self._now_ms = now_ms
            for at in range(0, len(ids), ID_BYTES):
                self._ids.append(ids[at : at + ID_BYTES])
        return self._ids.popleft()


def _failure_in(payload: bytes | MQError | None) -> MQError | None:
    """Return the error of the first failed put in an answer, None when all succeeded."""
    if payload == _ALL_PUT:
        return None
    try:
        _results, failed = answer_of(payload, PutsRow)
    except MQError as error:
        return error
    return error_of(failed[0].failure) if failed else None
