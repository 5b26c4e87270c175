"""The attributes of processes: the programs that trigger monitors start."""

from __future__ import annotations

from typing import ClassVar

from mayfly.engine.attributes.attribute import PROCESS, attribute
from mayfly.engine.attributes.definition import Definition, table
from mayfly.mqi import constants as c

_LARGEST_TYPE = 999_999_999


@table
class ProcessDefinition(Definition):
    """A process: the program that a trigger monitor starts."""

    kinds: ClassVar = (PROCESS,)

    descr: str = attribute("", c.MQCA_PROCESS_DESC, length=64)
    appltype: int = attribute(
        c.MQAT_UNIX,
        c.MQIA_APPL_TYPE,
        low=0,
        high=_LARGEST_TYPE,
        words=(("UNIX", c.MQAT_UNIX), ("WINDOWSNT", c.MQAT_WINDOWS_NT), ("MVS", c.MQAT_ZOS)),
    )
    applicid: str = attribute("", c.MQCA_APPL_ID, length=256)
    envrdata: str = attribute("", c.MQCA_ENV_DATA, length=128)
    userdata: str = attribute("", c.MQCA_USER_DATA, length=128)
