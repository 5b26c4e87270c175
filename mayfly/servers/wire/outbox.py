"""Writes of the loop of a server: all frames of one turn together, one write a connection."""

from __future__ import annotations

import logging
from typing import Protocol

_LOG = logging.getLogger("mayfly.wire")


class Writer(Protocol):
    """A connection of a client that has something to write."""

    def write_unsent(self) -> None:
        """Write it."""


class Outbox:
    """The connections that have something to write at the end of a turn; all of it in the loop.

    In one turn the loop runs the requests that have come on a connection, or the calls that other
    threads have left for it. Frames are gathered because a write costs as much as a put.
    """

    __slots__ = ("_writers", "is_open")

    def __init__(self) -> None:
        """Begin outside of a turn, where frames are written at once."""
        self.is_open = False
        self._writers: list[Writer] = []

    def begin(self) -> None:
        """Begin a turn."""
        self.is_open = True

    def note(self, writer: Writer) -> None:
        """Let a connection write at the end of the turn; it says so once."""
        self._writers.append(writer)

    def end(self) -> None:
        """End the turn."""
        self.is_open = False
        self.write()

    def write(self) -> None:
        """Let all of them write what they have."""
        if self._writers:
            writers, self._writers = self._writers, []
            for writer in writers:
                try:
                    writer.write_unsent()
                except Exception:  # noqa: BLE001 - the frames of other connections wait behind it
                    _LOG.exception("frames cannot be written")
