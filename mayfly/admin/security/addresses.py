"""Patterns of IP addresses in rules for channels: ``192.0.2.*``, ``10.1-8.*``, ``2001:db8:*``.

``*`` stands for one or more parts, ``1-8`` for one part within a range. A pattern of IPv4 has four
parts, one of IPv6 eight; host names are not looked up.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

ANY: Final = "*"
_V4_PARTS, _V6_PARTS = 4, 8
_V4_MOST, _V6_MOST = 255, 0xFFFF


class _Pattern(NamedTuple):
    """Parts of a pattern: a range of numbers each, None for ``*``; how many an address has."""

    parts: tuple[tuple[int, int] | None, ...]
    part_count: int


def check_pattern(pattern: str) -> None:
    """Raise ValueError for what is no pattern of addresses."""
    _parsed(pattern)


def is_matched(address: str, pattern: str) -> bool:
    """Return True if a pattern matches an address; a UNIX socket is matched by ``*`` alone."""
    if pattern in ("", ANY):
        return True
    numbers = _numbers(address)
    parsed = _parsed(pattern)
    return numbers is not None and len(numbers) == parsed.part_count and _fit(numbers, parsed.parts)


def specificity(pattern: str) -> tuple[int, ...]:
    """Return a key that sorts patterns, the one that says most of an address first.

    From the left a number says more than a range, a narrow range more than a wide one, and each
    more than ``*``.
    """
    if pattern in ("", ANY):
        return (_V6_MOST + 1,)
    return tuple(
        _V6_MOST + 1 if part is None else part[1] - part[0] for part in _parsed(pattern).parts
    )


def _numbers(address: str) -> tuple[int, ...] | None:
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is None:
            return tuple(int(part, 16) for part in found.exploded.split(":"))
        found = found.ipv4_mapped
    return tuple(found.packed)


@lru_cache(maxsize=1_024)
def _parsed(pattern: str) -> _Pattern:
    is_v6 = ":" in pattern
    count, most, base = (_V6_PARTS, _V6_MOST, 16) if is_v6 else (_V4_PARTS, _V4_MOST, 10)
    if is_v6 and "*" not in pattern and "-" not in pattern:
        # It may be shortened, as in ::1.
        try:
            numbers = _numbers(str(IPv6Address(pattern)))
        except ValueError:
            numbers = None
        if numbers is not None:
            return _Pattern(tuple((n, n) for n in numbers), len(numbers))
    texts = pattern.split(":" if is_v6 else ".")
    parts = tuple(_part(text, pattern, most=most, base=base) for text in texts)
    has_star = None in parts
    if len(parts) > count or (len(parts) < count and not has_star):
        raise ValueError(f"{pattern!r} is no pattern of addresses: it has {len(parts)} parts")
    return _Pattern(parts, count)


def _part(text: str, pattern: str, *, most: int, base: int) -> tuple[int, int] | None:
    if text == "*":
        return None
    try:
        numbers = [int(piece, base) for piece in text.split("-")]
    except ValueError:
        numbers = []
    low, high = (numbers * 2)[:2] if 0 < len(numbers) < 3 else (1, 0)
    if not 0 <= low <= high <= most or not text.replace("-", "").isalnum():
        said = f"{pattern!r} is no pattern of addresses: {text!r} is no part of one"
        raise ValueError(said)
    return low, high


def _fit(numbers: tuple[int, ...], parts: tuple[tuple[int, int] | None, ...]) -> bool:
    if not parts:
        return not numbers
    first, rest = parts[0], parts[1:]
    if first is None:
        return any(_fit(numbers[taken:], rest) for taken in range(1, len(numbers) + 1))
    return bool(numbers) and first[0] <= numbers[0] <= first[1] and _fit(numbers[1:], rest)
