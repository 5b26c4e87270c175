"""Queue-sharing groups: queue managers of one process that have queues together (D29)."""

from mayfly.sharing.group import QueueSharingGroup

__all__ = ["QueueSharingGroup"]
