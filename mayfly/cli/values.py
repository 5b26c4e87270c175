"""Values on the command line: durations with a unit, moments, hexadecimal ids, option names."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from mayfly.lifetime.times import read_duration
from mayfly.mqi import constants as c
from mayfly.verbs.contracts import config_files

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
#: Fewer digits are the year 1973 or before: seconds, or a date without its hyphens.
_MS_DIGITS = re.compile(r"[0-9]{12,14}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
ID_BYTES = 24
#: Waits until there is a message.
FOREVER_MS = -1


class PropertyValue(NamedTuple):
    """A message property, with the text that its value must have."""

    name: str
    value: str


def local_path(text: str | Path) -> Path:
    """Return a path of this machine; raises BadParameter for a URL that is not ``file:``."""
    try:
        return config_files.local_path(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def duration_ms(text: str) -> int:
    """Return a duration such as ``20s`` in ms; 0 needs no unit.

    Raises BadParameter for another text, a missing unit, and parts of a ms.
    """
    try:
        return read_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def moment_ms(text: str) -> int:
    """Return a moment in ms since 1970, from ISO 8601 (UTC if it has no zone) or from digits.

    Raises BadParameter for another text, and for digits that can only be seconds since 1970.
    """
    typed = text.strip()
    if typed.isdecimal():
        if _MS_DIGITS.fullmatch(typed) is None:
            raise typer.BadParameter(
                f"{text!r} is no moment: milliseconds since 1970 have 12 to 14 digits"
            )
        return int(typed)
    try:
        read = datetime.fromisoformat(typed)
        since_epoch = (read if read.tzinfo is not None else read.replace(tzinfo=UTC)) - _EPOCH
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no moment: ISO 8601 as in 2026-11-20T18:00:00Z, milliseconds since "
            "1970, or for --due-from and --due-before from now on, as in +1h"
        ) from None
    at_ms, rest = divmod(since_epoch, _MS)
    if rest:
        raise typer.BadParameter(f"{text!r} is not a whole number of milliseconds")
    return at_ms


def wait_ms(text: str) -> int:
    """Return a wait in ms, FOREVER_MS (-1) for ``forever``; raises BadParameter for other texts."""
    return FOREVER_MS if text.strip().lower() == "forever" else duration_ms(text)


def message_id(text: str) -> bytes:
    """Return the 1 to 24 bytes of hexadecimal digits: ``ID:414d51`` -> ``b"AMQ"``.

    ``ID:`` may be left out. A UUID may have its hyphens: it is the id of a task, whose MsgId begins
    with it. Raises BadParameter for another text or number of bytes.
    """
    typed = text.strip()
    digits = typed[3:] if typed[:3].upper() == "ID:" else typed
    if _UUID.fullmatch(digits):
        digits = digits.replace("-", "")
    try:
        value = bytes.fromhex(digits)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not hexadecimal: an id has two digits 0-9a-f a byte"
        ) from None
    if not 0 < len(value) <= ID_BYTES:
        raise typer.BadParameter(f"{text!r} has {len(value)} bytes; an id has 1 to {ID_BYTES}")
    return value


def property_of(text: str) -> PropertyValue:
    """Return ``name=value`` as a property; raises BadParameter without a name or a ``=``."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{text!r} is not name=value")
    return PropertyValue(name, value)


def report_option(text: str) -> int:
    """Return the MQRO_* value of a name, with or without MQRO_; raises BadParameter if unknown."""
    value = c.report_option(text)
    if value is None:
        known = ", ".join(c.REPORT_OPTIONS)
        raise typer.BadParameter(f"{text!r} is not one of {known}")
    return value


MsgIdOption = Annotated[
    bytes | None,
    typer.Option("--msg-id", parser=message_id, metavar="HEX", help="Only the one with this id."),
]
CorrelIdOption = Annotated[
    bytes | None,
    typer.Option(
        "--correl-id", parser=message_id, metavar="HEX", help="Only with this correlation id."
    ),
]
