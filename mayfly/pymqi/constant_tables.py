"""Tables of constants: the names and values of pymqi's modules CMQC, CMQCFC, CMQXC and CMQZC.

Each module has a table, a file such as CMQCFC.tsv: one name and its value a line, bytes as
``hex:414d51``. A name without a value has it elsewhere, in ``mayfly.mqi`` or in CMQC.tsv, so that
each value is in one place. Some lengths and versions of structures are older in pymqi's CMQC than
in its CMQXC, and so here: both tables have a value.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from mayfly.mqi import command_constants, constants, reasons

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

#: Characters that pymqi gives as numbers, because its structures hold them as C chars.
_NUMBERS_IN_PYMQI = ("MQGS_", "MQSS_", "MQSEG_")


@cache
def constants_of(module: str) -> Mapping[str, int | bytes]:
    """Return the constants of a module of pymqi, such as ``CMQCFC``, by name.

    CMQC has all constants of programs in ``mayfly.mqi`` beside those of its table. Raises OSError
    for a module without a table, KeyError for a name in it that has no value anywhere.
    """
    programs = _known_to((constants, reasons))
    given = dict(programs) if module == "CMQC" else {}
    elsewhere = {**programs, **_known_to((command_constants,))}
    path = Path(__file__).with_name(f"{module}.tsv")
    for line in path.read_text(encoding="ascii").splitlines():
        name, _tab, text = line.partition("\t")
        if text:
            given[name] = _value_of(text)
        elif not name.startswith("#"):
            given[name] = elsewhere[name] if name in elsewhere else constants_of("CMQC")[name]
    return MappingProxyType(given)


def _known_to(modules: tuple[ModuleType, ...]) -> dict[str, int | bytes]:
    """Return the MQ constants that modules of ``mayfly.mqi`` have, by name.

    Single characters (MQGS_, MQSS_, MQSEG_) become numbers, as in pymqi.
    """
    return {
        name: value[0] if isinstance(value, bytes) and name.startswith(_NUMBERS_IN_PYMQI) else value
        for module in modules
        for name, value in vars(module).items()
        if name.startswith("MQ") and isinstance(value, (int, bytes))
    }


def _value_of(text: str) -> int | bytes:
    """Return the value in a line of a table: ``hex:414d51`` -> ``b'AMQ'``, ``12`` -> 12."""
    return bytes.fromhex(text[4:]) if text.startswith("hex:") else int(text)
