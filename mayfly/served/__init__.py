"""A queue manager that another process serves, with the methods of one in this process."""

from mayfly.served.manager import ServedQueueManager

__all__ = ["ServedQueueManager"]
