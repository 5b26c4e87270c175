"""A session with a queue manager that another process serves."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from mayfly.contracts.sessions import LONGEST_WAIT_MS
from mayfly.engine import Identifier, Message
from mayfly.mqi.constants import MQWI_UNLIMITED
from mayfly.served.calls import Calls
from mayfly.served.schedule import ServedSchedule
from mayfly.served.wire import id_bytes, message_from


class ServedSession:
    """One connection; the methods and errors are those of ``engine.session.Session``.

    Besides it raises BulkError when the server ends or cannot be reached any more. Every end of the
    connection, by ``kill -9`` of this process too, backs out uncommitted work.
    """

    def __init__(self, calls: Calls, *, transacted: bool) -> None:
        """Speak over an exchange; the served queue manager calls this."""
        self._calls = calls
        self._transacted = transacted
        self.is_open = True

    def put(
        self,
        queue: str,
        body: bytes,
        *,
        time_to_live_ms: int | None = None,
        delay_ms: int = 0,
        priority: int | None = None,
        persistent: bool | None = None,
        msg_id: Identifier | None = None,
        correl_id: Identifier | None = None,
        report: int = 0,
        reply_to_q: str = "",
    ) -> bytes:
        """Put a message and return its MsgId."""
        answer, _ = self._calls.call(
            "put",
            body,
            queue=queue,
            time_to_live_ms=time_to_live_ms,
            delay_ms=delay_ms,
            priority=priority,
            persistent=persistent,
            msg_id=id_bytes(msg_id, "msg_id"),
            correl_id=id_bytes(correl_id, "correl_id"),
            report=report,
            reply_to_q=reply_to_q,
        )
        assert isinstance(answer, bytes)
        return answer

    def get(
        self,
        queue: str,
        *,
        wait_ms: int = 0,
        msg_id: Identifier | None = None,
        correl_id: Identifier | None = None,
    ) -> Message | None:
        """Take the next message, or None when none came within ``wait_ms`` (-1 waits for ever).

        Not transacted it has left the queue before it travels: it is lost if the connection breaks.
        """
        left_ms = wait_ms
        while True:
            is_endless = left_ms == MQWI_UNLIMITED
            now_ms = LONGEST_WAIT_MS if is_endless else min(left_ms, LONGEST_WAIT_MS)
            fields, body = self._calls.call(
                "get",
                queue=queue,
                wait_ms=now_ms,
                msg_id=id_bytes(msg_id, "msg_id"),
                correl_id=id_bytes(correl_id, "correl_id"),
            )
            if fields is not None:
                return message_from(fields, body)
            if not is_endless:
                left_ms -= now_ms
                if not left_ms:
                    return None

    def browse(
        self, queue: str, *, msg_id: Identifier | None = None, correl_id: Identifier | None = None
    ) -> Iterator[Message]:
        """Yield the messages of a queue in get order, each read when it is asked for."""
        for fields, body in self._calls.stream(
            "browse",
            queue=queue,
            msg_id=id_bytes(msg_id, "msg_id"),
            correl_id=id_bytes(correl_id, "correl_id"),
        ):
            yield message_from(fields, body)

    def commit(self) -> None:
        """Commit the unit of work."""
        self._calls.call("commit")

    def backout(self) -> None:
        """Back the unit of work out."""
        self._calls.call("backout")

    @property
    def schedule(self) -> ServedSchedule:
        """The delayed messages."""
        return ServedSchedule(self._calls)

    def close(self, *, commit: bool = True) -> None:
        """Disconnect: commits what is open, or backs it out."""
        if not self.is_open:
            return
        self.is_open = False
        try:
            if commit and self._transacted:
                self.commit()
        finally:
            self._calls.close()

    def __enter__(self) -> Self:
        """Return the session."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit or, after an exception, back out; then disconnect."""
        self.close(commit=kind is None)
