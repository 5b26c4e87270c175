"""Addresses of this machine on which a server listens."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple


class ListenAddress(NamedTuple):
    """A host and a port to listen on; port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return ``HOST:PORT``, or ``[HOST]:PORT`` for an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether the host is the loopback interface, so that only local processes can connect."""
        return is_loopback(self.host)


def listen_address(text: str) -> ListenAddress:
    """Parse ``HOST:PORT`` or ``[IPV6]:PORT``; ``'[::1]:1414'`` -> ``ListenAddress('::1', 1414)``.

    Raises ValueError for another text or a port above 65535.
    """
    host, colon, port = text.rpartition(":")
    is_number = port.isascii() and port.isdecimal() and int(port) <= 65535
    host_name = host.removeprefix("[").removesuffix("]")
    if not (colon and host_name and is_number) or (":" in host_name) != host.startswith("["):
        raise ValueError(f"{text!r} is not HOST:PORT, as in 127.0.0.1:1414")
    return ListenAddress(host_name, int(port))


def is_loopback(host: str) -> bool:
    """Return True for ``localhost`` and for a loopback address such as ``127.0.0.1`` or ``[::1]``.

    Returns False for any other name or address.
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        # Only this name is known to mean the machine itself.
        return host == "localhost"
