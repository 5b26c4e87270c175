"""MQSC, the command language of a queue manager: scripts in, what runmqsc would print out."""

from mayfly.mqsc.result import CommandResult, Message, MqscResult
from mayfly.mqsc.script import heads_of, run_script

__all__ = ["CommandResult", "Message", "MqscResult", "heads_of", "run_script"]
