"""The names under which programs import pymqi or ibmmq, for Mayfly's package of the same API."""

from __future__ import annotations

from types import ModuleType


def names_in_place(package: ModuleType) -> dict[str, ModuleType]:
    """Return the modules of a package by the names under which programs import them.

    ``mayfly.pymqi`` has the names ``pymqi``, ``pymqi.CMQC`` and ``CMQC``, and so on for each of its
    modules of constants. Put into ``sys.modules``, they let an unchanged program use Mayfly.
    """
    name = package.__name__.rpartition(".")[2]
    found = {name: package}
    for attribute, value in vars(package).items():
        if attribute.startswith("CMQ") and isinstance(value, ModuleType):
            found[f"{name}.{attribute}"] = found[attribute] = value
    return found
