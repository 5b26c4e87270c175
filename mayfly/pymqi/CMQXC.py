"""CMQXC of pymqi: the constants of channels and exits: MQCD_*, MQXR_* and others."""

from typing import Any

from mayfly.pymqi.constant_tables import constants_of

globals().update(constants_of("CMQXC"))


def __getattr__(name: str) -> Any:
    """Raise AttributeError for an unknown name.

    Type checkers learn that names are set dynamically.
    """
    raise AttributeError(f"CMQXC has no {name}")
