"""PCF, the command messages of a queue manager: reads a command, runs it, makes the replies."""

from mayfly.admin.pcf.commands import COMMANDS, answer, refusal

__all__ = ["COMMANDS", "answer", "refusal"]
