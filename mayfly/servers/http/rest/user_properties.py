"""The header ``ibm-mq-usr`` of version 3: properties of a message as ``name;value;type``.

Several stand in one header with commas between them, or in headers of their own. Text is in double
quotes, in which a backslash stands before a quote or a backslash.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError
from mayfly.mqi.properties import Typed, format_float
from mayfly.properties.folders import Property, check_mixed, named
from mayfly.properties.values import converted
from mayfly.servers.http.rest.errors import NO_RESPONSE_HEADER, RestError, wrong_value

HEADER: Final = "ibm-mq-usr"
#: Names of types as in Java, and those of the bridge that was before this API.
_TYPES: Final = {
    "boolean": c.MQTYPE_BOOLEAN,
    "byte": c.MQTYPE_INT8,
    "short": c.MQTYPE_INT16,
    "integer": c.MQTYPE_INT32,
    "int": c.MQTYPE_INT32,
    "long": c.MQTYPE_INT64,
    "float": c.MQTYPE_FLOAT32,
    "double": c.MQTYPE_FLOAT64,
    "string": c.MQTYPE_STRING,
    "i1": c.MQTYPE_INT8,
    "i2": c.MQTYPE_INT16,
    "i4": c.MQTYPE_INT32,
    "i8": c.MQTYPE_INT64,
    "r4": c.MQTYPE_FLOAT32,
    "r8": c.MQTYPE_FLOAT64,
}
_NAMES: Final = {
    "boolean": "boolean",
    "i1": "byte",
    "i2": "short",
    "i4": "integer",
    "i8": "long",
    "r4": "float",
    "r8": "double",
    "string": "string",
}
_PART: Final = re.compile(
    r"\s*(?P<name>[^;,\s\"]+)\s*;\s*"
    r"(?:\"(?P<text>(?:[^\"\\]|\\.)*)\"|(?P<bare>[^;,\"]*?))\s*;\s*(?P<type>[A-Za-z0-9]+)\s*(?:,|$)"
)
_ESCAPED: Final = re.compile(r"\\(.)")
_NOT_IN_A_HEADER: Final = re.compile(r"[\x00-\x1f\x7f]")


def read(headers: Iterable[str]) -> list[Property]:
    """Return the properties that headers name.

    Raises RestError (400) with the header for one that is not written so, a name or type that is
    none, a value that is not of its type, and a name that comes twice.
    """
    found: dict[str, Property] = {}
    for header in headers:
        place = 0
        while place < len(header):
            part = _PART.match(header, place)
            if part is None:
                raise wrong_value(HEADER, header, "name;value;type, with text in double quotes")
            place = part.end()
            made = _property(part, header)
            if made.name in found:
                raise wrong_value(HEADER, header, f"without a second {made.name}")
            _check(made, found, header)
            found[made.name] = made
    return list(found.values())


def written(properties: Iterable[Property]) -> list[str]:
    """Return a header for each property of an application; raises as :func:`check_header`."""
    return [_written(found) for found in properties if "." not in found.name]


def check_header(what: str, text: str) -> None:
    """Raise RestError (501) for a text that no header can hold: one with control characters."""
    if _NOT_IN_A_HEADER.search(text):
        said = f"{what} has control characters: no header can hold it"
        raise RestError(HTTPStatus.NOT_IMPLEMENTED, NO_RESPONSE_HEADER, said)


def _property(part: re.Match[str], header: str) -> Property:
    name, kind = part["name"], part["type"].lower()
    mq_type = _TYPES.get(kind)
    if mq_type is None:
        raise wrong_value(HEADER, header, f"of a type that is known: {', '.join(_NAMES.values())}")
    quoted = part["text"]
    text = part["bare"] if quoted is None else _ESCAPED.sub(r"\1", quoted)
    try:
        return named(name, converted(name, Typed("string", text), mq_type))
    except MQError as error:
        raise wrong_value(HEADER, header, error.detail, reason=error.reason) from error


def _check(made: Property, others: Iterable[str], header: str) -> None:
    try:
        check_mixed(made.name, others)
    except MQError as error:
        raise wrong_value(HEADER, header, error.detail, reason=error.reason) from error


def _written(found: Property) -> str:
    name, (dt, value) = found.name, found.typed
    check_header(f"the name of property {name!r}", name)
    kind = _NAMES.get(dt, "string")
    if isinstance(value, bool):
        return f"{name};{str(value).lower()};{kind}"
    if isinstance(value, int):
        return f"{name};{value};{kind}"
    if isinstance(value, float):
        return f"{name};{format_float(value, is_single=dt == 'r4')};{kind}"
    text = value.hex() if isinstance(value, bytes) else value or ""
    check_header(f"property {name}", text)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name};"{escaped}";string'
