"""Queue-sharing groups: queue managers of one process that have queues together (D29)."""
