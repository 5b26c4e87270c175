"""Durable claims: consumers read queues in bulk, for pipelines."""
