"""Puts of a remote connection that travel together: several messages for one object in a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Raw

from mayfly.client.connection.interface import OnDone
from mayfly.client.connection.remote_conversation import Conversation
from mayfly.client.connection.remote_requests import Request, answer_of
from mayfly.mqi.errors import MQError, error_of
from mayfly.verbs.contracts.wire import MOST_PUTS_IN_FRAME, PackedDescriptor, packed
from mayfly.verbs.messages import PutResult
from mayfly.verbs.requests import Put, Puts
from mayfly.verbs.rows import PutsRow, put_of

#: No put is added to so many bytes.
_FRAME_BYTES = 32_768


def _head(put: Put) -> tuple[PackedDescriptor, int, int, int]:
    """Return what puts of one frame have in common."""
    return put.descriptor, put.options, put.handle, put.context


class PutFrame:
    """Puts that travel together, and their request; the lock of the sender guards it."""

    __slots__ = ("_byte_count", "_first", "_is_complete", "_messages", "request")

    def __init__(self, put: Put, request: Request) -> None:
        """Begin without a put, for puts to where one goes."""
        self._first, self.request = put, request
        self._messages: list[Raw] = []
        self._byte_count = 0
        self._is_complete = False

    def has_room(self, put: Put, message: bytes) -> bool:
        """Return True if a put to an object may travel with it."""
        return (
            not self._is_complete
            and _head(self._first) == _head(put)
            and not self.is_full
            and self._byte_count + len(message) <= _FRAME_BYTES
        )

    def add(self, message: bytes) -> None:
        """Add a put."""
        self._messages.append(Raw(message))
        self._byte_count += len(message)

    @property
    def put_count(self) -> int:
        """How many puts it has."""
        return len(self._messages)

    @property
    def is_full(self) -> bool:
        """Whether it has so many puts that it is to be sent."""
        return len(self._messages) >= MOST_PUTS_IN_FRAME

    def complete(self) -> None:
        """Take no more puts."""
        self._is_complete = True

    def packed(self) -> bytes:
        """Return it as it travels, complete from now on."""
        self._is_complete = True
        return packed(Puts(*_head(self._first), self._messages))


class OpenPutFrame:
    """The frame that the next put may travel with; any thread may add to it."""

    def __init__(self, conversation: Conversation, begin: Callable[[Put], PutFrame]) -> None:
        """Begin with none; ``begin`` makes a frame, which the sender of the link has gathered."""
        self._conversation, self._begin = conversation, begin
        self._frame: PutFrame | None = None

    def put(self, put: Put, note: Callable[[PutFrame], object]) -> bool:
        """Gather a put; ``note`` is called before it is sent, with its frame.

        Full frames are sent. Returns True if the frame is new: the caller sees to it that it is
        sent. Raises MQError for a value that cannot travel, and when the connection is gone.
        """
        message = self._conversation.packed_message(put.message)
        sender = self._conversation.link.sender
        with sender.lock:
            frame, is_new = self._frame, False
            if frame is None or not frame.has_room(put, message):
                frame = self._frame = self._begin(put)
                is_new = True
            frame.add(message)
            note(frame)
        if frame.is_full:
            sender.flush()
        return is_new


class ToldPuts:
    """Puts with a callback that travel together."""

    def __init__(self, conversation: Conversation) -> None:
        """Begin with none."""
        self._conversation = conversation
        self._open = OpenPutFrame(conversation, self._begun)
        #: The callbacks of frames that are not answered.
        self._waiting: dict[PutFrame, list[OnDone[PutResult | None]]] = {}
        #: Blocks in which puts travel together.
        self._block_count = 0

    @property
    def are_together(self) -> bool:
        """Whether puts are to travel together."""
        return self._block_count > 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let puts travel together until the end of a block."""
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
        """Put a message; raises MQError when it cannot be sent, and ``on_done`` is not called."""
        self._open.put(put, lambda frame: self._waiting[frame].append(on_done))
        if not self._block_count:
            # Another thread has ended the block meanwhile.
            self._conversation.link.sender.flush()

    def _begun(self, put: Put) -> PutFrame:
        request = Request(is_doubtful=True, on_answer=lambda payload: self._told(frame, payload))
        frame = PutFrame(put, request)
        self._conversation.gather(frame.packed, request)
        self._waiting[frame] = []
        return frame

    def _told(self, frame: PutFrame, payload: bytes | MQError) -> None:
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
