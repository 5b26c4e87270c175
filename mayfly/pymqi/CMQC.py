"""CMQC of pymqi: every constant of programs: of the MQI, under its name."""

from typing import Any

from mayfly.pymqi.constant_tables import constants_of

globals().update(constants_of("CMQC"))


def __getattr__(name: str) -> Any:
    """Raise AttributeError for an unknown name.

    Type checkers learn that names are set dynamically.
    """
    raise AttributeError(f"CMQC has no {name}")
