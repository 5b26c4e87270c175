"""The log of a server on stderr: lines for people, or one JSON object on each line.

Modules log to the logger ``mayfly`` and its children. Facts for programs are given as
``extra={"queue_manager": "QM1"}``: each becomes a field of the JSON object.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import TextIO

_LOGGER = logging.getLogger("mayfly")
#: Attributes that a record has without any ``extra``.
_OF_EVERY_RECORD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


class LogForm(StrEnum):
    """The format of the log.

    PLAIN has only warnings and errors, without their time. TEXT and JSON also have ordinary events:
    listeners, connections, reloads, the end.
    """

    PLAIN = "plain"
    TEXT = "text"
    JSON = "json"


class _Formatter(logging.Formatter):
    """Formats a log record in one of the three forms, always as one line."""

    def __init__(self, form: LogForm) -> None:
        """Write records in the form ``form``: plain, text with time and level, or JSON."""
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line, with the traceback of an exception at the end."""
        message = record.getMessage()
        if record.exc_info:
            message = f"{message}: {self.formatException(record.exc_info)}"
        if self._form is LogForm.PLAIN:
            return f"mayfly: {_one_line(message)}"
        created = datetime.fromtimestamp(record.created, UTC)
        moment = created.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self._form is LogForm.TEXT:
            return f"{moment} {record.levelname:<7} {_one_line(message)}"
        given = {key: value for key, value in vars(record).items() if key not in _OF_EVERY_RECORD}
        row = {"time": moment, "level": record.levelname.lower(), "message": message, **given}
        return json.dumps(row, default=str)


@contextmanager
def log_to(stream: TextIO, form: LogForm) -> Iterator[None]:
    """Write the log of this process to a stream for a ``with`` block.

    At the end the earlier level and handlers are restored.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Formatter(form))
    before, propagates = _LOGGER.level, _LOGGER.propagate
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(logging.WARNING if form is LogForm.PLAIN else logging.INFO)
    # Another handler of the process would write each line twice.
    _LOGGER.propagate = False
    try:
        yield
    finally:
        _LOGGER.removeHandler(handler)
        _LOGGER.setLevel(before)
        _LOGGER.propagate = propagates


def _one_line(text: str) -> str:
    """Return a text on one line: whitespace becomes a space, other control characters ``?``."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)
