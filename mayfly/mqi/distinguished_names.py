"""Distinguished names of certificates, and the patterns that SSLPEER compares them with.

A name is a list of attributes, ``CN=app,OU=Sales,O=Example``. A pattern gives some of them, each
value with ``*`` at its beginning or its end for any characters; attributes that the pattern leaves
out are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

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
_ATTRIBUTE = re.compile(
    r"""\s*(?P<key>[A-Za-z][A-Za-z0-9.]*)\s*=\s*
        (?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>(?:[^",;\\]|\\.)*?))\s*(?:[,;]|$)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_NEEDS_QUOTES = re.compile(r'[,;"\\=]|^\s|\s$')


def spelled(attributes: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Return a name as MQ writes it, the most special attribute first.

    ``attributes`` are those of ``SSLSocket.getpeercert()["subject"]``, or of its issuer.
    """
    pairs = [(_key(key), value) for part in attributes for key, value in part]
    return ",".join(f"{key}={_value(value)}" for key, value in reversed(pairs))


def attributes_of(name: str) -> list[tuple[str, str]]:
    """Return the attributes of a name or a pattern in order; raises ValueError for what is none."""
    found, position = [], 0
    while position < len(name):
        match = _ATTRIBUTE.match(name, position)
        if match is None:
            said = f"{name[position:]!r} is no attribute of a distinguished name, as in CN=app"
            raise ValueError(said)
        text = match["plain"] if match["quoted"] is None else match["quoted"]
        found.append((_key(match["key"]), _ESCAPED.sub(r"\1", text)))
        position = match.end()
    return found


def is_matched(name: str, pattern: str) -> bool:
    """Return True if a name has all attributes of a pattern, those of one key in the same order.

    A blank pattern matches every name, also a blank one. Raises ValueError for a malformed name.
    """
    left = attributes_of(name)
    for key, wanted in attributes_of(pattern):
        place = next(
            (at for at, (k, value) in enumerate(left) if k == key and _fits(value, wanted)), None
        )
        if place is None:
            return False
        # An attribute in front of it cannot be meant by what the pattern says further on.
        left = [pair for at, pair in enumerate(left) if at > place or pair[0] != key]
    return True


def _key(key: str) -> str:
    return _SHORT.get(key.upper(), key.upper())


def _value(value: str) -> str:
    if not _NEEDS_QUOTES.search(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _fits(value: str, wanted: str) -> bool:
    pieces = map(re.escape, wanted.split("*"))
    return re.fullmatch(".*".join(pieces), value, re.DOTALL) is not None
