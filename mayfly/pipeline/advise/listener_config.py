"""The configuration of a listener port, read from a TOML file or a properties file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mayfly.pipeline.advise.settings import AdviseError

#: The keys besides the custom properties of a listener port, and the setting each is; the total
#: transaction lifetime is in seconds.
KEYS = {
    "total_tran_lifetime_timeout_s": "total_tran_lifetime_timeout_s",
    "totalTranLifetimeTimeout": "total_tran_lifetime_timeout_s",
    "max_sessions": "max_sessions",
    "maxSessions": "max_sessions",
    "BOTHRESH": "bothresh",
    "longest_on_message_ms": "longest_on_message_ms",
}
_SWITCH, _RECEIVE_TIMEOUT = "NON.ASF.RECEIVE.TIMEOUT", "receive_timeout_ms"
_PROPERTY = re.compile(r"([^\s:=]+)\s*[=:\s]\s*(.*)")


def read_config(file: Path) -> dict[str, int]:
    """Return the settings in a file, by the field names of ListenSettings.

    A further key is ``longest_on_message_ms``. Keys that are missing in the file are missing in the
    result. Raises AdviseError, which names file, key and value, and OSError when the file cannot be
    read.
    """
    try:
        text = file.read_text("utf-8")
        if file.suffix.lower() == ".toml":
            pairs = list(_flat(tomllib.loads(text)))
        else:
            pairs = list(_properties(text))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise AdviseError(f"{file} cannot be read: {error}") from error
    except AdviseError as error:
        raise AdviseError(f"{file}: {error}") from error
    found: dict[str, int] = {}
    properties: dict[str, str | int] = {}
    for key, value in pairs:
        if key in properties or KEYS.get(key) in found:
            raise AdviseError(f"{file}: {key} is given twice")
        if key in KEYS:
            found[KEYS[key]] = _number(key, value, file)
        elif key.isupper() or "." in key:
            # The name of a port may have any case, and so has a property that ends with it.
            is_switch = key.upper() == _SWITCH
            properties[key] = _number(key, value, file) if is_switch else str(value)
        else:
            raise AdviseError(f"{file}: {key!r} is unknown; known are {_SWITCH}, {', '.join(KEYS)}")
    return found | _of_port(properties, file)


def _of_port(properties: dict[str, str | int], file: Path) -> dict[str, int]:
    """Return receive_timeout_ms from the custom properties of a port, {} without that property.

    Raises AdviseError for an unknown or wrong property.
    """
    # Imported late: the listener loads the whole queue manager.
    from mayfly.services.listener.settings import of_listener_port

    try:
        known = of_listener_port(properties)
    except ValueError as error:
        raise AdviseError(f"{file}: {error}") from error
    return {name: value for name, value in known.items() if name == _RECEIVE_TIMEOUT}


def _flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (key, value) with dotted keys: ``NON.ASF.RECEIVE.TIMEOUT`` is nested tables in TOML.

    ``prefix`` comes before each key.
    """
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _properties(text: str) -> Iterator[tuple[str, str]]:
    """Yield (key, value) of each line of a properties file, without comments.

    Raises AdviseError for a line that is not KEY=VALUE.
    """
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        found = _PROPERTY.fullmatch(stripped)
        if found is None:
            raise AdviseError(f"line {number} is {stripped!r}, not KEY=VALUE")
        yield found[1], found[2].strip()


def _number(key: str, value: object, file: Path) -> int:
    """Return the value of a key as a whole number; raises AdviseError if it is none."""
    if type(value) is int:
        return value
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        return int(value)
    raise AdviseError(f"{file}: {key} is {value!r}, not a whole number")
