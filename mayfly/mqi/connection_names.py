"""Connection names: ``host(port), host(port), …`` of CONNAME, MQSERVER and MQCD."""

from __future__ import annotations

import re
from typing import NamedTuple

_HOST = r"\[(?P<v6>[0-9A-Za-z.:%]+)\]|(?P<host>[A-Za-z0-9._:%-]+)"
_PLACE = re.compile(rf"\s*(?:{_HOST})\s*(?:\(\s*(?P<port>[0-9]{{1,5}})\s*\))?\s*")
_PORT_MAX = 65_535


class Place(NamedTuple):
    """A host, an IPv6 one without brackets, and a port; None for the usual one."""

    host: str
    port: int | None


def places_of(connection_name: str) -> list[Place]:
    """Return the places in ``host``, ``host(1414)`` or a list with commas, in their order.

    An IPv6 number may stand in square brackets. Raises ValueError, whose text names the part that
    is wrong.
    """
    return [_place(part) for part in connection_name.split(",")]


def _place(text: str) -> Place:
    found = _PLACE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text.strip()!r} is not host or host(port)")
    host = found["v6"] or found["host"]
    if found["port"] is None:
        return Place(host, None)
    port = int(found["port"])
    if not 0 < port <= _PORT_MAX:
        raise ValueError(f"port {port} is not 1 to {_PORT_MAX}")
    return Place(host, port)
