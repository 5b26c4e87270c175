"""In whose name a command acts: that of the operating system's user who runs it."""

from __future__ import annotations

import getpass


def acting_user() -> str:
    """Return who runs the command, empty where the machine does not know."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
