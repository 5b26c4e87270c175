"""Rules for channels (CHLAUTH): which of several rules applies to a partner, and to a user.

A map is a rule that maps a partner to a user: SSLPEERMAP, ADDRESSMAP, USERMAP, QMGRMAP. Of the maps
that match, the most specific one applies. First the name of the channel decides: a character is
more specific than ``*``. Between rules for one name the order is: subject of the certificate, its
issuer, user or queue manager, address, host name.

A pattern of addresses is ``192.0.2.*``, ``10.1-8.*`` or ``2001:db8:*``: ``*`` is one or more parts,
``1-8`` one part within a range. A host name counts for an address only if the name resolves back to
that address, because the owner of an address can make its DNS answer any name.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple, TypeAlias

from mayfly.engine.api.admission import (
    CHLAUTH,
    ChannelRuleDefinition,
    attributes_of,
    entries_of,
)
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import channel_names
from mayfly.mqi import command_constants as k

ADMINISTRATORS: Final = "*MQADMIN"
_MAPS: Final = frozenset(
    (k.MQCAUT_SSLPEERMAP, k.MQCAUT_ADDRESSMAP, k.MQCAUT_USERMAP, k.MQCAUT_QMGRMAP)
)
ANY_ADDRESS: Final = "*"
_V4_PARTS, _V6_PARTS = 4, 8
_V4_MAX, _V6_MAX = 255, 0xFFFF
_KEPT_MS: Final = 60 * SECOND_MS
_MAX_KEPT: Final = 1_024
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9*]([A-Za-z0-9.*-]*[A-Za-z0-9*])?")
_LONGEST_NAME: Final = 253


class Partner(NamedTuple):
    """A connecting client or sender channel: the facts that rules compare, before its password.

    ``user`` is the user that a client names, ``manager`` the queue manager of a sender channel.
    ``subject`` and ``issuer`` are those of the certificate, ``host_names`` those of the address. A
    fact that the partner does not have is empty.
    """

    channel: str
    address: str
    user: str = ""
    manager: str = ""
    subject: str = ""
    issuer: str = ""
    host_names: tuple[str, ...] = ()


def blocking_address(
    rules: Iterable[ChannelRuleDefinition], address: str
) -> ChannelRuleDefinition | None:
    """Return the first BLOCKADDR rule that blocks an address, None if no rule blocks it."""
    for rule in rules:
        entries = entries_of(rule.addrlist) if rule.type == k.MQCAUT_BLOCKADDR else ()
        if any(is_address_matched(address, each) for each in entries):
            return rule
    return None


def mapping(
    rules: Iterable[ChannelRuleDefinition], partner: Partner
) -> ChannelRuleDefinition | None:
    """Return the most specific map rule (ADDRESSMAP …) that matches a partner, None without one."""
    found = [rule for rule in rules if rule.type in _MAPS and _matches_partner(rule, partner)]
    return min(found, key=_specificity, default=None)


def names_users(rules: Iterable[ChannelRuleDefinition], partner: Partner) -> bool:
    """Return True if some USERMAP rule matches the channel and address of a partner.

    The user in the rule is not compared.
    """
    return any(
        rule.type == k.MQCAUT_USERMAP
        and has_name(partner.channel, rule.profile)
        and _matches_address(partner, rule.address)
        for rule in rules
    )


def blocking_user(
    rules: Iterable[ChannelRuleDefinition], channel: str, user: str, *, is_administrator: bool
) -> ChannelRuleDefinition | None:
    """Return the BLOCKUSER rule that blocks a user from a channel, None if the user is not blocked.

    Only the list of the most specific channel profile applies. ``*MQADMIN`` in it blocks a user if
    ``is_administrator``.
    """
    lists = [r for r in rules if r.type == k.MQCAUT_BLOCKUSER and has_name(channel, r.profile)]
    rule = min(lists, key=_specificity, default=None)
    if rule is None:
        return None
    entries = entries_of(rule.userlist)
    is_blocked = user in entries or (is_administrator and ADMINISTRATORS in entries)
    return rule if is_blocked else None


def spelled(rule: ChannelRuleDefinition) -> str:
    """Return a rule as text for a log, as ``CHLAUTH(A.*) TYPE(ADDRESSMAP) ADDRESS(10.*)``."""
    row = attributes_of(CHLAUTH)["TYPE"]
    word = next(word for word, number in row.words if number == rule.type)
    given = {
        "SSLPEER": rule.sslpeer,
        "CLNTUSER": rule.clntuser,
        "QMNAME": rule.qmname,
        "ADDRESS": rule.address,
    }
    found = [f"{keyword}({value})" for keyword, value in given.items() if value]
    return " ".join((f"CHLAUTH({rule.profile}) TYPE({word})", *found))


def has_name(name: str, pattern: str) -> bool:
    """Return True if a pattern matches a whole name: ``A*`` matches ``A`` and ``A.B``.

    ``*`` is any number of any characters. Letter case counts.
    """
    first, *middle = pattern.split("*")
    if not middle:
        return name == pattern
    last = middle.pop()
    end = len(name) - len(last)
    position = len(first)
    if position > end or not (name.startswith(first) and name.endswith(last)):
        return False
    # The earliest place of each text leaves most for those behind it. A regular expression tries
    # all places: with twenty stars it does not end.
    for text in middle:
        found = name.find(text, position, end)
        if found < 0:
            return False
        position = found + len(text)
    return True


def _matches_partner(rule: ChannelRuleDefinition, partner: Partner) -> bool:
    """Return True if a map rule (ADDRESSMAP …) matches a connecting partner.

    Channel and address must match. The type of the rule says which of certificate, user and queue
    manager must match too.
    """
    if not has_name(partner.channel, rule.profile):
        return False
    if not _matches_address(partner, rule.address):
        return False
    if rule.type == k.MQCAUT_SSLPEERMAP:
        return (
            bool(partner.subject)
            and channel_names.is_matched(partner.subject, rule.sslpeer)
            and channel_names.is_matched(partner.issuer, rule.sslcerti)
        )
    if rule.type == k.MQCAUT_USERMAP:
        return bool(partner.user) and has_name(partner.user, rule.clntuser)
    if rule.type == k.MQCAUT_QMGRMAP:
        return bool(partner.manager) and has_name(partner.manager, rule.qmname)
    return True


def _specificity(rule: ChannelRuleDefinition) -> tuple[object, ...]:
    """Return the sort key of a rule; the most specific rule has the smallest key."""
    return (
        _name_key(rule.profile),
        _distinguished_name_key(rule.sslpeer),
        _distinguished_name_key(rule.sslcerti),
        _name_key(rule.clntuser or rule.qmname or "*"),
        _address_key(rule.address),
    )


def _matches_address(partner: Partner, pattern: str) -> bool:
    """Return True if a pattern matches the address of a partner, or one of its host names."""
    if not is_host_name(pattern):
        return is_address_matched(partner.address, pattern)
    wanted = pattern.lower()
    return any(has_name(name.lower(), wanted) for name in partner.host_names)


def _address_key(pattern: str) -> tuple[int, ...]:
    """Return the sort key of an ADDRESS pattern: address, then host name, then ``*`` or empty.

    Within addresses, from the left, a number comes before a range, a narrow range before a wide
    one, and both before ``*``.
    """
    if pattern in ("", ANY_ADDRESS):
        return (2,)
    if is_host_name(pattern):
        return (1, *_name_key(pattern))
    parts = _parsed(pattern).parts
    return (0, *(_V6_MAX + 1 if part is None else part[1] - part[0] for part in parts))


def _name_key(pattern: str) -> tuple[int, ...]:
    """Return the sort key of a name pattern: ``AB`` before ``A*`` before ``*``."""
    return (*(character == "*" for character in pattern), 0)


def _distinguished_name_key(pattern: str) -> tuple[int, int]:
    """Return the sort key of a pattern for certificate names (``CN=A,O=*``); empty is last.

    More attributes come first, then fewer attributes with ``*``.
    """
    if not pattern:
        return 1, 0
    pairs = channel_names.attributes_of(pattern)
    return -len(pairs), sum("*" in value for _key, value in pairs)


class _AddressPattern(NamedTuple):
    """A parsed pattern of addresses: a range for each part, None for ``*``.

    ``part_count`` is the number of parts of an address: 4 for IPv4, 8 for IPv6.
    """

    parts: tuple[tuple[int, int] | None, ...]
    part_count: int


def check_address_pattern(pattern: str) -> None:
    """Raise ValueError unless a text is a pattern of IP addresses, as ``10.1-8.*``."""
    _parsed(pattern)


def is_address_matched(address: str, pattern: str) -> bool:
    """Return True if a pattern matches an IP address: ``10.1-8.*`` matches ``10.3.0.1``.

    ``*`` and an empty pattern match everything; only they match a UNIX socket (empty address).
    Raises ValueError for an invalid pattern.
    """
    if pattern in ("", ANY_ADDRESS):
        return True
    numbers = _address_parts(address)
    parsed = _parsed(pattern)
    return (
        numbers is not None
        and len(numbers) == parsed.part_count
        and _parts_match(numbers, parsed.parts)
    )


def _address_parts(address: str) -> tuple[int, ...] | None:
    """Return the parts of an IP address: ``'10.0.0.1'`` -> ``(10, 0, 0, 1)``.

    An IPv4 address within IPv6 has four parts. Returns None if the text is no IP address.
    """
    try:
        found = parsed_address(address)
    except ValueError:
        return None
    if isinstance(found, IPv6Address):
        return tuple(int(part, 16) for part in found.exploded.split(":"))
    return tuple(found.packed)


@lru_cache(maxsize=1_024)
def _parsed(pattern: str) -> _AddressPattern:
    """Return the parsed form of an address pattern; raises ValueError for an invalid one."""
    is_v6 = ":" in pattern
    count, most, base = (_V6_PARTS, _V6_MAX, 16) if is_v6 else (_V4_PARTS, _V4_MAX, 10)
    if is_v6 and "*" not in pattern and "-" not in pattern:
        # It may be shortened, as in ::1.
        try:
            numbers = _address_parts(str(IPv6Address(pattern)))
        except ValueError:
            numbers = None
        if numbers is not None:
            return _AddressPattern(tuple((n, n) for n in numbers), len(numbers))
    texts = pattern.split(":" if is_v6 else ".")
    parts = tuple(_parsed_part(text, pattern, most=most, base=base) for text in texts)
    has_star = None in parts
    if len(parts) > count or (len(parts) < count and not has_star):
        raise ValueError(f"{pattern!r} is no pattern of addresses: it has {len(parts)} parts")
    return _AddressPattern(parts, count)


def _parsed_part(text: str, pattern: str, *, most: int, base: int) -> tuple[int, int] | None:
    """Return the range of a part: ``'7'`` -> ``(7, 7)``, ``'1-8'`` -> ``(1, 8)``, ``'*'`` -> None.

    ``most`` is the highest number of a part, ``base`` 10 or 16. Raises ValueError, with ``pattern``
    in its text, for anything else.
    """
    if text == "*":
        return None
    try:
        numbers = [int(piece, base) for piece in text.split("-")]
    except ValueError:
        numbers = []
    low, high = (numbers * 2)[:2] if 0 < len(numbers) < 3 else (1, 0)
    if not 0 <= low <= high <= most or not text.replace("-", "").isalnum():
        detail = f"{pattern!r} is no pattern of addresses: {text!r} is no part of one"
        raise ValueError(detail)
    return low, high


def _parts_match(numbers: tuple[int, ...], parts: tuple[tuple[int, int] | None, ...]) -> bool:
    """Return True if the parts of a pattern match all numbers of an address.

    None in ``parts`` matches one or more numbers.
    """
    if not parts:
        return not numbers
    first, rest = parts[0], parts[1:]
    if first is None:
        return any(_parts_match(numbers[taken:], rest) for taken in range(1, len(numbers) + 1))
    return bool(numbers) and first[0] <= numbers[0] <= first[1] and _parts_match(numbers[1:], rest)


#: Returns the names of an address.
Resolver: TypeAlias = Callable[[str], tuple[str, ...]]


def is_host_name(pattern: str) -> bool:
    """Return True if an ADDRESS in a rule is a pattern of host names, not of IP addresses.

    That is a text with a letter and without ``:``.
    """
    return ":" not in pattern and any(character.isalpha() for character in pattern)


def check_host_name(pattern: str) -> None:
    """Raise ValueError for a pattern that no host name can match (RFC 1123)."""
    if _HOST_NAME.fullmatch(pattern) is None or ".." in pattern or len(pattern) > _LONGEST_NAME:
        raise ValueError(f"{pattern!r} is no host name: letters, digits, '-', '.' and '*'")


def names_of(address: str) -> tuple[str, ...]:
    """Return the host names of an address that resolve back to the address; waits for DNS.

    Returns an empty tuple without names and on DNS errors.
    """
    try:
        name, aliases, _addresses = socket.gethostbyaddr(address)
    except (OSError, UnicodeError):
        return ()
    return tuple(each for each in (name, *aliases) if _resolves_to(each, address))


def _resolves_to(name: str, address: str) -> bool:
    """Return True if DNS has this address for a host name; False on DNS errors. Waits for DNS."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        wanted = parsed_address(address)
        return any(parsed_address(str(each[4][0])) == wanted for each in found)
    except (OSError, UnicodeError, ValueError):
        return False


def parsed_address(address: str) -> IPv4Address | IPv6Address:
    """Return a parsed IP address without its zone; an IPv4 address within IPv6 becomes IPv4.

    Raises ValueError for a text that is no IP address.
    """
    found = ip_address(address.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


class KnownNames:
    """A cache of host names by address, each for 60 seconds; any thread may call it."""

    def __init__(self, now_ms: Callable[[], int], resolve: Resolver = names_of) -> None:
        """Start empty; ``now_ms`` returns ms since 1970, ``resolve`` looks up host names."""
        self._now_ms, self._resolve = now_ms, resolve
        self._changing = threading.Lock()
        #: Names, and until when they are kept; the oldest first.
        self._found: dict[str, tuple[tuple[str, ...], int]] = {}

    def known(self, address: str) -> tuple[str, ...] | None:
        """Return the cached host names of an address, None if they must be looked up.

        An empty tuple means that the address has no names.
        """
        names, until_ms = self._found.get(address, ((), 0))
        return names if self._now_ms() < until_ms else None

    def look_up(self, address: str) -> tuple[str, ...]:
        """Look up the host names of an address, cache and return them; waits for DNS.

        At 1024 addresses the oldest one is removed from the cache.
        """
        names = self._resolve(address)
        with self._changing:
            self._found.pop(address, None)
            if len(self._found) >= _MAX_KEPT:
                del self._found[next(iter(self._found))]
            self._found[address] = names, self._now_ms() + _KEPT_MS
        return names

    def forget(self) -> None:
        """Empty the cache, for REFRESH SECURITY."""
        with self._changing:
            self._found = {}
