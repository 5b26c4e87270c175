"""The queue manager: the rules of ``lifetime`` applied inside transactions of ``store``."""
