"""Where a queue manager lives that is opened by its name alone: $MAYFLY_HOME, else ~/.mayfly."""

from __future__ import annotations

import os
from pathlib import Path

from mayfly.engine.objects.registry import check_name
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error

#: The folder of all queue managers that are opened by name.
HOME_VARIABLE = "MAYFLY_HOME"


def check_manager_name(name: str) -> None:
    """Raise MQRC_Q_MGR_NAME_ERROR for what cannot be the name of a queue manager."""
    try:
        check_name(name)
    except MQError as error:
        raise mq_error(rc.MQRC_Q_MGR_NAME_ERROR, error.detail) from None


def folder_in_home(name: str) -> Path:
    """Return the folder that a name means; nothing need be there.

    Raises MQRC_Q_MGR_NAME_ERROR for a wrong name, and for one that is no name of a folder: a
    queue manager may be called ``A/B``, but then it must be told where it lives.
    """
    check_manager_name(name)
    if "/" in name or not name.strip("."):
        raise mq_error(
            rc.MQRC_Q_MGR_NAME_ERROR, f"{name!r} is no name of a folder: give its folder as well"
        )
    home = os.environ.get(HOME_VARIABLE)
    return (Path(home) if home else Path.home() / ".mayfly") / name
