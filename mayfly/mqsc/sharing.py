"""The MQSC command about the queue-sharing group of a queue manager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mayfly.engine.attributes.attribute import Value
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.mqsc.display import Selection
from mayfly.mqsc.grammar import Command
from mayfly.mqsc.outcome import Outcome, nothing_else, shown
from mayfly.mqsc.values import distinct, no_value

if TYPE_CHECKING:
    from mayfly.engine.manager import Manager

GROUP: Final = "GROUP"


def display_group(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DISPLAY GROUP: the members that are open, and those for which decided units wait.

    Raises MQRC_OPTION_NOT_VALID_FOR_TYPE for a queue manager without a group.
    """
    no_value(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    directory = queue_manager.registry.directory
    if directory is None:
        said = f"{queue_manager.name} is in no queue-sharing group"
        raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, said)
    with queue_manager.latch:
        directory.group.check_running()
        rows: list[dict[str, Value]] = [
            {
                "QMNAME": name,
                "QSGNAME": directory.group.name,
                "STATUS": "ACTIVE" if is_open else "INACTIVE",
                "DECIDED": decided_count,
            }
            for name, is_open, decided_count in directory.status()
        ]
    heading = "CSQM201I", "Display queue-sharing group details."
    return shown(rows, Selection(None, None), queue_manager.name, heading)
