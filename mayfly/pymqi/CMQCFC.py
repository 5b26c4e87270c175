"""CMQCFC of pymqi: the constants of commands and events (PCF), such as MQCMD_* and MQRCCF_*."""

from typing import Any

from mayfly.pymqi.constant_tables import constants_of

globals().update(constants_of("CMQCFC"))


def __getattr__(name: str) -> Any:
    """Raise AttributeError for an unknown name.

    Type checkers learn that names are set dynamically.
    """
    raise AttributeError(f"CMQCFC has no {name}")
