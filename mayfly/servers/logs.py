"""The log of a server on stderr: lines for people, or one JSON object a line.

Modules write to the logger ``mayfly`` and its children. Facts for programs are given as
``extra={"queue_manager": "QM1"}``: each becomes a field of its own.
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
    """The form of the log.

    PLAIN has warnings and errors only, without their time. TEXT and JSON also have ordinary events:
    listeners, connections, reloads, the end.
    """

    PLAIN = "plain"
    TEXT = "text"
    JSON = "json"


class _Plain(logging.Formatter):
    """``mayfly: QM1: the message``."""

    def format(self, record: logging.LogRecord) -> str:
        return f"mayfly: {_one_line(_message(record))}"


class _Text(logging.Formatter):
    """Time, level and message."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_moment(record)} {record.levelname:<7} {_one_line(_message(record))}"


class _Json(logging.Formatter):
    """An object with ``time``, ``level``, ``message`` and the facts."""

    def format(self, record: logging.LogRecord) -> str:
        given = {key: value for key, value in vars(record).items() if key not in _OF_EVERY_RECORD}
        row = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "message": _message(record),
            **given,
        }
        return json.dumps(row, default=str)


_FORMATTERS = {LogForm.PLAIN: _Plain, LogForm.TEXT: _Text, LogForm.JSON: _Json}


@contextmanager
def log_to(stream: TextIO, form: LogForm) -> Iterator[None]:
    """Write the log of this process to a stream for a block."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_FORMATTERS[form]())
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


def _message(record: logging.LogRecord) -> str:
    message = record.getMessage()
    if record.exc_info:
        message = f"{message}: {logging.Formatter().formatException(record.exc_info)}"
    return message


def _one_line(text: str) -> str:
    """Return a text whose line breaks and control characters cannot imitate other lines."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
