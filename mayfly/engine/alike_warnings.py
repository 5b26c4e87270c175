"""Alike warnings: one log line for many warnings of one kind, with the number of messages."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from mayfly.lifetime.times import SECOND_MS

#: At least so much time is between two lines of one kind; the later one has the number of messages.
SILENCE_MS: Final = 60 * SECOND_MS
#: Kinds of lines that are known at a time; the oldest is forgotten.
_MAX_KINDS: Final = 1_000


class _Kind:
    """The warnings of one kind, which share a log line."""

    def __init__(self, log: logging.Logger) -> None:
        """Begin with no warning counted and no line written; ``log`` receives the lines."""
        self.log = log
        self.text = ""
        self.count = 0
        #: Keys of messages that are tried again and again; each counts once a line.
        self.keys: set[int] = set()
        self.written_ms: int | None = None

    def write(self, now_ms: int) -> None:
        """Write one line for all counted warnings to the log, and set the count to 0.

        Does nothing when no warning is counted, or the last line is less than a minute old.
        """
        is_young = self.written_ms is not None and 0 <= now_ms - self.written_ms < SILENCE_MS
        if is_young or not self.count:
            return
        alike = "" if self.count == 1 else f" ({self.count:,} messages)"
        self.log.warning("%s%s", self.text, alike)
        self.keys.clear()
        self.count, self.written_ms = 0, now_ms


class AlikeWarnings:
    """The warnings of one queue manager: at most one log line a minute for each kind.

    The first of a kind is written at once. Later ones within a minute are counted, and the next
    line after that minute has their number. Within :meth:`batch` all are counted before one is
    written. Callers hold the engine lock.
    """

    def __init__(self) -> None:
        """Begin with no warning counted."""
        self._kinds: dict[Hashable, _Kind] = {}
        self._is_batch = False

    def note(
        self,
        log: logging.Logger,
        kind: Hashable,
        now_ms: int,
        text: str,
        *,
        key: int | None = None,
    ) -> None:
        """Count a warning; write it unless its ``kind`` was written less than a minute ago.

        ``log`` receives the line ``text``. ``kind`` is any value that equal warnings share. A
        message that is tried again and again passes its store key as ``key``; each line counts that
        message once. ``key`` None counts every call. A new kind beyond 1,000 replaces the kind that
        was noted longest ago.
        """
        found = self._kinds.pop(kind, None) or _Kind(log)
        if len(self._kinds) >= _MAX_KINDS:
            del self._kinds[next(iter(self._kinds))]
        self._kinds[kind] = found
        found.text = text
        if key is None or key not in found.keys:
            found.count += 1
        if key is not None:
            found.keys.add(key)
        if not self._is_batch:
            found.write(now_ms)

    @contextmanager
    def batch(self, now_ms: int) -> Iterator[None]:
        """Return a context that counts warnings, and writes one line for each kind at its end.

        Within another such context it does nothing.
        """
        if self._is_batch:
            yield
            return
        self._is_batch = True
        try:
            yield
        finally:
            self._is_batch = False
            for kind in self._kinds.values():
                kind.write(now_ms)
