"""The configuration of a queue manager as events, for REFRESH QMGR TYPE(CONFIGEV)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mayfly.admin.access import inquire_authority, inquire_channel_rules
from mayfly.admin.events import report_objects
from mayfly.admin.model import Record
from mayfly.admin.operations import DEFINABLE, inquire
from mayfly.engine import Engine
from mayfly.engine.api.administration import (
    AUTHREC,
    CHLAUTH,
    QMGR,
    QUEUE_KINDS,
    SUB,
    Attribute,
    matches,
)
from mayfly.mqi.command_constants import MQIACF_REFRESH_INTERVAL

#: INCLINT of REFRESH QMGR: only objects changed within so many minutes, 0 for all.
REFRESH_INTERVAL: Final = Attribute(
    "INCLINT", "", (), 0, MQIACF_REFRESH_INTERVAL, 0, 999_999, (), 0, "minutes"
)
#: The kinds of which there are configuration events.
REFRESHABLE: Final = (QMGR, *(kind for kind in DEFINABLE if kind != SUB), AUTHREC, CHLAUTH)


def report_configuration(manager: Engine, kinds: Sequence[str], pattern: str) -> int:
    """Make a Refresh object event for each object; return their number.

    ``kinds`` are some of REFRESHABLE. ``pattern`` is a name, or the start of names followed by
    ``*``; of authority records and rules for channels it is compared with their profiles. The queue
    manager matches any pattern.
    """
    queues = tuple(kind for kind in kinds if kind in QUEUE_KINDS)
    found = list[Record]()
    for kind in kinds:
        if kind == AUTHREC:
            found += [r for r in inquire_authority(manager, []) if matches(r.name, pattern)]
        elif kind == CHLAUTH:
            rules = inquire_channel_rules(manager, "*", match="ALL")
            found += [rule for rule in rules if matches(rule.name, pattern)]
        elif kind not in QUEUE_KINDS:
            found += inquire(manager, (kind,), pattern)
        elif kind == queues[0]:
            found += inquire(manager, queues, pattern)
    report_objects(manager, found)
    return len(found)
