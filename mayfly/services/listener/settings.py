"""The settings of a port: its arguments and the properties of WebSphere, by their own names.

The properties of a listener port in the words of an activation specification (L13), and the rule of
safe timeouts (L10).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mayfly.jms.destinations import Destination, queue_of, topic_of
from mayfly.jms.messages import Message
from mayfly.lifetime.times import SECOND_MS, ms_of_seconds

_LOG = logging.getLogger("mayfly.listener")
#: Of any number.
LARGEST = 2_147_483_647
#: As many as may share one connection (L4).
MAX_CONVERSATIONS = 10
_TOPIC = "topic://"
_NUMBER = re.compile(r"\s*[+-]?[0-9]{1,20}\s*")

OnMessage = Callable[[Message], object]
#: A property is text, as WebSphere has it, or the number itself.
Properties = Mapping[str, str | int]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything a port is set to.

    ``name`` is empty for a port without one. ``receive_timeout_ms`` 0 is ASF. 0 for
    ``reap_interval_ms`` and ``unused_timeout_ms`` keeps idle sessions of ASF for ever;
    ``max_retries`` None never stops the port because of a message.
    """

    destination: Destination
    on_message: OnMessage
    name: str = ""
    max_sessions: int
    selector: str | None
    conversations_per_connection: int = MAX_CONVERSATIONS
    total_tran_lifetime_timeout_s: int
    max_retries: int | None
    receive_timeout_ms: int = 0
    max_recovery_retries: int = 5
    retry_interval_ms: int = ms_of_seconds(60)
    reap_interval_ms: int = 0
    unused_timeout_ms: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError or TypeError for a wrong value, which it names."""
        if not callable(self.on_message):
            raise TypeError(f"on_message {self.on_message!r} cannot be called")
        if not isinstance(self.name, str):
            raise TypeError(f"name {self.name!r} is no text")
        check_number("max_sessions", self.max_sessions, 1)
        check_number(
            "conversations_per_connection",
            self.conversations_per_connection,
            1,
            MAX_CONVERSATIONS,
        )
        check_number("total_tran_lifetime_timeout_s", self.total_tran_lifetime_timeout_s, 0)
        if self.max_retries is not None:
            check_number("max_retries", self.max_retries, 0)

    @property
    def title(self) -> str:
        """The port as messages for people say it."""
        return f"port {self.name}" if self.name else f"the port of {self.destination}"

    @property
    def is_reaping(self) -> bool:
        """Whether idle sessions of ASF are taken away."""
        return bool(self.reap_interval_ms and self.unused_timeout_ms)

    def reap_ms(self, since_ms: int, idle_ms: int) -> int:
        """Return when a session idle since ``idle_ms`` is taken away.

        Sessions are looked at every reap interval after ``since_ms``; a look takes away those that
        have been idle for the unused timeout.
        """
        unused_ms = idle_ms + self.unused_timeout_ms - since_ms
        return since_ms + -(-unused_ms // self.reap_interval_ms) * self.reap_interval_ms


def destination_named(destination: str | Destination) -> Destination:
    """Return a queue or topic by its name or URI; raises InvalidDestinationException."""
    if isinstance(destination, Destination):
        return destination
    is_topic = str(destination).startswith(_TOPIC)
    return topic_of(destination) if is_topic else queue_of(destination)


def of_listener_port(properties: Properties, port_name: str = "") -> dict[str, int]:
    """Return the custom properties of the message listener service as fields of Settings.

    Those that end with the name of a port, in any case, are for the port of that name alone.
    Raises ValueError for a property that is unknown or given twice, and for a value out of its
    range, which it names.
    """
    found: dict[str, int] = {}
    keys: set[str] = set()
    fields: set[str] = set()
    # The unused timeout of this port is longer by its name, and wins over that of all.
    for name in sorted(properties, key=lambda name: len(str(name))):
        key, value = str(name).strip().upper(), properties[name]
        if key in keys:
            raise ValueError(f"property {key} is given twice")
        keys.add(key)
        if key in _UNUSED:
            _LOG.warning("%s is accepted and means nothing here", name)
            continue
        field, lowest, factor = _PORT.get(key) or _unused_timeout(name, key)
        number = number_of(name, value, lowest) * factor
        fields.add(field)
        if named_port(key) in ("", port_name.upper()):
            found[field] = number
    # L12: only ASF has a pool of sessions.
    if found.get("receive_timeout_ms") and fields & {"reap_interval_ms", "unused_timeout_ms"}:
        _LOG.warning(
            "SERVER.SESSION.POOL.* is accepted and ignored: NON.ASF.RECEIVE.TIMEOUT is not 0"
        )
    return found


def ports_named(properties: Properties) -> list[str]:
    """Return the names of ports that properties end with, sorted and as they are written."""
    length = len(_UNUSED_TIMEOUT_PREFIX)
    keys = [str(name).strip() for name in properties]
    return sorted(key[length:] for key in keys if named_port(key.upper()))


def named_port(key: str) -> str:
    """Return the name of the port that a property in capitals ends with; empty: it is for all."""
    prefix = _UNUSED_TIMEOUT_PREFIX
    return key.removeprefix(prefix) if key.startswith(prefix) else ""


def number_of(name: str, value: object, lowest: int) -> int:
    """Return the value of a property, which may be text; raises ValueError or TypeError."""
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            raise ValueError(f"{name} {value!r} is not a whole number")
        value = int(value)
    return check_number(name, value, lowest)


def check_number(name: str, value: object, lowest: int, highest: int = LARGEST) -> int:
    """Return a number within its range; raises ValueError or TypeError, which name it."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} {value!r} is no number")
    if not lowest <= value <= highest:
        raise ValueError(f"{name} {value} is not within {lowest} .. {highest}")
    return value


_REAP = ("reap_interval_ms", 0, 1000)
_UNUSED_TIMEOUT = ("unused_timeout_ms", 0, 1000)
_UNUSED_TIMEOUT_PREFIX = "SERVER.SESSION.POOL.UNUSED.TIMEOUT."
#: The field of Settings, the lowest value, and what the value is multiplied by.
_PORT = {
    "NON.ASF.RECEIVE.TIMEOUT": ("receive_timeout_ms", 0, 1),
    "MAX.RECOVERY.RETRIES": ("max_recovery_retries", 0, 1),
    "RECOVERY.RETRY.INTERVAL": ("retry_interval_ms", 1, 1000),
    # The documentation of MQ leaves the last word out.
    "SERVER.SESSION.POOL.REAP": _REAP,
    "SERVER.SESSION.POOL.REAP.TIME": _REAP,
    "SERVER.SESSION.POOL.UNUSED.TIMEOUT": _UNUSED_TIMEOUT,
}
#: Connection pools, restarts of the application server, beans that keep their own transactions, and
#: the recovery of ports on z/OS, which ports have here on every platform.
_UNUSED = frozenset(
    {
        "MQJMS.POOLING.TIMEOUT",
        "MQJMS.POOLING.THRESHOLD",
        "DYNAMIC.CONFIGURATION.ENABLED",
        "NON.ASF.BMT.ROLLBACK.ENABLED",
        "ENABLE.ZOS.LP.RECOVERY",
    }
)


def _unused_timeout(name: str, key: str) -> tuple[str, int, int]:
    """Return the unused timeout of one port, whose name ends the property's."""
    if key.startswith(_UNUSED_TIMEOUT_PREFIX) and key != _UNUSED_TIMEOUT_PREFIX:
        return _UNUSED_TIMEOUT
    known = ", ".join(sorted({*_PORT, *_UNUSED}))
    raise ValueError(f"property {name!r} is not known; known are {known}")


# A listener port in the words of an activation specification (L13)


_ROLLBACK = "NON.ASF.BMT.ROLLBACK.ENABLED"
_NO_COUNTERPART = {
    "SERVER.SESSION.POOL.REAP": "an activation specification looks at each session by itself",
    "SERVER.SESSION.POOL.REAP.TIME": "an activation specification looks at each session by itself",
    "MQJMS.POOLING.TIMEOUT": "connections are not pooled",
    "MQJMS.POOLING.THRESHOLD": "connections are not pooled",
    "ENABLE.ZOS.LP.RECOVERY": "an activation specification always recovers",
    "DYNAMIC.CONFIGURATION.ENABLED": "an activation specification is changed by making another",
}
#: Property of a port -> property of an activation specification, field of Settings.
_COUNTERPARTS = {
    "NON.ASF.RECEIVE.TIMEOUT": ("nonASFTimeout", "receive_timeout_ms"),
    "MAX.RECOVERY.RETRIES": ("reconnectionRetryCount", "max_recovery_retries"),
    "RECOVERY.RETRY.INTERVAL": ("reconnectionRetryInterval", "retry_interval_ms"),
}
#: Defaults of a port where an activation specification has others.
_DEFAULTS: dict[str, str | int] = {"reconnectionRetryInterval": 60 * SECOND_MS}


class Translation(NamedTuple):
    """A property table for ActivationSpec, and what it cannot say: property of the port -> why."""

    properties: dict[str, str | int]
    not_translated: dict[str, str]


def translated(properties: Properties, *, port_name: str = "") -> Translation:
    """Return the property table of a listener port as one of an activation specification.

    Properties for the port of this name, in any case, are translated; those for other ports are
    not. Raises ValueError and TypeError as ListenerPort for an unknown property or a wrong value.
    """
    settings = of_listener_port(properties, port_name)
    found, missing = dict(_DEFAULTS), {}
    for name, value in properties.items():
        key = str(name).strip().upper()
        if key == _ROLLBACK:
            found["nonASFRollbackEnabled"] = value
        elif key in _COUNTERPARTS:
            wanted, field = _COUNTERPARTS[key]
            if settings[field] <= LARGEST:
                found[wanted] = settings[field]
            else:
                missing[name] = f"{value} s are more ms than {wanted} can say"
        else:
            why = _NO_COUNTERPART.get(key) or _why_no_pool_timeout(key, port_name, settings)
            if why is None:
                found["poolTimeout"] = settings["unused_timeout_ms"]
            else:
                missing[name] = why
    return Translation(found, missing)


def _why_no_pool_timeout(key: str, port_name: str, settings: dict[str, int]) -> str | None:
    """Return why an unused timeout is no poolTimeout, None when it is one."""
    named, unused_ms = named_port(key), settings.get("unused_timeout_ms", 0)
    if named not in ("", port_name.upper()):
        return f"it is for the port {named}"
    if settings.get("receive_timeout_ms"):
        return "NON.ASF.RECEIVE.TIMEOUT is not 0: there is no pool of sessions (L12)"
    if not unused_ms or not settings.get("reap_interval_ms"):
        return "unused sessions are kept for ever; poolTimeout is at least 1 ms"
    return None if unused_ms <= LARGEST else "it is more ms than poolTimeout can say"


# Safe timeouts (L10)


def check_timeouts(
    *,
    receive_timeout_ms: int,
    total_tran_lifetime_timeout_s: int,
    longest_on_message_ms: int,
) -> list[str]:
    """Return what is wrong with timeouts, one sentence each; empty when they are safe (L10).

    The receive timeout must be shorter than the total transaction lifetime, and what is left of the
    lifetime after it longer than the longest on_message; equal is not safe. A lifetime of 0 is no
    limit. A receive timeout of 0 is ASF, where the transaction starts behind the receive. Raises
    ValueError for a negative value and TypeError for no number, which they name.
    """
    given = {
        "receive_timeout_ms": receive_timeout_ms,
        "total_tran_lifetime_timeout_s": total_tran_lifetime_timeout_s,
        "longest_on_message_ms": longest_on_message_ms,
    }
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} {value!r} is no number")
        if value < 0:
            raise ValueError(f"{name} {value} is negative")
    if not total_tran_lifetime_timeout_s:
        return []
    lifetime_ms = ms_of_seconds(total_tran_lifetime_timeout_s)
    left_ms = lifetime_ms - receive_timeout_ms
    lifetime = f"the total transaction lifetime timeout of {lifetime_ms} ms"
    problems = []
    if left_ms <= 0:
        problems.append(
            f"the receive timeout of {receive_timeout_ms} ms is not less than {lifetime}"
        )
    if longest_on_message_ms >= max(left_ms, 0) and longest_on_message_ms:
        problems.append(
            f"{max(left_ms, 0)} ms are left of {lifetime} after a receive of {receive_timeout_ms} "
            f"ms, not more than the {longest_on_message_ms} ms of the longest on_message"
        )
    return problems
