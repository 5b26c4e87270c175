"""Host names in the rules for channels: the names of an address, found by threads and kept a while.

A name counts for an address when the name leads back to it: the owner of an address can have its
DNS answer with any name.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, TypeAlias

from mayfly.lifetime.times import SECOND_MS

_KEPT_MS: Final = 60 * SECOND_MS
_MOST_KEPT: Final = 1_024
_SPELLING: Final = re.compile(r"[A-Za-z0-9*]([A-Za-z0-9.*-]*[A-Za-z0-9*])?")
_LONGEST: Final = 253
#: Returns the names of an address.
Resolver: TypeAlias = Callable[[str], tuple[str, ...]]


def is_host_name(pattern: str) -> bool:
    """Return True if an ADDRESS of a rule is a host name or a pattern of host names."""
    return ":" not in pattern and any(character.isalpha() for character in pattern)


def check_host_name(pattern: str) -> None:
    """Raise ValueError for what no host name can match (RFC 1123)."""
    if _SPELLING.fullmatch(pattern) is None or ".." in pattern or len(pattern) > _LONGEST:
        raise ValueError(f"{pattern!r} is no host name: letters, digits, '-', '.' and '*'")


def names_of(address: str) -> tuple[str, ...]:
    """Return the names of an address that lead back to it; may take as long as DNS does."""
    try:
        name, aliases, _addresses = socket.gethostbyaddr(address)
    except (OSError, UnicodeError):
        return ()
    return tuple(each for each in (name, *aliases) if _leads_to(each, address))


def _leads_to(name: str, address: str) -> bool:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        wanted = _number(address)
        return any(_number(str(each[4][0])) == wanted for each in found)
    except (OSError, UnicodeError, ValueError):
        return False


def _number(address: str) -> IPv4Address | IPv6Address:
    found = ip_address(address.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


class KnownNames:
    """The names of addresses that were looked up, for a minute; any thread may call it."""

    def __init__(self, now_ms: Callable[[], int], resolve: Resolver = names_of) -> None:
        """Begin with none."""
        self._now_ms, self._resolve = now_ms, resolve
        self._changing = threading.Lock()
        #: Names, and until when they are kept; the oldest first.
        self._found: dict[str, tuple[tuple[str, ...], int]] = {}

    def known(self, address: str) -> tuple[str, ...] | None:
        """Return the names of an address without a look, None when it has to be looked up."""
        names, until_ms = self._found.get(address, ((), 0))
        return names if self._now_ms() < until_ms else None

    def look_up(self, address: str) -> tuple[str, ...]:
        """Return the names of an address; may take as long as DNS does."""
        names = self._resolve(address)
        with self._changing:
            self._found.pop(address, None)
            if len(self._found) >= _MOST_KEPT:
                del self._found[next(iter(self._found))]
            self._found[address] = names, self._now_ms() + _KEPT_MS
        return names

    def forget(self) -> None:
        """Forget all of them."""
        with self._changing:
            self._found = {}
