"""The attributes of processes: what a trigger monitor is to start."""

from __future__ import annotations

from mayfly.engine.attributes.attribute import PROCESS, Attribute
from mayfly.mqi import constants as c
from mayfly.mqi import selectors as s

_LARGEST_TYPE = 999_999_999

PROCESS_ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute("DESCR", (PROCESS,), "", s.MQCA_PROCESS_DESC, length=64),
    Attribute(
        "APPLTYPE",
        (PROCESS,),
        c.MQAT_UNIX,
        s.MQIA_APPL_TYPE,
        0,
        _LARGEST_TYPE,
        (("UNIX", c.MQAT_UNIX), ("WINDOWSNT", c.MQAT_WINDOWS_NT), ("MVS", c.MQAT_ZOS)),
    ),
    Attribute("APPLICID", (PROCESS,), "", s.MQCA_APPL_ID, length=256),
    Attribute("ENVRDATA", (PROCESS,), "", s.MQCA_ENV_DATA, length=128),
    Attribute("USERDATA", (PROCESS,), "", s.MQCA_USER_DATA, length=128),
)
