"""MQSC, the command language of a queue manager: runs scripts and answers as runmqsc does."""

from mayfly.admin.mqsc.commands import heads_of, run_script
from mayfly.verbs.facts import CommandResult, MqscMessage, MqscResult

__all__ = ["CommandResult", "MqscMessage", "MqscResult", "heads_of", "run_script"]
