"""The mark of classes that interpreted classes extend, which the compiled build asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # mypyc knows it by this name, and runs nothing of it.
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(**_said):
        """Return a decorator that leaves a class as it is."""
        return lambda marked: marked


__all__ = ["mypyc_attr"]
