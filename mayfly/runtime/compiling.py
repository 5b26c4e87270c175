"""Marks of classes that tell mypyc what other classes and references expect of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    # mypyc knows it by this name, and runs nothing of it.
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(**_said):
        """Mark a class that interpreted classes extend: mypyc then looks methods up."""
        return lambda marked: marked


__all__ = ["mypyc_attr", "weakly_held"]

_Held = TypeVar("_Held")


def weakly_held(held: type[_Held]) -> type[_Held]:
    """Mark a class to whose objects weak references are made; the class stays as it is.

    A class that mypyc makes native has no place for weak references. One with a decorator stays an
    ordinary class: its functions are compiled, its attributes are not. No class is derived from it
    (``tests/test_compiled.py``).
    """
    return held
