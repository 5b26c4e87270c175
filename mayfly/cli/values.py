"""Values as people type them: durations with a unit, ids in hexadecimal, report options by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import constants as c
from mayfly.verbs.contracts import files

_MINUTE_MS = 60 * SECOND_MS
_UNITS_MS = {
    "ms": 1,
    "s": SECOND_MS,
    "m": _MINUTE_MS,
    "min": _MINUTE_MS,
    "h": 60 * _MINUTE_MS,
    "d": 24 * 60 * _MINUTE_MS,
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_ID_BYTES = 24
#: Waits until there is a message.
FOREVER_MS = -1


def local_path(text: str | Path) -> Path:
    """Return a path of this machine; raises BadParameter for a URL of anywhere else."""
    try:
        return files.local_path(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def duration_ms(text: str) -> int:
    """Return a duration such as ``20s`` in ms; raises BadParameter, also for a number alone."""
    typed = text.strip().lower()
    if typed == "0":
        return 0
    found = _DURATION.fullmatch(typed)
    if found is not None and not found[2]:
        raise typer.BadParameter(
            f"{text!r} has no unit: {found[1]}ms, {found[1]}s, {found[1]}m, {found[1]}h or "
            f"{found[1]}d"
        )
    if found is None or found[2] not in _UNITS_MS:
        raise typer.BadParameter(
            f"{text!r} is not a duration: a number and ms, s, m, h or d, as in 20s"
        )
    duration = float(found[1]) * _UNITS_MS[found[2]]
    if not duration.is_integer():
        raise typer.BadParameter(f"{text!r} is not a whole number of milliseconds")
    return int(duration)


def wait_ms(text: str) -> int:
    """Return how long to wait in ms; ``forever`` is -1."""
    return FOREVER_MS if text.strip().lower() == "forever" else duration_ms(text)


def message_id(text: str) -> bytes:
    """Return an id of up to 24 bytes from its hexadecimal digits, with or without ``ID:``.

    Raises BadParameter.
    """
    typed = text.strip()
    digits = typed[3:] if typed[:3].upper() == "ID:" else typed
    try:
        value = bytes.fromhex(digits)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not hexadecimal: an id has two digits 0-9a-f a byte"
        ) from None
    if not 0 < len(value) <= _ID_BYTES:
        raise typer.BadParameter(f"{text!r} has {len(value)} bytes; an id has 1 to {_ID_BYTES}")
    return value


def report_option(text: str) -> int:
    """Return an MQRO_* value from its name, with or without MQRO_; raises BadParameter."""
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
