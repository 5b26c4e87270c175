"""CMQC of pymqi: every constant of the MQI, under its name.

Most come from `mayfly.mqi`. CMQC.tsv has the others, one name and value a line (bytes as hex:…), so
that each value is in one place.
"""

from pathlib import Path
from typing import Any

from mayfly.mqi import constants, reasons

#: Characters that pymqi gives as numbers, because its structures hold them as C chars.
_NUMBERS_IN_PYMQI = ("MQGS_", "MQSS_", "MQSEG_")


def _known_to_mqi() -> dict[str, int | bytes]:
    """Return the MQ constants that `mayfly.mqi` has, by name.

    Single characters (MQGS_, MQSS_, MQSEG_) become numbers, as in pymqi.
    """
    return {
        name: value[0] if isinstance(value, bytes) and name.startswith(_NUMBERS_IN_PYMQI) else value
        for module in (constants, reasons)
        for name, value in vars(module).items()
        if name.startswith("MQ") and isinstance(value, (int, bytes))
    }


def _value_of(text: str) -> int | bytes:
    """Return the value in a line of CMQC.tsv: ``hex:414d51`` -> ``b'AMQ'``, ``12`` -> 12."""
    return bytes.fromhex(text[4:]) if text.startswith("hex:") else int(text)


def _known_here() -> dict[str, int | bytes]:
    """Return the MQ constants in CMQC.tsv, by name."""
    lines = Path(__file__).with_suffix(".tsv").read_text(encoding="ascii").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {name: _value_of(text) for name, text in rows}


globals().update(_known_to_mqi())
globals().update(_known_here())


def __getattr__(name: str) -> Any:
    """Raise AttributeError for an unknown name.

    Type checkers learn that names are set dynamically.
    """
    raise AttributeError(f"CMQC has no {name}")
