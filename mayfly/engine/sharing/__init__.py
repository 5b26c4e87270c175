"""Queue-sharing groups: queue managers of one process that share queues (D29)."""
