"""The settings of a non-ASF listener port that are checked and advised: bounds, and their file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mayfly.lifetime.moments import TOTAL_TRAN_LIFETIME_TIMEOUT_S
from mayfly.lifetime.times import SECOND_MS

#: The listener waits for one message at a time in each; more threads than this hold no port.
MAX_SESSIONS = 1_000
_LONGEST_MS = 2**31 - 1
_BOTHRESH_MAX = 999_999_999


class AdviseError(ValueError):
    """A setting, configuration file or recording is invalid; the text names it and its value."""


class ListenSettings(NamedTuple):
    """The settings of a port: NON.ASF.RECEIVE.TIMEOUT, total transaction lifetime, sessions.

    ``receive_timeout_ms`` None means not decided yet. A lifetime of 0 means that no transaction
    times out. With BOTHRESH 0 a message is redelivered without limit.
    """

    receive_timeout_ms: int | None = None
    total_tran_lifetime_timeout_s: int = TOTAL_TRAN_LIFETIME_TIMEOUT_S
    max_sessions: int = 1
    bothresh: int = 0

    @property
    def lifetime_ms(self) -> int:
        """The total transaction lifetime in ms."""
        return self.total_tran_lifetime_timeout_s * SECOND_MS

    @property
    def timeout_ms(self) -> int:
        """The receive timeout in ms; raises AdviseError when the setting has None for it."""
        if self.receive_timeout_ms is None:
            raise AdviseError("receive_timeout_ms is None: without a timeout nothing can be tried")
        return self.receive_timeout_ms


#: The lowest and the highest value of each setting. A timeout of 0 would be ASF: no receive waits.
BOUNDS = {
    "receive_timeout_ms": (1, _LONGEST_MS),
    "total_tran_lifetime_timeout_s": (0, _LONGEST_MS // SECOND_MS),
    "max_sessions": (1, MAX_SESSIONS),
    "bothresh": (0, _BOTHRESH_MAX),
    "longest_on_message_ms": (0, _LONGEST_MS),
    "margin_ms": (1, _LONGEST_MS),
    "idle_per_hour": (1, _LONGEST_MS),
}


def check_bounds(**values: int) -> None:
    """Raise AdviseError, with name and value, for a value outside of its range in BOUNDS."""
    for name, value in values.items():
        lowest, highest = BOUNDS[name]
        if type(value) is not int or not lowest <= value <= highest:
            why = " (0 is ASF mode, where no transaction waits)" if name in _ASF_WHEN_ZERO else ""
            raise AdviseError(f"{name} is {value!r}, not a number from {lowest} to {highest}{why}")


def check_setting(setting: ListenSettings) -> None:
    """Raise AdviseError, with name and value, for a field outside of BOUNDS; None is allowed."""
    values = setting._asdict()
    if setting.receive_timeout_ms is None:
        del values["receive_timeout_ms"]
    check_bounds(**values)


def duration_text(duration_ms: int) -> str:
    """Return a duration as text: ``104 s``, ``1.5 s``, ``20 ms``."""
    if duration_ms < SECOND_MS:
        return f"{duration_ms} ms"
    return f"{duration_ms / SECOND_MS:,.3f}".rstrip("0").rstrip(".") + " s"


def problems_of(setting: ListenSettings, longest_on_message_ms: int) -> list[str]:
    """Return the reasons why a setting is unsafe, as sentences; [] if it is safe or undecided.

    Safe is a receive timeout below the transaction lifetime that leaves *more* than the longest
    on_message. If it leaves exactly as much, a message at the very end of a receive is finished
    when its transaction times out.
    """
    if setting.receive_timeout_ms is None:
        return []
    # Imported late: the listener loads the whole queue manager.
    from mayfly.services.listener.settings import check_timeouts

    return check_timeouts(
        receive_timeout_ms=setting.receive_timeout_ms,
        total_tran_lifetime_timeout_s=setting.total_tran_lifetime_timeout_s,
        longest_on_message_ms=longest_on_message_ms,
    )


_ASF_WHEN_ZERO = ("receive_timeout_ms",)


# The configuration of a listener port, read from a TOML file or a properties file


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
