"""Reason codes of commands (MQRCCF_*), for mistakes in attributes of objects."""

from typing import Final

MQRCCF_PARM_CONFLICT: Final = 3203
MQRCCF_ATTR_VALUE_FIXED: Final = 3213
MQRCCF_PARM_MISSING: Final = 3228
MQRCCF_LIKE_OBJECT_WRONG_TYPE: Final = 4003
MQRCCF_ATTR_VALUE_ERROR: Final = 4005
