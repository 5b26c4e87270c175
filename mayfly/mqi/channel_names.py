"""Names in channels: connection names (CONNAME), distinguished names of certificates (SSLPEER)."""

from __future__ import annotations

import re
from collections.abc import Iterable
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


#: Long names of attributes, as Python's ssl module has them -> the short ones of MQ.
_SHORT = {
    "COMMONNAME": "CN",
    "COUNTRYNAME": "C",
    "DNQUALIFIER": "DNQ",
    "DOMAINCOMPONENT": "DC",
    "E": "MAIL",
    "EMAILADDRESS": "MAIL",
    "LOCALITYNAME": "L",
    "ORGANIZATIONALUNITNAME": "OU",
    "ORGANIZATIONNAME": "O",
    "POSTALCODE": "PC",
    "S": "ST",
    "SP": "ST",
    "STATEORPROVINCENAME": "ST",
    "STREETADDRESS": "STREET",
    "TITLE": "T",
    "USERID": "UID",
}
#: Attributes that a name may have several times.
_REPEATED = frozenset({"OU", "DC"})
#: An attribute that has no name here comes as its numbers.
_ATTRIBUTE = re.compile(
    r"""\s*(?P<key>[A-Za-z0-9][A-Za-z0-9.]*)\s*=\s*
        (?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>(?:[^",;\\]|\\.)*?))\s*(?:[,;]|$)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_OPEN_END = re.compile(r"(?:[^\\]|\\.)*\*", re.DOTALL)
_NEEDS_QUOTES = re.compile(r'[,;"\\=]|^\s|\s$')


def spelled(attributes: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Return the name of a certificate as MQ writes it: ``CN=app,OU=Sales,O=Example``.

    The most specific attribute comes first; of several OU or DC the highest comes first.
    ``attributes`` is ``SSLSocket.getpeercert()["subject"]`` or ``["issuer"]``. Empty for no
    attributes.
    """
    pairs = [(_short_key(key), value) for part in attributes for key, value in part]
    # A certificate begins with what is highest.
    units = {key: iter([value for k, value in pairs if k == key]) for key in _REPEATED}
    written = [
        (key, next(units[key], value) if key in units else value) for key, value in pairs[::-1]
    ]
    return ",".join(f"{key}={_quoted_if_needed(value)}" for key, value in written)


def attributes_of(name: str) -> list[tuple[str, str]]:
    """Return the attributes of a name or pattern: ``CN=app,O=X`` -> ``[("CN","app"), ("O","X")]``.

    Raises ValueError for a malformed one; an empty text gives an empty list.
    """
    return [(key, _ESCAPED.sub(r"\1", text)) for key, text in _written(name)]


def check_pattern(pattern: str) -> None:
    """Raise ValueError for a malformed pattern, or one with an attribute twice (except OU, DC)."""
    keys = [key for key, _text in _written(pattern)]
    for key in dict.fromkeys(keys):
        if key not in _REPEATED and keys.count(key) > 1:
            raise ValueError(f"{key} stands there twice, and a name has it once, unlike OU and DC")


def is_matched(name: str, pattern: str) -> bool:
    """Return True if a distinguished name matches an SSLPEER pattern.

    The name must have all attributes of the pattern, those of one key in the same order. A name
    with an attribute of the pattern twice does not match, unless it is OU or DC. A blank pattern
    matches every name, even a blank one. Raises ValueError for a malformed name or pattern.
    """
    left = attributes_of(name)
    keys = [key for key, _value in left]
    for key, wanted in _written(pattern):
        if key not in _REPEATED and keys.count(key) != 1:
            return False
        place = next(
            (at for at, (k, value) in enumerate(left) if k == key and _fits(value, wanted)), None
        )
        if place is None:
            return False
        # Attributes before it cannot match the rest of the pattern.
        left = [pair for at, pair in enumerate(left) if at > place or pair[0] != key]
    return True


def _written(name: str) -> list[tuple[str, str]]:
    """Return keys and values of the attributes; values keep backslashes but lose quotes.

    Raises ValueError for a malformed text.
    """
    found, position = [], 0
    while position < len(name):
        match = _ATTRIBUTE.match(name, position)
        if match is None:
            detail = f"{name[position:]!r} is no attribute of a distinguished name, as in CN=app"
            raise ValueError(detail)
        text = match["plain"] if match["quoted"] is None else match["quoted"]
        found.append((_short_key(match["key"]), text))
        position = match.end()
    return found


def _short_key(key: str) -> str:
    """Return MQ's short name of an attribute: ``commonName`` -> ``CN``, ``ou`` -> ``OU``."""
    return _SHORT.get(key.upper(), key.upper())


def _quoted_if_needed(value: str) -> str:
    """Return a value, in double quotes if it has characters that separate attributes."""
    if not _NEEDS_QUOTES.search(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _fits(value: str, wanted: str) -> bool:
    """Return True if a value matches the value in a pattern, which may begin or end with ``*``."""
    if wanted == "*":
        return True
    is_open, has_open_end = wanted.startswith("*"), _OPEN_END.fullmatch(wanted) is not None
    inner = wanted[int(is_open) : len(wanted) - int(has_open_end)]
    text, value = _ESCAPED.sub(r"\1", inner).casefold(), value.casefold()
    if is_open and has_open_end:
        return text in value
    if is_open:
        return value.endswith(text)
    return value.startswith(text) if has_open_end else value == text
