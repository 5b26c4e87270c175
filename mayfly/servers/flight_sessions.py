"""A session over Arrow Flight: one exchange, in which calls are answered one after the other.

The exchange ends with the connection of the client, however that dies, and with it the session:
uncommitted work is backed out then. contracts/sessions.py describes a frame.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mayfly.contracts.reasons import BAD_REQUEST
from mayfly.contracts.sessions import (
    ANSWER,
    END,
    REFUSED,
    TEXT,
    VERB,
    VERSION,
    WRONG,
    MessageRow,
    OpenRequest,
    packed,
    unpacked,
)
from mayfly.engine import Message, position_of
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import pack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.queue_manager import QueueManager
from mayfly.servers.flight_calls import CallRefused, Request, fields_of, request_of
from mayfly.servers.letter_verbs import LETTER_VERBS, LetterWork
from mayfly.servers.session_verbs import SESSION_VERBS

#: Each session has a thread of the server.
MAX_SESSION_COUNT = 64


class Sessions:
    """The sessions of a server, at most 64 at a time, until it is to stop."""

    def __init__(self) -> None:
        """Have all places free."""
        self._places = threading.Semaphore(MAX_SESSION_COUNT)
        #: Set when the server is to stop.
        self.stopping = threading.Event()

    def converse(self, manager: QueueManager, opening: Request, exchange: tuple[Any, Any]) -> None:
        """Answer the calls of a client until it ends the exchange, or the server is to stop.

        ``exchange`` is Flight's reader and writer. A session that the queue manager refuses, or
        the 65th (MQRC_MAX_CONNS_LIMIT_REACHED), is answered so. Raises CallRefused for an opening
        that cannot be.
        """
        protocol, user, program, transacted = request_of(OpenRequest, opening)
        if protocol != VERSION:
            said = f"session: protocol {protocol} is not spoken here: {VERSION}"
            raise CallRefused(BAD_REQUEST, said)
        reader, writer = exchange
        try:
            with self._place():
                conversation = _Conversation(manager, user, program, transacted=transacted)
                try:
                    writer.write_metadata(packed({ANSWER: manager.name}))
                    self._answer_calls(conversation, reader, writer)
                finally:
                    conversation.close()
        except MQError as error:
            writer.write_metadata(packed({REFUSED: error.reason, TEXT: error.detail}))

    def _answer_calls(self, conversation: _Conversation, reader: Any, writer: Any) -> None:
        while True:
            try:
                frame = reader.read_chunk().app_metadata
            except StopIteration:
                return
            is_stopping = self.stopping.is_set()
            writer.write_metadata(
                conversation.answer(
                    b"" if frame is None else frame.to_pybytes(), is_stopping=is_stopping
                )
            )
            if is_stopping:
                return

    @contextmanager
    def _place(self) -> Iterator[None]:
        if not self._places.acquire(blocking=False):
            raise mq_error(
                rc.MQRC_MAX_CONNS_LIMIT_REACHED,
                f"the server has {MAX_SESSION_COUNT} sessions, which is its limit",
            )
        try:
            yield
        finally:
            self._places.release()


class _Conversation:
    """A session of the queue manager, and what its client has begun."""

    def __init__(self, manager: QueueManager, user: str, program: str, *, transacted: bool) -> None:
        self._manager = manager
        # The token is the operator's: the session has the authority of the opener of the queue
        # manager, whatever user name the client gives.
        self._session = manager.session(None, transacted, program)
        self._session.context = self._session.context._replace(user_identifier=user)
        self._letters = LetterWork(manager)
        self._streams: dict[int, Iterator[Any]] = {}
        self._stream_count = 0

    def answer(self, frame: bytes, *, is_stopping: bool) -> bytes:
        """Return the answer to a call."""
        try:
            if is_stopping:
                raise mq_error(rc.MQRC_Q_MGR_STOPPING, f"the server of {self._manager.name} stops")
            return self._packed(self._run(*_call(frame)))
        except MQError as error:
            return packed({REFUSED: error.reason, TEXT: error.detail})
        except CallRefused as error:
            return packed({WRONG: error.text})

    def close(self) -> None:
        """End what the client has begun; nothing of it is committed."""
        try:
            self._letters.close()
        finally:
            self._session.close(commit=False)

    def _run(self, verb: str, request: Request, body: bytes) -> Any:
        if verb == "next":
            return self._next(*fields_of(request, stream=int))
        if verb == "put":
            request["body"] = body
        elif body:
            raise CallRefused(BAD_REQUEST, f"{verb} takes no body")
        if verb in SESSION_VERBS:
            return SESSION_VERBS[verb](self._manager, self._session, request)
        if verb in LETTER_VERBS:
            return LETTER_VERBS[verb](self._letters, request)
        raise CallRefused(BAD_REQUEST, f"unknown verb {verb!r}")

    def _next(self, stream: int) -> Any:
        if stream not in self._streams:
            raise CallRefused(BAD_REQUEST, f"there is no stream {stream}")
        value = next(self._streams[stream], END)
        if value == END:
            del self._streams[stream]
        return value

    def _packed(self, value: Any) -> bytes:
        if isinstance(value, Message):
            return packed({ANSWER: _row_of(value)}, value.body)
        if isinstance(value, Iterator):
            self._stream_count += 1
            self._streams[self._stream_count] = value
            value = self._stream_count
        return packed({ANSWER: value})


def _row_of(message: Message) -> MessageRow:
    """Return a message as it travels."""
    return MessageRow(
        message.queue,
        message.seen_ms,
        position_of(message),
        message.put_ms,
        message.deliver_at_ms,
        message.expire_at_ms,
        message.backout_count,
        message.msg_id,
        message.correl_id,
        pack_descriptor(message.descriptor),
        message.topic,
    )


def _call(frame: bytes) -> tuple[str, Request, bytes]:
    """Return verb, request and body of a call."""
    try:
        request, body = unpacked(frame)
    except ValueError as error:
        raise CallRefused(BAD_REQUEST, f"a call begins with a line of JSON: {error}") from error
    verb = request.pop(VERB, None) if isinstance(request, dict) else None
    if not isinstance(verb, str):
        raise CallRefused(BAD_REQUEST, f"a call is a JSON object with the text {VERB!r}")
    return verb, request, body
