"""Capabilities and filters of a terminus, beside its address."""

from __future__ import annotations

from typing import Any, Final

from proton import Array, Described, Terminus, symbol

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
