"""The cap that has shortened a life, as it is stored and as errors name it (X1, X3)."""

from __future__ import annotations

import re
from typing import NamedTuple

_TEXT = re.compile(r"CAPEXPRY\((\d+)\) of (\w+)\((.*)\)")


class Cap(NamedTuple):
    """A CAPEXPRY in tenths of a second, and the object that has it: QALIAS, TOPIC and so on."""

    tenths: int
    kind: str
    name: str

    @property
    def text(self) -> str:
        """The cap in words, as it is stored with a message whose life it has shortened."""
        return f"CAPEXPRY({self.tenths}) of {self.kind}({self.name})"


def read_cap(text: str) -> Cap | None:
    """Return the cap that :attr:`Cap.text` tells, None for words of a later version."""
    found = _TEXT.fullmatch(text)
    return None if found is None else Cap(int(found[1]), found[2], found[3])
