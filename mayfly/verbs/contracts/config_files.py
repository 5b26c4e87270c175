"""Files that a user configures: paths and URLs, and the checked tables of a TOML file.

A path or URL stays a str until its scheme is known: ``Path`` merges double slashes, and would turn
``s3a://lake`` into a folder ``s3a:`` of this machine.

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
from typing import Any

FILE_SCHEME = "file"
#: A scheme of one letter is none: drives have such names. A URL that went through a ``Path`` has
#: one slash left.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_FILE = re.compile(r"file:(?://(?:localhost)?)?(?=/(?!/))")


def scheme_of(place: str | Path) -> str:
    """Return the scheme of a URL in lower case: ``S3A://lake`` -> ``s3a``.

    Returns "" for a path of this machine, also for one with a drive letter.
    """
    found = _SCHEME.match(str(place))
    return "" if found is None else found[1].lower()


def is_url(place: str | Path) -> bool:
    """Return True for a URL of another kind than ``file:``, so of no path of this machine."""
    return scheme_of(place) not in ("", FILE_SCHEME)


def local_path(place: str | Path) -> Path:
    """Return ``place`` as a path of this machine; ``file:///PATH`` becomes ``/PATH``.

    A place without a scheme is returned as it is. Raises ValueError for any other URL, also for
    ``file://`` with the name of another machine.
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
        """Build the text: file, line if known, table or key (``where``), and the problem."""
        place = f"{path}" if line is None else f"{path}, line {line}"
        super().__init__(f"{place}: {where}: {text}" if where else f"{place}: {text}")
        self.path = path
        self.where = where
        self.text = text
        self.line = line

    def __reduce__(self) -> tuple[type[ConfigurationError], tuple[Path, str, str, int | None]]:
        """Return class and arguments for pickle, so that the error can cross processes."""
        return type(self), (self.path, self.where, self.text, self.line)


class _File:
    """The text of a configuration file, with the line number of each key for error texts."""

    def __init__(self, path: Path, text: str, error: type[ConfigurationError]) -> None:
        """Find the line of each key; ``error`` is the exception class for errors in this file."""
        self.path, self.error = path, error
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

    def line_of(self, header: str, number: int, key: str) -> int | None:
        """Return the line of a key of a table, None if it is not found.

        ``number`` counts the tables with the same ``header``, from 1.
        """
        return self._lines.get((header, number, key))


def read_tables(path: Path, error: type[ConfigurationError] = ConfigurationError) -> Table:
    """Return the root table of a TOML file; ``error`` is the class for errors in the file.

    Raises OSError if the file cannot be read, and ``error`` for a file that is not TOML.
    """
    try:
        text = path.read_bytes().decode()
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise error(path, "", f"is not TOML: {wrong}") from wrong
    return Table(values, _File(path, text, error))


class Table:
    """A table of a TOML file; it remembers which keys were read, to find unknown ones.

    Each method that reads a key raises ConfigurationError for a value of another type.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        file: _File,
        where: str = "",
        header: str = "",
        number: int = 1,
    ) -> None:
        """Wrap the values of a table.

        ``where`` names the table in errors. ``number`` counts the tables of the file with the same
        TOML ``header``, from 1.
        """
        self._unread = dict(values)
        self._read_keys: list[str] = []
        self._file = file
        self._where = where
        self._header, self._number = header, number

    def error(self, key: str, text: str) -> ConfigurationError:
        """Return (not raise) the error about a key of this table; ``text`` says what is wrong."""
        file, where = self._file, ", ".join(filter(None, (self._where, key)))
        line = file.line_of(self._header, self._number, key)
        return file.error(file.path, where, text, line)

    def optional_text(self, key: str) -> str | None:
        """Return the text at a key, None when the key is missing.

        Raises ConfigurationError for a blank text or another type.
        """
        value = self._take(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f"{value!r} is not a text")
        return value

    def plain_text(self, key: str) -> str | None:
        """Return the text at a key, None when the key is missing.

        Raises ConfigurationError for a blank text, another type, or a reference such as
        ``${NAME}``, which is not expanded.
        """
        value = self.optional_text(key)
        if value is not None and _REFERENCE.search(value):
            raise self.error(
                key, f"{value!r} is taken as it is: nothing like ${{NAME}} is expanded"
            )
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return the text at a key, or ``default`` when the key is missing.

        Raises ConfigurationError when both are missing, and for a blank text, another type, or a
        reference such as ``${NAME}``.
        """
        value = self.plain_text(key)
        if value is None:
            value = default
        if value is None:
            raise self.error(key, "is missing")
        return value

    def one_of(self, key: str, known: Iterable[str], default: str | None = None) -> str:
        """Return the text at a key, or ``default`` when the key is missing.

        Raises ConfigurationError when both are missing, and for a text that is not in ``known``.
        """
        names = list(known)
        value = self.text(key, default)
        if value not in names:
            raise self.error(
                key, f"{value!r} is none of {', '.join(names)}{suggestion(value, names)}"
            )
        return value

    def place(self, key: str) -> str | None:
        """Return the path or URL at a key, None when the key is missing.

        A relative path is made absolute, from the folder of the file. Raises ConfigurationError for
        a value that is no plain text.
        """
        value = self.plain_text(key)
        if value is None or scheme_of(value):
            return value
        return str(self._here(value))

    def local_place(self, key: str) -> Path | None:
        """Return the local path at a key, None when the key is missing.

        A relative path is made absolute, from the folder of the file. Raises ConfigurationError for
        a URL other than ``file:`` of this machine.
        """
        value = self.plain_text(key)
        return None if value is None else self._local(key, value)

    def number(self, key: str, least: int = 1, most: int = 2**31 - 1) -> int | None:
        """Return the whole number at a key, None when the key is missing.

        Raises ConfigurationError for a number outside ``least`` to ``most``, or another type.
        """
        value = self._take(key)
        if value is not None and not (type(value) is int and least <= value <= most):
            raise self.error(key, f"{value!r} is not a whole number from {least} to {most}")
        return value

    def boolean(self, key: str) -> bool:
        """Return the boolean at a key, False when the key is missing.

        Raises ConfigurationError for another type.
        """
        value = self._take(key)
        if not isinstance(value, bool | None):
            raise self.error(key, f"{value!r} is not true or false")
        return bool(value)

    def places(self, key: str) -> list[Path]:
        """Return the list of local paths at a key, [] when the key is missing.

        Relative paths are made absolute, from the folder of the file. Raises ConfigurationError for
        any other value.
        """
        values = self._take(key)
        if values is None:
            return []
        if not isinstance(values, list) or not all(isinstance(v, str) and v for v in values):
            raise self.error(key, f"{values!r} is not a list of file names")
        return [self._local(key, value) for value in values]

    def texts(self, key: str) -> dict[str, str]:
        """Return the table of texts at a key, {} when the key is missing.

        Numbers and booleans become text as in Spark: ``true`` -> ``"true"``. Raises
        ConfigurationError for any other value.
        """
        values = self._take(key)
        if values is None:
            return {}
        if not isinstance(values, dict):
            raise self.error(key, f"{values!r} is not a table")
        return {name: self._as_text(f"{key}.{name}", value) for name, value in values.items()}

    def table(self, key: str) -> Table:
        """Return the inner table at a key, an empty one when the key is missing.

        Raises ConfigurationError for any other value.
        """
        values = self._take(key)
        if not isinstance(values, dict | None):
            raise self.error(key, f"{values!r} is not a table: write [{key}]")
        return Table(values or {}, self._file, self._place_of(f"[{key}]"), self._header_of(key))

    def tables(self, key: str) -> list[Table]:
        """Return the tables of the array at a key (``[[key]]``), [] when the key is missing.

        Raises ConfigurationError for any other value.
        """
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
                self._header_of(key),
                number,
            )
            for number, value in enumerate(values, 1)
        ]

    def refuse_unknown_keys(self) -> None:
        """Raise ConfigurationError for the first key of the table that was not read so far."""
        for key in self._unread:
            if key == "token":
                raise self.error(key, _TOKENS)
            raise self.error(key, f"is no key here{suggestion(key, self._read_keys)}")

    def _take(self, key: str) -> Any:
        """Return the value of a key and mark the key as read; None when the key is missing."""
        self._read_keys.append(key)
        return self._unread.pop(key, None)

    def _local(self, key: str, value: str) -> Path:
        """Return a path or ``file:`` URL as absolute path.

        ``value`` is the text at ``key``. A relative path is joined to the folder of the
        configuration file. Raises ConfigurationError for any other URL.
        """
        try:
            return self._here(local_path(value))
        except ValueError as error:
            raise self.error(key, str(error)) from error

    def _here(self, path: str | Path) -> Path:
        """Return a path made absolute, from the folder of the configuration file."""
        return Path(os.path.normpath(self._file.path.parent.absolute() / path))

    def _place_of(self, inner: str) -> str:
        """Return the name of an inner table in errors: ``[a] [b]``."""
        return f"{self._where} {inner}".strip()

    def _header_of(self, key: str) -> str:
        """Return the TOML header of an inner table: ``a`` and ``b`` -> ``a.b``."""
        return ".".join(filter(None, (self._header, key)))

    def _as_text(self, key: str, value: Any) -> str:
        """Return a str, number or boolean as str; raises ConfigurationError for other values."""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str | int | float):
            return str(value)
        raise self.error(key, f"{value!r} is not a text")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``, did you mean 'queue'?`` with the most similar name, "" without a similar one."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f", did you mean {found[0]!r}?" if found else ""
