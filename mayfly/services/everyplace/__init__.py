"""MQ Everyplace queues; `mayfly.everyplace` has the public names."""
