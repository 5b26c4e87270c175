"""MQSC, the command language of a queue manager: scripts in, what runmqsc would print out."""

from mayfly.mqsc.result import CommandResult, Message, MqscResult
from mayfly.mqsc.script import run_script, verbs_of

__all__ = ["CommandResult", "Message", "MqscResult", "run_script", "verbs_of"]
