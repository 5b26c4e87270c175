"""Ends a function before any change to a file, as a kill would end its process there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class CutOffError(BaseException):
    """What stands in for the end of the process."""


class Knife:
    """Ends us just before the n-th change to a file under a folder; armed by ``cut_at``."""

    EVENTS = frozenset(("os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir"))

    def __init__(self) -> None:
        self.folder = ""
        self.left: int | None = None
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.left is None or event not in self.EVENTS:
            return
        if str(arguments[0]).startswith(self.folder):
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise CutOffError

    @contextmanager
    def cut_at(self, folder: Path, number: int) -> Iterator[None]:
        self.folder, self.left = str(folder), number
        try:
            yield
        finally:
            self.left = None
