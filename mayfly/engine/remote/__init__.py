"""Queues of other queue managers: which transmission queue leads there, and what travels on it."""
