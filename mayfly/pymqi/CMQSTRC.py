"""Names of constants by their values, as in ibmmq: ``MQRC_DICT[2033]`` is MQRC_NO_MSG_AVAILABLE.

A dictionary ``PREFIX_DICT`` has the constants that begin with ``PREFIX_``. Of several names for a
value it has the first in order of the alphabet.
"""

from __future__ import annotations

from collections.abc import Mapping

from mayfly.pymqi.constant_tables import constants_of

_SUFFIX = "_DICT"


def __getattr__(name: str) -> Mapping[int, str]:
    """Return a dictionary by its name; raises AttributeError where no constant begins so."""
    prefix = name.removesuffix(_SUFFIX) + "_"
    found: dict[int, str] = {}
    if name.startswith("MQ") and name.endswith(_SUFFIX):
        for module in ("CMQC", "CMQCFC", "CMQXC"):
            for constant, value in sorted(constants_of(module).items()):
                if constant.startswith(prefix) and isinstance(value, int):
                    found.setdefault(value, constant)
    if not found:
        raise AttributeError(f"CMQSTRC has no {name}")
    globals()[name] = found
    return found
