"""PCF, the command messages of a queue manager: reads a command, runs it, makes the replies."""
