"""The attributes of processes: the programs that trigger monitors start."""

from __future__ import annotations

from typing import ClassVar

from mayfly.engine.attributes.attribute import PROCESS, attribute
from mayfly.engine.attributes.definition import Definition, table
from mayfly.mqi import attribute_selectors as s
from mayfly.mqi import constants as c

_LARGEST_TYPE = 999_999_999


@table
class ProcessDefinition(Definition):
    """A process: the program that a trigger monitor starts."""

    kinds: ClassVar = (PROCESS,)

    descr: str = attribute("", s.MQCA_PROCESS_DESC, length=64)
    appltype: int = attribute(
        c.MQAT_UNIX,
        s.MQIA_APPL_TYPE,
        low=0,
        high=_LARGEST_TYPE,
        words=(("UNIX", c.MQAT_UNIX), ("WINDOWSNT", c.MQAT_WINDOWS_NT), ("MVS", c.MQAT_ZOS)),
    )
    applicid: str = attribute("", s.MQCA_APPL_ID, length=256)
    envrdata: str = attribute("", s.MQCA_ENV_DATA, length=128)
    userdata: str = attribute("", s.MQCA_USER_DATA, length=128)
