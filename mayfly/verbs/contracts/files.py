"""Places that a person names, and the checked tables of a TOML file.

A place is a path of this machine or a URL. It stays a str until its scheme is known: ``Path``
merges double slashes, and would turn ``s3a://lake`` into a folder ``s3a:`` of this machine.

The configuration files of pipelines and servers are read as tables: each key is checked, an unknown
one is refused. An error names file, line, table and key.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

FILE_SCHEME = "file"
#: A scheme of one letter is none: drives have such names. A URL that went through a ``Path`` has
#: one slash left.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_FILE = re.compile(r"file:(?://(?:localhost)?)?(?=/(?!/))")


def scheme_of(place: str | Path) -> str:
    """Return the scheme of a URL in lower case, "" for a path of this machine."""
    found = _SCHEME.match(str(place))
    return "" if found is None else found[1].lower()


def is_url(place: str | Path) -> bool:
    """Return True for a URL of another kind than ``file:``, so of no path of this machine."""
    return scheme_of(place) not in ("", FILE_SCHEME)


def local_path(place: str | Path) -> Path:
    """Return a path of this machine, which may be written as ``file:///PATH``.

    Raises ValueError, which names the scheme, for any other URL.
    """
    text = str(place)
    scheme = scheme_of(text)
    if not scheme:
        return Path(text)
    file = _FILE.match(text)
    if file is not None:
        return Path(text[file.end() :])
    if scheme == FILE_SCHEME:
        raise ValueError(f"{text} is a file of another machine; write file:///PATH")
    raise ValueError(f"{text} is no path of this machine: {scheme}: is not supported here")


_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"\s*\"?([\w.-]+)\"?\s*=")
_REFERENCE = re.compile(r"\$\{?\w")
_TOKENS = (
    "a token does not stand in a file that others read: name a token_file, or set MAYFLY_TOKEN"
)


class ConfigurationError(ValueError):
    """A key of a configuration file is unknown, missing, or has an unusable value."""

    def __init__(self, path: Path, where: str, text: str, line: int | None = None) -> None:
        """Compose the message: file, line, table or key (``where``), and what is wrong."""
        place = f"{path}" if line is None else f"{path}, line {line}"
        super().__init__(f"{place}: {where}: {text}" if where else f"{place}: {text}")
        self.path = path
        self.where = where
        self.text = text
        self.line = line

    def __reduce__(self) -> tuple[type[ConfigurationError], tuple[Path, str, str, int | None]]:
        """Return the parts to pickle, for an error that crosses processes."""
        return type(self), (self.path, self.where, self.text, self.line)


class _File:
    """A file, with the line of each key as far as a look at single lines finds it."""

    def __init__(self, path: Path, text: str, error: type[ConfigurationError]) -> None:
        self.path = path
        self._error = error
        #: (header, its number among those of its name, key) -> line.
        self._lines: dict[tuple[str, int, str], int] = {}
        counts: dict[str, int] = {}
        header = ""
        for number, line in enumerate(text.splitlines(), 1):
            if found := _HEADER.match(line):
                header = found[2]
                counts[header] = counts.get(header, 0) + 1
            elif found := _KEY.match(line):
                self._lines.setdefault((header, counts.get(header, 1), found[1]), number)

    def error(self, where: str, text: str, place: tuple[str, int, str]) -> ConfigurationError:
        """Return the error about a key, with the line of the key."""
        return self._error(self.path, where, text, self._lines.get(place))


def read_tables(path: Path, error: type[ConfigurationError] = ConfigurationError) -> Table:
    """Return the root table of a file.

    Raises OSError, and ``error`` for a file that is not TOML.
    """
    try:
        text = path.read_bytes().decode()
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise error(path, "", f"is not TOML: {wrong}") from wrong
    return Table(values, _File(path, text, error))


class Table:
    """A table and its place in the file; it remembers which keys were read.

    Each method that reads a key raises ConfigurationError for a value of another type.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        file: _File,
        where: str = "",
        header: tuple[str, int] = ("", 1),
    ) -> None:
        self._unread = dict(values)
        self._read_keys: list[str] = []
        self._file = file
        self._where = where
        self._header = header

    def error(self, key: str, text: str) -> ConfigurationError:
        """Return the error to raise about a key."""
        where = ", ".join(filter(None, (self._where, key)))
        return self._file.error(where, text, (*self._header, key))

    def optional_text(self, key: str) -> str | None:
        """Return a text that is not blank, None when the key is missing."""
        value = self._take(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f"{value!r} is not a text")
        return value

    def plain_text(self, key: str) -> str | None:
        """Return a text, None when the key is missing; one with ``${NAME}`` is refused."""
        value = self.optional_text(key)
        if value is not None and _REFERENCE.search(value):
            raise self.error(
                key, f"{value!r} is taken as it is: nothing like ${{NAME}} is expanded"
            )
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text, or the default; raises ConfigurationError when both are missing."""
        value = self.plain_text(key)
        if value is None:
            value = default
        if value is None:
            raise self.error(key, "is missing")
        return value

    def one_of(self, key: str, known: Iterable[str], default: str | None = None) -> str:
        """Return a text, or the default, which must be one of the known ones."""
        names = list(known)
        value = self.text(key, default)
        if value not in names:
            raise self.error(
                key, f"{value!r} is none of {', '.join(names)}{suggestion(value, names)}"
            )
        return value

    def place(self, key: str) -> str | None:
        """Return a path or a URL, None when missing.

        A path is relative to the folder of the file.
        """
        value = self.plain_text(key)
        if value is None or scheme_of(value):
            return value
        return str(self._here(value))

    def local_place(self, key: str) -> Path | None:
        """Return a path of this machine, relative to the folder of the file; refuse other URLs."""
        value = self.plain_text(key)
        return None if value is None else self._local(key, value)

    def number(self, key: str, least: int = 1, most: int = 2**31 - 1) -> int | None:
        """Return a whole number from ``least`` to ``most``, None when the key is missing."""
        value = self._take(key)
        if value is not None and not (type(value) is int and least <= value <= most):
            raise self.error(key, f"{value!r} is not a whole number from {least} to {most}")
        return value

    def boolean(self, key: str) -> bool:
        """Return a boolean, False when the key is missing."""
        value = self._take(key)
        if not isinstance(value, bool | None):
            raise self.error(key, f"{value!r} is not true or false")
        return bool(value)

    def places(self, key: str) -> list[Path]:
        """Return a list of paths relative to the folder of the file, [] when the key is missing."""
        values = self._take(key)
        if values is None:
            return []
        if not isinstance(values, list) or not all(isinstance(v, str) and v for v in values):
            raise self.error(key, f"{values!r} is not a list of file names")
        return [self._local(key, value) for value in values]

    def texts(self, key: str) -> dict[str, str]:
        """Return a table of texts, {} when missing.

        Numbers and booleans become text as in Spark.
        """
        values = self._take(key)
        if values is None:
            return {}
        if not isinstance(values, dict):
            raise self.error(key, f"{values!r} is not a table")
        return {name: self._as_text(f"{key}.{name}", value) for name, value in values.items()}

    def table(self, key: str) -> Table:
        """Return a table, an empty one when the key is missing."""
        values = self._take(key)
        if not isinstance(values, dict | None):
            raise self.error(key, f"{values!r} is not a table: write [{key}]")
        return Table(
            values or {}, self._file, self._place_of(f"[{key}]"), (self._header_of(key), 1)
        )

    def tables(self, key: str) -> list[Table]:
        """Return the tables of an array, [] when the key is missing."""
        values = self._take(key)
        if values is None:
            return []
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise self.error(key, f"is not an array of tables: write [[{key}]]")
        return [
            Table(
                value,
                self._file,
                self._place_of(f"[[{key}]] {number}"),
                (self._header_of(key), number),
            )
            for number, value in enumerate(values, 1)
        ]

    def refuse_unknown_keys(self) -> None:
        """Raise ConfigurationError for a key that was not read by now."""
        for key in self._unread:
            if key == "token":
                raise self.error(key, _TOKENS)
            raise self.error(key, f"is no key here{suggestion(key, self._read_keys)}")

    def fail(self, key: str, text: str) -> NoReturn:
        """Raise ConfigurationError about a key."""
        raise self.error(key, text)

    def _take(self, key: str) -> Any:
        """Return and note the value of a key, None when it is missing."""
        self._read_keys.append(key)
        return self._unread.pop(key, None)

    def _local(self, key: str, value: str) -> Path:
        try:
            return self._here(local_path(value))
        except ValueError as error:
            raise self.error(key, str(error)) from error

    def _here(self, path: str | Path) -> Path:
        return Path(os.path.normpath(self._file.path.parent.absolute() / path))

    def _place_of(self, inner: str) -> str:
        return f"{self._where} {inner}".strip()

    def _header_of(self, key: str) -> str:
        return ".".join(filter(None, (self._header[0], key)))

    def _as_text(self, key: str, value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str | int | float):
            return str(value)
        raise self.error(key, f"{value!r} is not a text")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ", did you mean …?" when a known name is similar, otherwise ""."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f", did you mean {found[0]!r}?" if found else ""
