"""The address of a channel over the network: CONNAME with TRPTYPE(TCP)."""

from __future__ import annotations

import re
from typing import NamedTuple

_HOST = r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+"
_ADDRESS = re.compile(rf"\s*(?P<host>{_HOST})\s*(?:\(\s*(?P<port>[0-9]{{1,5}})\s*\))?\s*")
_PORT_MAX = 65_535


class Address(NamedTuple):
    """A host, an IPv6 one in brackets, and a port; None for the usual one."""

    host: str
    port: int | None


def addresses_of(connection_name: str) -> list[Address]:
    """Return the addresses in ``host(port), host(port), …``, to be tried in this order.

    Raises ValueError with what is wrong.
    """
    return [_address(part) for part in connection_name.split(",")]


def _address(text: str) -> Address:
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise ValueError(f"{text.strip()!r} is not host or host(port)")
    if found["port"] is None:
        return Address(found["host"], None)
    port = int(found["port"])
    if not 0 < port <= _PORT_MAX:
        raise ValueError(f"port {port} is not 1 to {_PORT_MAX}")
    return Address(found["host"], port)
