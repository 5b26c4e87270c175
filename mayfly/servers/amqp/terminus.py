"""Capabilities and filters of a terminus, beside its address."""

from __future__ import annotations

from typing import Any, Final

from proton import Array, Described, Terminus, symbol

from mayfly.servers.amqp import codec
from mayfly.servers.amqp.errors import AmqpError

_DEFAULT_OUTCOME: Final = 8
_REJECTED: Final = 0x25
#: Outcomes by name, as a source lists them.
_CODES: Final = {
    "amqp:accepted:list": 0x24,
    "amqp:rejected:list": _REJECTED,
    "amqp:released:list": 0x26,
    "amqp:modified:list": 0x27,
}
_SELECTORS: Final = frozenset(
    ("apache.org:selector-filter:string", "jms-selector", "selector", 0x0000468C00000004)
)
_NO_LOCALS: Final = frozenset(("apache.org:no-local-filter:list", "no-local", 0x0000468C00000003))


def capabilities_of(terminus: Terminus) -> tuple[str, ...]:
    """Return the capabilities of a terminus as text."""
    data = terminus.capabilities
    data.rewind()
    if not data.next():
        return ()
    found = data.get_object()
    given = found.elements if isinstance(found, Array) else [found]
    return tuple(str(one) for one in given if isinstance(one, (symbol, str)))


def default_outcome_of(source: bytes) -> int | None:
    """Return the code of the default-outcome of an encoded source, None where it has none."""
    try:
        value = codec.decoded_value(source) if source else None
    except AmqpError:
        return None
    fields = value.value if isinstance(value, codec.Described) else None
    if not isinstance(fields, list) or len(fields) <= _DEFAULT_OUTCOME:
        return None
    outcome = fields[_DEFAULT_OUTCOME]
    code = codec.plain(outcome.descriptor) if isinstance(outcome, codec.Described) else None
    return _CODES.get(code, 0) if isinstance(code, str) else code


def takes_rejected(source: Terminus, default_outcome: int | None) -> bool:
    """Return True if a source takes the outcome rejected.

    One that lists its outcomes takes those. One without a list takes its default-outcome alone, and
    one that says nothing is taken to know all outcomes, as most clients do not say it.
    """
    data = source.outcomes
    data.rewind()
    given = data.get_object() if data.next() else None
    named = given.elements if isinstance(given, Array) else [given]
    outcomes = {_CODES.get(str(one), one) for one in named if one is not None}
    if not outcomes and default_outcome is not None:
        outcomes = {default_outcome}
    return not outcomes or _REJECTED in outcomes


def filters_of(terminus: Terminus) -> tuple[str, bool]:
    """Return the selector of a source, "" without one, and True if it has the no-local filter."""
    data = terminus.filter
    data.rewind()
    given: Any = data.get_object() if data.next() else {}
    selector, no_local = "", False
    for name, value in given.items() if isinstance(given, dict) else ():
        code = value.descriptor if isinstance(value, Described) else name
        code = code if isinstance(code, int) else str(code)
        plain = value.value if isinstance(value, Described) else value
        if code in _SELECTORS or str(name) in _SELECTORS:
            selector = str(plain)
        elif code in _NO_LOCALS or str(name) in _NO_LOCALS:
            no_local = True
    return selector, no_local
