"""The mark of classes whose objects are held by weak references."""

from __future__ import annotations

from typing import TypeVar

_Held = TypeVar("_Held")


def weakly_held(held: type[_Held]) -> type[_Held]:
    """Mark a class to whose objects weak references are made; the class stays as it is.

    A class that mypyc makes native has no place for weak references. One with a decorator stays an
    ordinary class: its functions are compiled, its attributes are not. No class is derived from it
    (``tests/test_compiled.py``).
    """
    return held
