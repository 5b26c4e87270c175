"""The commands about settings, which IBM MQ does not have: there they stand in qm.ini."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mayfly.admin import alter_setting, inquire, reset_setting, setting_value
from mayfly.admin.mqsc.display import selection
from mayfly.admin.mqsc.grammar import Command
from mayfly.admin.mqsc.outcome import Outcome, done, nothing_else, shown
from mayfly.admin.mqsc.values import distinct, one_value

if TYPE_CHECKING:
    from mayfly.admin import Engine

_DETAILS = ("MFY1001I", "Display setting details.")
_CHANGED = ("MFY1002I", "Setting changed.")


def display(queue_manager: Engine, command: Command, kind: str) -> Outcome:
    """DISPLAY SETTING(generic) [VALUE] [DEFAULT] [WHERE()]: without either, both."""
    pattern = one_value(command.object)
    # Also of generic names, which alone would tell nothing.
    wanted = selection(distinct(command.parameters), (kind,), generic=False)
    return shown(inquire(queue_manager, (kind,), pattern), wanted, pattern, _DETAILS)


def alter(queue_manager: Engine, command: Command, kind: str) -> Outcome:
    """ALTER SETTING(name) VALUE(value), which acts on later calls."""
    name = one_value(command.object)
    given = distinct(command.parameters)
    value = given.pop("VALUE", None)
    if value is None:
        raise command.object.wrong("VALUE is missing")
    nothing_else(command, kind, given)
    alter_setting(queue_manager, name, setting_value(name, one_value(value)))
    return done(*_CHANGED)


def reset(queue_manager: Engine, command: Command, kind: str) -> Outcome:
    """RESET SETTING(name): as when it was never given."""
    name = one_value(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    reset_setting(queue_manager, name)
    return done(*_CHANGED)
