"""HTTP/1.1 on one socket: uvicorn's protocol, with limits for heads and for silent clients."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mayfly.servers.http.line import Line
from mayfly.servers.wire.peer import Peer

#: A head has at most so many bytes and headers, and is there after so many seconds.
HEAD_BYTES: Final = 16_384
MOST_HEADERS: Final = 100
HEAD_SECONDS: Final = 30.0
#: Bytes that are neither head nor body, as the sizes of chunks: for each byte of a body, and more.
_FRAMING_BYTES: Final = 8
_MOST_FRAMING_BYTES: Final = 65_536


class GuardedProtocol(HttpToolsProtocol):
    """Closes a connection whose client sends no whole head in time, or too long a one."""

    line: Line
    #: The last request; None before the first.
    cycle: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Begin with no head."""
        super().__init__(*args, **kwargs)
        self._in_head = False
        self._head_bytes = self._other_bytes = self._header_count = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._unsent_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Note who is there."""
        super().connection_made(transport)
        self.line = Line(Peer.of(transport), self.loop)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End what was opened for the client."""
        super().connection_lost(exc)
        self._cancel_timer()
        self.line.lose()

    def data_received(self, data: bytes) -> None:
        """Read on; bytes that are no body are counted."""
        was_in_head, body_before = self._in_head, self._body_bytes()
        super().data_received(data)
        if self.transport.is_closing():
            return
        if was_in_head and self._in_head:
            self._head_bytes += len(data)
        elif not self._in_head and self._is_in_body():
            self._other_bytes += len(data) - _FRAMING_BYTES * (self._body_bytes() - body_before)
        if self._head_bytes > HEAD_BYTES or self._other_bytes > _MOST_FRAMING_BYTES:
            self._refuse(b"431 Request Header Fields Too Large")
        elif self._head_timer is None and self._awaits_head():
            self._await_head()

    def on_message_begin(self) -> None:
        """Begin to count a head."""
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = self._other_bytes = self._header_count = 0
        self.scope["state"]["line"] = self.line

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header; those behind a body are counted and forgotten."""
        self._header_count += 1
        self._head_bytes += len(name) + len(value)
        if self._in_head and self._header_count <= MOST_HEADERS:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin with the request."""
        self._in_head = False
        if self.transport.is_closing():
            return
        if self._header_count > MOST_HEADERS or self._head_bytes + len(self.url) > HEAD_BYTES:
            self._refuse(b"431 Request Header Fields Too Large")
            return
        self._head_bytes = 0
        self._cancel_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body, unless the head before it was refused."""
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End a body, unless the head before it was refused."""
        if not self.transport.is_closing():
            super().on_message_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; one whose client reads its answer slowly has longer."""
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0:
            super().timeout_keep_alive_handler()
        elif unsent == self._unsent_bytes:
            # Nothing was read for as long as that: closing would wait for the client.
            self.transport.abort()
        else:
            self._unsent_bytes = unsent
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _awaits_head(self) -> bool:
        return self._in_head or self.cycle is None or self.cycle.response_complete

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _cancel_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._awaits_head() and not self.transport.is_closing():
            self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(
                b"HTTP/1.1 %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status
            )
            self.transport.close()

    def _is_in_body(self) -> bool:
        # The rest of a body whose answer is sent already is read and forgotten: the client would
        # not see the answer otherwise.
        cycle = self.cycle
        return cycle is not None and cycle.more_body and not cycle.response_complete

    def _body_bytes(self) -> int:
        return 0 if self.cycle is None else len(self.cycle.body)
