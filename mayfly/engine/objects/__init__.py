"""Definitions: queues, processes and their attributes; made, changed, asked, resolved."""
