"""Bytes that come over a wire, cut into frames: both sides read by this."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from mayfly.verbs.contracts.wire import HEADER, PREAMBLE, Preamble, preamble_of
from mayfly.verbs.contracts.wire_fields import WrongFrame

#: Is called with the preamble, or None when the first bytes are none, and with the first bytes;
#: it returns False to take nothing more.
OnBegin: TypeAlias = Callable[[Preamble | None, bytes], bool]
#: Is called with each frame: conversation, number of the request, payload.
OnFrame: TypeAlias = Callable[[int, int, bytes], object]
#: Is called with the length of a long frame of which a part has come.
OnLong: TypeAlias = Callable[[int], object]
#: A longer frame is a long one.
LONG_FRAME_BYTES: Final = 65_536


class Frames:
    """Cuts received bytes into frames, and keeps the beginning of a frame until the rest comes.

    A frame longer than ``most_bytes`` is refused by its header, before the rest is received. While
    ``is_paused`` is set, whole frames are kept as well.
    """

    __slots__ = (
        "_buffer",
        "_has_begun",
        "_is_over",
        "_is_told",
        "_on_begin",
        "_on_frame",
        "_on_long",
        "is_paused",
        "most_bytes",
    )

    def __init__(
        self,
        on_begin: OnBegin,
        on_frame: OnFrame,
        most_bytes: int,
        on_long: OnLong | None = None,
    ) -> None:
        """Begin before the preamble; ``most_bytes`` is the longest frame that may come."""
        self._on_begin, self._on_frame, self._on_long = on_begin, on_frame, on_long
        self.most_bytes = most_bytes
        self._buffer = bytearray()
        self._has_begun = self._is_over = self._is_told = self.is_paused = False

    def take(self, data: bytes) -> None:
        """Take received bytes, and call ``on_frame`` for each whole frame; raises WrongFrame."""
        if not self._buffer and self._has_begun and len(data) >= HEADER.size:
            # The usual case: exactly one frame.
            length, conversation, request = HEADER.unpack_from(data)
            if len(data) == HEADER.size + length and length <= self.most_bytes:
                self._on_frame(conversation, request, data[HEADER.size :])
                return
        if self._is_over:
            return
        self._buffer += data
        if self._has_begun or self._begin():
            self._cut()

    def go_on(self) -> None:
        """Call ``on_frame`` for the frames that have come while it paused; raises WrongFrame."""
        if self._has_begun and not self._is_over:
            self._cut()

    def end(self) -> None:
        """Take nothing more."""
        self._is_over = True
        self._buffer.clear()

    def _begin(self) -> bool:
        if len(self._buffer) < PREAMBLE.size:
            return False
        first = bytes(self._buffer[: PREAMBLE.size])
        if not self._on_begin(preamble_of(first), bytes(self._buffer)):
            self.end()
            return False
        del self._buffer[: PREAMBLE.size]
        self._has_begun = True
        return True

    def _cut(self) -> None:
        buffer, at = self._buffer, 0
        while len(buffer) - at >= HEADER.size and not (self._is_over or self.is_paused):
            length, conversation, request = HEADER.unpack_from(buffer, at)
            if length > self.most_bytes:
                raise WrongFrame(f"length: a frame of {length} bytes; {self.most_bytes} may come")
            end = at + HEADER.size + length
            if len(buffer) < end:
                if length > LONG_FRAME_BYTES and self._on_long is not None and not self._is_told:
                    self._is_told = True
                    self._on_long(length)
                break
            self._is_told = False
            payload = bytes(memoryview(buffer)[at + HEADER.size : end])
            at = end
            self._on_frame(conversation, request, payload)
        del buffer[:at]
