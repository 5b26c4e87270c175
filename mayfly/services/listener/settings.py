"""Settings of a listener port: its arguments, and the custom properties of WebSphere.

Also the translation of a listener port's properties to those of an activation specification, and
the check of safe timeouts.
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
class PortSettings:
    """All settings of a port.

    ``name`` is empty for a port without a name. ``receive_timeout_ms`` 0 means ASF mode. In ASF
    mode idle sessions are kept for ever if ``reap_interval_ms`` or ``unused_timeout_ms`` is 0.
    ``max_retries`` None means that no message stops the port.
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
        """Raise ValueError or TypeError, which names the field, for a wrong value."""
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
        """The port's name for log messages and errors: ``port A``, or its destination."""
        return f"port {self.name}" if self.name else f"the port of {self.destination}"

    @property
    def is_reaping(self) -> bool:
        """Whether idle sessions of ASF mode lose their threads after a time."""
        return bool(self.reap_interval_ms and self.unused_timeout_ms)

    def reap_ms(self, since_ms: int, idle_ms: int) -> int:
        """Return the epoch ms at which a session that is idle since ``idle_ms`` loses its thread.

        Sessions are checked at each reap interval after ``since_ms``. A session loses its thread at
        the first check at which it has been idle for the unused timeout.
        """
        unused_ms = idle_ms + self.unused_timeout_ms - since_ms
        return since_ms + -(-unused_ms // self.reap_interval_ms) * self.reap_interval_ms


def destination_named(destination: str | Destination) -> Destination:
    """Return a queue, or a topic for ``topic://…``, from its name or URI.

    A Destination is returned unchanged. Raises InvalidDestinationException.
    """
    if isinstance(destination, Destination):
        return destination
    is_topic = str(destination).startswith(_TOPIC)
    return topic_of(destination) if is_topic else queue_of(destination)


def of_listener_port(properties: Properties, port_name: str = "") -> dict[str, int]:
    """Return fields of PortSettings from the custom properties of the message listener service.

    A property that ends with a port name, in any case, counts only for the port of that name.
    Raises ValueError for a property that is unknown, repeated or out of range. Raises TypeError for
    a value that is not a number. Both name the property.
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
        if key in UNUSED:
            _LOG.warning("%s is accepted and means nothing here", name)
            continue
        field, lowest, factor = PORT_PROPERTIES.get(key) or _unused_timeout(name, key)
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
    """Return the port names at the end of property names, sorted, as they are spelled."""
    length = len(_UNUSED_TIMEOUT_PREFIX)
    keys = [str(name).strip() for name in properties]
    return sorted(key[length:] for key in keys if named_port(key.upper()))


def named_port(key: str) -> str:
    """Return the port name at the end of an upper-case property name; "" if it has none.

    ``'SERVER.SESSION.POOL.UNUSED.TIMEOUT.PORT1'`` -> ``'PORT1'``.
    """
    prefix = _UNUSED_TIMEOUT_PREFIX
    return key.removeprefix(prefix) if key.startswith(prefix) else ""


def number_of(name: str, value: object, lowest: int) -> int:
    """Return the number of a property, from an int or digits.

    Raises ValueError or TypeError, which names the property, if it is not a number from ``lowest``
    on.
    """
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            raise ValueError(f"{name} {value!r} is not a whole number")
        value = int(value)
    return check_number(name, value, lowest)


def check_number(name: str, value: object, lowest: int, highest: int = LARGEST) -> int:
    """Return a number unchanged if it is from ``lowest`` to ``highest``.

    ``name`` is the setting's, for errors. Raises ValueError if it is out of range, TypeError if not
    an int.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} {value!r} is no number")
    if not lowest <= value <= highest:
        raise ValueError(f"{name} {value} is not within {lowest} .. {highest}")
    return value


_REAP = ("reap_interval_ms", 0, 1000)
_UNUSED_TIMEOUT = ("unused_timeout_ms", 0, 1000)
_UNUSED_TIMEOUT_PREFIX = "SERVER.SESSION.POOL.UNUSED.TIMEOUT."
#: The field of PortSettings, the lowest value, and what the value is multiplied by.
PORT_PROPERTIES = {
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
UNUSED = frozenset(
    {
        "MQJMS.POOLING.TIMEOUT",
        "MQJMS.POOLING.THRESHOLD",
        "DYNAMIC.CONFIGURATION.ENABLED",
        "NON.ASF.BMT.ROLLBACK.ENABLED",
        "ENABLE.ZOS.LP.RECOVERY",
    }
)


def _unused_timeout(name: str, key: str) -> tuple[str, int, int]:
    """Return the table entry for the unused timeout of a named port.

    It is the field of PortSettings, the lowest value, and the factor from seconds to ms. ``key`` is
    the property name in upper case, ``name`` as it was given, for the error. Raises ValueError for
    any other property.
    """
    if key.startswith(_UNUSED_TIMEOUT_PREFIX) and key != _UNUSED_TIMEOUT_PREFIX:
        return _UNUSED_TIMEOUT
    known = ", ".join(sorted({*PORT_PROPERTIES, *UNUSED}))
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
#: Property of a port -> property of an activation specification, field of PortSettings.
_COUNTERPARTS = {
    "NON.ASF.RECEIVE.TIMEOUT": ("nonASFTimeout", "receive_timeout_ms"),
    "MAX.RECOVERY.RETRIES": ("reconnectionRetryCount", "max_recovery_retries"),
    "RECOVERY.RETRY.INTERVAL": ("reconnectionRetryInterval", "retry_interval_ms"),
}
#: Defaults of a port where an activation specification has others.
_DEFAULTS: dict[str, str | int] = {"reconnectionRetryInterval": 60 * SECOND_MS}


class Translation(NamedTuple):
    """Properties for ActivationSpec, and the reasons why others were left out, by port property."""

    properties: dict[str, str | int]
    not_translated: dict[str, str]


def translated(properties: Properties, *, port_name: str = "") -> Translation:
    """Translate the properties of a listener port to those of an activation specification.

    Properties for ``port_name``, in any case, are translated; those for other ports are not. Raises
    ValueError or TypeError for an unknown property or a wrong value.
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
            why = _NO_COUNTERPART.get(key) or _pool_timeout_problem(key, port_name, settings)
            if why is None:
                found["poolTimeout"] = settings["unused_timeout_ms"]
            else:
                missing[name] = why
    return Translation(found, missing)


def _pool_timeout_problem(key: str, port_name: str, settings: dict[str, int]) -> str | None:
    """Return why an unused timeout cannot become a poolTimeout; None if it can.

    ``key`` is the property of the timeout, ``settings`` are the fields of the port's PortSettings.
    """
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
    """Return the problems of a port's timeouts, one sentence each; [] if they are safe.

    The receive timeout must be shorter than the total transaction lifetime, and the rest of the
    lifetime longer than the longest on_message; equal is not safe. A lifetime of 0 is no limit. A
    receive timeout of 0 is ASF, where the transaction starts after the receive. Raises ValueError
    for a negative value and TypeError if it is not an int; the error names the argument.
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
