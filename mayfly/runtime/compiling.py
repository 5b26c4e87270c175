"""Compiling with mypyc: class decorators that declare how other code uses a class."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    # mypyc recognises it by this name, and runs nothing of it.
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(**_options):
        """Mark a class that interpreted classes may extend; without mypyc it changes nothing."""
        return lambda marked: marked


__all__ = ["mypyc_attr", "weakly_held"]

_Held = TypeVar("_Held")


def weakly_held(held: type[_Held]) -> type[_Held]:
    """Mark a class whose objects are the targets of weak references; return the class unchanged.

    The objects of a class that mypyc makes native cannot be weakly referenced. A class with a
    decorator stays an ordinary Python class whose functions are compiled. No other class may be
    derived from it (``tests/test_compiled.py``).
    """
    return held
