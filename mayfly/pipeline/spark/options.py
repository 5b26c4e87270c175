"""Reads the options of ``format("mayfly")``: names in any case; unknown options are refused."""

from __future__ import annotations

from collections.abc import Mapping

from mayfly.pipeline.bulk.client import check_url
from mayfly.pipeline.errors import OptionError


class OptionReader:
    """The options that Spark passes; an option that was read is removed from the rest."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Keep all options as unread; names match in any case."""
        self._left = {name.lower(): (name, value) for name, value in options.items()}

    def optional(self, name: str) -> str | None:
        """Return the value of an option, None if it is missing or was read before."""
        return self._left.pop(name.lower(), (name, None))[1]

    def text(self, name: str, default: str) -> str:
        """Return the value of an option, or the default if it is missing."""
        value = self.optional(name)
        return default if value is None else value

    def required(self, name: str) -> str:
        """Return the value of an option; raises OptionError if it is missing or empty."""
        value = self.optional(name)
        if not value:
            raise OptionError(f"option {name} is missing")
        return value

    def url(self) -> str:
        """Return the option ``url``; raises OptionError unless it is the url of a Flight server."""
        try:
            return check_url(self.required("url"))
        except ValueError as error:
            if isinstance(error, OptionError):
                raise
            raise OptionError(f"option {error}") from error

    def number(self, name: str, default: int) -> int:
        """Return an option as a whole number above 0, the default if it is missing.

        Raises OptionError for another text.
        """
        value = self.text(name, str(default))
        if not value.isdecimal() or int(value) < 1:
            raise OptionError(f"option {name}: {value!r} is not a whole number above 0")
        return int(value)

    def task_bytes(self) -> int:
        """Return option maxBytesPerTask, by default 64 MiB; raises OptionError for another text."""
        return self.number("maxBytesPerTask", 64 * 2**20)

    def optional_number(self, name: str) -> int | None:
        """Return an option as a whole number above 0, None if it is missing.

        Raises OptionError for another text.
        """
        return self.number(name, 1) if name.lower() in self._left else None

    def flag(self, name: str) -> bool:
        """Return True for "true"; False for "false" or a missing option.

        Raises OptionError for another text.
        """
        value = self.text(name, "false").lower()
        if value not in ("true", "false"):
            raise OptionError(f"option {name}: {value!r} is neither true nor false")
        return value == "true"

    def refuse_unknown_keys(self) -> None:
        """Raise OptionError for the first option that was not read, because it is unknown."""
        if self._left:
            name, value = next(iter(self._left.values()))
            raise OptionError(f"option {name} ({value!r}) is not one of this source")
