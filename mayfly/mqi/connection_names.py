"""Connection names: ``host(port), host(port), …`` in CONNAME, MQSERVER and MQCD."""

from __future__ import annotations

import re
from typing import NamedTuple

_HOST = r"\[(?P<v6>[0-9A-Za-z.:%]+)\]|(?P<host>[A-Za-z0-9._:%-]+)"
_PLACE = re.compile(rf"\s*(?:{_HOST})\s*(?:\(\s*(?P<port>[0-9]{{1,5}})\s*\))?\s*")
_PORT_MAX = 65_535


class Place(NamedTuple):
    """A host and a port; ``port`` None is the default port. An IPv6 address has no brackets."""

    host: str
    port: int | None


def places_of(connection_name: str) -> list[Place]:
    """Parse a connection name: ``a(1414),b`` -> hosts and ports, in order.

    A part without a port has port None. An IPv6 address may have square brackets. Raises
    ValueError, whose text names the wrong part.
    """
    return [_place(part) for part in connection_name.split(",")]


def _place(text: str) -> Place:
    """Parse one part of a connection name, ``host`` or ``host(port)``.

    Raises ValueError when it is malformed or the port is not 1 to 65535.
    """
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
