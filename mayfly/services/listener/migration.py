"""The property table of a listener port in the words of an activation specification (L13)."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.lifetime.times import SECOND_MS
from mayfly.services.listener.settings import LARGEST, Properties, named_port, of_listener_port

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
