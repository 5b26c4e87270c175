"""MQSC, the command language of a queue manager: runs scripts and answers as runmqsc does."""

from mayfly.admin.mqsc.commands import heads_of, role_of, run_script
from mayfly.admin.mqsc.export import exported
from mayfly.verbs.facts import CommandResult, MqscMessage, MqscResult

__all__ = [
    "CommandResult",
    "MqscMessage",
    "MqscResult",
    "exported",
    "heads_of",
    "role_of",
    "run_script",
]
