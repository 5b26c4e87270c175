"""Reads the tables of a TOML file: each key is checked, and unknown keys are refused."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from mayfly.pipeline.errors import PipelineError

_REFERENCE = re.compile(r"\$\{?\w")
_TOKENS = (
    "a token does not stand in a file that others read: name a token_file, or set MAYFLY_TOKEN"
)


class Table:
    """A table and its place in the file; remembers the keys that were read."""

    def __init__(self, values: Mapping[str, Any], path: Path, where: str = "") -> None:
        """Begin with all keys unread."""
        self._left = dict(values)
        self._asked: list[str] = []
        self._path = path
        self._where = where

    def error(self, key: str, text: str) -> PipelineError:
        """Return the error to raise about a key."""
        where = ", ".join(filter(None, (self._where, key)))
        return PipelineError(self._path, where, text)

    def optional_text(self, key: str) -> str | None:
        """Return a text that is not empty, None when it is not there."""
        value = self._take(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f"{value!r} is not a text")
        return value

    def plain_text(self, key: str) -> str | None:
        """Return a text that is no expression: a reference to the environment is refused."""
        value = self.optional_text(key)
        if value is not None and _REFERENCE.search(value):
            raise self.error(
                key, f"{value!r} is taken as it is: nothing like ${{NAME}} is expanded"
            )
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text; raises PipelineError when it is missing and there is no default."""
        value = self.plain_text(key)
        if value is None:
            value = default
        if value is None:
            raise self.error(key, "is missing")
        return value

    def one_of(self, key: str, known: Iterable[str], default: str | None = None) -> str:
        """Return a text that is one of those known."""
        names = list(known)
        value = self.text(key, default)
        if value not in names:
            raise self.error(
                key, f"{value!r} is none of {', '.join(names)}{suggestion(value, names)}"
            )
        return value

    def place(self, key: str) -> str | None:
        """Return a path, a relative one counted from the folder of the file; a URL stays."""
        value = self.plain_text(key)
        if value is None or "://" in value:
            return value
        return os.path.normpath(self._path.parent.absolute() / value)

    def number(self, key: str, least: int = 1, most: int = 2**31 - 1) -> int | None:
        """Return a whole number within bounds, None when it is not there."""
        value = self._take(key)
        if value is not None and not (type(value) is int and least <= value <= most):
            raise self.error(key, f"{value!r} is not a whole number from {least} to {most}")
        return value

    def texts(self, key: str) -> dict[str, str]:
        """Return a table of texts; numbers and truth values become text as Spark spells them."""
        values = self._take(key)
        if values is None:
            return {}
        if not isinstance(values, dict):
            raise self.error(key, f"{values!r} is not a table")
        return {name: self._as_text(f"{key}.{name}", value) for name, value in values.items()}

    def table(self, key: str) -> Table:
        """Return a table, an empty one when it is not there."""
        values = self._take(key)
        if not isinstance(values, dict | None):
            raise self.error(key, f"{values!r} is not a table: write [{key}]")
        return Table(values or {}, self._path, self._named(f"[{key}]"))

    def tables(self, key: str) -> list[Table]:
        """Return the tables of an array, numbered from 1."""
        values = self._take(key)
        if values is None:
            return []
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise self.error(key, f"is not an array of tables: write [[{key}]]")
        return [
            Table(value, self._path, self._named(f"[[{key}]] {number}"))
            for number, value in enumerate(values, 1)
        ]

    def refuse_the_rest(self) -> None:
        """Raise PipelineError for a key that was not read: it is unknown."""
        for key in self._left:
            if key == "token":
                raise self.error(key, _TOKENS)
            raise self.error(key, f"is no key here{suggestion(key, self._asked)}")

    def fail(self, key: str, text: str) -> NoReturn:
        """Raise PipelineError about a key."""
        raise self.error(key, text)

    def _take(self, key: str) -> Any:
        self._asked.append(key)
        return self._left.pop(key, None)

    def _named(self, inner: str) -> str:
        return f"{self._where} {inner}".strip()

    def _as_text(self, key: str, value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str | int | float):
            return str(value)
        raise self.error(key, f"{value!r} is not a text")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ", did you mean …?" when a name is like one of those known."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f", did you mean {found[0]!r}?" if found else ""
