"""Addresses to listen on, and the settings that clients of other machines require."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple


class ListenAddress(NamedTuple):
    """A host and a port to listen on; port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine can connect."""
        return is_loopback(self.host)


def listen_address(text: str) -> ListenAddress:
    """Return HOST:PORT or [HOST]:PORT as an address; raises ValueError for another text."""
    host, colon, port = text.rpartition(":")
    is_number = port.isascii() and port.isdecimal() and int(port) <= 65535
    host_name = host.removeprefix("[").removesuffix("]")
    if not (colon and host_name and is_number) or (":" in host_name) != host.startswith("["):
        raise ValueError(f"{text!r} is not HOST:PORT, as in 127.0.0.1:1414")
    return ListenAddress(host_name, int(port))


def is_loopback(host: str) -> bool:
    """Return True for an address of the loopback interface; a name is one only as localhost."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        # Only this one name is known to lead to the machine itself.
        return host == "localhost"


def check_clients(host: str, *, has_tls: bool, has_roots: bool, is_open: bool) -> None:
    """Raise ValueError unless settings name the clients of other machines that may use Flight."""
    if has_roots and not has_tls:
        raise ValueError(
            "clients show certificates over TLS alone: name tls_certificate as well "
            "(--tls-certificate, --tls-key)"
        )
    if has_roots and is_open:
        raise ValueError("client_roots and without_client_certificates contradict each other")
    if not (has_roots or is_open or is_loopback(host)):
        raise ValueError(
            f"host {host!r} is open to other machines: say whose certificates clients must have, "
            "client_roots (--tls-client-roots), or that they need none, "
            "without_client_certificates (--without-client-certificates)"
        )
