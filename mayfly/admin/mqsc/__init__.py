"""MQSC, the command language of a queue manager: scripts in, what runmqsc would print out."""

from mayfly.admin.mqsc.commands import heads_of, run_script
from mayfly.verbs.mqsc_result import CommandResult, Message, MqscResult

__all__ = ["CommandResult", "Message", "MqscResult", "heads_of", "run_script"]
