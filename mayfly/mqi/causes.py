"""Names of the reasons of refused, discarded and dead-lettered messages, and of feedback."""

from __future__ import annotations

from mayfly.mqi import constants
from mayfly.mqi.reasons import reason_name

_FEEDBACK = "MQFB_"
#: Ends of ranges, no causes.
_RANGE_ENDS = ("_FIRST", "_LAST")
_FEEDBACK_NAMES = {
    value: name
    for name, value in vars(constants).items()
    if name.startswith(_FEEDBACK) and not name.endswith(_RANGE_ENDS) and value
}


def cause_name(reason: int) -> str:
    """Return a reason by its name: MQRC_*, else MQFB_*, else the number."""
    return _FEEDBACK_NAMES.get(reason) or reason_name(reason)
